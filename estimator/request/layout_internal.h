/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "request/layout.h"

/* Parts of layout.c. */

/* Splits the layers over stages and chunks. Errors: LAYERS, SPLIT. */
int p4d_layout__split(const p4d_request *request, p4d_layout *layout, p4d_error *err);

/* Reads "12,8,8": numbers from 1 to `most` (below 2^32), no more than there is room for; open: or "-", which
 * is 0. Returns how many; 0: it is no such list. */
uint64_t p4d_layout__numbers(const char *text, uint64_t most, uint64_t room, bool open, uint32_t *numbers);

/* layout_slices.c: the slices of a sequence, of a layout whose schedule is checked. Errors: SEQUENCE,
 * SCHEDULE, VALUE. */
int p4d_layout__slices(const p4d_request *request, p4d_layout *layout, p4d_error *err);

/* layout_check.c: whether a filled layout is consistent; fills what follows from it (dp, micro-batches,
 * stages). Errors: those of p4d_layout_derive. */
int p4d_layout__check(const p4d_request *request, p4d_layout *layout, p4d_error *err);

/*
 * layout_grid.c. p4d_layout__grid fills tp, tp_y and tp_z. p4d_layout__check_grid checks that the grid has tp
 * ranks, divides the sizes that it splits, and can be combined with the other options. Errors: VALUE, WIDTH,
 * BATCH, UNMODELLED.
 */
void p4d_layout__grid(const p4d_request *request, p4d_layout *layout);
int p4d_layout__check_grid(const p4d_request *request, const p4d_layout *layout, p4d_error *err);

/* A condition on a candidate value, to list the numbers that would work. */
typedef bool (*p4d_layout__works)(const p4d_layout *layout, uint64_t candidate);

/*
 * Writes the divisors of `whole` in 1..highest that work, at most a dozen of them, and returns the one
 * nearest to `wanted` (the larger on a tie: a larger degree never needs more memory), or 0 when there is
 * none.
 */
uint64_t p4d_layout__list(const p4d_layout *layout, p4d_layout__works works, uint64_t whole, uint64_t highest,
			  uint64_t wanted, char *buf, size_t size);

/* layout_adapters.c: what is trained, and whether the requested options have an effect. Errors: VALUE. */
void p4d_layout__adapters(const p4d_request *request, p4d_layout *layout);
int p4d_layout__check_adapters(const p4d_request *request, p4d_error *err);
/* The same for --offload and --param-dtype; offload: a mask of P4D_OFFLOAD_*, as in the framework. */
unsigned p4d_layout__offload(const p4d_request *request);
int p4d_layout__check_offload(const p4d_request *request, p4d_error *err);

/*
 * layout_modules.c: which modules are recomputed; and whether the requested options have an effect. Errors:
 * VALUE. If a search tries none or full, the requested list has no effect, and that is no error.
 */
unsigned p4d_layout__modules(const p4d_request *request, const p4d_layout *layout);
int p4d_layout__check_modules(const p4d_request *request, const p4d_layout *layout, p4d_error *err);
