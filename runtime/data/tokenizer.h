/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/*
 * Text to tokens. "bytes": every byte is a token, 256 ends a document; needs nothing. A SentencePiece model
 * file: its pieces and its end-of-sentence piece, when p4d was built with libsentencepiece
 * (libp4d-sentencepiece.so, see library.h).
 */
typedef struct p4d_tokenizer {
	uint64_t vocabulary;
	int32_t end;                                   /* token after each document; -1: none */
	const struct p4d_sentencepiece *sentencepiece; /* of a model file; NULL for bytes */
	void *model;
} p4d_tokenizer;

/* Called with the tokens of a text, in order, in chunks. Returns 0, or -1 with *err filled. */
typedef int (*p4d_token_sink)(void *context, const int32_t *tokens, uint64_t count, p4d_error *err);

/*
 * Errors: VALUE (a Hugging Face tokenizer.json; built without SentencePiece; not a model), IO, NO_MEMORY.
 */
int p4d_tokenizer_open(p4d_tokenizer *tokenizer, const char *name, p4d_error *err);
void p4d_tokenizer_close(p4d_tokenizer *tokenizer);

/* The token of that name, "<|im_end|>" for instance; -1: there is none. */
int32_t p4d_tokenizer_token(const p4d_tokenizer *tokenizer, const char *name);

/* Encodes a whole document, without the token that ends it. Errors: those of the sink, VALUE, NO_MEMORY. */
int p4d_tokenizer_encode(const p4d_tokenizer *tokenizer, const char *text, size_t length, p4d_token_sink sink,
			 void *context, p4d_error *err);
