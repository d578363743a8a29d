/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/*
 * The kernels with which OpenBLAS multiplies. It has some for each processor that it knows. For a later
 * processor it takes those of the least one with the same instruction set or, if that is not known either,
 * those of a Pentium 4 of 2004, at a quarter of the speed. It chooses while it is loaded. How long OpenMP's
 * threads wait awake is also decided at that moment.
 */

/*
 * The value of OPENBLAS_CORETYPE for what the processor can do, where `taken`, as openblas_get_corename()
 * says, are kernels that use less; NULL: they are right, or better was not made.
 */
const char *p4d_blas_kernels_for(const char *taken, bool avx2, bool avx512);

/*
 * Call this before anything else. If necessary, it runs the program once more, as the same process with the
 * same arguments, with better kernels, and with threads that sleep after a millisecond. It does nothing if
 * OPENBLAS_CORETYPE, GOMP_SPINCOUNT or OMP_WAIT_POLICY are set: the user has chosen. When it returns, the
 * environment is unchanged.
 */
void p4d_blas_kernels_choose(char *const argv[]);

/* Which kernels replaced which, for the log; "": OpenBLAS's own. */
const char *p4d_blas_kernels_text(void);
