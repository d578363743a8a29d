/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/* Groups of ranks, and what tensor and sequence parallelism add to a matmul. */

/*
 * Between tp ranks the m->n tokens pass in m->parts parts: one, or with tp_comm_overlap two halves, so that a
 * collective of one half overlaps with the product of the other. A rank's m->ns tokens are then equally many
 * from each part, in the order of the parts. The gathered tokens of a part are in the order of tokens.
 */
typedef struct p4d_token_part {
	uint64_t first, count;
} p4d_token_part;
p4d_token_part p4d_parallel__part(const p4d_net *m, unsigned number);

/* A gather that may be under way. */
typedef struct p4d_gathering {
	const void *rows; /* (n, h), as far as they are there */
	uint64_t calls;   /* calls of the group before it */
} p4d_gathering;
/*
 * All rows (n) of x (ns): x itself, or gathered into `to`; neither may change until it has ended. What is
 * queued after p4d_parallel__gathered sees the parts up to that number.
 */
int p4d_parallel__gather(p4d_net *m, const void *x, void *to, p4d_gathering *gathering, p4d_error *err);
int p4d_parallel__gathered(p4d_net *m, const p4d_gathering *gathering, unsigned part, p4d_error *err);
/* All parts. NULL: failed. */
const void *p4d_parallel__gather_rows(p4d_net *m, const void *x, void *to, p4d_error *err);

/* Where a matmul summed over tp ranks writes: the partial sums, or `to` when there is one rank. */
void *p4d_parallel__partial(p4d_net *m, void *to);
/*
 * to (ns, h) = the sum over all tp ranks of p4d_parallel__partial: for a part of the tokens, part after part,
 * and complete for operations queued after p4d_parallel__reduced; or for all of them.
 */
int p4d_parallel__reduce_part(p4d_net *m, void *to, unsigned part, p4d_error *err);
int p4d_parallel__reduced(p4d_net *m, p4d_error *err);
int p4d_parallel__reduce_partial(p4d_net *m, void *to, p4d_error *err);
/* The product (n, columns) over hidden features, of which a rank of a tp-grid has a part: the sum over Y. */
int p4d_parallel__sum_features(p4d_net *m, void *product, uint64_t columns, p4d_error *err);
/*
 * The multiprocessors that products leave to concurrent collectives: those of tensor parallelism in any pass,
 * if they overlap, and those among replicas in some.
 */
void p4d_parallel_leave(p4d_net *m, bool replicas);
/*
 * Before each layer. A full device queue blocks the host where it cannot notice that a rank is gone. So it
 * never fills: the host waits, checking for errors, until the device is at most P4D_AHEAD layers behind.
 */
int p4d_parallel_throttle(p4d_net *m, p4d_error *err);
/* Needs the arena and the list. */
int p4d_parallel__open(p4d_net *m, p4d_error *err);
void p4d_parallel__close(p4d_net *m);
