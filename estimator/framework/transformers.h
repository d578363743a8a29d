/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "framework/transformers_zero.h"
#include "plan/plan_rows.h"
#include "request/architecture.h"
#include "request/framework.h"
#include "request/layers.h"
#include "request/model_size.h"
#include "tape/op.h"

/*
 * Modules of the transformers library (5.23) as tapes: the operations of their forward functions, for one
 * rank and one micro-batch. The sources are the library's modeling files, and the layers of PEFT and
 * bitsandbytes.
 */

/* A library whose models have tapes of this kind. */
typedef struct p4d_transformers_tapes {
	void (*layer)(p4d_tape_writer *w, bool needs);
	void (*end)(p4d_tape_writer *w);
	bool unties; /* the library holds two tables even if the model is tied */
} p4d_transformers_tapes;

extern const p4d_transformers_tapes p4d_transformers__tapes, p4d_litgpt__tapes;

/* A writer with the sizes of a layout, from which all tapes of the layout start. */
p4d_tape_writer p4d_transformers__writer(const p4d_layout *layout, p4d_tape *tape);

/* The tapes of one layer, and of the end of the model: final norm, head and loss. */
static inline void p4d_transformers__layer(p4d_tape_writer *w, bool needs)
{
	w->code->layer(w, needs);
}

static inline void p4d_transformers__end(p4d_tape_writer *w)
{
	w->code->end(w);
}

/* transformers_modules.c: parts that layers and the end of the model share. */
p4d_tape_tensor p4d_transformers__norm(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t columns);
/* A norm whose code differs from the model's other norms, as in mixers. */
p4d_tape_tensor p4d_transformers__norm_by(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t columns,
					  p4d_norm_code code);
/* target: the P4D_TARGET_* of the layer, which may have an adapter; 0: it never has one. */
p4d_tape_tensor p4d_transformers__linear(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t in, uint64_t out,
					 unsigned target);
/* Dropout of models that call it even at 0 (GPT-2, OPT, encoders). For other models it returns x. */
p4d_tape_tensor p4d_transformers__dropped(p4d_tape_writer *w, p4d_tape_tensor x);
/* Attention by eager_attention_forward. */
p4d_tape_tensor p4d_transformers__eager(p4d_tape_writer *w, p4d_tape_tensor q, p4d_tape_tensor k,
					p4d_tape_tensor v);
/* The activation of the layout, applied to the gate if there is one. */
p4d_tape_tensor p4d_transformers__activated(p4d_tape_writer *w, p4d_tape_tensor x);
p4d_tape_tensor p4d_transformers__mlp(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t ffn);
/* Attention by scaled_dot_product_attention: the flash kernel, or the memory-efficient kernel, which
 * accepts a mask and values of another width. */
p4d_tape_tensor p4d_transformers__fused(p4d_tape_writer *w, p4d_tape_tensor q, p4d_tape_tensor k,
					p4d_tape_tensor v);
/* Whether a linear layer has an adapter. */
bool p4d_transformers__adapts(const p4d_layout *layout, unsigned target);

/* transformers_experts.c: experts in place of a layer's feed-forward part. */
p4d_tape_tensor p4d_transformers__experts(p4d_tape_writer *w, p4d_tape_tensor x);
/* transformers_experts.c: latent attention. */
p4d_tape_tensor p4d_transformers__latent_attention(p4d_tape_writer *w, p4d_tape_tensor x);
/* Parameters of all adapters in a layer with experts. */
uint64_t p4d_transformers__expert_adapters(const p4d_layout *layout);

/* transformers_states.c: a state-space mixer in place of attention. */
p4d_tape_tensor p4d_transformers__state(p4d_tape_writer *w, p4d_tape_tensor x, p4d_mixer mixer);

/* Bytes that a rank holds at one moment. */
typedef struct p4d_transformers_moment {
	int64_t live, gradients; /* activations and working memory; gradients of parameters */
} p4d_transformers_moment;

/* The state of a simulated step, and the peak of each of its parts. */
typedef struct p4d_transformers_step {
	p4d_tape_writer writer;
	bool again;          /* layers are recomputed */
	bool reduced;        /* gradients of a pass are added to others or reduced as soon as they exist */
	int64_t saved;       /* bytes that layers hold when the loss begins */
	int64_t away;        /* part of `saved` that is in host memory (--offload activations) */
	int64_t head_leaves; /* ZeRO-3: bytes of the gathered head that are freed after its backward pass */
	p4d_zero zero;
	p4d_transformers_moment now, forward, loss, head, backward;
} p4d_transformers_step;

