/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/*
 * Two hash tables, which are filled once. One maps texts to tokens. The other maps pairs of tokens to the
 * results of their merges.
 */
typedef struct p4d_bpe_name {
	char *text; /* NULL: free */
	size_t length;
	int32_t token;
} p4d_bpe_name;

typedef struct p4d_bpe_merge {
	uint64_t pair; /* P4D_BPE_FREE: the entry is free */
	uint32_t rank;
	int32_t token;
} p4d_bpe_merge;

#define P4D_BPE_FREE UINT64_MAX

static inline uint64_t p4d_bpe_pair(int32_t left, int32_t right)
{
	return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

typedef struct p4d_bpe_tables {
	p4d_bpe_name *names;
	p4d_bpe_merge *merges;
	size_t name_mask, merge_mask;
} p4d_bpe_tables;

/* Makes room for this many names and merges. Errors: NO_MEMORY. */
int p4d_bpe__tables_open(p4d_bpe_tables *tables, size_t names, size_t merges, p4d_error *err);
void p4d_bpe__tables_close(p4d_bpe_tables *tables);

/* Adds a text. If the text is already there, its token changes. Errors: NO_MEMORY. */
int p4d_bpe__add_name(p4d_bpe_tables *tables, const char *text, size_t length, int32_t token, p4d_error *err);
/* Adds a merge. A pair that already exists gets the new rank. */
void p4d_bpe__add_merge(p4d_bpe_tables *tables, p4d_bpe_merge merge);

int32_t p4d_bpe__find_name(const p4d_bpe_tables *tables, const char *text, size_t length); /* -1: none */
const p4d_bpe_merge *p4d_bpe__find_merge(const p4d_bpe_tables *tables, uint64_t pair);     /* NULL: none */
