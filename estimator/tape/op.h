/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "request/layout.h"
#include "tape/tape.h"

/*
 * Operations of PyTorch, appended to a tape: what each makes, keeps for its backward pass, and takes while it
 * runs.
 */

/* A tensor while its tape is written. */
typedef struct p4d_tape_tensor {
	short value;
	unsigned char element; /* bytes */
	uint64_t elements;
} p4d_tape_tensor;

/* What is the same for all tapes of a rank. */
typedef struct p4d_tape_writer {
	p4d_tape *tape;
	const p4d_layout *layout;
	const struct p4d_transformers_tapes *code;
	uint64_t rows, length, tokens; /* sizes of a micro-batch: sequences, tokens of each, tokens */
	uint64_t heads, kv_heads;      /* on this rank */
	unsigned weight;               /* bytes of a parameter that is not quantized */
	unsigned stream;               /* bytes of an element of the residual stream */
	unsigned between; /* bytes of an element between layers, if a norm is the last operation of a layer */
	bool autocast;    /* torch.autocast to bf16 */
	bool trains;      /* parameters of the model have gradients; else adapters alone */
	bool keeps_frozen;   /* products keep their input whether their weight is trained or not */
	uint64_t prefetched; /* bytes that are gathered before the head's backward pass */
	uint64_t returned;   /* bytes of a layer's results in addition to the residual stream; the model holds
				those of the last layer */
	bool masked;         /* attention has a mask, which no flash kernel takes */
	unsigned kind;       /* kind of the layer that is written: p4d_transformers__kind_of */
	bool gathers;        /* p4d_transformers__gathers_experts */
	bool gathers_again;  /* a layer's frozen matrices, one by one, each for its own backward pass */
} p4d_tape_writer;

/* An empty tape with an input of `columns` for every token; needs: a gradient. */
p4d_tape_tensor p4d_op_begin(p4d_tape_writer *w, uint64_t columns, unsigned element, bool needs);

/* A tensor of its own that an operation makes; a view of another tensor; whether it needs a gradient. */
p4d_tape_tensor p4d_op_made(p4d_tape_writer *w, uint64_t elements, unsigned element, bool needs);
p4d_tape_tensor p4d_op_view(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t elements);
bool p4d_op_needs(const p4d_tape_writer *w, p4d_tape_tensor x);
/* Appends an operation on one tensor that makes another. */
p4d_tape_operation *p4d_op_append(p4d_tape_writer *w, p4d_tape_tensor x, p4d_tape_tensor out,
				  p4d_tape_gradient gradient);
/* In another type. */
p4d_tape_tensor p4d_op_cast(p4d_tape_writer *w, p4d_tape_tensor x, unsigned element);
/* Element by element; a product keeps both factors, a sum nothing. */
p4d_tape_tensor p4d_op_map(p4d_tape_writer *w, p4d_tape_tensor x, bool saves_input, bool saves_output);
p4d_tape_tensor p4d_op_times(p4d_tape_writer *w, p4d_tape_tensor x, p4d_tape_tensor y);
p4d_tape_tensor p4d_op_plus(p4d_tape_writer *w, p4d_tape_tensor x, p4d_tape_tensor y);
/* Rows of a matrix x with this many columns. Without columns it returns 0 and sets the overflow of the tape.
 */
uint64_t p4d_op_rows(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t columns);
/* A matmul with a weight whose elements have this many bytes. Backward: gradients of both. */
p4d_tape_tensor p4d_op_product(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t in, uint64_t out,
			       unsigned weight, bool trained);
/* A slice whose backward pass fills a tensor of the whole's size. */
p4d_tape_tensor p4d_op_slice(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t elements);
/* A concatenation, here of two tensors. Backward: views of its gradient. */
p4d_tape_tensor p4d_op_joined(p4d_tape_writer *w, p4d_tape_tensor x, p4d_tape_tensor y);

/* The operation that was appended last. */
static inline p4d_tape_operation *p4d_op_last(p4d_tape_writer *w)
{
	return &w->tape->operation[w->tape->operations - 1];
}

/* Python refers to x until after the last operation there is. */
static inline void p4d_op_hold(p4d_tape_writer *w, p4d_tape_tensor x)
{
	p4d_tape_hold(w->tape, x.value);
}
