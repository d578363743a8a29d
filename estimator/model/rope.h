/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "request/request.h"

/*
 * Rotary position encoding: elements i and i + d/2 of a head of size d are rotated by position *
 * frequency(i). Scaled variants lower frequencies to extend the context beyond that of pretraining. This
 * affects p4d-train's computation, but no memory.
 */
typedef enum p4d_rope_type {
	P4D_ROPE_NONE,   /* no scaling */
	P4D_ROPE_LINEAR, /* all frequencies divided by the factor */
	P4D_ROPE_LLAMA3, /* low frequencies are divided, high ones kept, with a smooth transition */
} p4d_rope_type;

typedef struct p4d_rope {
	double theta; /* base of the frequencies (theta) */
	p4d_rope_type type;
	double factor;
	/* llama3: a frequency is low with fewer than `low` turns in `original` positions, and high with
	 * more than `high` turns */
	double low, high, original;
} p4d_rope;

/*
 * Sets the defaults of a model without these values: theta 10000, no scaling, epsilon 1e-5 in norms. Origin
 * P4D_BY_MODEL.
 */
void p4d_rope_default(p4d_request *request);

/*
 * Parses --rope-theta and --rope-scaling, which must be set. Errors: UNMODELLED (another type of scaling than
 * those above, or a model file without the numbers of its type), VALUE (malformed).
 */
int p4d_rope_of(const p4d_request *request, p4d_rope *rope, p4d_error *err);

/* Radians per position of each pair, 0 .. head_dim/2 - 1. */
double p4d_rope_frequency(const p4d_rope *rope, uint64_t head_dim, uint64_t pair);
