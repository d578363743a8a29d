/* SPDX-License-Identifier: Apache-2.0 */
/* Embedding and head of the model, on one stage or, with vocabulary parallelism, on all stages. */
#include <math.h>

#include "cost/cost_internal.h"

/* The pass that computes the gradients of vocabulary tables. */
static p4d_cost_share *weight_pass(const p4d_layout *l, p4d_cost_part *y)
{
	return p4d_framework_of(l->framework)->cost.defers_weight_gradients ? &y->backward_weight
									    : &y->backward_input;
}

void p4d_cost__embedding(const p4d_layout *l, const p4d_cost_rates *r, p4d_cost_part *y)
{
	p4d_cost_sizes z = p4d_cost__sizes_of(l);
	double e = r->element, rows = z.n * z.h;

	*y = (p4d_cost_part){0};
	y->forward.memory_bound = p4d_cost__memory_seconds(r, 2 * e * rows) +
				  (l->positions ? p4d_cost__memory_seconds(r, 3 * e * rows) : 0) +
				  (l->dropout ? p4d_cost__memory_seconds(r, (2 * e + 1) * z.residual) : 0);
	/* reads and writes rows of the fp32 gradient */
	if (!p4d_cost__freezes(l))
		weight_pass(l, y)->memory_bound += p4d_cost__memory_seconds(r, (e + 8) * rows);
	if (l->tp == 1)
		return;
	double one = p4d_cost__boundary_seconds(l, r, &z);
	y->forward.tensor_comm = (l->sequence_parallel ? 1 : 2) * one;
	weight_pass(l, y)->tensor_comm += l->sequence_parallel && !p4d_cost__freezes(l) ? one : 0;
}

/* Cost of a vocabulary table of `columns` entries: its three matmuls, and the kernels on its logits. */
typedef struct table_cost {
	double logits, input, weight; /* seconds of the matmuls */
	double statistics, gradient;  /* seconds for reading the logits; and for replacing them by
				       * gradients */
} table_cost;

/* Cost of a table if all tokens have logits at the same time. */
static table_cost whole_table(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z,
			      double columns)
{
	double e = r->element, logits = z->n * columns;
	double forward = l->megatron.fused_cross_entropy ? 3 * e : e + 4 + 4 + 8 + 8 + 4 + 8;
	double backward = l->megatron.fused_cross_entropy ? 2 * e : 8 + 4 + e;

	return (table_cost){.logits = p4d_cost__gemm_seconds(r, 1, z->n, columns, z->h, e),
			    .input = p4d_cost__gemm_seconds(r, 1, z->n, z->h, columns, e),
			    .weight = p4d_cost__gemm_seconds(r, 1, columns, z->h, z->n, 8),
			    .statistics = p4d_cost__memory_seconds(r, forward * logits),
			    .gradient = p4d_cost__memory_seconds(r, backward * logits)};
}

/*
 * Fraction of a row of logits that is no longer in a cache when a fused kernel reads it for the second time.
 */
#define READ_AGAIN 0.3

/*
 * Cost of a table if logits are computed for one chunk of tokens at a time. One kernel reads the logits for
 * the statistics and replaces them by their gradient. If ranks merge statistics in between, there are two
 * kernels. The gradient of a pair depends on the loss of both sequences, so a second pass over all chunks
 * computes their logits again.
 */
static table_cost chunked_table(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z,
				double columns)
{
	const double chunks = ceil(z->n / (double)p4d_logits_tokens(l)), n = z->n / chunks;
	const double e = r->element, logits = n * columns;
	const bool merged = l->tp > 1 || l->vocab_parallel || l->pairs;
	const double passes = l->pairs ? 2 : 1;
	const double replaced = p4d_cost__memory_seconds(r, (2 + (merged ? 0 : READ_AGAIN)) * e * logits);

	return (table_cost){.logits = passes * chunks * p4d_cost__gemm_seconds(r, 1, n, columns, z->h, e),
			    .input = chunks * p4d_cost__gemm_seconds(r, 1, n, z->h, columns, e),
			    .weight = chunks * p4d_cost__gemm_seconds(r, 1, columns, z->h, n, 8),
			    .statistics = merged ? chunks * p4d_cost__memory_seconds(r, e * logits) : 0,
			    .gradient = chunks * replaced};
}

static table_cost table_of(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z,
			   double ranks)
{
	double columns = (double)l->vocab / ranks;
	table_cost table = p4d_framework_of(l->framework)->cost.chunks_head ? chunked_table(l, r, z, columns)
									    : whole_table(l, r, z, columns);

	if (p4d_cost__freezes(l))
		table.weight = 0;
	return table;
}

