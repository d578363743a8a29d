/* SPDX-License-Identifier: Apache-2.0 */
#include "request/model_size.h"

#include "request/architecture.h"

/*
 * Latent attention: queries, keys and values by way of vectors of lower rank, which are normalized; what RoPE
 * turns of a key is common to all heads. Products down are on every rank, those up are split by heads.
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
	p4d_wide n = p4d_div_up(2 * h * A + 2 * h * G, l->tp);

	if (l->biased & P4D_BIASED_QKV)
		n += p4d_div_up(A + 2 * G, l->tp);
	if (l->biased & P4D_BIASED_OUTPUT)
		n += h;
	if (l->qk_norm == P4D_QK_NORM_HEAD)
		n += 2 * (p4d_wide)l->head_dim;
	else if (l->qk_norm == P4D_QK_NORM_WIDE)
		n += A + G;
	if (l->architecture->attention_sinks)
		n += p4d_div_up(l->heads, l->tp);
	return n;
}

static p4d_wide of_mlp(const p4d_layout *l)
{
	const p4d_wide h = l->hidden, f = l->ffn, up = l->glu ? 2 : 1;
	const p4d_wide matrices = p4d_div_up((up + 1) * h * f, l->tp);

	return matrices + (l->biased & P4D_BIASED_MLP ? p4d_div_up(up * f, l->tp) + h : 0);
}

p4d_wide p4d_size_of_layer(const p4d_layout *l)
{
	const p4d_architecture *a = l->architecture;

	return a->attentions * of_attention(l) + a->mlps * of_mlp(l) +
	       (p4d_wide)a->norms * l->norm_tensors * l->hidden;
}

p4d_wide p4d_size_of_expert_layer(const p4d_layout *l)
{
	const p4d_architecture *a = l->architecture;
	const p4d_wide h = l->hidden;
	/* the router, and the shared experts */
	const p4d_wide others =
	    (h + a->expert_bias) * l->experts + p4d_div_up((l->glu ? 3 : 2) * h * l->shared_ffn, l->tp);

	return a->attentions * of_attention(l) + (p4d_wide)a->norms * l->norm_tensors * h + others;
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
	return p4d_div_up((p4d_wide)l->vocab * l->hidden, l->tp);
}

p4d_wide p4d_size_of_begin(const p4d_layout *l)
{
	const p4d_architecture *a = l->architecture;
	const p4d_wide h = l->hidden, rows = (p4d_wide)l->positions + a->token_types;
	p4d_wide n = rows * h + (a->embedding_norm ? h * l->norm_tensors : 0);

	if (a->patch_elements) /* their product with its bias, the class token */
		n += a->patch_elements * h + 2 * h;
	return n + (p4d_wide)a->relative_buckets * l->heads * a->final_norms;
}

p4d_wide p4d_size_of_end(const p4d_layout *l)
{
	const p4d_architecture *a = l->architecture;
	const p4d_wide h = l->hidden;
	p4d_wide n = a->final_norms * h * l->norm_tensors;

	if (a->head_transform) {
		const bool biased = l->biased & P4D_BIASED_OUTPUT;
		n += h * h + (biased ? h : 0) + h * l->norm_tensors;
	}
	return n + (a->head_bias ? p4d_div_up(l->vocab, l->tp) : 0);
}

/* All layers, with so many experts each. */
static p4d_wide layers(const p4d_layout *l, uint64_t experts)
{
	const uint64_t with = p4d_expert_layers_before(l, l->layers);

	return (l->layers - with) * p4d_size_of_layer(l) +
	       with * (p4d_size_of_expert_layer(l) + experts / l->ep * p4d_size_of_expert(l));
}

p4d_wide p4d_size_of_model(const p4d_layout *l)
{
	/* labels have no embedding */
	const unsigned tables = l->tied || l->architecture->kind == P4D_VISION ? 1 : 2;

	return layers(l, l->experts) + p4d_size_of_begin(l) + p4d_size_of_end(l) +
	       tables * p4d_size_of_table(l);
}

p4d_wide p4d_size_of_active(const p4d_layout *l)
{
	return p4d_size_of_model(l) - layers(l, l->experts) + layers(l, l->experts_per_token);
}
