/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "request/request.h"

/*
 * Properties of a family of models. architectures.def is the table; --architecture names a row. Sizes
 * (hidden, ffn, heads ...) belong to the model, not to the row. In these comments, h is the hidden size.
 *
 * A row also has the defaults of the options norm, activation, positions, bias, qk-norm and tied. The model's
 * file or the user may override these six, so formulas read them from the layout, and everything else from
 * the row.
 */

typedef enum p4d_model_kind {
	P4D_DECODER,         /* a language model: predicts every next token */
	P4D_ENCODER,         /* BERT: predicts masked tokens, attends to both sides */
	P4D_ENCODER_DECODER, /* T5: a layer consists of an encoder layer and a decoder layer with
			      * cross-attention
			      */
	P4D_VISION,          /* ViT: patches of an image instead of tokens; the vocabulary is its labels */
} p4d_model_kind;

/* Where the norms of a layer's two blocks (attention, feed-forward) are. */
typedef enum p4d_norm_place {
	P4D_NORMS_BEFORE, /* on the input of each block, inside the residual branch */
	P4D_NORMS_AFTER,  /* on its output inside the branch (OLMo-2), or on the sum (BERT) */
	P4D_NORMS_AROUND, /* both (Gemma 2): four norms per layer */
} p4d_norm_place;

/* How a norm is computed. USUAL: like PyTorch's LayerNorm, or like Llama's RMSNorm, according to the option
 * norm. */
typedef enum p4d_norm_code {
	P4D_NORM_USUAL,
	P4D_NORM_LLAMA,
	P4D_NORM_LAYER,
	P4D_NORM_GEMMA,
	P4D_NORM_OLMO2,
	P4D_NORM_COHERE,
	P4D_NORM_NEMOTRON, /* in the type that autocast lowers to */
	P4D_NORM_OLMO
} p4d_norm_code;

/*
 * Part of each head that rotary positions rotate, in thousandths. The rest is copied unless PADDED is set
 * (Phi-3).
 */
typedef enum p4d_rotated {
	P4D_ROTATED_NOT = 0,
	P4D_ROTATED_QUARTER = 250,
	P4D_ROTATED_HALF = 500,
	P4D_ROTATED_PADDED = 999,
	P4D_ROTATED_WHOLE = 1000
} p4d_rotated;

/* How a layer chooses the experts of a token. USUAL: a softmax over all experts in fp32, or another method
 * that follows from the model. */
typedef enum p4d_router {
	P4D_ROUTER_USUAL,
	P4D_ROUTER_BEST, /* a softmax over only the chosen experts, in the type of the logits (gpt-oss) */
	P4D_ROUTER_BEST_FP32,    /* a softmax over only the chosen experts, in fp32 (Granite) */
	P4D_ROUTER_FP32,         /* like USUAL, and the router's matmul is also in fp32 (DeepSeek) */
	P4D_ROUTER_SPARSE_MIXER, /* one expert after the other, sampled (Phi-3.5-MoE) */
} p4d_router;

/*
 * Whether somebody compared the memory of a family's experts with that of the transformers library, and with
 * which sharding.
 */
typedef enum p4d_compared {
	P4D_COMPARED,
	P4D_COMPARED_BUT_ZERO3,
	P4D_COMPARED_NEVER,
} p4d_compared;

/* Module names of layers. LLAMA: q_proj, gate_proj ..., or names that p4d does not know. */
typedef enum p4d_module_names {
	P4D_MODULES_LLAMA,
	P4D_MODULES_GPT2, /* c_attn, c_fc; matrices are stored (in, out) */
	P4D_MODULES_PHI3, /* qkv_proj, gate_up_proj */
} p4d_module_names;

