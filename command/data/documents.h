/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <json-c/json.h>

#include "base/error.h"
#include "data/unpack.h"

/* Documents from text files, for `p4d data`. */
typedef enum p4d_document_form {
	P4D_WHOLE_FILE,    /* a file is one document, of at most 1 GiB */
	P4D_EACH_LINE,     /* each line is one document, without its line break */
	P4D_JSON_LINES,    /* each line is a JSON object; one of its members is the document */
	P4D_CONVERSATIONS, /* like P4D_JSON_LINES, but the document is a list of messages */
	P4D_PAIRS,         /* like P4D_JSON_LINES, but the caller reads a pair's answers from `object` */
} p4d_document_form;

typedef struct p4d_documents {
	p4d_document_form form;
	const char *field; /* member of a JSON line that has the document; NULL: as described in
			    * conversation.h */
	bool tokens;       /* the field is a list of tokens instead of a text */

	const char *name; /* name of the open file */
	FILE *in;
	p4d_unpack_fault fault; /* why a compressed file cannot be read */
	bool done;
	uint64_t line;
	uint64_t read_bytes; /* bytes read of all files so far */
	char *buffer;
	size_t size;
	struct json_object *object, *messages; /* object: JSON object of the current line. messages: its
						* messages, if p4d made them from other members. */
	struct json_tokener *tokener;
	int32_t *ids;
	size_t room;
} p4d_documents;

/* One document: a text, tokens, or a list of messages. Valid until the next call. */
typedef struct p4d_document_text {
	const char *text;
	size_t length;
	const int32_t *ids; /* `length` tokens */
	struct json_object *messages;
} p4d_document_text;

/* path "-" is standard input. Expands a file that gzip or zstd compressed. Skips a byte order mark. All
 * members except form, field and tokens must be zero. Errors: IO. */
int p4d_documents__open(p4d_documents *documents, const char *path, p4d_error *err);
/*
 * Returns 1 and *document; 0 at the end; -1 with IO, JSON (`file:line: what`), NO_MEMORY. Skips empty lines.
 */
int p4d_documents__next(p4d_documents *documents, p4d_document_text *document, p4d_error *err);
void p4d_documents__close(p4d_documents *documents); /* closes the file; another one may be opened */
void p4d_documents__free(p4d_documents *documents);