static void head_once(const p4d_layout *l, const p4d_cost_rates *r, p4d_cost_part *y)
{
	p4d_cost_sizes z = p4d_cost__sizes_of(l);
	table_cost table = table_of(l, r, &z, (double)l->tp);
	double e = r->element;

	*y = (p4d_cost_part){0};
	y->forward.gemm = table.logits;
	y->backward_input.gemm = table.input;
	weight_pass(l, y)->gemm += table.weight;
	y->forward.memory_bound = p4d_cost__memory_seconds(r, 2 * e * z.residual) + table.statistics;
	y->backward_input.memory_bound = p4d_cost__memory_seconds(r, 3 * e * z.residual) + table.gradient;
	/* with a tp-grid, each rank computes logits from a part of the features, and Y sums them */
	y->forward.tensor_comm =
	    p4d_cost__features_seconds(l, r, r->element * z.n * (double)l->vocab / (double)l->tp);
	if (l->tp == 1)
		return;
	double one = p4d_cost__boundary_seconds(l, r, &z);
	/* over the ranks of the vocabulary: maximum, sum, and the label's logit of every token */
	y->forward.tensor_comm += (l->sequence_parallel ? one : 0) +
				  6 * p4d_cost__gather_seconds(r, p4d_cost__tensor_ring(l), 4 * z.n);
	y->backward_input.tensor_comm = (l->sequence_parallel ? 1 : 2) * one;
	if (l->sequence_parallel && !p4d_framework_of(l->framework)->cost.overlaps_sequence_parallel)
		weight_pass(l, y)->tensor_comm += one;
}

/*
 * Adds, for each layer of multi-token prediction: the embedding, the matmul that combines it with the hidden
 * state, a layer, and the head again.
 */
static void add_further(const p4d_layout *l, const p4d_cost_rates *r, p4d_cost_part *y)
{
	const p4d_cost_sizes z = p4d_cost__sizes_of(l);
	const double columns = z.h / (double)l->tp, e = r->element, n = (double)l->mtp_layers;
	p4d_cost_part one = *y, part;

	one.forward.gemm += p4d_cost__gemm_seconds(r, 1, z.n, columns, 2 * z.h, e);
	one.backward_input.gemm += p4d_cost__gemm_seconds(r, 1, z.n, 2 * z.h, columns, e);
	one.backward_weight.gemm += p4d_cost__gemm_seconds(r, 1, columns, 2 * z.h, z.n, 8);
	p4d_cost__embedding(l, r, &part);
	p4d_cost__add_part(&one, &part, 1);
	p4d_cost__expert_layer(l, r, &part);
	p4d_cost__add_part(&one, &part, 1);
	p4d_cost__add_part(y, &one, n);
}

void p4d_cost__head(const p4d_layout *l, const p4d_cost_rates *r, p4d_cost_part *y)
{
	head_once(l, r, y);
	if (l->mtp_layers)
		add_further(l, r, y);
}

/*
 * Passes of vocabulary parallelism. S computes logits and their statistics, T recomputes the logits and
 * computes their gradients. The gradient of the hidden state belongs to T in vocab-1, and (before scaling) to
 * S in vocab-2 (arXiv 2411.05288).
 */
void p4d_cost__vocabulary(const p4d_layout *l, const p4d_cost_rates *r, p4d_cost_vocabulary_passes *y)
{
	p4d_cost_sizes z = p4d_cost__sizes_of(l);
	double pp = (double)l->pp, e = r->element, rows = z.n * z.h;
	table_cost table = table_of(l, r, &z, (double)l->tp * pp);
	double gather = l->tp > 1 ? p4d_cost__boundary_seconds(l, r, &z) : 0;
	p4d_cost_ring stages = p4d_cost__ring_of(l, l->pp, p4d_tp_ranks(l) * l->cp * l->dp);
	/* each stage has the rows of its words in the table, and writes zeros for all other words */
	double embed = p4d_cost__memory_seconds(r, 2 * e * rows);

	y->forward = table.logits + table.statistics + gather;
	y->backward = table.logits + table.gradient + table.weight + gather;
	*(l->vocab_parallel == P4D_VOCAB_2 ? &y->forward : &y->backward) += table.input + gather;
	/* sends a residual stream to or from all stages, pipelined along the ring */
	y->sync = p4d_cost__gather_seconds(r, stages, e * z.residual * pp / (pp - 1));
	y->embed_forward = embed;
	y->embed_backward = p4d_cost__memory_seconds(r, (e + 8) * rows / pp) + embed;
}
