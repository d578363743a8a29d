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
 * A pass over a dataset shuffles its documents, in another order in each pass. Then it splits their
 * concatenation into chunks of seq_len tokens and shuffles the chunks. A sample is a chunk and the token
 * after it: seq_len inputs and their labels. The remainder of a pass (less than seq_len + 1 tokens) is in no
 * sample of that pass.
 *
 * With the option `packed`, a sample is a sequence of packed.h instead: whole documents, followed by tokens 0
 * that belong to no document and have no labels. Each pass shuffles the sequences.
 *
 * If a dataset has a mask, labels that are not trained on are also -1.
 *
 * Which documents are for validation depends only on the dataset and the fraction. So another seed does not
 * move them into training.
 *
 * Single-threaded. Allocates only while it is opened; uses 2 bytes per 8 documents.
 */
typedef struct p4d_sampler p4d_sampler;

typedef struct p4d_sampler_options {
	uint64_t seed;
	uint64_t seq_len;          /* 1 to 2^30 */
	p4d_tokens_options tokens; /* options of every dataset */
	/*
	 * The fraction of each dataset's documents that is split off for validation, from 0 to below 1. The
	 * number of documents is rounded; if the fraction is above 0, it is at least one.
	 */
	double validation;
	bool validate; /* take samples from the split-off documents instead of the others */
	/*
	 * Documents do not attend to each other. The first token of a document is no label (the label is -1),
	 * because no token before it predicts it. Without this option, a sample is one text.
	 */
	bool boundaries;
	bool reset_positions; /* positions start from 0 in each document of a sample */
	bool packed;          /* only with boundaries */
	/*
	 * with `packed`: the documents are pairs, one pair in each sample (packed.h); not together with
	 * `validation`
	 */
	bool pairs;
} p4d_sampler_options;

/*
 * blend: "PATH", "WEIGHT PATH WEIGHT PATH ..." or "PATH PATH ..."; without weights, a dataset's weight is its
 * number of tokens. A path may have any form that p4d_tokens__open takes. Errors: VALUE, NO_MEMORY, DATA
 * (also if a dataset has less than seq_len + 1 tokens, or has no boundaries although they are required).
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
 * Returns a number for the tokens of a sample, below p4d_sampler_samples. If a later pass has the same tokens
 * again, the number is the same. Only for packed samples.
 */
uint64_t p4d_sampler_place(p4d_sampler *sampler, uint64_t sample);

/*
 * Returns after how many samples each document was used once. Errors: VALUE if the weights let datasets end
 * at different times; the message has the first and the last time.
 */
int p4d_sampler_epoch(const p4d_sampler *sampler, uint64_t *samples, p4d_error *err);

/*
 * Returns the mean number of tokens of a document in the datasets of a --data text, over all datasets
 * together, rounded up. Reads only their indexes. 0: unknown (no index, or a dataset cannot be read).
 */
uint64_t p4d_sampler_document_len(const char *text);

/* Whether the option's delimiter marks the documents of any dataset. It does in datasets without an index. */
bool p4d_sampler_takes_delimiter(const p4d_sampler *sampler);

/*
 * For packed samples. cut: number of documents that are longer than a sequence. longest: tokens of the
 * longest document. tokens: tokens in sequences.
 */
typedef struct p4d_sampler_packing {
	uint64_t sequences, tokens, cut, longest;
} p4d_sampler_packing;
p4d_sampler_packing p4d_sampler_packing_of(const p4d_sampler *sampler);

/* Whether any dataset of a blend has a mask file; false if the blend is malformed. */
bool p4d_sampler_is_masked(const char *blend);

/*
 * Returns the first sample of a micro-batch on a data-parallel rank. micro_batch: its number in the step, 0
 * .. global/(dp*size)-1. size: samples per micro-batch. consumed: number of samples before the step.
 */
static inline uint64_t p4d_first_sample(uint64_t consumed, uint64_t micro_batch, uint64_t size, uint64_t rank,
					uint64_t dp)
{
	return consumed + (micro_batch * dp + rank) * size;
}

/* Arrays that the sampler fills, each with (samples, seq_len / cp) elements. NULL: not wanted. */
typedef struct p4d_samples {
	int32_t *tokens, *labels; /* labels: -1 if there is none */
	/* position of each token in its sequence or, with reset_positions, in its document */
	int32_t *positions;
	int32_t *documents; /* number of the document in the sample, from 0; all 0 without boundaries */
} p4d_samples;

/*
 * Fills one context-parallel rank's part of samples first .. first+count-1: Each sequence has 2*cp equal
 * chunks. The rank gets chunks `rank` and 2*cp-1-rank, concatenated, so that all ranks have equally much
 * causal attention. With cp = 1 it gets the whole sequence. Errors: VALUE (seq_len is not a multiple of
 * 2*cp), DATA.
 */
int p4d_sampler_fill(p4d_sampler *sampler, uint64_t first, uint64_t count, uint64_t rank, uint64_t cp,
		     const p4d_samples *out, p4d_error *err);
