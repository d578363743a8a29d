/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "data/tokens.h"

/*
 * The tokens of each training step. Samples are numbered from the start of training. Sample k depends only on
 * the datasets, their weights, the sequence length, the seed and k. So the order is the same on every layout,
 * and the state for resuming is one number: how many samples were consumed.
 *
 * A pass over a dataset shuffles its documents (differently in each pass), splits their concatenation into
 * chunks of seq_len tokens and shuffles these. A sample is a chunk and the token after it: seq_len inputs and
 * their labels. The remainder of a pass (less than seq_len + 1 tokens) is in no sample of that pass.
 *
 * Packed, a sample is a sequence of packed.h instead: whole documents, followed by tokens 0 that belong to no
 * document and have no labels. Passes shuffle the sequences.
 *
 * If a dataset has a mask, labels that are not trained on are also -1.
 *
 * The documents for validation depend only on the dataset and the fraction: another seed does not move them
 * into training.
 *
 * Single-threaded. Allocates only while it is opened; uses 2 bytes per 8 documents.
 */
typedef struct p4d_sampler p4d_sampler;

typedef struct p4d_sampler_options {
	uint64_t seed;
	uint64_t seq_len;          /* 1 to 2^30 */
	p4d_tokens_options tokens; /* options of every dataset */
	/* The fraction of each dataset's documents that is split off; rounded, but at least one document
	 * if it is above 0. 0 to below 1. */
	double validation;
	bool validate; /* take samples from the split-off documents instead of the others */
	/* Documents do not attend to each other. The first token of a document is no label (-1), because
	 * nothing predicts it. Otherwise a sample is one text. */
	bool boundaries;
	bool reset_positions; /* positions start from 0 in each document of a sample */
	bool packed;          /* only with boundaries */
	bool pairs; /* packed: documents are pairs, one in a sample (packed.h); not with validation */
} p4d_sampler_options;

/*
 * blend: "PATH", "WEIGHT PATH WEIGHT PATH ..." or "PATH PATH ..." with weights as the number of tokens; paths
 * as p4d_tokens__open takes them. Errors: VALUE, NO_MEMORY, DATA (also when a dataset has less than seq_len +
 * 1 tokens, or no boundaries where they are required).
 */
int p4d_sampler_open(p4d_sampler **sampler, const char *blend, const p4d_sampler_options *options,
		     p4d_error *err);
void p4d_sampler_close(p4d_sampler *sampler);

/* A hash of the data, its weights and the options except reset_positions: samplers with different samples
 * have different hashes. Reads the index and some of the tokens. Errors: DATA (a token outside the
 * vocabulary). */
int p4d_sampler_hash(const p4d_sampler *sampler, uint64_t *hash, p4d_error *err);

/* Number of tokens and samples of one pass over all datasets, without the documents that are split off. */
uint64_t p4d_sampler_tokens(const p4d_sampler *sampler);
uint64_t p4d_sampler_samples(const p4d_sampler *sampler);

/*
 * A number for a sample's tokens, below p4d_sampler_samples: it is the same whenever a later pass has these
 * tokens again. Only for packed samples.
 */
uint64_t p4d_sampler_place(p4d_sampler *sampler, uint64_t sample);

/*
 * Number of samples after which each document was seen once. Errors: VALUE if weights let datasets end at
 * different times, with the first and the last.
 */
int p4d_sampler_epoch(const p4d_sampler *sampler, uint64_t *samples, p4d_error *err);

/*
 * Mean tokens of a document in the datasets of a --data text, all of them together, rounded up; from their
 * indexes alone. 0: unknown (no index, or a dataset cannot be read).
 */
uint64_t p4d_sampler_document_len(const char *text);

/* Whether any dataset's documents are marked by the option's delimiter, as in datasets without an index. */
bool p4d_sampler_takes_delimiter(const p4d_sampler *sampler);

/* For packed samples: number of documents longer than a sequence, tokens of the longest one, and tokens in
 * sequences. */
typedef struct p4d_sampler_packing {
	uint64_t sequences, tokens, cut, longest;
} p4d_sampler_packing;
p4d_sampler_packing p4d_sampler_packing_of(const p4d_sampler *sampler);

/* Whether any dataset of a blend has a mask file; false if the blend is malformed. */
bool p4d_sampler_is_masked(const char *blend);

/*
 * The first sample of micro-batch `micro_batch` (0 .. global/(dp*size)-1) of a step on data-parallel rank
 * `rank`, with `size` samples each. consumed: samples before the step.
 */
static inline uint64_t p4d_first_sample(uint64_t consumed, uint64_t micro_batch, uint64_t size, uint64_t rank,
					uint64_t dp)
{
	return consumed + (micro_batch * dp + rank) * size;
}

/* Arrays that the sampler fills, each with (samples, seq_len / cp) elements. NULL: not wanted. */
typedef struct p4d_samples {
	int32_t *tokens, *labels; /* labels: -1 if there is none */
	int32_t *positions;       /* position of each token in its sequence or, with reset_positions, in
				   * its document */
	int32_t *documents;       /* number of the document in the sample, from 0; all 0 without boundaries */
} p4d_samples;

/*
 * Fills one context-parallel rank's part of samples first .. first+count-1: chunks `rank` and 2*cp-1-rank of
 * 2*cp equal chunks of each sequence, concatenated, so that causal attention is equal work for all ranks.
 * With cp = 1 the whole sequence. Errors: VALUE (seq_len is not a multiple of 2*cp), DATA.
 */
int p4d_sampler_fill(p4d_sampler *sampler, uint64_t first, uint64_t count, uint64_t rank, uint64_t cp,
		     const p4d_samples *out, p4d_error *err);
