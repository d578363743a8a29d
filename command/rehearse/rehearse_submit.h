/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rehearse/rehearse_options.h"

/*
 * p4d rehearse --submit: submits a job without GPUs that rehearses the job script. It also submits the
 * script itself. Slurm starts this second job if the rehearsal succeeds, and otherwise removes it. argv:
 * the whole command line. Prints both job numbers. Errors: USAGE, IO.
 */
int p4d_rehearse__submit(const p4d_rehearse_options *o, int argc, char *argv[], p4d_error *err);
