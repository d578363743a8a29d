/* SPDX-License-Identifier: Apache-2.0 */
#include "request/model_size.h"

#include "request/architecture.h"
#include "request/layers.h"

/*
 * Parameters of latent attention, which computes queries, keys and values through normalized vectors of lower
 * rank. The part of a key that RoPE rotates is shared by all heads. Matrices down to the lower rank are on
 * every rank; those up from it are split by heads.
 */
static p4d_wide of_latent_attention(const p4d_layout *l)
{
	const p4d_wide h = l->hidden, heads = l->heads / l->tp, head = l->head_dim + l->rope_dim;
	const p4d_wide queries = l->q_rank ? (h + 1 + heads * head) * l->q_rank : h * heads * head;

	return queries + h * (l->kv_rank + l->rope_dim) +
	       (p4d_wide)l->kv_rank * (1 + heads * (l->head_dim + l->v_dim)) + heads * l->v_dim * h;
}

static p4d_wide of_attention(const p4d_layout *l)
{
	if (l->kv_rank)
		return of_latent_attention(l);
	const p4d_wide h = l->hidden, A = (p4d_wide)l->heads * l->head_dim,
		       G = (p4d_wide)l->kv_heads * l->head_dim;
	const unsigned queries =
	    l->architecture->gated_attention
		? 3
		: 2; /* number of matrices of width A: queries, output and, with gates, the gates */
	p4d_wide n = p4d_div_up(queries * h * A + 2 * h * G, p4d_tp_ranks(l));

	if (l->biased & P4D_BIASED_QKV)
		n += p4d_div_up(A + 2 * G, l->tp);
	if (l->biased & P4D_BIASED_OUTPUT)
		n += p4d_rank_hidden(l);
	if (l->qk_norm == P4D_QK_NORM_HEAD)
		n += 2 * (p4d_wide)l->head_dim;
	else if (l->qk_norm == P4D_QK_NORM_WIDE)
		n += p4d_div_up(A + G, l->tp);
	if (l->architecture->attention_sinks)
		n += p4d_div_up(l->heads, l->tp);
	return n;
}

/*
 * Parameters of Mamba-2: one matmul for gates, values, B and C of each group, and the step of each head. A
 * convolution with bias over all except gates and steps; a decay, a skip and a step bias per head; the gated
 * norm.
 */
static p4d_wide of_mamba2(const p4d_layout *l)
{
	const p4d_wide h = l->hidden, inner = (p4d_wide)l->state.heads * l->state.head_dim,
		       groups = 2 * (p4d_wide)l->state.groups * l->state.size;

	return p4d_div_up(h * (2 * inner + groups + l->state.heads) + (inner + groups) * (l->state.conv + 1) +
			      3 * l->state.heads + inner + inner * h,
			  l->tp);
}

/*
 * Parameters of Mamba: gates and values; the convolution; step, B and C computed from the values, each with a
 * norm; the step's projection; a decay per state, a skip and a bias per channel.
 */
static p4d_wide of_mamba(const p4d_layout *l)
{
	const p4d_wide h = l->hidden, inner = (p4d_wide)l->state.heads * l->state.head_dim,
		       steps = l->state.rank + 2 * (p4d_wide)l->state.size;

	return p4d_div_up(3 * h * inner +
			      inner * (l->state.conv + 1 + steps + l->state.rank + l->state.size + 2),
			  l->tp) +
	       steps;
}

/*
 * Parameters of a gated delta net: projections to queries, keys, values and gates, and to a strength and a
 * step per head; the convolution of queries, keys and values; one decay and one step bias per head; the
 * projection of the output; the gated norm, which all heads share.
 */
static p4d_wide of_delta_net(const p4d_layout *l)
{
	const p4d_wide h = l->hidden, values = (p4d_wide)l->state.heads * l->state.head_dim,
		       keys = 2 * (p4d_wide)l->state.groups * l->state.size;

	return p4d_div_up(h * (keys + 2 * values + 2 * l->state.heads) + (keys + values) * l->state.conv +
			      2 * l->state.heads + values * h,
			  l->tp) +
	       l->state.head_dim;
}

