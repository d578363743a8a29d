/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rehearse/rehearse_options.h"

/*
 * p4d rehearse --submit: submits a job without GPUs that rehearses the job script. It also submits the script
 * itself, as a job that Slurm starts if the first one succeeds, and otherwise removes. argv: the whole
 * command line. Prints both job numbers. Errors: USAGE, IO.
 */
int p4d_rehearse__submit(const p4d_rehearse_options *o, int argc, char *argv[], p4d_error *err);
