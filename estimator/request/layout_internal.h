/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "request/layout.h"

/* Parts of layout.c. */

/* Splits the layers over stages and chunks. Errors: LAYERS, SPLIT. */
int p4d_layout__split(const p4d_request *request, p4d_layout *layout, p4d_error *err);

/* Reads "12,8,8": numbers from 1 to `most` (below 2^32), no more than the array has room for. open: an
 * entry may be "-", which is stored as 0. Returns the number of entries; 0: it is no such list. */
uint64_t p4d_layout__numbers(const char *text, uint64_t most, uint64_t room, bool open, uint32_t *numbers);

/* layout_slices.c: fills the slices of a sequence. The layout's schedule must be checked. Errors:
 * SEQUENCE, SCHEDULE, VALUE. */
int p4d_layout__slices(const p4d_request *request, p4d_layout *layout, p4d_error *err);

/* layout_check.c: checks that a filled layout is consistent; fills the derived members (dp, micro-batches,
 * stages). Errors: those of p4d_layout_derive. */
int p4d_layout__check(const p4d_request *request, p4d_layout *layout, p4d_error *err);

/* layout_grid.c: fills tp, tp_y and tp_z. */
void p4d_layout__grid(const p4d_request *request, p4d_layout *layout);
/*
 * Checks that the grid has tp ranks, divides the sizes that it splits, and agrees with the other options.
 * Errors: VALUE, WIDTH, BATCH, UNMODELLED.
 */
int p4d_layout__check_grid(const p4d_request *request, const p4d_layout *layout, p4d_error *err);

/* A condition on a candidate value, for listing the numbers that would work. */
typedef bool (*p4d_layout__works)(const p4d_layout *layout, uint64_t candidate);

/*
 * Lists the divisors of `whole` in 1..highest that work, at most a dozen. Returns the one nearest to `wanted`
 * (on a tie the larger, since a larger degree never needs more memory), or 0 if there is none.
 */
uint64_t p4d_layout__list(const p4d_layout *layout, p4d_layout__works works, uint64_t whole, uint64_t highest,
			  uint64_t wanted, char *buf, size_t size);

/* layout_adapters.c: fills which parameters are trained. */
void p4d_layout__adapters(const p4d_request *request, p4d_layout *layout);
/* Checks that the requested options of fine-tuning have an effect. Errors: VALUE. */
int p4d_layout__check_adapters(const p4d_request *request, p4d_error *err);
/* The value of --offload as a mask of P4D_OFFLOAD_*, as the framework interprets the option. */
unsigned p4d_layout__offload(const p4d_request *request);
/* Checks --offload and --param-dtype. Errors: VALUE. */
int p4d_layout__check_offload(const p4d_request *request, p4d_error *err);

/* layout_modules.c: returns the modules that are recomputed, as a mask of P4D_MODULE_*. */
unsigned p4d_layout__modules(const p4d_request *request, const p4d_layout *layout);
/*
 * Checks that the requested list of modules has an effect. Errors: VALUE. If a search tries none or full, the
 * list has no effect, which is no error.
 */
int p4d_layout__check_modules(const p4d_request *request, const p4d_layout *layout, p4d_error *err);

/* layout_modules.c: experts for domains of the data (DEMix), on equally many ranks each. Errors: UNMODELLED,
 * VALUE. */
int p4d_layout__check_domains(const p4d_layout *layout, p4d_error *err);
