/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers with a memory (arXiv 2412.09764; facebookresearch/memory). A token's queries are compared with two
 * sets of keys. The best pairs select values of a table that all these layers share, and their weighted sum
 * is gated by the input. The kernels that look values up only move memory. No step was compared with a
 * measured one.
 */
#include "cost/cost_internal.h"

enum { INDEX = 8, VALUE = 2 }; /* bytes; the table is in bf16 */

double p4d_cost__memory_matrices(const p4d_layout *l)
{
	const double h = (double)l->hidden, queries = (double)(l->memory.heads * l->memory.key_dim);

	return (h + (double)l->memory.keys) * queries + 2 * h * h;
}

double p4d_cost__columns(const p4d_layout *l)
{
	const double keys = (double)l->memory.keys;

	return keys * keys * (double)l->hidden / (double)l->memory.parallel;
}

static void add(const p4d_cost_rates *r, double tokens, double in, double out, double times, p4d_cost_part *y)
{
	y->forward.gemm += times * p4d_cost__product_seconds(r, tokens, out, in, r->element);
	y->backward_input.gemm += times * p4d_cost__product_seconds(r, tokens, in, out, r->element);
	y->backward_weight.gemm += times * p4d_cost__product_seconds(r, out, in, tokens, 8);
}

double p4d_cost__lookup_bytes(const p4d_layout *l, double tokens)
{
	return tokens * (double)(l->memory.heads * l->memory.top * l->hidden) * VALUE;
}

/*
 * Adds the time to read values in the forward pass. The backward pass reads them again for the gradients of
 * their weights, and sums the gradients of the values. Each layer first zeroes a gradient of the whole table,
 * and later adds it to that of the other layers. With several ranks, each rank makes a scaled copy of its
 * columns, reads them for the tokens of all ranks, and receives the other columns for its own tokens.
 */
static void look_up(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z, p4d_cost_part *y)
{
	const double read = p4d_cost__lookup_bytes(l, z->n), table = p4d_cost__columns(l) * VALUE,
		     ranks = (double)l->memory.parallel;
	const p4d_cost_ring all = p4d_cost__ring_of(l, l->memory.parallel, 1);
	const double chosen = z->n * (double)(l->memory.heads * l->memory.top) * (INDEX + r->element) * ranks;
	const double sent = p4d_cost__gather_seconds(r, all, chosen) +
			    p4d_cost__exchange_seconds(r, all, r->element * z->n * z->h);

	y->forward.memory_bound +=
	    p4d_cost__memory_seconds(r, read) + (ranks > 1 ? p4d_cost__memory_seconds(r, 2 * table) : 0);
	y->backward_input.memory_bound +=
	    p4d_cost__memory_seconds(r, 3 * read) + p4d_cost__memory_seconds(r, 4 * table);
	y->forward.tensor_comm += sent;
	y->backward_input.tensor_comm += sent;
}

void p4d_cost__memory(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z, p4d_cost_part *y)
{
	const double heads = (double)l->memory.heads, keys = (double)l->memory.keys,
		     top = (double)l->memory.top, half = (double)l->memory.key_dim / 2;
	/* the kernel that chooses keys writes and reads the scores of both halves, and the sums of pairs with
	 * indices */
	const double scores = z->n * heads * 2 * (2 * keys * r->element + top * top * (r->element + INDEX));
	const double gate = z->n * z->h * r->element;

	add(r, z->n, z->h, heads * 2 * half, 1, y);
	add(r, z->n, half, keys, 2 * heads, y);
	add(r, z->n, z->h, z->h, 2, y);
	look_up(l, r, z, y);
	y->forward.memory_bound +=
	    p4d_cost__memory_seconds(r, scores) + p4d_cost__memory_seconds(r, 5 * gate);
	y->backward_input.memory_bound +=
	    p4d_cost__memory_seconds(r, scores) + p4d_cost__memory_seconds(r, 8 * gate);
}

/*
 * Seconds to update the values. Gradient, values and both moments are in bf16. The update reads all of them
 * and writes all but the gradient.
 */
double p4d_cost__values_update(const p4d_layout *l, const p4d_cost_rates *r)
{
	const double copies = (double)(l->dp * l->cp) / (double)l->memory.parallel;

	return l->memory.keys ? p4d_cost__memory_seconds(r, p4d_cost__columns(l) / copies * 7 * VALUE) : 0;
}
