/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "data/bpe_tables.h"

/* The symbols of a word, as a linked list. If a symbol was merged into the one before it, its token is -1. */
typedef struct p4d_bpe_symbol {
	int32_t token, before, after; /* before, after: -1 at the ends */
} p4d_bpe_symbol;

typedef struct p4d_bpe_symbols {
	p4d_bpe_symbol *symbol;
	uint64_t *heap; /* heap of possible merges: rank << 32 | index of the left symbol; the smallest is
			 * on top */
	int32_t *made;  /* token that each merge in the heap makes */
	size_t count, room, heaped, heap_room;
} p4d_bpe_symbols;

/* Makes room for this many more symbols. Errors: NO_MEMORY. */
int p4d_bpe__symbols_reserve(p4d_bpe_symbols *symbols, size_t more, p4d_error *err);
/* Appends a symbol; there must be room. */
void p4d_bpe__symbols_add(p4d_bpe_symbols *symbols, int32_t token);
void p4d_bpe__symbols_free(p4d_bpe_symbols *symbols);

/*
 * Makes all merges. The pair with the lowest rank comes first and, if ranks are equal, the leftmost pair. O(n
 * log n). The result are the tokens other than -1, in order. Errors: NO_MEMORY.
 */
int p4d_bpe__merge(p4d_bpe_symbols *symbols, const p4d_bpe_tables *tables, p4d_error *err);
