/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/* Groups of ranks, and the communication of tensor and sequence parallelism around a matmul. */

/*
 * tp ranks exchange the m->n tokens in m->parts parts: one part, or with tp_comm_overlap two halves, so that
 * a collective of one half overlaps with the matmul of the other. A rank's m->ns tokens are then equally many
 * from each part, in the order of the parts. The gathered tokens of a part are in the order of tokens.
 */
typedef struct p4d_token_part {
	uint64_t first, count;
} p4d_token_part;
p4d_token_part p4d_parallel__part(const p4d_net *m, unsigned number);

/* A gather that may be in progress. */
typedef struct p4d_gathering {
	const void *rows; /* (n, h), as far as the rows have arrived */
	uint64_t calls;   /* number of the group's calls before this gather */
} p4d_gathering;
/*
 * Starts to gather all n rows, of which x has this rank's ns, into `to`; if there is one rank, the rows are x
 * itself. Neither may change until the gather has ended. Operations queued after p4d_parallel__gathered see
 * the parts up to the number that it got.
 */
int p4d_parallel__gather(p4d_net *m, const void *x, void *to, p4d_gathering *gathering, p4d_error *err);
int p4d_parallel__gathered(p4d_net *m, const p4d_gathering *gathering, unsigned part, p4d_error *err);
/* Gathers all n rows of x and waits for them. NULL: an error. */
const void *p4d_parallel__gather_rows(p4d_net *m, const void *x, void *to, p4d_error *err);

/*
 * The destination of a matmul whose results are summed over tp ranks: the buffer of partial sums, or `to` if
 * there is one rank.
 */
void *p4d_parallel__partial(p4d_net *m, void *to);
/*
 * to (ns, h) = the sum over all tp ranks of p4d_parallel__partial: The first function starts the sum of one
 * part of the tokens; operations queued after p4d_parallel__reduced see it. The last one sums all parts.
 */
int p4d_parallel__reduce_part(p4d_net *m, void *to, unsigned part, p4d_error *err);
int p4d_parallel__reduced(p4d_net *m, p4d_error *err);
int p4d_parallel__reduce_partial(p4d_net *m, void *to, p4d_error *err);
/*
 * Sums the result (n, columns) of a matmul over hidden features, of which each rank of a tp-grid has a part,
 * over the group Y.
 */
int p4d_parallel__sum_features(p4d_net *m, void *product, uint64_t columns, p4d_error *err);
/*
 * Sets how many multiprocessors matmuls leave to collectives that run at the same time: those of tensor
 * parallelism, if they are asynchronous; and, with `replicas`, those among replicas.
 */
void p4d_parallel_leave(p4d_net *m, bool replicas);
/*
 * Call it before each layer. A full device queue would block the host where it cannot notice that a rank is
 * gone. So the queue never fills: the host waits, checking for errors, until the device is at most P4D_AHEAD
 * layers behind.
 */
int p4d_parallel_throttle(p4d_net *m, p4d_error *err);
/* Opens the groups. Needs the arena and the instruction list. */
int p4d_parallel__open(p4d_net *m, p4d_error *err);
void p4d_parallel__close(p4d_net *m);
