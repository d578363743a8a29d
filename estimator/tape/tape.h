/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * What PyTorch holds while autograd runs a module: its operations in the order of the forward pass, played
 * forward and backward with the lifetimes that Python and autograd give to tensors. Bytes are relative to
 * what was there before.
 *
 * Sources: torch/csrc/autograd/engine.cpp (nodes run in reverse order, an operation's inputs are released
 * before gradients are summed) and input_buffer.cpp (a sum is in place where nobody else has the first
 * gradient), derivatives.yaml (what operations save).
 */
enum { P4D_TAPE_OPERATIONS = 320, P4D_TAPE_VALUES = 320, P4D_TAPE_INPUTS = 3, P4D_TAPE_SAVED = 5 };

/* What an operation's backward pass makes for an input. */
typedef enum p4d_tape_gradient {
	P4D_NO_GRADIENT,
	P4D_NEW_GRADIENT,  /* a tensor of the input's size */
	P4D_SAME_GRADIENT, /* the gradient of its result, or a view of that */
} p4d_tape_gradient;

typedef struct p4d_tape_operation {
	short in[P4D_TAPE_INPUTS], out; /* values; -1: none */
	short others[2]; /* more results, views of the input like the first: one node for all */
	p4d_tape_gradient gradient[P4D_TAPE_INPUTS];
	short saved[P4D_TAPE_SAVED]; /* values that are kept for the backward pass; -1: none */
	uint64_t kept;               /* further saved bytes: masks, statistics */
	uint64_t copy;               /* copy of the weight in another type, kept for the backward pass ... */
	bool cached;                 /* ... and by autocast, until the forward pass ends */
	uint64_t scratch, back_scratch;
	uint64_t
	    arrives; /* before its backward pass, and stays: parameters that are gathered for the next one */
	uint64_t weight;  /* gradients of its parameters */
	uint64_t lowered; /* the same in the type of the product, before they are cast */
	bool multiplies;  /* matrices: cuBLAS gets a workspace ... */
	bool biased;      /* ... cuBLASLt, which adds a bias, one of 1 MiB */
	bool stays;       /* selective recomputation keeps its result */
} p4d_tape_operation;

/* When Python forgets storages, and how many operations save each: found at the first pass that is played. */
typedef struct p4d_tape_lives {
	unsigned operations; /* the tape's number of operations then; another: not found yet */
	short until[P4D_TAPE_VALUES];
	short first[P4D_TAPE_OPERATIONS], next[P4D_TAPE_VALUES]; /* forgotten after an operation; -1: none */
	unsigned short saved[P4D_TAPE_VALUES];
} p4d_tape_lives;

typedef struct p4d_tape {
	unsigned operations, values;
	p4d_tape_operation operation[P4D_TAPE_OPERATIONS];
	struct {
		uint64_t bytes;
		short storage; /* the value that has the memory: itself, unless it is a view */
		bool needs;    /* a gradient */
		short until;   /* the last operation after which Python refers to it */
	} value[P4D_TAPE_VALUES];
	p4d_tape_lives lives;
	bool overflow; /* more operations or values than there is room for */
} p4d_tape;

/* Values: a tensor of its own, or a view of another. Value 0 is the input of the tape. */
short p4d_tape__value(p4d_tape *tape, uint64_t bytes, bool needs);
short p4d_tape__view(p4d_tape *tape, short of, uint64_t bytes);

/* Appends an operation; its inputs live at least until then. */
p4d_tape_operation *p4d_tape_append(p4d_tape *tape);

/* Python refers to the value until after the last operation there is. */
void p4d_tape_hold(p4d_tape *tape, short value);

/* How a pass changes the memory: the most, and the end; weights: the part that is gradients of parameters. */
typedef struct p4d_tape_moment {
	int64_t live, weights;
} p4d_tape_moment;

typedef struct p4d_tape_pass {
	p4d_tape_moment most, end;
	int64_t cached; /* the part of the end that only autocast holds, until the forward pass is over */
} p4d_tape_pass;

/*
 * Forward pass. save: for a backward pass; otherwise results are freed when Python drops them. again: as
 * activation checkpointing recomputes it, up to the last operation that saves something. The input exists
 * before, and is freed at the end if nobody keeps it (keep_input: the caller does).
 */
p4d_tape_pass p4d_tape_forward(p4d_tape *tape, bool save, bool again, bool keep_input);

/*
 * The same if results that stay are kept from the forward pass on: the forward pass, which saves nothing
 * else; and the recomputation of everything else, starting from what the first pass left.
 */
p4d_tape_pass p4d_tape_selected(p4d_tape *tape);
p4d_tape_pass p4d_tape_again_selected(p4d_tape *tape);

/* What happens to gradients of parameters. reduced: they are taken away as soon as they are there. sum: they
 * are cast to this many bytes an element, to be added to others, as are `element` bytes; 0: they are not. */
typedef struct p4d_tape_weights {
	bool reduced;
	unsigned element, sum;
} p4d_tape_weights;

enum { P4D_TAPE_WAYS = 3 };

/*
 * Backward, from a gradient of the last result (whose bytes are there before) to that of the input, with what
 * p4d_tape_forward saved. keep_input: it is freed in the end, and not where an operation saved it last. One
 * pass for each of so many ways to treat gradients of parameters.
 *
 * again: the pass that recomputes what was not kept; NULL: nothing is recomputed. PyTorch's checkpoint starts
 * it when the first operation asks for what it saved (torch/utils/checkpoint.py, unpack_hook): gradients of
 * operations behind that one are there by then.
 */
void p4d_tape_backward_in(p4d_tape *tape, const p4d_tape_pass *again, bool keep_input,
			  const p4d_tape_weights way[], unsigned ways, p4d_tape_pass pass[]);

/* Where nothing is recomputed, with gradients of parameters in their type. */
p4d_tape_pass p4d_tape_backward(p4d_tape *tape, bool reduced, bool keep_input);
