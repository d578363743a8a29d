/* SPDX-License-Identifier: Apache-2.0 */
/* The number of parameters in transformers' modules and PEFT's adapters, and their bytes. */
#include "framework/torch.h"
#include "framework/transformers.h"
#include "plan/optimizer.h"
#include "request/model_size.h"
#include "request/routing.h"

bool p4d_transformers__countable(const p4d_layout *l)
{
	const p4d_wide tokens = (p4d_wide)l->micro_batch * (l->seq_len + 1);
	const bool eager = !l->flash_attention || l->architecture->attention_cap > 0;
	const p4d_wide heads = (p4d_wide)l->heads * (l->head_dim + l->rope_dim + l->v_dim) +
			       2 * (p4d_wide)l->kv_heads * l->head_dim;
	p4d_wide columns = (p4d_wide)l->vocab + l->hidden + l->ffn + l->shared_ffn + heads + l->lora.rank;

	if (eager || l->micro_batch > 1) /* attention scores or the attention mask */
		columns += (eager ? l->heads : 1) * (p4d_wide)l->seq_len;
	if (l->state.heads) /* values, and the states of a layer: at most one for each token */
		columns += l->state.heads * (p4d_wide)l->state.head_dim * (1 + (p4d_wide)l->state.size) +
			   2 * (p4d_wide)l->state.groups * l->state.size;
	p4d_wide all = tokens * columns;
	if (l->experts)
		all += tokens * l->experts + p4d_routed_of(l, l->micro_batch * l->seq_len).gathered *
						 (l->hidden + 2 * (p4d_wide)l->expert_ffn);
	return !(p4d_size_of_model(l) >> 46) && !(all * l->layers >> 52);
}

/* Lists the linear layers of a state-space mixer. */
static size_t states_linears(const p4d_layout *l, p4d_mixer mixer, p4d_transformers_linear *linears)
{
	enum { STATE = P4D_TRANSFORMERS_STATE };
	const uint64_t h = l->hidden, inner = l->state.heads * l->state.head_dim;
	const uint64_t mixed = inner + 2 * l->state.groups * l->state.size, steps = l->state.rank;
	size_t n = 0;

	switch (mixer) {
	case P4D_MIX_MAMBA2:
		linears[n++] = (p4d_transformers_linear){STATE, h, mixed + inner + l->state.heads};
		break;
	case P4D_MIX_MAMBA:
		linears[n++] = (p4d_transformers_linear){STATE, h, 2 * inner};
		linears[n++] = (p4d_transformers_linear){STATE, inner, steps + 2 * l->state.size};
		linears[n++] = (p4d_transformers_linear){STATE, steps, inner};
		break;
	case P4D_MIX_DELTA_NET:
		linears[n++] = (p4d_transformers_linear){STATE, h, mixed + inner};
		linears[n++] = (p4d_transformers_linear){STATE, h, 2 * l->state.heads};
		break;
	case P4D_MIX_CONVOLUTION:
		linears[n++] = (p4d_transformers_linear){STATE, h, 3 * h};
		linears[n++] = (p4d_transformers_linear){STATE, h, h};
		return n;
	default:
		return 0;
	}
	linears[n++] = (p4d_transformers_linear){STATE, inner, h};
	return n;
}

size_t p4d_transformers__linears(const p4d_layout *l, unsigned kind,
				 p4d_transformers_linear linears[P4D_TRANSFORMERS_LINEARS])
{
	const uint64_t A = l->heads * l->head_dim, G = l->kv_heads * l->head_dim, h = l->hidden;
	const p4d_layer_kind parts = p4d_transformers__parts(kind);
	const bool attends = parts.mixer == P4D_MIX_ATTENTION;
	const uint64_t f = parts.feed == P4D_FEED_EXPERTS ? l->shared_ffn
			   : parts.feed == P4D_FEED_DENSE ? l->ffn
							  : 0,
		       latent = l->kv_rank, queries = l->q_rank;
	const uint64_t wide = l->heads * (l->head_dim + l->rope_dim);
	const bool qkv = l->architecture->fused_qkv && !latent, gate_up = p4d_transformers__joins_gate_up(l);
	const p4d_transformers_linear all[] = {
	    {P4D_TARGET_Q, attends ? h : 0,
	     latent                             ? queries
	     : qkv                              ? A + 2 * G
	     : l->architecture->gated_attention ? 2 * A
						: A},
	    {P4D_TARGET_Q, latent ? (queries ? queries : h) : 0, wide},
	    {P4D_TARGET_K, qkv || !attends ? 0 : h, latent ? latent + l->rope_dim : G},
	    {P4D_TARGET_V,
	     qkv || !attends ? 0
	     : latent        ? latent
			     : h,
	     latent ? l->heads * (l->head_dim + l->v_dim) : G},
	    {P4D_TARGET_O,
	     !attends ? 0
	     : latent ? l->heads * l->v_dim
		      : A,
	     h},
	    {P4D_TARGET_GATE, l->glu && !gate_up ? h : 0, f},
	    {P4D_TARGET_UP, h, gate_up ? 2 * f : f},
	    {P4D_TARGET_DOWN, f, h}};
	size_t n = states_linears(l, parts.mixer, linears);

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i].in && all[i].out)
			linears[n++] = all[i];
	return n;
}

