/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "data/bpe_tables.h"

/* The symbols of a word, in a list; one that was merged into the one before it has token -1. */
typedef struct p4d_bpe_symbol {
	int32_t token, before, after; /* before, after: -1 at the ends */
} p4d_bpe_symbol;

typedef struct p4d_bpe_symbols {
	p4d_bpe_symbol *symbol;
	uint64_t *heap; /* merges that may be made: rank << 32 | place of the left one, the smallest on top */
	int32_t *made;  /* heap's tokens */
	size_t count, room, heaped, heap_room;
} p4d_bpe_symbols;

/* Room for more symbols. Errors: NO_MEMORY. */
int p4d_bpe__symbols_reserve(p4d_bpe_symbols *symbols, size_t more, p4d_error *err);
/* Behind the last one; there is room. */
void p4d_bpe__symbols_add(p4d_bpe_symbols *symbols, int32_t token);
void p4d_bpe__symbols_free(p4d_bpe_symbols *symbols);

/*
 * Makes all merges, the pair of the lowest rank first, of equal ones the leftmost: O(n log n). The tokens
 * then are those of the symbols that are not -1, in order. Errors: NO_MEMORY.
 */
int p4d_bpe__merge(p4d_bpe_symbols *symbols, const p4d_bpe_tables *tables, p4d_error *err);