void p4d_transformers__look(p4d_transformers_step *s, p4d_transformers_moment *most, p4d_tape_moment m);
/*
 * transformers_zero.c: called when the gradients of a part of the model exist. All calls in one step take
 * time linear in the number of layers.
 */
void p4d_transformers__reduce(p4d_transformers_step *s, p4d_zero_part part);
/* Raises *most to the peak of a pass, and advances s->now to the end of the pass. */
void p4d_transformers__go(p4d_transformers_step *s, p4d_transformers_moment *most, p4d_tape_pass pass);

/*
 * --offload activations: the activations of a layer are copied to the host during the forward pass of the
 * next layer, and copied back before the layer's backward pass.
 */
static inline void p4d_transformers__send_away(p4d_transformers_step *s, p4d_tape_pass layer)
{
	if (!(s->writer.layout->offload & P4D_OFFLOAD_ACTIVATIONS))
		return;
	s->now.live -= layer.end.live;
	s->away += layer.end.live;
}

static inline void p4d_transformers__bring_back(p4d_transformers_step *s, p4d_tape_pass layer)
{
	if (s->writer.layout->offload & P4D_OFFLOAD_ACTIVATIONS)
		s->now.live += layer.end.live;
}

/* Kinds of layers: the mixer of tokens, and whether the feed-forward part has experts. */
enum { P4D_TRANSFORMERS_KINDS = P4D_MIXERS * P4D_FEEDS };

static inline unsigned p4d_transformers__kind(p4d_layer_kind kind)
{
	return (unsigned)kind.mixer * P4D_FEEDS + (unsigned)kind.feed;
}

static inline unsigned p4d_transformers__kind_of(const p4d_layout *l, uint64_t layer)
{
	return p4d_transformers__kind(p4d_layer_at(l, layer));
}

static inline p4d_layer_kind p4d_transformers__parts(unsigned kind)
{
	return (p4d_layer_kind){(p4d_mixer)(kind / P4D_FEEDS), (p4d_feed)(kind % P4D_FEEDS)};
}

static inline bool p4d_transformers__has_experts(unsigned kind)
{
	return kind % P4D_FEEDS == P4D_FEED_EXPERTS;
}

/* Number of layers of each kind. */
typedef struct p4d_transformers_kinds {
	uint64_t layers[P4D_TRANSFORMERS_KINDS];
} p4d_transformers_kinds;
p4d_transformers_kinds p4d_transformers__kinds(const p4d_layout *l);

/* Simulates the passes of a layer on its tape. */
typedef struct p4d_transformers_passes {
	p4d_tape_pass forward, again, back;
} p4d_transformers_passes;
p4d_transformers_passes p4d_transformers__passes_of(p4d_transformers_step *s, unsigned kind);

/* Bytes of one token's inputs: its id, position, label, and shifted labels. */
enum { P4D_TRANSFORMERS_IDS = 8 * 5 };
uint64_t p4d_transformers__inputs(const p4d_tape_writer *w);

/* transformers_sizes.c: whether the sum of saved activations and the sum of parameters with their states
 * are below 2^62. Code that runs after this check counts in int64_t. */
bool p4d_transformers__countable(const p4d_layout *l);

/* P4D_TRANSFORMERS_STATE: the target bit of a state-space mixer, next to P4D_TARGET_*; part of all-linear. */
enum { P4D_TRANSFORMERS_LINEARS = 12, P4D_TRANSFORMERS_STATE = 128 };
typedef struct p4d_transformers_linear {
	unsigned target; /* P4D_TARGET_*, or P4D_TRANSFORMERS_STATE */
	uint64_t in, out;
} p4d_transformers_linear;
/*
 * Lists the linear layers of a layer of this kind, in the order of the forward pass, and returns their
 * number. Of the experts, it lists only shared ones.
 */
size_t p4d_transformers__linears(const p4d_layout *l, unsigned kind,
				 p4d_transformers_linear linears[P4D_TRANSFORMERS_LINEARS]);
/* Number of parameters of a layer of this kind, without adapters. Expert parameters are sharded by whole
 * experts, whose number is padded to a multiple of shards. */
