/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "data/permutation.h"
#include "data/tokens.h"

/*
 * The documents of a dataset, or of one side of its validation split, concatenated in the random order of a
 * pass. To find a token, it needs the sum of the lengths before each document. It stores this sum for every
 * 64th document, for the two latest passes.
 */
enum { P4D_SHUFFLED_GROUP = 64, P4D_SHUFFLED_PASSES = 2 };

typedef struct p4d_shuffled_pass {
	uint64_t number;
	bool filled;
	p4d_permutation order;
	uint64_t *before; /* tokens before documents 0, 64, 128, ... */
} p4d_shuffled_pass;

typedef struct p4d_shuffled {
	const p4d_tokens *tokens; /* borrowed */
	uint64_t key;
	uint64_t documents, total; /* number of documents and of tokens on this side of the split */
	bool split;
	p4d_permutation side; /* order of all documents; this side's documents begin at first_of_side */
	uint64_t first_of_side;
	p4d_shuffled_pass pass[P4D_SHUFFLED_PASSES];
	unsigned latest;
} p4d_shuffled;

/* A position in a pass, with the rest of its document. */
typedef struct p4d_shuffled_cursor {
	const p4d_shuffled *set;
	const p4d_shuffled_pass *pass;
	uint64_t place;
	p4d_document rest;
} p4d_shuffled_cursor;

/* validation, validate: see sampler.h. Errors: VALUE, DATA (a side without tokens), NO_MEMORY. */
int p4d_shuffled__open(p4d_shuffled *set, const p4d_tokens *tokens, const char *name, uint64_t key,
		       double validation, bool validate, p4d_error *err);
void p4d_shuffled__close(p4d_shuffled *set);

/* The document at a place of an order of `documents`. */
p4d_document p4d_shuffled__document(const p4d_shuffled *set, const p4d_permutation *order, uint64_t place);

/* token: below total. The cursor is valid as long as its pass is one of the latest two. */
p4d_shuffled_cursor p4d_shuffled__find(p4d_shuffled *set, uint64_t pass, uint64_t token);
/* The next document that has tokens; false at the end of the pass. */
bool p4d_shuffled__next(p4d_shuffled_cursor *cursor);
