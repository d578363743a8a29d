/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_SPANK_OPTIONS_H
#define P4D_SPANK_OPTIONS_H

#include "request/request.h"
#include "slurm_compat.h"

/*
 * The --p4d- options as Slurm hands them over: stored as text, understood later, because Slurm calls back
 * once per place an option was written in (#SBATCH line, environment, command line: the last one wins).
 */

/* What the ranks of p4d-train prove to each other to know. */
#define P4D_JOB_KEY "P4D_JOB_KEY"

/* Registers every option of options.def that is for Slurm. */
int p4d_options_register(spank_t spank);

/*
 * Input environment: PREFIX_P4D_TP=8 (prefix SBATCH, SALLOC or SLURM) becomes the variable from which Slurm
 * reads an option, so that Slurm's own precedence holds. Call once, before Slurm reads its environment.
 */
void p4d_options_from_environment(const char *prefix);

/* True when an option was given since the last reset. */
bool p4d_options_any(void);

/* What was given for an option; NULL when nothing was. "" for a switch. */
const char *p4d_options_text(p4d_option option);

/* What was given, as a request. Errors: VALUE. */
int p4d_options_request(p4d_request *request, p4d_error *err);

/* Forgets what was given: the next component of a heterogeneous job starts afresh. */
void p4d_options_reset(void);

/*
 * Removes options and outputs of p4d from the environment and (spank not NULL) from the job that is being
 * submitted, where an enclosing job or an earlier component left them.
 */
void p4d_options_clean_environment(spank_t spank);

#endif
