/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/*
 * A rehearsed program, or the shell of a rehearsed job script, may ask nvidia-smi for the GPUs. The name
 * nvidia-smi is then a link to this program, which answers for the simulated GPUs. It can print their list
 * (-L), fields of --query-gpu as CSV, or the table. A field that a simulated GPU does not have is "[N/A]",
 * as nvidia-smi prints it.
 */

/* Whether this process was started as nvidia-smi in a rehearsal. If so, it answers and sets *status, the exit
 * status. */
bool p4d_nvidia_smi_is(int argc, char *argv[], int *status);
