/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "request/request.h"
#include "slurm_compat.h"

/*
 * The --p4d- options as Slurm passes them: stored as text and parsed later, because Slurm calls back once for
 * each source of an option (#SBATCH line, environment, command line: the last one wins).
 */

/* With this the ranks of p4d-train authenticate each other. */
#define P4D_JOB_KEY "P4D_JOB_KEY"

/* Registers the options of options.def that are for Slurm. */
int p4d_options_register(spank_t spank);

/*
 * Input environment: PREFIX_P4D_TP=8 (prefix SBATCH, SALLOC or SLURM) becomes the variable from which Slurm
 * reads an option, so that Slurm's own precedence holds. Call once, before Slurm reads its environment.
 */
void p4d_options_from_environment(const char *prefix);

/* True when an option was given since the last reset. */
bool p4d_options_any(void);

/* The text of an option; NULL when it was not given, "" for a switch. */
const char *p4d_options_text(p4d_option option);

/* The given options as a request. Errors: VALUE. */
int p4d_options_request(p4d_request *request, p4d_error *err);

/* Forgets the options, for the next component of a heterogeneous job. */
void p4d_options_reset(void);

/*
 * Removes options and outputs of an enclosing job or an earlier component from the environment and (spank not
 * NULL) from the job that is being submitted.
 */
void p4d_options_clean_environment(spank_t spank);