/*
 * Parameters of a short convolution: one matmul for two gates and values, a convolution per column, and the
 * output's matmul.
 */
static p4d_wide of_convolution(const p4d_layout *l)
{
	const p4d_wide h = l->hidden;

	return p4d_div_up(h * (4 * h + l->state.conv), l->tp);
}

static p4d_wide nothing(const p4d_layout *l)
{
	(void)l;
	return 0;
}

static p4d_wide of_mlp(const p4d_layout *l)
{
	const p4d_wide h = l->hidden, f = l->ffn, up = l->glu ? 2 : 1;
	const p4d_wide matrices = p4d_div_up((up + 1) * h * f, p4d_tp_ranks(l));

	return matrices + (l->activation == P4D_XIELU ? 2 : 0) +
	       (l->biased & P4D_BIASED_MLP ? p4d_div_up(up * f, l->tp) + p4d_rank_hidden(l) : 0);
}

/*
 * Parameters of a memory layer: the query's matmul with bias, the keys of both halves, and two matmuls with
 * bias around the gate. p4d_size_of_values has the values.
 */
static p4d_wide of_memory(const p4d_layout *l)
{
	const p4d_wide h = l->hidden, queries = (p4d_wide)l->memory.heads * l->memory.key_dim;

	return (h + 1 + l->memory.keys) * queries + 2 * h * (h + 1);
}

p4d_wide p4d_size_of_values(const p4d_layout *l)
{
	return (p4d_wide)l->memory.keys * l->memory.keys * l->hidden;
}

p4d_wide p4d_size_of_layer(const p4d_layout *l)
{
	const p4d_architecture *a = l->architecture;

	return a->attentions * of_attention(l) + a->mlps * of_mlp(l) +
	       (p4d_wide)a->norms * l->norm_tensors * p4d_rank_hidden(l);
}

/* Parameters of the router and the shared experts. */
static p4d_wide beside_experts(const p4d_layout *l)
{
	const p4d_architecture *a = l->architecture;
	const p4d_wide h = l->hidden;

	return (h + a->expert_bias + a->router_correction) * l->experts +
	       p4d_div_up((l->glu ? 3 : 2) * h * l->shared_ffn, l->tp) +
	       (a->shared_gate && l->shared_ffn ? h : 0);
}

p4d_wide p4d_size_of_expert_layer(const p4d_layout *l)
{
	const p4d_architecture *a = l->architecture;

	return a->attentions * of_attention(l) + (p4d_wide)a->norms * l->norm_tensors * l->hidden +
	       beside_experts(l);
}

p4d_wide p4d_size_of_layers(const p4d_layout *l, uint64_t from, uint64_t n)
{
	static p4d_wide (*const mixer[P4D_MIXERS])(const p4d_layout *) = {
	    [P4D_MIX_ATTENTION] = of_attention,
	    [P4D_MIX_MAMBA2] = of_mamba2,
	    [P4D_MIX_MAMBA] = of_mamba,
	    [P4D_MIX_DELTA_NET] = of_delta_net,
	    [P4D_MIX_CONVOLUTION] = of_convolution,
	    [P4D_MIX_NONE] = nothing};
	static p4d_wide (*const feed[P4D_FEEDS])(const p4d_layout *) = {[P4D_FEED_DENSE] = of_mlp,
									[P4D_FEED_EXPERTS] = beside_experts,
									[P4D_FEED_MEMORY] = of_memory,
									[P4D_FEED_NONE] = nothing};
	const p4d_architecture *a = l->architecture;
	p4d_wide sum = 0;

	if (!l->pattern_length) {
		const uint64_t with =
		    p4d_expert_layers_before(l, from + n) - p4d_expert_layers_before(l, from);
		return (n - with) * p4d_size_of_layer(l) + (with ? with * p4d_size_of_expert_layer(l) : 0);
	}
	const p4d_layer_counts counts = p4d_layers_count(l, from, n);
	for (int m = 0; m < P4D_MIXERS; m++)
		for (int f = 0; f < P4D_FEEDS; f++)
			if (counts.of[m][f])
				sum += counts.of[m][f] * (mixer[m](l) + feed[f](l));
	return sum + n * (p4d_wide)a->norms * l->norm_tensors * l->hidden;
}

