/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/*
 * Selects the kernels with which OpenBLAS multiplies. OpenBLAS has kernels for each processor that it knows.
 * For a later processor it uses those of the oldest one with the same instruction set or, if it does not know
 * that either, those of a Pentium 4 of 2004, at a quarter of the speed. It chooses while it is loaded. How
 * long OpenMP's threads spin is also decided at that moment.
 */

/*
 * The value of OPENBLAS_CORETYPE for this processor's features, if the kernels `taken` (from
 * openblas_get_corename()) use fewer features; NULL: they are right, or there are no better ones.
 */
const char *p4d_blas_kernels_for(const char *taken, bool avx2, bool avx512);

/*
 * Call this before anything else. If necessary, it runs the program once more, as the same process with the
 * same arguments, with better kernels, and with threads that sleep after a millisecond. It does nothing if
 * OPENBLAS_CORETYPE, GOMP_SPINCOUNT or OMP_WAIT_POLICY is set, because the user has chosen. When it returns,
 * the environment is unchanged.
 */
void p4d_blas_kernels_choose(char *const argv[]);

/* The kernels and those that they replaced, for the log; "": OpenBLAS's own choice. */
const char *p4d_blas_kernels_text(void);
