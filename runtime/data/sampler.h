/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_SAMPLER_H
#define P4D_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "data/tokens.h"

/*
 * Which tokens a training step sees. Samples are numbered from the start of the training; what sample k
 * consists of follows from the datasets, their weights, the sequence length, the seed and k alone. So the
 * order is the same on every layout, and resuming takes one number: how many samples were consumed.
 *
 * A pass over a dataset puts its documents into a random order (another one for each pass), cuts their
 * concatenation into pieces of seq_len tokens and takes these in a random order. A sample is a piece and the
 * token behind it: seq_len inputs and their labels. What is left at the end of a pass (less than seq_len + 1
 * tokens) is in no sample of that pass.
 *
 * Documents set apart for validation are chosen by the dataset and the fraction only: another seed does not
 * let them into the training.
 *
 * A sampler is used by one thread. It allocates when it is opened and never again; it keeps 2 bytes per 8
 * documents.
 */
typedef struct p4d_sampler p4d_sampler;

typedef struct p4d_sampler_options {
	uint64_t seed;
	uint64_t seq_len;          /* 1 to 2^30 */
	p4d_tokens_options tokens; /* of every dataset */
	/* Of each dataset's documents: validation*documents, rounded, at least one when it is above 0, are
	 * set apart. 0 to below 1. */
	double validation;
	bool validate; /* samples from these instead of from the others */
	/* Documents do not see each other: the first token of a document is no label (-1), as nothing before
	 * it tells of it. Else a sample is one text. */
	bool boundaries;
	bool reset_positions; /* count from 0 in each document of a sample */
} p4d_sampler_options;

/*
 * blend: "PATH", "WEIGHT PATH WEIGHT PATH ..." or "PATH PATH ..." with weights as the number of tokens; paths
 * as p4d_tokens__open takes them. Errors: VALUE, NO_MEMORY, DATA (also when a dataset has less than seq_len +
 * 1 tokens, or with boundaries a dataset that has none).
 */
int p4d_sampler_open(p4d_sampler **sampler, const char *blend, const p4d_sampler_options *options,
		     p4d_error *err);
void p4d_sampler_close(p4d_sampler *sampler);

/* Tokens and samples of one pass over all datasets, without the documents that are set apart. */
uint64_t p4d_sampler_tokens(const p4d_sampler *sampler);
uint64_t p4d_sampler__samples(const p4d_sampler *sampler);

/*
 * Of the micro-batches of a step, the first sample of number `micro_batch` (0 .. global/(dp*size)-1) on
 * data-parallel rank `rank`, of `size` samples each. consumed: samples before the step.
 */
static inline uint64_t p4d_first_sample(uint64_t consumed, uint64_t micro_batch, uint64_t size, uint64_t rank,
					uint64_t dp)
{
	return consumed + (micro_batch * dp + rank) * size;
}

/* Where samples go: arrays of (samples, seq_len / cp). NULL: not wanted. */
typedef struct p4d_samples {
	int32_t *tokens, *labels; /* labels: -1 where none is to be learned */
	int32_t *positions;       /* of each token in its sequence or, with reset_positions, document */
	int32_t *documents; /* ordinal of the document in the sample, from 0; all 0 without boundaries */
} p4d_samples;

/*
 * Fills one context-parallel rank's part of samples first .. first+count-1: pieces `rank` and 2*cp-1-rank of
 * 2*cp equal pieces of each sequence, one behind the other, so that causal attention is equal work for all.
 * With cp = 1 the whole sequence. Errors: VALUE (seq_len is no multiple of 2*cp), DATA.
 */
int p4d_sampler_fill(p4d_sampler *sampler, uint64_t first, uint64_t count, uint64_t rank, uint64_t cp,
		     const p4d_samples *out, p4d_error *err);

/*
 * Labels that are not -1 in samples first .. first+count-1, over all context-parallel ranks: what the loss of
 * a step is averaged over, known without communication. Reads no tokens.
 */
uint64_t p4d_sampler__trained(p4d_sampler *sampler, uint64_t first, uint64_t count);

#endif
