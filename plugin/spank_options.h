/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "given_options.h"
#include "slurm_compat.h"

/*
 * The --p4d- options as Slurm passes them. They are stored as text and parsed later, because Slurm calls back
 * once for each source of an option (#SBATCH line, environment, command line); the last one wins.
 */

/*
 * Registers the options of options.def that are for Slurm; on the submitting side, only those that may occur.
 */
int p4d_options_register(spank_t spank);

/*
 * Turns the input environment PREFIX_P4D_TP=8 (prefix SBATCH or SALLOC) into the variable from which Slurm
 * reads an option, so that Slurm's own precedence applies. prefix NULL: does nothing. Call it once, before
 * Slurm reads its environment.
 */
void p4d_options_from_environment(const char *prefix);

/*
 * For srun, after its options are known: sets each option that was not given from its variable,
 * SLURM_P4D_TP=8. srun cannot use p4d_options_from_environment, because Slurm would send the variables
 * that this function sets to every node, as options of the step.
 */
void p4d_options_add_defaults(const char *prefix);

/* The options that were given since the last reset. */
const p4d_given *p4d_options_given(void);

/* Starts the next component of a heterogeneous job with the options of the environment. */
void p4d_options_reset(void);

/*
 * Removes options and outputs of an enclosing job or an earlier component from the environment and (spank not
 * NULL) from the job that is submitted.
 */
void p4d_options_clean_environment(spank_t spank);
