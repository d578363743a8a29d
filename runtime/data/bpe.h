/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <json-c/json.h>

#include "data/tokenizer.h"

/*
 * Byte-pair encoding with the "model" of a tokenizer.json: a word becomes symbols. The pair of symbols that
 * comes first in the list of merges is joined, until no pair is in the list.
 */
typedef struct p4d_bpe p4d_bpe;

/*
 * byte_level: symbols are bytes, which the vocabulary spells as printable characters; else they are
 * characters. The caller closes it. Errors: VALUE (not such a model, or one with unknown properties),
 * NO_MEMORY.
 */
int p4d_bpe__open(p4d_bpe **bpe, struct json_object *model, bool byte_level, p4d_error *err);
void p4d_bpe__close(p4d_bpe *bpe);

int32_t p4d_bpe__vocabulary(const p4d_bpe *bpe);              /* its largest token plus 1 */
int32_t p4d_bpe__token(const p4d_bpe *bpe, const char *name); /* the token with this spelling in the file;
							       * -1: none */

/* Passes the tokens of a word on, which must be valid UTF-8. Errors: those of the sink, NO_MEMORY. */
int p4d_bpe__word(p4d_bpe *bpe, const char *word, size_t length, p4d_token_sink sink, void *context,
		  p4d_error *err);

/* Writes the bytes of a token to buf; returns their number. */
size_t p4d_bpe__text(const p4d_bpe *bpe, int32_t token, char *buf, size_t size);
