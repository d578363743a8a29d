/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "request/request.h"

/*
 * Rotary position encoding: numbers i and i + d/2 of a head of d are turned by position * frequency(i).
 * Scaled variants lower frequencies to extend the context beyond that of pretraining. Memory does not depend
 * on this; p4d-train's computation does.
 */
typedef enum p4d_rope_type {
	P4D_ROPE_NONE,   /* not scaled */
	P4D_ROPE_LINEAR, /* all frequencies divided by the factor */
	P4D_ROPE_LLAMA3, /* low ones are divided, high ones kept, smooth between */
} p4d_rope_type;

typedef struct p4d_rope {
	double theta; /* base of the frequencies */
	p4d_rope_type type;
	double factor;
	/* llama3: frequencies with fewer than `low` turns in `original` positions are low, above `high` high
	 */
	double low, high, original;
} p4d_rope;

/* Defaults of a model that lacks them: theta 10000, not scaled; 1e-5 for the norms. Origin P4D_BY_MODEL. */
void p4d_rope_default(p4d_request *request);

/*
 * Parses --rope-theta and --rope-scaling, which are set. Errors: UNMODELLED (another type than those above,
 * or a type of a model file without its numbers), VALUE (malformed).
 */
int p4d_rope_of(const p4d_request *request, p4d_rope *rope, p4d_error *err);

/* Radians per position of pair 0 .. head_dim/2 - 1. */
double p4d_rope_frequency(const p4d_rope *rope, uint64_t head_dim, uint64_t pair);
