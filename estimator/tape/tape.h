/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Simulates the memory that PyTorch holds while autograd runs a module. A tape has the module's operations in
 * the order of the forward pass. It is simulated forward and backward, with the lifetimes that Python and
 * autograd give to tensors. Bytes are counted relative to the memory before the pass.
 *
 * Sources: torch/csrc/autograd/engine.cpp (nodes run in reverse order, and the inputs of an operation are
 * released before gradients are summed), input_buffer.cpp (a sum is in place if nobody else refers to the
 * first gradient), derivatives.yaml (what operations save).
 */
enum { P4D_TAPE_OPERATIONS = 320, P4D_TAPE_VALUES = 320, P4D_TAPE_INPUTS = 3, P4D_TAPE_SAVED = 5 };

/* What an operation's backward pass makes for an input. */
typedef enum p4d_tape_gradient {
	P4D_NO_GRADIENT,
	P4D_NEW_GRADIENT,  /* a tensor of the input's size */
	P4D_SAME_GRADIENT, /* the gradient of the operation's result, or a view of it */
} p4d_tape_gradient;

typedef struct p4d_tape_operation {
	short in[P4D_TAPE_INPUTS], out; /* values; -1: none */
	short others[2]; /* further results of the operation: like the first one they are views of the input,
			    and one autograd node makes all of them */
	p4d_tape_gradient gradient[P4D_TAPE_INPUTS];
	short saved[P4D_TAPE_SAVED]; /* values saved for the backward pass; -1: none */
	uint64_t kept;               /* bytes saved in addition: masks, statistics */
	uint64_t copy; /* a copy of the weight in another type, in bytes, saved for the backward pass */
	bool cached;   /* autocast also keeps this copy, until the forward pass ends */
	uint64_t scratch, back_scratch;
	uint64_t arrives; /* bytes of gathered parameters that are allocated before its backward pass and stay
			     allocated */
	uint64_t weight;  /* bytes of the gradients of its parameters */
	uint64_t lowered; /* bytes of the same gradients in the matmul's type, before they are cast */
	bool multiplies;  /* a matmul, for which cuBLAS takes a workspace */
	bool biased;      /* adds a bias, for which cuBLASLt takes a workspace of 1 MiB in addition */
	bool stays;       /* selective recomputation keeps this operation's result */
} p4d_tape_operation;

/*
 * For each storage: when Python drops it, and how many operations save it. Filled by the first pass that is
 * simulated.
 */
typedef struct p4d_tape_lives {
	unsigned operations; /* number of operations on the tape when this was filled; another number: not
			      * filled yet */
	short until[P4D_TAPE_VALUES];
	short first[P4D_TAPE_OPERATIONS], next[P4D_TAPE_VALUES]; /* lists, one per operation, of the storages
								  * that Python drops after it; -1: end */
	unsigned short saved[P4D_TAPE_VALUES];
} p4d_tape_lives;

typedef struct p4d_tape {
	unsigned operations, values;
	p4d_tape_operation operation[P4D_TAPE_OPERATIONS];
	struct {
		uint64_t bytes;
		short storage; /* the value that owns the memory: this value or, for a view, the value it
				  views */
		bool needs;    /* the value needs a gradient */
		short until;   /* index of the last operation after which Python still refers to this value */
	} value[P4D_TAPE_VALUES];
	p4d_tape_lives lives;
	bool overflow; /* the tape has no room for more operations or values */
} p4d_tape;

/* Adds a value: a tensor with its own memory. Value 0 is the input of the tape. */
short p4d_tape__value(p4d_tape *tape, uint64_t bytes, bool needs);
/* Adds a value that is a view of another value. */
short p4d_tape__view(p4d_tape *tape, short of, uint64_t bytes);

/* Whether the operation saves anything. */
static inline bool p4d_tape_saves(const p4d_tape_operation *o)
{
	return o->saved[0] >= 0 || o->kept || o->copy;
}

/* Appends an operation. Its inputs live at least until it has run. */
p4d_tape_operation *p4d_tape_append(p4d_tape *tape);

/* Python refers to the value until the operation that is last on the tape now. */
void p4d_tape_hold(p4d_tape *tape, short value);

/*
 * Change of the allocated memory during a pass: at its peak, and at its end. weights: the part that is
 * gradients of parameters.
 */
typedef struct p4d_tape_moment {
	int64_t live, weights;
} p4d_tape_moment;

typedef struct p4d_tape_pass {
	p4d_tape_moment most, end;
	int64_t cached; /* the part of `end` that only autocast holds, until the forward pass is over */
} p4d_tape_pass;

/*
 * Simulates a forward pass. save: tensors are saved for a backward pass; otherwise results are freed when
 * Python drops them. again: recomputation by activation checkpointing, which stops after the last operation
 * that saves a tensor. The input exists before the pass. It is freed at the end if no operation saves it,
 * unless keep_input is set: then the caller frees it.
 */
p4d_tape_pass p4d_tape_forward(p4d_tape *tape, bool save, bool again, bool keep_input);

/*
 * Like p4d_tape_forward, for the forward pass of selective recomputation: saves only the results that stay.
 */
p4d_tape_pass p4d_tape_selected(p4d_tape *tape);
/* The recomputation: starts from the results that stayed, and computes everything else. */
p4d_tape_pass p4d_tape_again_selected(p4d_tape *tape);

/*
 * How a backward pass treats gradients of parameters. reduced: it removes them as soon as they exist. sum: it
 * casts them to this many bytes per element, to add them to other gradients, which have `element` bytes; 0:
 * no cast.
 */
typedef struct p4d_tape_weights {
	bool reduced;
	unsigned element, sum;
} p4d_tape_weights;

enum { P4D_TAPE_WAYS = 3 };

/*
 * Simulates a backward pass, from a gradient of the last result (whose bytes exist before) to the gradient of
 * the input, with the tensors that p4d_tape_forward saved. keep_input: the input is freed at the end, not
 * after the last operation that saved it. way[i] says how gradients of parameters are treated for the result
 * pass[i]; there are `ways` of both.
 *
 * again: the pass that recomputes what was not saved; NULL: nothing is recomputed. PyTorch's checkpoint
 * starts that pass when the first operation asks for a saved tensor (torch/utils/checkpoint.py, unpack_hook).
 * The gradients of the operations after that one already exist then.
 */
void p4d_tape_backward_in(p4d_tape *tape, const p4d_tape_pass *again, bool keep_input,
			  const p4d_tape_weights way[], unsigned ways, p4d_tape_pass pass[]);

/* Like p4d_tape_backward_in, without recomputation, and with gradients of parameters in their own type. */
p4d_tape_pass p4d_tape_backward(p4d_tape *tape, bool reduced, bool keep_input);
