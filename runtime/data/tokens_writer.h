/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_TOKENS_WRITER_H
#define P4D_TOKENS_WRITER_H

#include <stdint.h>

#include "base/error.h"
#include "base/new_file.h"

/*
 * Writes PREFIX.bin and PREFIX.idx in the form of Megatron-LM (see tokens.h), one sequence for each document:
 * u16 for vocabularies of up to 65536 tokens, else i32. Both files appear when they are complete. Keeps 4
 * bytes of memory per document. Zero before use.
 */
typedef struct p4d_tokens_writer {
	p4d_new_file data, index;
	char *index_path;
	uint64_t vocabulary;
	int32_t *length; /* of each document */
	uint64_t documents, room;
	uint64_t open_tokens; /* of the document under work */
	uint64_t tokens;      /* of all, with the open one */
} p4d_tokens_writer;

/* vocabulary: 1 to 2^31. Errors of all: IO, NO_MEMORY, VALUE; after one only abandon is left to do. */
int p4d_tokens_writer_open(p4d_tokens_writer *writer, const char *prefix, uint64_t vocabulary,
			   p4d_error *err);
/* Appends to the document under work. */
int p4d_tokens_writer_add(p4d_tokens_writer *writer, const int32_t *tokens, uint64_t count, p4d_error *err);
/* Ends it. A document without tokens leaves no trace. */
int p4d_tokens_writer_end(p4d_tokens_writer *writer, p4d_error *err);
/* Writes the index and gives both files their names, which replaces what was there. */
int p4d_tokens_writer_close(p4d_tokens_writer *writer, p4d_error *err);
/* Removes what was written, unless it was closed. */
void p4d_tokens_writer_abandon(p4d_tokens_writer *writer);

#endif
