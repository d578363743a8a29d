/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Megatron-LM's hybrid models: MambaModel, whose layers are one block each (ssm/mamba_block.py), and GPTModel
 * with gated delta nets (ssm/gated_delta_net.py), whose layers are two. What blocks save, and the widest
 * moments of their passes. Found in the code of Megatron-Core 0.16.1, of mamba-ssm 2.3.2
 * (ops/triton/ssd_combined.py, MambaSplitConv1dScanCombinedFn) and of flash-linear-attention
 * (ops/gated_delta_rule/chunk.py), and compared with what these allocate (tests/data/megatron_hybrids.csv,
 * megatron_hybrid_experts.csv).
 *
 * Layers differ from one to the next, so that a row has all of a kind: layers and slots are 1.
 */
#include "framework/megatron_memory.h"

#include <string.h>

#include "request/architecture.h"

/* Columns of a Mamba-2 layer on one rank of tensor parallelism, for each token. */
typedef struct state_widths {
	p4d_wide values; /* of all heads; so are gates */
	p4d_wide mixed;  /* that the convolution mixes: values, B and C */
	p4d_wide all;    /* that the first product gives: those, gates and steps */
	p4d_wide states; /* of a chunk's state, shared by its tokens */
	p4d_wide scores; /* of a chunk's tokens with each other, of each group */
	p4d_wide heads;
} state_widths;

static bool is_delta_net(const p4d_layout *l)
{
	return memchr(l->pattern, 'G', l->pattern_length);
}

static state_widths widths_of(const p4d_layout *l)
{
	const p4d_wide heads = l->state_heads / l->tp, groups = p4d_div_up(l->state_groups, l->tp);
	state_widths w = {
	    .values = heads * l->state_head_dim, .heads = heads, .scores = groups * l->state_chunk};

	w.mixed = w.values + 2 * groups * l->state_size;
	w.all = w.mixed + w.values + (is_delta_net(l) ? 2 : 1) * heads;
	w.states = p4d_div_up(w.values * l->state_size, l->state_chunk);
	return w;
}

/* What a layer saves, and the most that its passes hold beside that: elements of 16 bits. */
typedef struct block_memory {
	p4d_wide saved, forward, backward;
} block_memory;

/*
 * Mamba-2. Saved: what the first product gave, the scan's result before and after its gate, and that normed,
 * which the last product takes. Backward, when gradients of states are passed on from chunk to chunk: the
 * convolution's result, calculated again, and its gradient, that of the first product's result, that of the
 * scan before and behind the gate; states and their gradients in fp32 and in 16 bits; scores and steps in
 * fp32. Both last results are free then.
 */
static block_memory of_mamba2(const p4d_layout *l, const p4d_megatron_sizes *z)
{
	const state_widths w = widths_of(l);
	const p4d_wide t = z->tokens;

	return (block_memory){.saved = t * (w.all + 3 * w.values),
			      .forward = t * (w.mixed + 3 * w.states),
			      .backward =
				  t * (w.all + 2 * w.mixed + 6 * w.states + 2 * w.scores + 9 * w.heads)};
}

/*
 * A gated delta net. Saved: what the convolution takes; queries and keys normed, and copied to every head of
 * values; values, gates, the rule's result, and that normed, which the last product takes; a chunk's inverse;
 * of each head the step before and after its softplus and summed in fp32, a strength, and norms' statistics
 * in fp32. Backward, when gradients of states are there: states and these, the rule's intermediate results
 * and gradients, of queries' and keys' width six, of values' five, less three that are free.
 */
static block_memory of_delta_net(const p4d_layout *l, const p4d_megatron_sizes *z)
{
	const state_widths w = widths_of(l);
	const p4d_wide t = z->tokens, keys = w.heads * l->state_size;

	return (block_memory){.saved = t * (w.mixed + (w.mixed - w.values) + 2 * keys + 4 * w.values +
					    w.heads * (l->state_chunk + 7) + 4 * w.scores / l->state_chunk),
			      .forward = t * (w.all + 2 * keys + w.values + w.states),
			      .backward = t * (6 * keys + 2 * w.values + 2 * w.states)};
}