/* Sums over linear layers: their elements, those of their adapters, and their outputs. */
typedef struct linear_sums {
	uint64_t elements, adapters, outputs;
} linear_sums;

static linear_sums sums_of(const p4d_layout *l, unsigned kind)
{
	p4d_transformers_linear linears[P4D_TRANSFORMERS_LINEARS];
	const size_t n = p4d_transformers__linears(l, kind, linears);
	linear_sums s = {.adapters =
			     p4d_transformers__has_experts(kind) ? p4d_transformers__expert_adapters(l) : 0};

	for (size_t i = 0; i < n; i++) {
		s.elements += linears[i].in * linears[i].out;
		s.outputs += linears[i].out;
		if (l->finetune == P4D_TUNE_ALPHA)
			s.adapters += linears[i].out; /* trained scales of binary codes (AlphaTuning) */
		else if (p4d_transformers__adapts(l, linears[i].target))
			s.adapters += l->lora.rank * (linears[i].in + linears[i].out);
	}
	return s;
}

uint64_t p4d_transformers__layer_adapters(const p4d_layout *l, unsigned kind)
{
	return sums_of(l, kind).adapters;
}

/* Sums over the linear layers of the whole model. */
static linear_sums sums_of_model(const p4d_layout *l)
{
	const p4d_transformers_kinds kinds = p4d_transformers__kinds(l);
	linear_sums sum = {0};

	for (unsigned kind = 0; kind < P4D_TRANSFORMERS_KINDS; kind++) {
		if (!kinds.layers[kind])
			continue;
		const linear_sums s = sums_of(l, kind);
		sum.elements += kinds.layers[kind] * s.elements;
		sum.adapters += kinds.layers[kind] * s.adapters;
		sum.outputs += kinds.layers[kind] * s.outputs;
	}
	return sum;
}

uint64_t p4d_transformers__adapters(const p4d_layout *l)
{
	return sums_of_model(l).adapters;
}

p4d_transformers_kinds p4d_transformers__kinds(const p4d_layout *l)
{
	const p4d_layer_counts counts = p4d_layers_count(l, 0, l->layers);
	p4d_transformers_kinds kinds;

	for (unsigned kind = 0; kind < P4D_TRANSFORMERS_KINDS; kind++)
		kinds.layers[kind] = counts.of[kind / P4D_FEEDS][kind % P4D_FEEDS];
	return kinds;
}

p4d_wide p4d_transformers__layer_size(const p4d_layout *l, unsigned kind, uint64_t shards)
{
	const bool sparse = p4d_transformers__has_experts(kind);
	const p4d_wide experts = sparse ? p4d_div_up(l->experts, shards) * shards * p4d_size_of_expert(l) : 0;
	uint64_t layer = 0;

	if (!l->pattern_length)
		return sparse ? p4d_size_of_expert_layer(l) + experts : p4d_size_of_layer(l);
	while (layer + 1 < l->layers && p4d_transformers__kind_of(l, layer) != kind)
		layer++;
	return p4d_size_of_layers(l, layer, 1) + experts;
}

uint64_t p4d_transformers__experts_up(const p4d_layout *l)
{
	return l->experts * l->expert_ffn * l->hidden * (l->glu ? 2 : 1);
}

