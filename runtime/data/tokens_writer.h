/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/new_file.h"

/*
 * Writes PREFIX.bin and PREFIX.idx in Megatron-LM's format (see tokens.h), one sequence per document: u16 for
 * vocabularies of up to 65536 tokens, else i32. The files get their names only when they are complete. It
 * uses 4 bytes of memory per document. If masked, it also writes PREFIX.mask; otherwise it removes an
 * existing PREFIX.mask, which would belong to other data. If documents are pairs (tokens.h), the mask says
 * so. Zero before use.
 */
typedef struct p4d_tokens_writer {
	p4d_new_file data, index, mask;
	char *index_path, *mask_path;
	bool masked, pairs;
	/* whether the tokens that are added next are trained on; if masked, the caller sets it */
	bool trains;
	uint8_t bits; /* mask bits of the last tokens, until there are eight */
	uint64_t trained;
	uint64_t vocabulary;
	int32_t *length; /* length of each document */
	uint64_t documents;
	size_t room;
	uint64_t open_tokens; /* number of tokens in the open document */
	uint64_t tokens;      /* number of tokens in all documents */
} p4d_tokens_writer;

/*
 * vocabulary: 1 to 2^31. Errors of all these functions: IO, NO_MEMORY, VALUE. After an error, only
 * p4d_tokens_writer_abandon may be called.
 */
int p4d_tokens_writer_open(p4d_tokens_writer *writer, const char *prefix, uint64_t vocabulary, bool masked,
			   bool pairs, p4d_error *err);
/* Appends to the open document. */
int p4d_tokens_writer_add(p4d_tokens_writer *writer, const int32_t *tokens, uint64_t count, p4d_error *err);
/* Ends the open document. A document without tokens is omitted. */
int p4d_tokens_writer_end(p4d_tokens_writer *writer, p4d_error *err);
/* Writes the index and renames the files to their final names. */
int p4d_tokens_writer_close(p4d_tokens_writer *writer, p4d_error *err);
/* Removes the files, unless they were published. */
void p4d_tokens_writer_abandon(p4d_tokens_writer *writer);
