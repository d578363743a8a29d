/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/* Groups of ranks, and the communication of tensor and sequence parallelism around a matmul. */

/*
 * tp ranks exchange the m->n tokens in m->parts parts: one part, or with tp_comm_overlap two halves, so that
 * a collective of one half overlaps with the matmul of the other. A rank's m->ns tokens consist of equally
 * many tokens of each part, in the order of the parts. When a part is gathered, its tokens are in their
 * natural order.
 */
typedef struct p4d_token_part {
	uint64_t first, count;
} p4d_token_part;
p4d_token_part p4d_parallel__part(const p4d_net *m, unsigned number);

/* A gather that may still be running. */
typedef struct p4d_gathering {
	const void *rows; /* (n, h), as far as the rows have arrived */
	uint64_t calls;   /* number of the group's calls before this gather */
} p4d_gathering;
/*
 * Starts to gather all n rows to `to`; x has this rank's ns rows. If there is one rank, the rows are x
 * itself. Neither x nor `to` may change until the gather has ended. Operations that are queued after
 * p4d_parallel__gathered find the parts up to number `part`.
 */
int p4d_parallel__gather(p4d_net *m, const void *x, void *to, p4d_gathering *gathering, p4d_error *err);
int p4d_parallel__gathered(p4d_net *m, const p4d_gathering *gathering, unsigned part, p4d_error *err);
/* Gathers all n rows of x and waits for them. NULL: an error. */
const void *p4d_parallel__gather_rows(p4d_net *m, const void *x, void *to, p4d_error *err);

/*
 * Where to write a matmul whose results are then summed over tp ranks: to the buffer of partial sums or, if
 * there is one rank, directly to `to`.
 */
void *p4d_parallel__partial(p4d_net *m, void *to);
/*
 * to (ns, h) = the sum of p4d_parallel__partial over all tp ranks. reduce_part starts the sum of one part of
 * the tokens. Operations that are queued after p4d_parallel__reduced find the sums of all parts.
 * reduce_partial does all of this at once.
 */
int p4d_parallel__reduce_part(p4d_net *m, void *to, unsigned part, p4d_error *err);
int p4d_parallel__reduced(p4d_net *m, p4d_error *err);
int p4d_parallel__reduce_partial(p4d_net *m, void *to, p4d_error *err);
/*
 * For a matmul over hidden features, of which each rank of Y has some: sums the results (n, columns) over Y.
 */
int p4d_parallel__sum_features(p4d_net *m, void *product, uint64_t columns, p4d_error *err);
/*
 * Sets how many multiprocessors matmuls leave to collectives that run at the same time. These are
 * asynchronous collectives of tensor parallelism and, with `replicas`, collectives among replicas.
 */
void p4d_parallel_leave(p4d_net *m, bool replicas);
/*
 * Call it before each layer. If the device's queue were full, a launch would block the host, which then could
 * not notice that a rank is gone. So the host waits here, while it checks for errors, until the device is at
 * most P4D_AHEAD layers behind.
 */
int p4d_parallel_throttle(p4d_net *m, p4d_error *err);
/* Opens the groups. Needs the arena and the instruction list. */
int p4d_parallel__open(p4d_net *m, p4d_error *err);
void p4d_parallel__close(p4d_net *m);