typedef struct p4d_architecture {
	const char *name;
	p4d_model_kind kind;

	/* the defaults of the options with these names: P4D_RMSNORM, P4D_SWIGLU_ACTIVATION, P4D_ROPE ... */
	int norm, activation, positions, bias, qk_norm;
	bool tied;

	/* a layer */
	p4d_norm_place place;
	unsigned norms;      /* number of norms of width h; parallel blocks that share their input's norm
			      * have one */
	unsigned attentions; /* number of attention blocks; more than one if a layer belongs to several
			      * stacks */
	unsigned mlps;
	bool parallel;      /* attention and feed-forward read the same input, and their outputs are summed */
	bool fused_qkv;     /* query, key and value are one matrix, whose product is one tensor */
	bool fused_gate_up; /* gate and up are one matrix */

	/* attention */
	p4d_rotated rotated;
	unsigned unrotated_every;      /* every Nth layer has no rotary positions; 0: all layers have them */
	bool unrotated_full;           /* with --sliding-window, layers without a window have no positions */
	bool plain_windows;            /* layers with a sliding window ignore --rope-scaling */
	float window_theta;            /* rope base (theta) of layers with a window; 0: that of the model */
	unsigned full_attention_every; /* with --sliding-window, every Nth layer attends to all tokens; 0:
					* none does */
	bool mxfp4;                    /* its files have experts in MXFP4 (stored=fp4), not in NVFP4 */
	bool single_blocks;   /* a layer is one block with a norm: attention, a mixer with a state, or the
				 feed-forward part */
	bool gated_attention; /* the output of attention is multiplied with a gate per column */
	bool shared_gate;     /* the output of shared experts is multiplied with a gate per token */
	bool attention_sinks; /* each head has a learned number that takes part in the softmax */
	bool expert_bias;     /* experts' matmuls and the router have a bias */
	p4d_router router;
	bool router_in_fp32;    /* its weight is stored in fp32 */
	bool router_correction; /* a parameter of each expert that shifts its score and gets no gradient */
	bool experts_unadapted; /* PEFT has no names for the experts' matmuls, so it adapts none of them */
	bool shared_first;      /* shared experts are computed before the routed ones */
	bool norms_rotated;     /* queries and keys are normalized after the rotation */
	/* scores become cap * tanh(score / cap). PyTorch's flash kernels cannot do that, so attention is
	 * eager. The value is the cap of released models; 0: none */
	float attention_cap;
	unsigned relative_buckets; /* rows of the table of relative positions of each stack; a row has one
				    * element per head */

	/* before and after the layers */
	bool embedding_norm;      /* a norm on the embedding's output */
	unsigned final_norms;     /* a norm after the last layer, in all stacks */
	bool head_bias;           /* a bias of one number per token of the vocabulary */
	bool head_transform;      /* h x h with bias, activation and norm before the head (BERT) */
	float logit_cap;          /* logits become cap * tanh(logit / cap), in a second tensor of their
				   * size */
	bool scaled_embedding;    /* multiplies the embedding by the square root of h; counts as one of
				   * the multipliers */
	bool unit_norms;          /* norms multiply with 1 + weight */
	unsigned token_types;     /* rows of another table that is added to the embedding */
	unsigned position_offset; /* rows of the learned position table beyond max-seq-len */
	unsigned patch_elements;  /* elements of an image patch. A matmul with a bias embeds patches, and
				   * there is a class token */
	const char *
	    multipliers; /* factors on embeddings, residuals, scores or logits, without memory of their own */

	/* how the modeling code of the transformers library computes this */
	p4d_norm_code norm_code;
	bool gelu_in_python; /* gelu_new, computed term by term */
	bool joins_gate_up;  /* gate and up are one matmul, even if adapters treat them separately */
	bool own_linear;     /* matmuls are the model's own code and do not call torch's linear function */
	bool splits_at_once; /* a single split operation separates query, key and value of the fused matmul */
	bool rotates_in_fp32;
	bool restores_rotated; /* rotated values are cast back to their former type */
	bool scales_query, scales_residual, scales_logits;
	bool logits_in_fp32;
	/* before this minor release of transformers 4.x, the class computed its own loss, without a cast; 0:
	 * never */
	unsigned char own_loss_before;
	bool always_masked;    /* makes a mask even if nothing is masked */
	bool always_drops;     /* calls dropout even at 0 */
	bool drops_scores;     /* eager attention calls the dropout of scores even at 0 */
	bool broadcasts_keys;  /* keys are broadcast to all heads without a copy, also with a mask */
	bool scores_in_fp32;   /* eager attention: queries and keys are cast before their matmul */
	bool keeps_raw_scores; /* a variable refers to the raw scores until the result exists; the scale
				* is applied in place */
	bool softmax_as_is;    /* the softmax runs in the type of the scores */
	bool adds_alibi;       /* ALiBi is added to the scores in a separate tensor */

	/* other programs */
	p4d_module_names modules;
	const char *megatron_pattern; /* letters of --layer-pattern that Megatron-LM supports for this
				       * family; NULL: none */

	p4d_compared
	    experts_compared; /* unless it is P4D_COMPARED, p4d refuses no job because of experts alone */
	bool unvalidated; /* nobody compared the memory of such a model with a real one; p4d refuses no job
			     because of it */
} p4d_architecture;

/* Whether rotary positions rotate only a part of each head. */
static inline bool p4d_architecture_turns_part(const p4d_architecture *a)
{
	return a->rotated != P4D_ROTATED_NOT && a->rotated < P4D_ROTATED_PADDED;
}

/* Indexed by the value of --architecture; P4D_ARCHITECTURES rows. The first is Llama's. */
extern const p4d_architecture p4d_architectures[];

/* The architecture of a request; the first one if it is unset. */
static inline const p4d_architecture *p4d_architecture_of(const p4d_request *request)
{
	return &p4d_architectures[request->value[P4D_ARCHITECTURE]];
}

/* Sets the six options above if they are unset; origin P4D_BY_MODEL. */
void p4d_architecture_defaults(p4d_request *request);

/*
 * The first difference to the decoder that p4d-train and Megatron-LM build, in which each block has a norm
 * before it: "norms before and after each block"; NULL: no difference. Experts and latent attention count as
 * no difference.
 */
const char *p4d_architecture_block_difference(const p4d_request *request);

/* Number of tensors of a norm: scale and shift, scale, or none. */
static inline unsigned p4d_norm_tensors(int norm)
{
	return norm == P4D_LAYERNORM ? 2 : norm == P4D_LAYERNORM_PLAIN ? 0 : 1;
}

/* Linear layers with a bias, as a mask. */
enum { P4D_BIASED_QKV = 1, P4D_BIASED_OUTPUT = 2, P4D_BIASED_MLP = 4 };
static inline unsigned p4d_biased(int bias)
{
	static const unsigned char mask[] = {[P4D_BIAS_NONE] = 0,
					     [P4D_BIAS_QKV] = P4D_BIASED_QKV,
					     [P4D_BIAS_ALL] =
						 P4D_BIASED_QKV | P4D_BIASED_OUTPUT | P4D_BIASED_MLP,
					     [P4D_BIAS_ATTENTION] = P4D_BIASED_QKV | P4D_BIASED_OUTPUT,
					     [P4D_BIAS_MLP] = P4D_BIASED_MLP};
	return mask[bias];
}

static inline bool p4d_is_gated(int activation)
{
	return activation == P4D_SWIGLU_ACTIVATION || activation == P4D_GEGLU;
}
