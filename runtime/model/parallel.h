/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/* Groups of ranks, and what tensor and sequence parallelism add to a matmul. */

/* All rows (n) of x (ns): x itself, or gathered into `to`. NULL: failed. */
const void *p4d_parallel__gather_rows(p4d_net *m, const void *x, void *to, p4d_error *err);
/* Where a matmul summed over tp ranks writes: the partial sums, or `to` when there is one rank. */
void *p4d_parallel__partial(p4d_net *m, void *to);
/* to (ns, h) = the sum of what p4d_parallel__partial holds on all tp ranks. */
int p4d_parallel__reduce_partial(p4d_net *m, void *to, p4d_error *err);
/*
 * Before each layer. A full device queue blocks the host where it cannot notice that a rank is gone. So it
 * never fills: the host waits, checking for errors, until the device is at most P4D_AHEAD layers behind.
 */
int p4d_parallel_throttle(p4d_net *m, p4d_error *err);
/* Needs the arena and the list. */
int p4d_parallel__open(p4d_net *m, p4d_error *err);
void p4d_parallel__close(p4d_net *m);
