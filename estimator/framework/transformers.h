/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "framework/tape.h"
#include "request/architecture.h"
#include "request/layout.h"

/*
 * Modules of the transformers library (5.23) as tapes: what their forward functions compute, of one rank, for
 * one micro-batch. The sources are its modeling files and PEFT's and bitsandbytes' layers.
 */

/* A tensor while its tape is written. */
typedef struct p4d_tape_tensor {
	short value;
	unsigned char element; /* bytes */
	uint64_t elements;
} p4d_tape_tensor;

struct p4d_tape_writer;

/* A code base whose tapes are played like this. */
typedef struct p4d_transformers_tapes {
	void (*layer)(struct p4d_tape_writer *w, bool needs);
	void (*end)(struct p4d_tape_writer *w);
	bool unties; /* a tied model has two tables */
} p4d_transformers_tapes;

extern const p4d_transformers_tapes p4d_transformers__tapes, p4d_litgpt__tapes;

typedef struct p4d_tape_writer {
	p4d_tape *tape;
	const p4d_transformers_tapes *code;
	const p4d_layout *layout;
	uint64_t rows, length, tokens; /* of a micro-batch: sequences, tokens of each, tokens */
	unsigned weight;               /* bytes of a parameter that is not quantized */
	unsigned stream;               /* of an element of the residual stream */
	unsigned between;              /* of one between layers, where a norm is the last of a layer */
	bool autocast;                 /* torch.autocast to bf16 */
	bool trains;                   /* parameters of the model have gradients; else adapters alone */
	uint64_t prefetched;           /* bytes that are gathered before the head's backward pass */
	uint64_t returned; /* of a layer's results, beside the stream: the model holds the last layer's */
	bool masked;       /* attention has a mask, which no flash kernel takes */
} p4d_tape_writer;

/* The same sizes for all tapes of a layout. */
p4d_tape_writer p4d_transformers__writer(const p4d_layout *layout, p4d_tape *tape);

/* An empty tape with an input of `columns` for every token; needs: a gradient. */
p4d_tape_tensor p4d_transformers__begin(p4d_tape_writer *w, uint64_t columns, unsigned element, bool needs);

/* One layer; and what is behind the last one: norm, head and loss. */
static inline void p4d_transformers__layer(p4d_tape_writer *w, bool needs)
{
	w->code->layer(w, needs);
}

static inline void p4d_transformers__end(p4d_tape_writer *w)
{
	w->code->end(w);
}

/* transformers_modules.c: parts that layers and the end share. */
p4d_tape_tensor p4d_transformers__made(p4d_tape_writer *w, uint64_t elements, unsigned element, bool needs);
p4d_tape_tensor p4d_transformers__view(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t elements);
bool p4d_transformers__needs(const p4d_tape_writer *w, p4d_tape_tensor x);
/* Appends an operation on one tensor that makes another. */
p4d_tape_operation *p4d_transformers__operation(p4d_tape_writer *w, p4d_tape_tensor x, p4d_tape_tensor out,
						p4d_tape_gradient gradient);
p4d_tape_tensor p4d_transformers__cast(p4d_tape_writer *w, p4d_tape_tensor x, unsigned element);
p4d_tape_tensor p4d_transformers__map(p4d_tape_writer *w, p4d_tape_tensor x, bool saves_input,
				      bool saves_output);
p4d_tape_tensor p4d_transformers__times(p4d_tape_writer *w, p4d_tape_tensor x, p4d_tape_tensor y);
p4d_tape_tensor p4d_transformers__plus(p4d_tape_writer *w, p4d_tape_tensor x, p4d_tape_tensor y);
p4d_tape_tensor p4d_transformers__norm(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t columns);
/* target: a P4D_TARGET_* that an adapter may be on; 0: none ever. */
p4d_tape_tensor p4d_transformers__linear(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t in, uint64_t out,
					 unsigned target);
/* A product with a weight of so many bytes an element; backward, gradients of both. */
p4d_tape_tensor p4d_transformers__product(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t in, uint64_t out,
					  unsigned weight, bool trained);
/* eager_attention_forward */
p4d_tape_tensor p4d_transformers__eager(p4d_tape_writer *w, p4d_tape_tensor q, p4d_tape_tensor k,
					p4d_tape_tensor v);
p4d_tape_tensor p4d_transformers__attention(p4d_tape_writer *w, p4d_tape_tensor x);
p4d_tape_tensor p4d_transformers__mlp(p4d_tape_writer *w, p4d_tape_tensor x);

/* What a rank holds at a moment. */
typedef struct p4d_transformers_moment {
	int64_t live, gradients; /* activations and what works on them; gradients of parameters */
} p4d_transformers_moment;

/* A step, and the most of each of its parts. */
typedef struct p4d_transformers_step {
	p4d_tape_writer writer;
	bool again;    /* layers are recomputed */
	bool reduced;  /* gradients of a pass are added to others, or leave, as soon as they are there */
	int64_t saved; /* what the layers hold when the loss begins */
	int64_t away;  /* of that, on the host, with --offload activations */
	/* ZeRO-2, in parameters: of a rank's part of them, and, of those whose gradients were computed, those
	 * that wait in the bucket */
	uint64_t share, computed, waiting;
	int64_t partition; /* ZeRO 1 and 2: bytes of gradients that a rank keeps, from the pass's end on */
	p4d_transformers_moment now, forward, loss, head, backward;
} p4d_transformers_step;

void p4d_transformers__look(p4d_transformers_step *s, p4d_transformers_moment *most, p4d_tape_moment m);
/* Looks at the most of a pass, and goes to its end. */
void p4d_transformers__go(p4d_transformers_step *s, p4d_transformers_moment *most, p4d_tape_pass pass);

/*
 * --offload activations: what a layer's forward pass left goes to the host while the next layer's runs, and
 * comes back before its backward pass.
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

uint64_t p4d_transformers__inputs(const p4d_tape_writer *w);
/* Parameters of the adapters. */
uint64_t p4d_transformers__adapters(const p4d_layout *l);

/* transformers_fsdp.c: a step with FSDP2 as accelerate prepares it; bytes of what is sharded are not in it.
 */
void p4d_transformers__play_fsdp(p4d_transformers_step *s, uint64_t shards);

static inline void p4d_transformers__hold(p4d_tape_writer *w, p4d_tape_tensor x)
{
	p4d_tape_hold(w->tape, x.value);
}

/* How modeling files compute what architectures.def tells apart by name only. */
typedef enum p4d_norm_code {
	P4D_NORM_LLAMA,
	P4D_NORM_GEMMA,
	P4D_NORM_OLMO2,
	P4D_NORM_COHERE,
	P4D_NORM_LAYER,
	P4D_NORM_NEMOTRON, /* in the type that autocast lowers to */
	P4D_NORM_OLMO
} p4d_norm_code;
typedef struct p4d_transformers_code {
	p4d_norm_code norm;
	bool gelu_in_python; /* gelu_new, term by term */
	unsigned rotated; /* per mille of a head that rotary embeddings turn; the rest is copied beside it */
	bool rotates_in_fp32;
	bool scales_residual, scales_query;
} p4d_transformers_code;
p4d_transformers_code p4d_transformers__code(const p4d_layout *layout);
