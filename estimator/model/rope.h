/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "request/request.h"

/*
 * Rotary position encoding: numbers i and i + d/2 of a head of d are turned by position * frequency(i).
 * Scaled variants lower frequencies, to reach further than the model was trained for at first. Memory does
 * not depend on any of it; p4d-train computes with it.
 */
typedef enum p4d_rope_type {
	P4D_ROPE_NONE,   /* not scaled */
	P4D_ROPE_LINEAR, /* all frequencies divided by the factor */
	P4D_ROPE_LLAMA3, /* the low ones are, the high ones stay, smooth between */
} p4d_rope_type;

typedef struct p4d_rope {
	double theta; /* base of the frequencies */
	p4d_rope_type type;
	double factor;
	/* llama3: frequencies that turn less than `low` times in `original` positions are low, above `high`
	 * high */
	double low, high, original;
} p4d_rope;

/* What a model has that does not say: theta 10000, not scaled; and 1e-5 for the norms. Origin P4D_BY_MODEL.
 */
void p4d_rope_default(p4d_request *request);

/*
 * What a request says with --rope-theta and --rope-scaling, which are set. Errors: UNMODELLED (a type that is
 * none of the above, or a type of a model file without its numbers), VALUE (malformed).
 */
int p4d_rope_of(const p4d_request *request, p4d_rope *rope, p4d_error *err);

/* Radians per position of pair 0 .. head_dim/2 - 1. */
double p4d_rope_frequency(const p4d_rope *rope, uint64_t head_dim, uint64_t pair);