p4d_wide p4d_transformers__layer_size(const p4d_layout *l, unsigned kind, uint64_t shards);
/* Number of parameters of the adapters of a layer of this kind. */
uint64_t p4d_transformers__layer_adapters(const p4d_layout *l, unsigned kind);
/* Number of parameters of all adapters of the model. */
uint64_t p4d_transformers__adapters(const p4d_layout *l);
/* Number of parameters of the experts' first matmul. */
uint64_t p4d_transformers__experts_up(const p4d_layout *l);
/* Bytes of all parameters and adapters; a parameter that is not quantized has `element` bytes. */
uint64_t p4d_transformers__parameter_bytes(const p4d_layout *l, unsigned element);
/* Sizes of a model for transformers_host.c. */
typedef struct p4d_transformers_host {
	uint64_t parameters, trained, parameter_bytes; /* without sharding */
	uint64_t largest;                              /* elements of the largest gradient */
	uint64_t shards;
	unsigned element, stored; /* bytes of an element: of a gradient (ZeRO) or of a shard (`element`), and
				     of a parameter (`stored`) */
} p4d_transformers_host;
p4d_host_beside p4d_transformers__host(const p4d_layout *layout, const p4d_transformers_host *host);

/* Bytes of the moments of this many parameters. A factored moment of a matrix has one row and one column. */
uint64_t p4d_transformers__moment_bytes(const p4d_layout *l, uint64_t parameters, unsigned element);
/* Bytes that an update of `trained` parameters needs in addition to states and gradients: with Adafactor
 * its tensors for the largest parameter, otherwise one moment of all parameters. */
uint64_t p4d_transformers__update_bytes(const p4d_layout *l, uint64_t trained, unsigned element);

/* DeepSpeed's stage3_max_live_parameters */
enum { P4D_ZERO_LIVE = 1000000000 };
/*
 * Whether ZeRO-3 keeps all parameters gathered until their backward passes, because the model has fewer
 * parameters than P4D_ZERO_LIVE, not counting an untied head. all: parameters of the model, including
 * adapters.
 */
bool p4d_transformers__zero_keeps_all(const p4d_layout *l, uint64_t all);
/*
 * Whether ZeRO-3 gathers a layer's experts for each use, and autograd keeps none of the gathered experts.
 * This is so for gpt-oss, whose matmuls take the parameters themselves, if the model has at least
 * P4D_ZERO_LIVE parameters, not counting an untied head.
 */
bool p4d_transformers__gathers_experts(const p4d_layout *l);

/* transformers_fsdp.c: a step with FSDP2 as accelerate sets it up, without the bytes of the sharded
 * parameters. */
void p4d_transformers__play_fsdp(p4d_transformers_step *s, uint64_t shards);

/*
 * transformers_flat.c: like p4d_transformers__play_fsdp, with FSDP1. trained, frozen: stored bytes of a
 * trained and of a frozen parameter.
 */
void p4d_transformers__play_flat(p4d_transformers_step *s, uint64_t shards, unsigned trained,
				 unsigned frozen);

/*
 * Number of parameters that are gathered in evaluation: when the first layer begins, inside layers, and at
 * the head.
 */
typedef struct p4d_gathered {
	uint64_t before, layers, head;
} p4d_gathered;
/* The numbers with ZeRO-3. all: parameters of the model, including adapters. */
p4d_gathered p4d_transformers__gathered(const p4d_layout *l, uint64_t all);
/* The numbers with FSDP2 (transformers_fsdp.c), sharded over this many ranks. */
p4d_gathered p4d_transformers__gathered_by_fsdp(const p4d_layout *l, uint64_t shards);
/* The numbers with FSDP1 (transformers_flat.c). */
p4d_gathered p4d_transformers__gathered_flat(const p4d_layout *l);

/* transformers_evaluation.c: rows of evaluation. element: bytes of a gathered parameter. */
void p4d_transformers__evaluation(p4d_rows *rows, p4d_gathered gathered, unsigned element);

/* Whether shared experts have a gate, as in Qwen 2. */
bool p4d_transformers__gates_shared(const p4d_layout *layout);
/* Whether gate and up are one matmul. */
static inline bool p4d_transformers__joins_gate_up(const p4d_layout *l)
{
	return l->architecture->fused_gate_up || l->architecture->joins_gate_up;
}