/* What attention saves of each token: with norms of queries and keys what goes into them, with gates those
 * and the result before them. */
static p4d_wide attention_columns(const p4d_layout *l, const p4d_megatron_sizes *z)
{
	return 2 * z->A + 2 * z->G + (l->qk_norm ? z->A + z->G : 0) +
	       (l->architecture->gated_attention ? 2 * z->A : 0);
}

/* Backward, the gradients of the output, and of queries, keys and values. */
static block_memory of_attention(const p4d_layout *l, const p4d_megatron_sizes *z)
{
	const p4d_wide t = z->tokens, heads = l->heads / l->tp;

	return (block_memory){.saved = t * (attention_columns(l, z) + 2 * heads),
			      .forward = t * z->h,
			      .backward = t * (2 * z->A + 2 * z->G)};
}

/*
 * Backward, the gathered gradient and that of the activation, or that of the first product, where what the
 * activation gave is free (megatron_passes.c, widest_ffn).
 */
static block_memory of_feed_forward(const p4d_megatron_sizes *z)
{
	const p4d_wide t = z->tokens, down = t * (z->F + (z->gathers ? z->h : 0)), up = t * z->up;

	return (block_memory){
	    .saved = t * (z->up + z->product), .forward = t * z->h, .backward = down > up ? down : up};
}

/* Moments are those of the experts alone. */
static block_memory of_experts(const p4d_layout *l, const p4d_megatron_sizes *z)
{
	return (block_memory){p4d_megatron__saved_by_experts(l, z), z->forward, z->backward};
}

/* With its input, and that normed. */
static block_memory of_mixer(const p4d_layout *l, const p4d_megatron_sizes *z, p4d_mixer mixer)
{
	block_memory y = mixer == P4D_MIX_MAMBA2      ? of_mamba2(l, z)
			 : mixer == P4D_MIX_DELTA_NET ? of_delta_net(l, z)
						      : of_attention(l, z);

	y.saved += 2 * (p4d_wide)z->own * z->h;
	return y;
}

static block_memory of_feed(const p4d_layout *l, const p4d_megatron_sizes *z, p4d_feed feed)
{
	block_memory y = feed == P4D_FEED_EXPERTS ? of_experts(l, z) : of_feed_forward(z);

	y.saved += 2 * (p4d_wide)z->own * z->h;
	return y;
}

/* The most of a pass, of blocks from the last one on. */
typedef struct pass_moments {
	p4d_wide freed, forward, backward;
} pass_moments;

static void before(pass_moments *m, block_memory y)
{
	if (y.backward > m->freed && y.backward - m->freed > m->backward)
		m->backward = y.backward - m->freed;
	if (y.forward > m->freed && y.forward - m->freed > m->forward)
		m->forward = y.forward - m->freed;
	m->freed += y.saved;
}

/*
 * The widest moments of both passes: of a block, less what those behind it save. Before it, `sizes` has those
 * of a layer with experts.
 */
void p4d_megatron__size_states(const p4d_rows *rows, p4d_megatron_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const uint64_t from = p4d_parameters_first_layer(l, rows->stage, 0);
	pass_moments m = {0};

	for (uint64_t i = l->stage_layers[rows->stage]; i-- > 0;) {
		const p4d_layer_kind kind = p4d_layer_at(l, from + i);
		if (kind.feed != P4D_FEED_NONE)
			before(&m, of_feed(l, z, kind.feed));
		if (kind.mixer != P4D_MIX_NONE)
			before(&m, of_mixer(l, z, kind.mixer));
	}
	z->mixed = true;
	z->forward = m.forward;
	z->backward = m.backward;
	z->ffn = 0;
}

