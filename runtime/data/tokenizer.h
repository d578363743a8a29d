/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/*
 * Turns text into tokens. There are four kinds of names. "bytes": every byte is a token, and token 256 ends a
 * document; needs no file. FILE.json: a tokenizer.json of Hugging Face's tokenizers with byte-pair encoding,
 * if p4d was built with PCRE2 and utf8proc. The tokens of its template begin and end a document. If the
 * template has none at the end, the eos_token of the tokenizer_config.json next to it ends a document. Any
 * other file: a SentencePiece model, whose end-of-sentence piece ends a document, if p4d was built with
 * libsentencepiece (libp4d-sentencepiece.so, see library.h). A folder, or ORG/NAME in the cache of the
 * Hugging Face hub: its tokenizer.json, else its tokenizer.model.
 */
enum { P4D_TOKENIZER_BYTES = 257 }; /* tokens of "bytes" */

typedef struct p4d_tokenizer {
	uint64_t vocabulary;
	int32_t begin, end; /* tokens that precede and follow each document; -1: none */
	const struct p4d_tokenizer_kind *kind;
	void *model;
} p4d_tokenizer;

/* Called with the tokens of a text, in order, in chunks. Returns 0, or -1 with *err filled. */
typedef int (*p4d_token_sink)(void *context, const int32_t *tokens, uint64_t count, p4d_error *err);

/* Errors: VALUE (built without the library; not a model, or an unknown one), JSON, IO, NO_MEMORY. */
int p4d_tokenizer_open(p4d_tokenizer *tokenizer, const char *name, p4d_error *err);
/* Whether a folder has one of the files that p4d_tokenizer_open looks for. */
bool p4d_tokenizer_is_in(const char *folder);
void p4d_tokenizer_close(p4d_tokenizer *tokenizer);

/* The token with this name, such as "<|im_end|>"; -1: there is none. */
int32_t p4d_tokenizer_token(const p4d_tokenizer *tokenizer, const char *name);

/* Whether p4d_tokenizer_encode recognizes names of special tokens in a text. */
bool p4d_tokenizer_reads_names(const p4d_tokenizer *tokenizer);

/*
 * Writes the bytes that a token represents to buf; returns their number. If a character consists of several
 * tokens, each represents some of its bytes. A special token represents its name.
 */
size_t p4d_tokenizer_text(const p4d_tokenizer *tokenizer, int32_t token, char *buf, size_t size);

/*
 * Encodes a whole document, without the tokens that begin and end it. Names of special tokens in the text
 * become these tokens, except with a SentencePiece model. Errors: those of the sink, VALUE (tokenizer.json:
 * not UTF-8), NO_MEMORY.
 */
int p4d_tokenizer_encode(const p4d_tokenizer *tokenizer, const char *text, size_t length, p4d_token_sink sink,
			 void *context, p4d_error *err);