p4d_wide p4d_size_of_expert(const p4d_layout *l)
{
	const p4d_wide h = l->hidden, f = l->expert_ffn, up = l->glu ? 2 : 1;

	return p4d_div_up((up + 1) * h * f, l->etp) +
	       (l->architecture->expert_bias ? p4d_div_up(up * f, l->etp) + h : 0);
}

p4d_wide p4d_size_of_further(const p4d_layout *l)
{
	const p4d_wide h = l->hidden;

	return p4d_div_up(2 * h * h, l->tp) + 3 * h * l->norm_tensors +
	       (l->experts ? p4d_size_of_expert_layer(l) : p4d_size_of_layer(l));
}

p4d_wide p4d_size_of_table(const p4d_layout *l)
{
	return p4d_div_up((p4d_wide)l->vocab * p4d_rank_hidden(l), l->tp);
}

p4d_wide p4d_size_of_begin(const p4d_layout *l)
{
	const p4d_architecture *a = l->architecture;
	const p4d_wide h = p4d_rank_hidden(l), rows = (p4d_wide)l->positions + a->token_types;
	p4d_wide n = rows * h + (a->embedding_norm ? h * l->norm_tensors : 0);

	if (a->patch_elements) /* the matmul with bias that embeds patches, and the class token */
		n += a->patch_elements * h + 2 * h;
	return n + (p4d_wide)a->relative_buckets * l->heads * a->final_norms;
}

p4d_wide p4d_size_of_end(const p4d_layout *l)
{
	const p4d_architecture *a = l->architecture;
	const p4d_wide h = p4d_rank_hidden(l);
	p4d_wide n = a->final_norms * h * l->norm_tensors;

	if (a->head_transform) {
		const bool biased = l->biased & P4D_BIASED_OUTPUT;
		n += h * h + (biased ? h : 0) + h * l->norm_tensors;
	}
	return n + (a->head_bias ? p4d_div_up(l->vocab, l->tp) : 0);
}

/* Parameters of all layers, if layers with experts have this many. */
static p4d_wide layers(const p4d_layout *l, uint64_t experts)
{
	const uint64_t with = p4d_expert_layers_before(l, l->layers);

	return p4d_size_of_layers(l, 0, l->layers) +
	       (with ? with * (experts / l->ep) * p4d_size_of_expert(l) : 0);
}

/*
 * Parameters of ALBERT's layers (arXiv 1909.11942): all layers of a group share one layer's parameters. If
 * embeddings have fewer features than the hidden state, one matmul with bias expands them, and the head has a
 * matmul back.
 */
static p4d_wide of_groups(const p4d_layout *l)
{
	const p4d_wide h = l->hidden, e = l->embedding_size;
	const p4d_wide layers = l->layer_groups * p4d_size_of_layer(l);
	const bool transforms = l->architecture->head_transform, biased = l->architecture->head_bias;

	if (!e)
		return layers + p4d_size_of_begin(l) + p4d_size_of_end(l) + p4d_size_of_table(l);
	return layers + p4d_size_of_begin(l) / h * e + (e + 1) * h + l->vocab * e + (biased ? l->vocab : 0) +
	       (transforms ? (h + 1 + l->norm_tensors) * e : 0);
}

p4d_wide p4d_size_of_model(const p4d_layout *l)
{
	/* labels of images have no embedding */
	const unsigned tables = l->tied || l->architecture->kind == P4D_VISION ? 1 : 2;

	if (l->layer_groups)
		return of_groups(l);
	return layers(l, l->experts) + p4d_size_of_values(l) + p4d_size_of_begin(l) + p4d_size_of_end(l) +
	       tables * p4d_size_of_table(l);
}
