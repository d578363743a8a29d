/* SPDX-License-Identifier: Apache-2.0 */
#include "data/packed.h"

#include <inttypes.h>
#include <stdlib.h>

/*
 * Returns how many tokens of a document are used: at most as many as a sequence has. place: the document's
 * place in the order. *whole: number of all its tokens.
 */
static uint64_t length_at(const p4d_packed *p, uint64_t place, uint64_t *whole)
{
	*whole = p4d_shuffled__document(p->set, &p->order, place).count;
	return *whole < p->seq_len ? *whole : p->seq_len;
}

/*
 * Packs all documents. Counts p->cut, p->tokens and p->longest, and returns the number of sequences. first[i]
 * becomes the place of sequence i's first document; `first` may be NULL.
 */
static uint64_t pack(p4d_packed *p, uint64_t *first)
{
	uint64_t used = 0, sequences = 0, whole;

	p->cut = p->tokens = p->longest = 0;
	for (uint64_t place = 0; place < p->set->documents; place++) {
		const uint64_t length = length_at(p, place, &whole);
		if (!place || used + length > p->seq_len) {
			if (first)
				first[sequences] = place;
			sequences++;
			used = 0;
		}
		used += length;
		p->tokens += length;
		p->cut += whole > length;
		p->longest = whole > p->longest ? whole : p->longest;
	}
	return sequences;
}

/* Document number i, 0 or 1, of a pair. */
static p4d_document of_pair(const p4d_packed *p, uint64_t pair, uint64_t i, uint64_t *whole)
{
	p4d_document document = p4d_tokens__document(p->set->tokens, 2 * pair + i);

	*whole = document.count;
	document.count = document.count < p->seq_len / 2 ? document.count : p->seq_len / 2;
	return document;
}

static void count_pairs(p4d_packed *p)
{
	uint64_t whole;

	p->sequences = p->set->documents / 2;
	for (uint64_t i = 0; i < p->set->documents; i++) {
		const uint64_t length = of_pair(p, i / 2, i % 2, &whole).count;
		p->tokens += length;
		p->cut += whole > length;
		p->longest = whole > p->longest ? whole : p->longest;
	}
}

int p4d_packed__open(p4d_packed *packed, const p4d_shuffled *set, uint64_t seq_len, bool pairs,
		     const char *name, p4d_error *err)
{
	p4d_packed made = {.set = set, .seq_len = seq_len, .pairs = pairs};

	if (pairs) {
		count_pairs(&made);
		*packed = made;
		return 0;
	}
	p4d_permutation__init(&made.order, set->documents, p4d_mix(set->key));
	made.sequences = pack(&made, NULL);
	made.first = calloc(made.sequences + 1, sizeof(*made.first));
	if (!made.first)
		return p4d_fail(err, P4D_E_NO_MEMORY,
				"%.200s: no memory for the places of %" PRIu64 " sequences", name,
				made.sequences);
	pack(&made, made.first);
	made.first[made.sequences] = set->documents;
	*packed = made;
	return 0;
}

void p4d_packed__close(p4d_packed *packed)
{
	free(packed->first);
	*packed = (p4d_packed){.first = NULL};
}

bool p4d_packed__document(const p4d_packed *p, uint64_t sequence, uint64_t i, p4d_document *document)
{
	uint64_t whole;

	if (p->pairs) {
		if (i < 2)
			*document = of_pair(p, sequence, i, &whole);
		return i < 2;
	}
	const uint64_t place = p->first[sequence] + i;
	if (place >= p->first[sequence + 1])
		return false;
	*document = p4d_shuffled__document(p->set, &p->order, place);
	document->count = document->count < p->seq_len ? document->count : p->seq_len;
	return true;
}
