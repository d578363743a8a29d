/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <json-c/json.h>

#include "data/tokenizer.h"

/*
 * Byte-pair encoding with the "model" of a tokenizer.json. A word is split into symbols. Then, of all
 * adjacent pairs, the pair that comes first in the list of merges is joined, until no pair is in the list.
 */
typedef struct p4d_bpe p4d_bpe;

/*
 * byte_level: symbols are bytes, which the vocabulary spells as printable characters. Otherwise symbols are
 * characters. The caller closes it. Errors: VALUE (not such a model, or one with unknown properties),
 * NO_MEMORY.
 */
int p4d_bpe__open(p4d_bpe **bpe, struct json_object *model, bool byte_level, p4d_error *err);
void p4d_bpe__close(p4d_bpe *bpe);

int32_t p4d_bpe__vocabulary(const p4d_bpe *bpe); /* the largest token of the vocabulary plus 1 */
/* the token that the file spells like this; -1: none */
int32_t p4d_bpe__token(const p4d_bpe *bpe, const char *name);

/*
 * Passes the tokens of a word to the sink. The word must be valid UTF-8. Errors: those of the sink,
 * NO_MEMORY.
 */
int p4d_bpe__word(p4d_bpe *bpe, const char *word, size_t length, p4d_token_sink sink, void *context,
		  p4d_error *err);

/* Writes the bytes that a token stands for to buf; returns their number. */
size_t p4d_bpe__text(const p4d_bpe *bpe, int32_t token, char *buf, size_t size);
