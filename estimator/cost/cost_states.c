/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers with a state, in chunks of tokens: Mamba-2 as mamba-ssm computes it (arXiv 2405.21060, section 6),
 * and gated delta nets (arXiv 2412.06464). Matmuls within a chunk have the rate of large ones; all other work
 * reads and writes its bytes once per kernel. No step of such a model was compared with a measured one.
 */
#include "cost/cost_internal.h"

#include <string.h>

/* Columns per token on one rank: those of all heads, and those of B and C in all groups. */
typedef struct scan_widths {
	double values, groups, heads;
} scan_widths;

static scan_widths widths_of(const p4d_layout *l, double tp)
{
	return (scan_widths){.values = (double)l->state.heads * (double)l->state.head_dim / tp,
			     .groups = (double)l->state.groups * (double)l->state.size / tp,
			     .heads = (double)l->state.heads / tp};
}

/* Columns of the first matmul's output: gates, values, B and C, steps. */
static double first_product(const scan_widths *w)
{
	return 2 * w->values + 2 * w->groups + w->heads;
}

double p4d_cost__state_matrices(const p4d_layout *l)
{
	const scan_widths w = widths_of(l, 1);

	return (double)l->hidden * (first_product(&w) + w.values);
}

/*
 * FLOPs of a chunk: scores between its tokens, their weighted values, the input of the states, and the output
 * of the states.
 */
double p4d_cost__scan_flops(const p4d_layout *l)
{
	const scan_widths w = widths_of(l, 1);
	const double chunk = (double)l->state.chunk, size = (double)l->state.size;

	/*
	 * a delta net has scores of keys with keys, and of queries with keys. They weight the keys and values
	 * of each head. It also subtracts the states' prediction from the input of the states
	 */
	if (memchr(l->pattern, 'G', l->pattern_length))
		return chunk * (3 * w.heads * size + 2 * w.values) + 6 * size * w.values;
	return chunk * w.groups + chunk * w.values + 4 * (double)l->state.size * w.values;
}

void p4d_cost__scan(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z, p4d_cost_part *y)
{
	const scan_widths w = widths_of(l, (double)l->tp);
	const double e = r->element, n = z->n,
		     products = n * p4d_cost__scan_flops(l) / (double)l->tp * r->gemm;
	/* states in fp32: one kernel writes them and passes them on, the next kernel reads them */
	const double states = 4 * w.values * (double)l->state.size / (double)l->state.chunk;
	/* bytes of the convolution; of reading values and writing their result; and of the gated norm */
	const double forward =
	    n * (e * (2 * (w.values + 2 * w.groups) + 3 * w.values + 4 * w.values) + 4 * states);

	y->forward.gemm += products;
	y->forward.memory_bound += p4d_cost__memory_seconds(r, forward);
	y->backward_input.gemm += 3 * products; /* two gradients for each matmul, and the scores again */
	y->backward_input.memory_bound += p4d_cost__memory_seconds(r, 3 * forward);
}
