/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "request/layout.h"
#include "tape/tape.h"

/*
 * PyTorch's operations, appended to a tape. Each function describes the tensors that an operation makes,
 * saves for its backward pass, and holds while it runs.
 */

/* A tensor while the tape is written. */
typedef struct p4d_tape_tensor {
	short value;
	unsigned char element; /* bytes */
	uint64_t elements;
} p4d_tape_tensor;

/* Values that all tapes of a rank share. */
typedef struct p4d_tape_writer {
	p4d_tape *tape;
	const p4d_layout *layout;
	const struct p4d_transformers_tapes *code;
	uint64_t rows, length, tokens; /* sizes of a micro-batch: sequences, tokens of a sequence, all
					* tokens */
	uint64_t heads, kv_heads;      /* number of heads on this rank */
	unsigned weight;               /* bytes of a parameter that is not quantized */
	unsigned stream;               /* bytes of an element of the residual stream */
	unsigned between; /* bytes of an element between layers, if a norm is the last operation of a layer */
	bool autocast;    /* torch.autocast to bf16 */
	bool trains;      /* the model's parameters have gradients; otherwise only adapters do */
	bool keeps_frozen;   /* matmuls keep their input even if their weight is not trained */
	uint64_t prefetched; /* bytes of parameters that are gathered before the head's backward pass */
	uint64_t returned;   /* bytes of a layer's results in addition to the residual stream; the model keeps
				these results of the last layer */
	bool masked;         /* attention has a mask, which no flash kernel takes */
	unsigned kind;       /* kind of the layer that is being written: p4d_transformers__kind_of */
	bool gathers;        /* result of p4d_transformers__gathers_experts for this layout */
	bool gathers_again; /* gathers a layer's frozen matrices one by one, each for its own backward pass */
} p4d_tape_writer;

/* An empty tape whose input has `columns` elements per token. needs: the input needs a gradient. */
p4d_tape_tensor p4d_op_begin(p4d_tape_writer *w, uint64_t columns, unsigned element, bool needs);

/* A new tensor that an operation makes. */
p4d_tape_tensor p4d_op_made(p4d_tape_writer *w, uint64_t elements, unsigned element, bool needs);
/* A view of another tensor. */
p4d_tape_tensor p4d_op_view(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t elements);
/* Whether a tensor needs a gradient. */
bool p4d_op_needs(const p4d_tape_writer *w, p4d_tape_tensor x);
/* Appends an operation that makes a tensor from another one. */
p4d_tape_operation *p4d_op_append(p4d_tape_writer *w, p4d_tape_tensor x, p4d_tape_tensor out,
				  p4d_tape_gradient gradient);
/* Appends a cast to another type. */
p4d_tape_tensor p4d_op_cast(p4d_tape_writer *w, p4d_tape_tensor x, unsigned element);
/* An element-wise operation on one tensor. */
p4d_tape_tensor p4d_op_map(p4d_tape_writer *w, p4d_tape_tensor x, bool saves_input, bool saves_output);
/* An element-wise product, which saves both factors. */
p4d_tape_tensor p4d_op_times(p4d_tape_writer *w, p4d_tape_tensor x, p4d_tape_tensor y);
/* An element-wise sum, which saves nothing. */
p4d_tape_tensor p4d_op_plus(p4d_tape_writer *w, p4d_tape_tensor x, p4d_tape_tensor y);
/* Elements of a matrix with the rows of x and this many columns. If x has no columns, returns 0 and marks
 * the tape as overflowed. */
uint64_t p4d_op_rows(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t columns);
/* A matmul with a weight whose elements have this many bytes. Its backward pass makes both gradients. */
p4d_tape_tensor p4d_op_product(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t in, uint64_t out,
			       unsigned weight, bool trained);
/* A slice. Its backward pass fills a tensor as large as the whole tensor. */
p4d_tape_tensor p4d_op_slice(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t elements);
/* Splits a tensor into two views; the first one has `first` elements. */
void p4d_op_parted(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t first, p4d_tape_tensor *a,
		   p4d_tape_tensor *b);
/* A concatenation of two tensors. Its backward pass makes views of the gradient. */
p4d_tape_tensor p4d_op_joined(p4d_tape_writer *w, p4d_tape_tensor x, p4d_tape_tensor y);

/* The last operation on the tape. */
static inline p4d_tape_operation *p4d_op_last(p4d_tape_writer *w)
{
	return &w->tape->operation[w->tape->operations - 1];
}

/* Python refers to x until the operation that is last on the tape now. */
static inline void p4d_op_hold(p4d_tape_writer *w, p4d_tape_tensor x)
{
	p4d_tape_hold(w->tape, x.value);
}
