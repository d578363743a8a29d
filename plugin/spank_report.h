/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "guard/guard.h"

/* Prints lines on stderr, without Slurm's prefix. Never on stdout, which belongs to sbatch --parsable. */
void p4d_spank_report_text(const char *text);

/* Prints a verdict. It always prints refusals and warnings, and everything else unless the user asked for
 * quiet. */
void p4d_spank_report_verdict(const p4d_verdict *verdict);

/*
 * Logs a refusal, which slurmctld never sees, according to the site's client_log. event: "submit" or "step".
 */
void p4d_spank_report_refusal(const p4d_site *site, const char *event, const p4d_job *job,
			      const p4d_verdict *verdict);

/* Prints the memory of the GPU that needs most, by class (--p4d-verbose). */
void p4d_spank_report_memory(const p4d_verdict *verdict);
