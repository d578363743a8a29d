/* SPDX-License-Identifier: Apache-2.0 */
/*
 * p4d-train's tensor parallelism with tp-comm-overlap. Tokens pass in two halves: the matmul of the first
 * half runs while the second half is gathered, and the matmul of the second half runs while the result of the
 * first is reduce-scattered. So half of each collective is exposed. The other half is exposed only as far as
 * it takes longer than the concurrent matmul. In the backward pass, the input of a linear layer is gathered
 * during the gradients of the next linear layer, and its input gradient is reduce-scattered during its weight
 * gradient. Collectives take multiprocessors from matmuls.
 */
#include "cost/cost_internal.h"

/*
 * A block (attention or feed-forward) as the overlap sees it: its first matmul, whose input is gathered, and
 * its last matmul, whose output is summed.
 */
typedef struct gathered {
	double in, out; /* columns of the input and output of the block's first linear layer */
	double end_in;  /* columns of the input of the block's last linear layer, whose output has the hidden
			   size */
	p4d_cost_share *weight; /* the pass that computes the weight gradient of the first linear layer */
} gathered;

/*
 * Exposed seconds of a collective that overlaps with work (seconds). Adds the slowdown of that work to
 * `lost`.
 */
static double beside(const p4d_cost_rates *r, double collective, double work, double *lost)
{
	const double hidden = collective < work ? collective : work;

	*lost += hidden * P4D_TP_BLOCKS / r->multiprocessors;
	return collective - hidden;
}

/* Seconds of one half of a matmul that is cut into two halves. Adds the additional time of both to `lost`. */
static double half_product(const p4d_cost_rates *r, double n, double columns, double depth, double *lost)
{
	const double half = p4d_cost__product_seconds(r, n / P4D_TP_PARTS, columns, depth, r->element);

	*lost += P4D_TP_PARTS * half - p4d_cost__product_seconds(r, n, columns, depth, r->element);
	return half;
}

/*
 * Adds the exposed time of a collective in two halves, which overlap with the matmul before or after the
 * collective.
 */
static void exchange(const p4d_cost_rates *r, double half, double product, p4d_cost_share *y)
{
	y->tensor_comm += half + beside(r, half, product, &y->gemm);
}

static void block(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z, double half,
		  const gathered *b, p4d_cost_part *y)
{
	/* whether the first matmul's weight gradient is computed in an unsplit backward pass, or in the first
	 * half of a split one */
	const bool first = !p4d_is_split(l->schedule) || b->weight == &y->backward_input;
	const bool trains = !p4d_cost__freezes(l), now = trains && first;
	p4d_cost_share *there = &y->forward, *back = &y->backward_input;
	/* seconds of the weight gradients of the last and of the first linear layer */
	const double end_weight = trains ? p4d_cost__product_seconds(r, z->h, b->end_in, z->n, 8) : 0;
	const double weight = now ? p4d_cost__product_seconds(r, b->out, b->in, z->n, 8) : 0;

	exchange(r, half, half_product(r, z->n, b->out, b->in, &there->gemm), there);
	exchange(r, half, half_product(r, z->n, z->h, b->end_in, &there->gemm), there);
	exchange(r, half, half_product(r, z->n, b->end_in, z->h, &back->gemm), back);
	back->tensor_comm += beside(r, half, half_product(r, z->n, b->in, b->out, &back->gemm), &back->gemm) +
			     beside(r, half, weight, &back->gemm);
	/* gathers the input of the first linear layer again, for its weight gradient */
	b->weight->tensor_comm += beside(r, P4D_TP_PARTS * half, now ? end_weight : 0, &b->weight->gemm);
}

void p4d_cost__halves(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z,
		      p4d_cost_share *qkv, p4d_cost_share *gate_up, p4d_cost_part *y)
{
	const double bytes = r->element * z->n * z->h / P4D_TP_PARTS;
	const double half = p4d_cost__gather_seconds(r, p4d_cost__tensor_ring(l), bytes);
	const gathered attention = {z->h, z->A + 2 * z->G, z->A, qkv}, ffn = {z->h, z->up, z->f, gate_up};

	block(l, r, z, half, &attention, y);
	block(l, r, z, half, &ffn, y);
}

/*
 * Multiprocessors that exchange tokens while another micro-batch computes on the others (DeepSeek-V3, arXiv
 * 2412.19437, section 3.2.2).
 */
#define EXCHANGE_BLOCKS 20

/*
 * DualPipe and Megatron-LM's overlap-moe-expert-parallel-comm: a forward pass runs next to a backward pass of
 * another micro-batch. While one exchanges tokens, the other computes. exchanged: seconds in one pass. A pass
 * without a partner, such as the first and the last ones of a step, hides nothing.
 */
void p4d_cost__overlap_exchange(const p4d_cost_rates *r, double exchanged, p4d_cost_part *y)
{
	const double all = p4d_cost_share_seconds(&y->forward) + p4d_cost_share_seconds(&y->backward_input) +
			   p4d_cost_share_seconds(&y->backward_weight);
	const double computes = all - 2 * exchanged;
	const double hidden = 2 * exchanged < computes ? exchanged : computes / 2;
	const double lost = hidden * EXCHANGE_BLOCKS / r->multiprocessors;
	p4d_cost_share *const passes[] = {&y->forward, &y->backward_input};

	for (int i = 0; i < 2; i++) {
		const double host = passes[i]->host < hidden ? passes[i]->host : hidden;
		passes[i]->host -= host;
		passes[i]->tensor_comm -= hidden - host;
		passes[i]->gemm += lost;
	}
	y->alone = hidden - lost;
}
