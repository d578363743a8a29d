/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/shuffled.h"

/*
 * Packs whole documents into sequences. It takes the documents in a random order. A document follows the
 * previous one in its sequence if it fits there; otherwise it begins a new sequence (next-fit). A document
 * that is longer than a sequence is cut off. The documents of a sequence are the same in all passes.
 *
 * Pairs (tokens.h): each sequence has one pair. Each of its two documents may have half of the sequence;
 * longer documents are cut off.
 */
typedef struct p4d_packed {
	const p4d_shuffled *set; /* borrowed */
	p4d_permutation order;
	uint64_t seq_len;
	bool pairs;
	/* (sequences + 1) the place of each sequence's first document in the order of documents */
	uint64_t *first;
	uint64_t sequences;
	/* cut: number of documents that are cut off; longest: tokens of the longest document */
	uint64_t cut, longest;
	uint64_t tokens; /* tokens in sequences */
} p4d_packed;

/* Packs the documents. Errors: NO_MEMORY. */
int p4d_packed__open(p4d_packed *packed, const p4d_shuffled *set, uint64_t seq_len, bool pairs,
		     const char *name, p4d_error *err);
void p4d_packed__close(p4d_packed *packed);

/*
 * Sets *document to document i of a sequence, as far as it was not cut off. False: the sequence has fewer
 * documents. Empty documents count.
 */
bool p4d_packed__document(const p4d_packed *packed, uint64_t sequence, uint64_t i, p4d_document *document);
