/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every matmul and attention once, before anything is queued that waits for other ranks: on first use of a
 * shape a library chooses an algorithm and loads its code, which may need an idle device.
 */
#include "model/adapters.h"
#include "model/attention.h"
#include "model/buffers.h"
#include "model/head.h"
#include "model/parallel.h"
#include "model/product.h"

static void multiply_all(p4d_net *m)
{
	const uint32_t layer = m->weights.segment[0].layer;
	const struct {
		p4d_weight_kind kind;
		uint64_t out, in;
	} products[] = {
	    {P4D_W_QKV, m->columns, m->h},
	    {P4D_W_OUTPUT, m->h, m->q},
	    {P4D_W_GATE_UP, m->up, m->h},
	    {P4D_W_DOWN, m->h, m->f},
	};

	for (int i = 0; i < 4; i++) {
		p4d_product__warm_up(m, products[i].kind, layer, products[i].out, products[i].in);
		p4d_adapters__warm_up(m, products[i].kind, layer);
	}
	p4d_head__warm_up(m);
}

int p4d_net__warm_up(p4d_net *m, p4d_error *err)
{
	if (!m->d->identity[0]) /* staging memory and its code */
		return 0;
	/* of both widths that products may have */
	for (int replicas = p4d_comm_runs_async(m->dp_cp); replicas >= 0; replicas--) {
		p4d_parallel_leave(m, replicas);
		multiply_all(m);
	}
	p4d_attention__warm_up(m);
	return m->d->sync(m->d, err);
}
