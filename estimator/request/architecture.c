/* SPDX-License-Identifier: Apache-2.0 */
#include "request/architecture.h"

#include <stddef.h>
#include <string.h>

#include "request/layers.h"

const p4d_architecture p4d_architectures[P4D_ARCHITECTURES] = {
#define ARCHITECTURE(id, label, norm_, rotated_, bias_, ...) \
	[P4D_ARCHITECTURE_##id] = {.name = label, \
				   .norm_code = P4D_NORM_##norm_, \
				   .rotated = P4D_ROTATED_##rotated_, \
				   .bias = P4D_BIAS_##bias_, \
				   __VA_ARGS__},
#include "request/architectures.def"
#undef ARCHITECTURE
};

void p4d_architecture_defaults(p4d_request *r)
{
	const p4d_architecture *a = p4d_architecture_of(r);

	p4d_request_default(r, P4D_ARCHITECTURE, P4D_ARCHITECTURE_LLAMA, P4D_BY_MODEL);
	p4d_request_default(r, P4D_NORM, a->norm, P4D_BY_MODEL);
	p4d_request_default(r, P4D_ACTIVATION, a->activation, P4D_BY_MODEL);
	p4d_request_default(r, P4D_GLU, p4d_is_gated((int)r->value[P4D_ACTIVATION]), P4D_BY_MODEL);
	p4d_request_default(r, P4D_TIED, a->tied, P4D_BY_MODEL);
	p4d_request_default(r, P4D_POSITIONS, a->positions, P4D_BY_MODEL);
	p4d_request_default(r, P4D_BIAS, a->bias, P4D_BY_MODEL);
	p4d_request_default(r, P4D_QK_NORM, a->qk_norm, P4D_BY_MODEL);
}

const char *p4d_architecture_block_difference(const p4d_request *r)
{
	const p4d_architecture *a = p4d_architecture_of(r);

	const bool remembers =
	    p4d_layers_remember(r) && strspn(r->layer_pattern, "*K") == strlen(r->layer_pattern);

	if (p4d_is_set(r, P4D_LAYER_GROUPS))
		return "layers that share parameters";
	if ((p4d_is_set(r, P4D_LAYER_PATTERN) && !remembers) || a->single_blocks)
		return "state-space layers";
	if (a->kind != P4D_DECODER)
		return a->kind == P4D_ENCODER  ? "an encoder"
		       : a->kind == P4D_VISION ? "patches of images"
					       : "an encoder and a decoder";
	if (a->parallel)
		return "attention parallel to the feed-forward layer";
	if (a->place != P4D_NORMS_BEFORE)
		return a->place == P4D_NORMS_AFTER ? "norms after each block"
						   : "norms before and after each block";
	if (a->embedding_norm || a->head_bias || a->position_offset)
		return a->embedding_norm ? "a norm after the embedding"
		       : a->head_bias    ? "a bias of the output layer"
					 : "positions that begin at an offset";
	if (a->attention_cap > 0 || a->logit_cap > 0)
		return "capped scores or logits";
	if (a->multipliers)
		return "factors on embeddings, residuals or logits";
	if (p4d_architecture_turns_part(a) || a->unrotated_every)
		return p4d_architecture_turns_part(a) ? "RoPE on a part of each head"
						      : "layers without positions";
	switch (r->value[P4D_NORM]) {
	case P4D_LAYERNORM_SCALE:
		return "LayerNorm without shift";
	case P4D_LAYERNORM_PLAIN:
		return "LayerNorm without parameters";
	}
	if (r->value[P4D_POSITIONS] != P4D_ROPE && r->value[P4D_POSITIONS] != P4D_LEARNED)
		return "positions other than RoPE and learned positions";
	if (r->value[P4D_BIAS] > P4D_BIAS_ALL)
		return "biases of some linear layers only";
	if (r->value[P4D_QK_NORM] == P4D_QK_NORM_WIDE)
		return "query and key norms over all heads";
	return r->value[P4D_ACTIVATION] == P4D_RELU    ? "ReLU"
	       : r->value[P4D_ACTIVATION] == P4D_XIELU ? "xIELU"
						       : NULL;
}
