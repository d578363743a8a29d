/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs every matmul and attention once, before any operation is queued that waits for other ranks. When a
 * library first computes a shape, it chooses an algorithm and loads its code, which may need an idle device.
 * The algorithms of matmuls are also timed here.
 */
#include <stdlib.h>
#include <string.h>

#include "model/adapters.h"
#include "model/attention.h"
#include "model/head.h"
#include "model/newton_schulz.h"
#include "model/parallel.h"
#include "model/product.h"

static void multiply_all(p4d_net *m, void *any)
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
		p4d_product__warm_up(m, products[i].kind, layer, products[i].out, products[i].in, any);
		p4d_adapters__warm_up(m, products[i].kind, layer, any);
	}
	p4d_head__warm_up(m, any);
	p4d_newton_schulz__warm_up(m, any);
}

/* Maximum number of matmul shapes of a pass. With slices, each slice's length has its own shapes. */
enum { MOST_CHOICES = 256 };

static uint64_t choices_of(const p4d_net *m)
{
	return MOST_CHOICES * m->l->slices;
}

/* Writes the choices that this rank timed into the table of all ranks. */
static void own_choices(const p4d_net *m, p4d_product_choice *own)
{
	p4d_timed_product product;
	unsigned count = 0;

	while (count < choices_of(m) && m->d->timed_product(m->d, count, &product))
		own[count++] = product.choice;
}

/*
 * The first rank that timed a shape decides for all ranks, so that equal operands give equal results
 * everywhere. So its choices are adopted last.
 */
static int agree_on_products(p4d_net *m, p4d_error *err)
{
	const uint64_t ranks = m->l->world, most = choices_of(m);
	p4d_product_choice *all = calloc((ranks + 1) * most, sizeof(*all));

	if (!all)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the algorithms of products");
	own_choices(m, all + ranks * most);
	const int status = p4d_comm_all_gather(m->world, all, all + ranks * most, most * sizeof(*all), err);
	for (uint64_t i = ranks * most; status == 0 && i-- > 0;)
		if (all[i].proposed)
			m->d->choose_product(m->d, &all[i]);
	free(all);
	return status;
}

/*
 * Whether to time matmuls. With P4D_TIME_PRODUCTS=0 the library chooses, and every run gives the same result.
 */
static bool times_products(const p4d_net *m)
{
	const char *wanted = getenv("P4D_TIME_PRODUCTS");

	return m->d->time_products && !(wanted && !strcmp(wanted, "0"));
}

/*
 * Alignments, in bytes. ALIGNED: that of the arena. UNALIGNED: the least for the device's widest access, for
 * rows that begin anywhere.
 */
enum { ALIGNED = 256, UNALIGNED = 16 };

/* Whether weights, gradients or rows have addresses that are not multiples of ALIGNED. */
static bool has_odd_places(const p4d_net *m)
{
	uint64_t places = (m->h | m->f | m->up | m->q | m->kv | m->columns) * m->element;

	for (uint32_t i = 0; i < m->weights.count; i++)
		if (!m->weights.weight[i].quantized)
			places |= m->weights.weight[i].offset * m->element;
	return places % ALIGNED;
}

/*
 * Runs all matmuls in both widths and with both alignments that may occur and, with slices, for each slice's
 * length.
 */
static void warm_up_products(p4d_net *m)
{
	const bool odd = has_odd_places(m);

	for (uint32_t slice = 0; slice < m->l->slices; slice++) {
		p4d_net_begin_pass(m, slice);
		for (int replicas = p4d_comm_runs_async(m->dp_cp); replicas >= 0; replicas--) {
			p4d_parallel_leave(m, replicas);
			multiply_all(m, m->arena);
			if (odd)
				multiply_all(m, m->arena + UNALIGNED);
		}
	}
}

int p4d_net__warm_up(p4d_net *m, p4d_error *err)
{
	if (!m->d->identity[0]) /* on the host there is nothing to load */
		return 0;
	const bool times = times_products(m);
	if (times)
		m->d->time_products(m->d, true);
	warm_up_products(m);
	if (times)
		m->d->time_products(m->d, false);
	for (uint32_t slice = 0; slice < m->l->slices; slice++) {
		p4d_net_begin_pass(m, slice);
		p4d_attention__warm_up(m);
	}
	if (m->d->sync(m->d, err) < 0)
		return -1;
	return m->d->choose_product ? agree_on_products(m, err) : 0;
}
