/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rehearse/rehearse_options.h"

/*
 * p4d rehearse --submit: submits a job without GPUs that rehearses the job script, and the script as a job
 * that Slurm starts if the first one ends with success, else removes. argv: of the whole command. Prints both
 * numbers. Errors: USAGE, IO.
 */
int p4d_rehearse__submit(const p4d_rehearse_options *o, int argc, char *argv[], p4d_error *err);
