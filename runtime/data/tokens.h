/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/*
 * Tokenized text in memory-mapped files:
 *
 * Megatron-LM (MMapIndexedDataset): PREFIX.bin has the tokens, PREFIX.idx the places of sequences and
 * documents. All numbers are little-endian: "MMIDIDX\0\0", u64 version 1, u8 type (1 u8, 2 i8, 3 i16, 4 i32,
 * 5 i64, 8 u16; 6 and 7 are floating-point), u64 sequences, u64 bounds, i32 length of each sequence in
 * tokens, i64 offset of each sequence in PREFIX.bin in bytes, i64 bounds: document d is the sequences
 * bounds[d] .. bounds[d+1]-1. A byte for each sequence may follow (its mode in multimodal data); it is not
 * used.
 *
 * llm.c: 256 i32 of header: magic, version, number of tokens; then the tokens. Magic 20240520 with version 1:
 * u16; magic 20240801 with version 7: u32. No index: documents begin with a delimiter (GPT-2: 50256, Llama 3:
 * 128000), which the caller may name.
 *
 * PREFIX.mask, if it exists, says which tokens are trained on: "P4DMASK" and a NUL, u64 number of tokens,
 * then a bit for each token, beginning with the lowest bit of each byte. Without this file all tokens are
 * trained on. With "P4DPAIR" instead of "P4DMASK", documents 2 i and 2 i + 1 are a pair: a prompt with the
 * chosen answer, and the prompt with the rejected answer.
 *
 * All errors are NO_MEMORY, or P4D_E_DATA with the file, the byte and what was expected. Files without tokens
 * are an error.
 */
typedef struct p4d_tokens p4d_tokens;

typedef struct p4d_tokens_options {
	uint64_t vocabulary; /* tokens are 0 .. vocabulary-1; at most 2^31 */
	/*
	 * llm.c: the token with which each document begins. P4D_NO_DELIMITER: the file is one document. With
	 * a delimiter, opening reads the whole file and needs 8 bytes of memory per document.
	 */
	int64_t delimiter;
} p4d_tokens_options;

enum { P4D_NO_DELIMITER = -1 };

/*
 * path: PREFIX, PREFIX.bin, PREFIX.idx, or a .bin of llm.c. The index is checked here; tokens are checked
 * when they are read.
 */
int p4d_tokens__open(p4d_tokens **tokens, const char *path, const p4d_tokens_options *options,
		     p4d_error *err);

/*
 * Like p4d_tokens__open, for bytes in memory, which are borrowed. index NULL: the data are in llm.c's format.
 * Messages call the data `name`.bin and the index `name`.idx.
 */
int p4d_tokens__parse(p4d_tokens **tokens, const char *name, const void *index, uint64_t index_bytes,
		      const void *data, uint64_t data_bytes, const p4d_tokens_options *options,
		      p4d_error *err);
void p4d_tokens__close(p4d_tokens *tokens);

uint64_t p4d_tokens__total(const p4d_tokens *tokens); /* tokens of all documents */
uint64_t p4d_tokens__documents(const p4d_tokens *tokens);
/* False: the documents are unknown, so all tokens are one document (llm.c without a delimiter). */
bool p4d_tokens__has_boundaries(const p4d_tokens *tokens);

/* A document. first: index of its first token in the data. count: its length, which may be 0. */
typedef struct p4d_document {
	uint64_t first, count;
} p4d_document;
p4d_document p4d_tokens__document(const p4d_tokens *tokens, uint64_t number);
/*
 * Returns the length of a document. This is faster than p4d_tokens__document: it needs half the memory
 * traffic if each document is one sequence.
 */
uint64_t p4d_tokens__length(const p4d_tokens *tokens, uint64_t number);

/*
 * A hash of the lengths of all documents and of samples of the tokens, which must be within the vocabulary.
 * Files that differ in more than a few places almost certainly have different hashes.
 */
int p4d_tokens__hash(const p4d_tokens *tokens, uint64_t *hash, p4d_error *err);

/* Whether there is a mask file for this path. */
bool p4d_tokens__is_masked(const char *path);
/*
 * Whether the dataset has a mask. p4d_tokens__is_trained: whether the mask says that a token is trained on;
 * `token` counts as in p4d_document.
 */
bool p4d_tokens__has_mask(const p4d_tokens *tokens);
/* Whether the documents are pairs. Their number is then even. */
bool p4d_tokens__has_pairs(const p4d_tokens *tokens);
/* Whether an index marks the documents; otherwise the delimiter does. */
bool p4d_tokens__has_index(const p4d_tokens *tokens);
bool p4d_tokens__is_trained(const p4d_tokens *tokens, uint64_t token);

/*
 * Reads tokens first .. first+count-1. Fails if a token is outside the vocabulary; `out` is then undefined.
 */
int p4d_tokens__read(const p4d_tokens *tokens, uint64_t first, uint64_t count, int32_t *out, p4d_error *err);
