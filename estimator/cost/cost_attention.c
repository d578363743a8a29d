/* SPDX-License-Identifier: Apache-2.0 */
/* The scores of attention and their values: fused or not, with context parallelism, and in slices. */
#include "base/wide.h"
#include "cost/cost_internal.h"

/*
 * Fused attention computes half of the scores, or those of a window or of documents, in whole tiles. At the
 * end, the GPU waits for the last multiprocessor, which computes one row of blocks. With documents this row
 * is shorter, because it ends with its document. The backward pass has 2.5 times the matmuls. A slice of a
 * sequence also attends to all slices before it.
 */
static double fused(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z, bool backward)
{
	const double begin = (double)l->slice_begin, s = begin + (double)p4d_pass_tokens(l);
	double d = p4d_cost__query_width(l) / (double)l->heads;
	double each = backward ? 2.5 * r->attention_backward : r->attention_forward;
	const double share = p4d_cost__scores_share(l), row = l->document_len ? share * s : s;
	double last = 4 * (backward ? r->last_backward : r->last_forward) * row * d;

	const double scores =
	    2 * z->n * (begin + s) * z->A * share * p4d_cost__tile_excess(l) * (1 + l->document_excess);

	return P4D_LAUNCH_SECONDS + (scores + last) * each;
}

/* Unfused attention has separate kernels for scores and softmax; scores and output are batched matmuls. */
static void unfused(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z,
		    p4d_cost_share *forward, p4d_cost_share *backward)
{
	double s = (double)l->seq_len, d = (double)l->head_dim, e = r->element, q = s / (double)l->cp;
	double batch = (double)p4d_rank_batch(l) * (double)l->heads / (double)l->tp;
	double to_scores = p4d_cost__gemm_seconds(r, batch, q, s, d, e),
	       from_scores = p4d_cost__gemm_seconds(r, batch, q, d, s, e);
	/* dropout of the probabilities: reads and writes them, and the mask */
	double dropout =
	    l->megatron.attention_dropout ? p4d_cost__memory_seconds(r, (2 * e + 1) * z->scores) : 0;

	forward->attention += to_scores + from_scores;
	forward->memory_bound += p4d_cost__memory_seconds(r, 2 * e * z->scores) + dropout;
	/* heads are moved before and after attention: queries, keys, values and the output */
	forward->memory_bound += p4d_cost__memory_seconds(r, 2 * e * z->n * (2 * z->A + 2 * z->G));
	backward->attention += 2 * (to_scores + from_scores);
	backward->memory_bound += p4d_cost__memory_seconds(r, 3 * e * z->scores) + dropout;
	backward->memory_bound += p4d_cost__memory_seconds(r, 2 * e * z->n * (2 * z->A + 2 * z->G));
}

/* Bytes of an element of the gradients of keys and values in transit. */
static double gradient_element(const p4d_layout *l, const p4d_cost_rates *r)
{
	return p4d_framework_of(l->framework)->cost.sums_keys_in_fp32 ? 4 : r->element;
}

/*
 * p4d-train: the gradients of keys and values are sent to the next rank while the next block is computed. The
 * gradients of the last block return to their own rank, and nothing hides this transfer. For each later
 * block, a rank zeroes a buffer, computes gradients into it, and adds them to the received ones.
 */
static void return_gradients(const p4d_cost_rates *r, p4d_cost_ring context, const p4d_cost_sizes *z,
			     double steps, p4d_cost_share *out)
{
	const double bytes = 4 * z->n * 2 * z->G;

	out->context_comm += p4d_cost__neighbour_seconds(r, context, bytes);
	out->memory_bound += steps * p4d_cost__memory_seconds(r, 4 * bytes);
}

/*
 * Context parallelism in a ring: keys and values pass around the ring while attention works on the current
 * block; the transfer of the last block is exposed. Causal work is balanced (zigzag). Partial outputs are
 * merged once per block, in fp32.
 */