bool p4d_transformers__zero_keeps_all(const p4d_layout *l, uint64_t all)
{
	return l->zero_stage == 3 && all - (l->tied ? 0 : l->vocab * l->hidden) < P4D_ZERO_LIVE;
}

bool p4d_transformers__gathers_experts(const p4d_layout *l)
{
	return p4d_framework_shares(l, P4D_SHARES_BY_STAGE) && l->zero_stage == 3 &&
	       l->architecture->expert_bias &&
	       p4d_size_of_model(l) - (l->tied ? 0 : l->vocab * l->hidden) >= P4D_ZERO_LIVE;
}

uint64_t p4d_transformers__parameter_bytes(const p4d_layout *l, unsigned element)
{
	const bool lit = l->torch.model_code == P4D_MODEL_CODE_LITGPT;
	const uint64_t all = (uint64_t)p4d_size_of_model(l);
	/* before release 5 of transformers, each expert has linear layers, which are also quantized */
	const uint64_t experts = l->torch.transformers && l->torch.transformers < 5 * P4D_RELEASE_UNIT
				     ? p4d_expert_layers_before(l, l->layers) * l->experts
				     : 0;
	/* number of quantized elements; tensors of experts are no linear layers */
	const uint64_t linears = sums_of_model(l).elements + experts * (uint64_t)p4d_size_of_expert(l);
	const uint64_t adapters = p4d_transformers__adapters(l) * (l->lora.fp32 ? 4 : 2);

	if (l->quant == P4D_QUANT_NONE)
		return all * element + adapters;
	/* a bit of each code for each weight, and a scale of each code for each output, the first one trained
	 */
	if (l->finetune == P4D_TUNE_ALPHA) {
		const uint64_t codes = (uint64_t)l->quant - P4D_QUANT_BCQ2 + 2;
		return linears * codes / 8 + (codes - 1) * sums_of_model(l).outputs * 4 +
		       (all - linears) * element + adapters;
	}
	/*
	 * a byte of scale per 64 weights, and fp32 numbers per 256 of these scales; also tables of constants
	 */
	const uint64_t bits = l->quant == P4D_QUANT_NF4 ? 4 : 8, each = l->glu ? 7 : 6;
	const uint64_t tables = (l->layers * each + experts * (l->glu ? 3 : 2)) * 3072;
	const uint64_t scales = l->quant != P4D_QUANT_NF4 ? 0
				: lit
				    ? linears / 64 * 4 /* LitGPT: the scales are in fp32, and not quantized */
				    : linears / 64 + linears / 64 / 256 * 4 + tables;
	return linears * bits / 8 + scales + (all - linears) * element + adapters;
}

uint64_t p4d_transformers__moment_bytes(const p4d_layout *l, uint64_t parameters, unsigned element)
{
	const p4d_optimizer *o = p4d_optimizer_of(l);
	const uint64_t count = o->states - 1;

	if (o->paged)
		return 0;
	if (o->bits)
		return count * (uint64_t)p4d_torch_quantized_moment(o, parameters);
	if (o->factored)
		return l->finetune != P4D_TUNE_FULL
			   ? parameters / (l->lora.rank ? l->lora.rank : 1) * 4
			   : 4 * (l->layers * (l->heads * l->head_dim * 2 + 4 * l->hidden + 4 * l->ffn +
					       (uint64_t)l->kv_heads * l->head_dim * 2) +
				  p4d_expert_layers_before(l, l->layers) * l->experts *
				      (2 * l->hidden + 3 * l->expert_ffn) +
				  (l->tied ? 1 : 2) * (l->vocab + l->hidden));
	return count * parameters * element;
}

uint64_t p4d_transformers__update_bytes(const p4d_layout *l, uint64_t trained, unsigned element)
{
	const uint64_t table = l->vocab * l->hidden, experts = p4d_transformers__experts_up(l);
	const uint64_t matrix = l->hidden * l->ffn > experts ? l->hidden * l->ffn : experts;
	const uint64_t largest = l->finetune != P4D_TUNE_FULL
				     ? l->lora.rank * (l->ffn > l->hidden ? l->ffn : l->hidden)
				 : table > matrix ? table
						  : matrix;

	if (l->torch.optimizer_foreach)
		return trained * element;
	return p4d_optimizer_of(l)->factored ? largest * (element < 4 ? 16 : 8) : 0;
}
