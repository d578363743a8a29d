/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/shuffled.h"

/*
 * Packs whole documents into sequences. In a random order, each document is put after the previous one if it
 * fits there, otherwise into a new sequence (next-fit). A document that is longer than a sequence is cut at
 * the sequence's end. All passes have the same documents in a sequence.
 *
 * Pairs (tokens.h): a sequence has one pair, both of whose documents are cut at half of its length.
 */
typedef struct p4d_packed {
	const p4d_shuffled *set; /* borrowed */
	p4d_permutation order;
	uint64_t seq_len;
	bool pairs;
	uint64_t *first; /* one entry per sequence and one more: the place of its first document in the order
			    of documents */
	uint64_t sequences;
	uint64_t cut, longest; /* number of documents that are cut; tokens of the longest document */
	uint64_t tokens;       /* tokens in sequences */
} p4d_packed;

/* Packs the documents. Errors: NO_MEMORY. */
int p4d_packed__open(p4d_packed *packed, const p4d_shuffled *set, uint64_t seq_len, bool pairs,
		     const char *name, p4d_error *err);
void p4d_packed__close(p4d_packed *packed);

/* Document i of a sequence, cut to its length; false: there are fewer. Empty documents count. */
bool p4d_packed__document(const p4d_packed *packed, uint64_t sequence, uint64_t i, p4d_document *document);
