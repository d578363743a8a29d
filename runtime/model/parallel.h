/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/* Groups of ranks, and what tensor and sequence parallelism add to a matrix product. */

/* All rows (n) of x (ns): x itself, or gathered into `to`. NULL: failed. */
const void *p4d_parallel__gather_rows(p4d_net *m, const void *x, void *to, p4d_error *err);
/* Where a matmul summed over tp ranks writes: the partial sums, or `to` when there is one rank. */
void *p4d_parallel__partial(p4d_net *m, void *to);
/* to (ns, h) = the sum of what p4d_parallel__partial holds on all tp ranks. */
int p4d_parallel__reduce_partial(p4d_net *m, void *to, p4d_error *err);
/*
 * Before each layer. A queue of a device that is full holds up the host where it cannot hear that a rank is
 * gone. So it is never filled: the host waits, and listens, until the device is P4D_AHEAD layers behind.
 */
int p4d_parallel_throttle(p4d_net *m, p4d_error *err);
/* After the arena is there, and the list. */
int p4d_parallel__open(p4d_net *m, p4d_error *err);
void p4d_parallel__close(p4d_net *m);

/* With whatever lies in the arena, which nothing has been put into yet. */
void p4d_parallel__warm_up(p4d_net *m, const void *weight, float *gradient, uint64_t n, uint64_t out,
			   uint64_t in, bool logits);
