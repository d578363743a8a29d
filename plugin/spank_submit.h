/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "given_options.h"
#include "slurm_compat.h"

/* The submitting side of p4d_client_calls, see there. */
int p4d_submit_job(spank_t spank, const p4d_given *given, int argc, char **argv);
int p4d_submit_step(spank_t spank, const p4d_given *given, int argc, char **argv);