static void ring(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z, double attention,
		 bool backward, p4d_cost_share *out)
{
	const uint64_t ranks = l->cp / l->megatron.cp_heads; /* ranks in the ring: ranks that exchange heads
								process different heads of all their tokens */
	double steps = (double)ranks - 1;
	p4d_cost_ring context = p4d_cost__ring_of(l, ranks, p4d_tp_ranks(l) * l->megatron.cp_heads);
	/* backward, the gradients of keys and values also pass around the ring */
	double element = r->element + (backward ? gradient_element(l, r) : 0),
	       bytes = element * z->n * 2 * z->G;
	double step = p4d_cost__neighbour_seconds(r, context, bytes);
	double hidden = attention / (double)ranks;

	out->context_comm += steps * (step > hidden ? step - hidden : 0) + steps * 2 * P4D_LAUNCH_SECONDS;
	if (!backward)
		out->memory_bound += steps * p4d_cost__memory_seconds(r, 3 * 4 * z->n * z->A);
	else if (p4d_framework_of(l->framework)->cost.sums_keys_in_fp32)
		return_gradients(r, context, z, steps, out);
}

/*
 * PyTorch's ring (_templated_ring_attention) gathers keys and values of all ranks once per pass, and adds the
 * blocks' results in fp32. Backward, each round sends gradients of keys and values on, in fp32. Eager code
 * waits for a collective when it uses the result, after a block of attention. Code that torch.compile traces
 * waits at once (_maybe_wrap_tensor), so nothing hides its collectives.
 */
static void gathered_ring(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z,
			  double attention, bool backward, p4d_cost_share *out)
{
	const double cp = (double)l->cp, sum = 4, keys = z->n * 2 * z->G;
	const double hidden = l->torch.compile ? 0 : attention / cp;
	const p4d_cost_ring context = p4d_cost__ring_of(l, l->cp, p4d_tp_ranks(l));
	const double gather = p4d_cost__gather_seconds(r, context, r->element * keys * cp),
		     send = p4d_cost__neighbour_seconds(r, context, sum * keys);

	out->context_comm += P4D_MOST(gather - hidden, 0.0);
	if (!backward) {
		out->memory_bound += (cp - 1) * p4d_cost__memory_seconds(r, 3 * sum * z->n * z->A);
		return;
	}
	out->context_comm += cp * P4D_MOST(send - hidden, 0.0);
	/* each round adds the block's gradients, and copies those of keys and values to send them */
	out->memory_bound +=
	    cp * p4d_cost__memory_seconds(r, (2 * sum + r->element) * (z->n * z->A + keys) + 2 * sum * keys);
}

/*
 * Adds the time to gather the keys and values of all ranks, which nothing hides. The backward pass also sums
 * their gradients. Some frameworks gather the two pieces of each sequence one after the other. Others gather
 * the keys and values of all sequences together, and must then reorder them and their gradients.
 */
static void all_gather(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z, bool backward,
		       p4d_cost_share *out)
{
	const bool reorders = p4d_framework_of(l->framework)->cost.reorders_gathered_keys;
	double elements = z->n * (double)l->cp * 2 * z->G,
	       calls = reorders ? 2 : 2 * (double)p4d_rank_batch(l);
	p4d_cost_ring context = p4d_cost__ring_of(l, l->cp, p4d_tp_ranks(l));

	out->context_comm += calls * p4d_cost__gather_seconds(r, context, r->element * elements / calls);
	if (reorders)
		out->memory_bound +=
		    (backward ? 2 : 1) * p4d_cost__memory_seconds(r, 2 * r->element * elements);
	if (!backward)
		return;
	double gradient = gradient_element(l, r) * elements;
	out->context_comm += calls * p4d_cost__gather_seconds(r, context, gradient / calls);
	out->memory_bound += p4d_cost__memory_seconds(r, gradient); /* the buffer is zeroed first */
}

/* All-to-all: queries, keys and values are exchanged for heads, and the output is exchanged back; each is
 * reordered on both sides. This is exposed. */