static void keep(p4d_rows *rows, const char *name, const char *shard, p4d_dtype dtype, uint64_t layers,
		 p4d_wide elements)
{
	const p4d_wide all = elements * layers * rows->slots;

	rows->overflow = rows->overflow || all >> 62;
	if (!all || rows->overflow)
		return;
	p4d_tensor *row = p4d_row_in_slot(rows, name, shard, dtype, (uint64_t)all, 0, 0);
	row->layers = row->slots = 1;
}

void p4d_megatron__state_layers(p4d_rows *rows, const p4d_megatron_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const p4d_dtype dtype = p4d_dtype_of(l);
	const p4d_layer_counts layers = p4d_parameters_layers_of_stage(l, rows->stage);
	const uint64_t states = p4d_layers_with_mixer(&layers, P4D_MIX_MAMBA2),
		       nets = p4d_layers_with_mixer(&layers, P4D_MIX_DELTA_NET),
		       attention = p4d_layers_with_mixer(&layers, P4D_MIX_ATTENTION),
		       dense = p4d_layers_with_feed(&layers, P4D_FEED_DENSE),
		       experts = p4d_layers_with_feed(&layers, P4D_FEED_EXPERTS);
	const uint64_t all = states + nets + attention + dense + experts; /* blocks */
	const p4d_wide narrow = (p4d_wide)z->own * z->h, t = z->tokens;
	const state_widths w = widths_of(l);

	keep(rows, "layer.input", ALONG, dtype, all, narrow);
	keep(rows, "layer.norm", ALONG, dtype, all, narrow);
	keep(rows, "layer.norm_statistics", ALONG, P4D_DT_FP32, all, z->own);
	keep(rows, "state.product", ACROSS, dtype, states, t * w.all);
	keep(rows, "state.scan", ACROSS, dtype, states, t * 3 * w.values);
	keep(rows, "state.norm_statistics", ACROSS, P4D_DT_FP32, states,
	     t * p4d_div_up(l->state_groups, l->tp));
	keep(rows, "state.delta_net", ACROSS, dtype, nets, nets ? of_delta_net(l, z).saved : 0);
	keep(rows, "layer.attention", ACROSS, dtype, attention, t * attention_columns(l, z));
	if (l->recompute == P4D_RECOMPUTE_SELECTIVE)
		keep(rows, "layer.product", ACROSS, dtype, attention, t * (z->A + z->G));
	else
		keep(rows, "layer.softmax_statistics", ACROSS, P4D_DT_FP32, attention,
		     t * (l->heads / l->tp));
	keep(rows, "layer.ffn", ACROSS, dtype, dense, t * (z->up + z->product));
	/* their result before the gate, which has one number of each token */
	if (l->architecture->shared_gate && l->shared_ffn)
		keep(rows, "layer.shared_result", ALONG, dtype, experts, narrow);
	if (l->experts)
		p4d_megatron__keep_experts(rows, z,
					   rows->slots * p4d_layers_with_feed(&layers, P4D_FEED_EXPERTS));
}

/* Dummy weight gradients of the shapes that other layers do not have. */
void p4d_megatron__state_libraries(p4d_rows *rows)
{
	const p4d_layout *l = rows->layout;
	const p4d_layer_counts layers = p4d_parameters_layers_of_stage(l, rows->stage);
	const state_widths w = widths_of(l);

	if (!l->te_wgrad || p4d_layers_with_mixer(&layers, P4D_MIX_MAMBA2) +
				    p4d_layers_with_mixer(&layers, P4D_MIX_DELTA_NET) ==
				0)
		return;
	p4d_row(rows, "dummy.state_up", "tp", P4D_PART_WEIGHT_GRAD, p4d_dtype_of(l), (uint64_t)w.all,
		l->hidden, 0);
	p4d_row(rows, "dummy.state_down", "tp", P4D_PART_WEIGHT_GRAD, p4d_dtype_of(l), l->hidden,
		(uint64_t)w.values, 0);
}
