/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/*
 * Which kernels OpenBLAS multiplies with. It has some for each processor that it knows, and takes for one
 * that came later those of the least that has its instruction set, or, where that is not known either, of a
 * Pentium 4 of 2004: a quarter of the speed. The choice is made as the library is loaded. So is that of how
 * long threads of OpenMP wait awake.
 */

/*
 * The value of OPENBLAS_CORETYPE for what the processor can do, where `taken`, as openblas_get_corename()
 * says, are kernels that use less; NULL: they are right, or better was not made.
 */
const char *p4d_blas_kernels_for(const char *taken, bool avx2, bool avx512);

/*
 * To be called before anything else: where it has to, runs the program once more, as the same process with
 * the same arguments, with better kernels, and threads that sleep after a millisecond. Not where
 * OPENBLAS_CORETYPE, GOMP_SPINCOUNT or OMP_WAIT_POLICY are set: that is the user's choice. The environment is
 * as it was when this returns.
 */
void p4d_blas_kernels_choose(char *const argv[]);

/* Which kernels were chosen in the place of which, for the log; "": OpenBLAS's own. */
const char *p4d_blas_kernels_text(void);