static void all_to_all(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z, uint64_t ranks,
		       p4d_cost_share *out)
{
	const double inputs = r->element * z->n * (z->A + 2 * z->G), output = r->element * z->n * z->A;
	p4d_cost_ring context = p4d_cost__ring_of(l, ranks, p4d_tp_ranks(l));

	/* a rank sends everything except its own share, like in a gather of as many bytes */
	out->context_comm +=
	    p4d_cost__gather_seconds(r, context, inputs) + p4d_cost__gather_seconds(r, context, output);
	out->memory_bound += p4d_cost__memory_seconds(r, 2 * 2 * (inputs + output));
}

/*
 * Adds the time of context parallelism. attention: seconds of attention over all blocks, during which the
 * ring's transfers run.
 */
static void context(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z, double attention,
		    bool backward, p4d_cost_share *out)
{
	if (l->cp == 1)
		return;
	if (p4d_framework_of(l->framework)->cost.gathers_for_ring)
		gathered_ring(l, r, z, attention, backward, out);
	else if (l->cp_comm == P4D_CP_ALL_GATHER)
		all_gather(l, r, z, backward, out);
	else if (l->cp_comm == P4D_CP_A2A)
		all_to_all(l, r, z, l->cp, out);
	else
		ring(l, r, z, attention, backward, out);
	if (l->megatron.cp_heads > 1)
		all_to_all(l, r, z, l->megatron.cp_heads, out);
}

/*
 * Additional time of p4d-train's attention with token slices. Keys and values are copied next to the earlier
 * ones. Gradients of all keys so far are zeroed and summed in fp32; then the slice's gradients are copied out
 * and rounded.
 */
static void slices(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z,
		   p4d_cost_share *forward, p4d_cost_share *backward)
{
	const double e = r->element, sum = 4, b = (double)l->micro_batch;
	const double end = (double)(l->slice_begin + l->slice_len), own = z->n * 2 * z->G;
	const bool first = l->slice_begin + l->slice_len == l->seq_len;

	if (l->slices == 1)
		return;
	forward->memory_bound += p4d_cost__memory_seconds(r, 2 * e * own);
	backward->memory_bound +=
	    p4d_cost__memory_seconds(r, (e + 2 * sum) * (b * end * 2 * z->G + z->n * z->A)) +
	    p4d_cost__memory_seconds(r, sum * z->n * (z->A + 2 * z->G)) +
	    p4d_cost__memory_seconds(r, 2 * sum * own) +
	    p4d_cost__memory_seconds(r, (sum + e) * z->n * (z->A + 2 * z->G)) +
	    p4d_cost__memory_seconds(r, first ? sum * b * end * 2 * z->G : 0);
}

bool p4d_cost_prefers_gather(const p4d_layout *l, const p4d_gpu *gpu)
{
	p4d_cost_rates r = p4d_cost__rates_of(l, gpu);
	p4d_cost_sizes z = p4d_cost__sizes_of(l);
	double forward = l->recompute == P4D_RECOMPUTE_FULL ? 2 : 1;
	p4d_cost_share there[2] = {0}, back[2] = {0};

	ring(l, &r, &z, fused(l, &r, &z, false), false, &there[0]);
	ring(l, &r, &z, fused(l, &r, &z, true), true, &back[0]);
	all_gather(l, &r, &z, false, &there[1]);
	all_gather(l, &r, &z, true, &back[1]);
	return forward * p4d_cost_share_seconds(&there[1]) + p4d_cost_share_seconds(&back[1]) <
	       forward * p4d_cost_share_seconds(&there[0]) + p4d_cost_share_seconds(&back[0]);
}

void p4d_cost__attention(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z,
			 p4d_cost_share *forward, p4d_cost_share *backward)
{
	if (!l->flash_attention && p4d_framework_of(l->framework)->cost.unfused_attention) {
		unfused(l, r, z, forward, backward);
		return;
	}
	double there = fused(l, r, z, false), back = fused(l, r, z, true);
	forward->attention += there;
	context(l, r, z, there, false, forward);
	backward->attention += back;
	context(l, r, z, back, true, backward);
	slices(l, r, z, forward, backward);
}
