/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/*
 * Selects the kernels with which OpenBLAS multiplies. OpenBLAS has kernels for each processor that it knows.
 * For a later processor it uses the kernels of the oldest processor with the same instruction set. If it does
 * not know that instruction set, it uses the kernels of a Pentium 4 of 2004, at a quarter of the speed. It
 * chooses while it is loaded. OpenMP also decides at that moment how long its threads spin.
 */

/*
 * Returns the value of OPENBLAS_CORETYPE that selects better kernels for this processor's features. taken:
 * the kernels that OpenBLAS chose, from openblas_get_corename(). NULL: there are no better ones.
 */
const char *p4d_blas_kernels_for(const char *taken, bool avx2, bool avx512);

/*
 * Call this before anything else. If necessary, it runs the program once more, as the same process with the
 * same arguments, with better kernels, and with threads that sleep after a millisecond. It does nothing if
 * OPENBLAS_CORETYPE, GOMP_SPINCOUNT or OMP_WAIT_POLICY is set, because the user has chosen. When it returns,
 * the environment is unchanged.
 */
void p4d_blas_kernels_choose(char *const argv[]);

/*
 * Text for the log: the kernels in use and those that OpenBLAS had chosen. "": OpenBLAS's own choice is in
 * use.
 */
const char *p4d_blas_kernels_text(void);
