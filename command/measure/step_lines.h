/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "measure/prometheus.h"

/*
 * Reads the lines that p4d.so writes into slurmd's log at the end of steps (p4d-spank(8), measure=nvml):
 * For each job, it keeps the maximum. *all must be zero before. Errors: IO; VALUE: there is no such line;
 * NO_MEMORY.
 */
int p4d_step_lines_read(p4d_prometheus *all, const char *path, p4d_error *err);
