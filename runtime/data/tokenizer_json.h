/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <json-c/json.h>

#include "data/tokenizer.h"

/* A tokenizer.json of Hugging Face's tokenizers with a model of type BPE. */
typedef struct p4d_tokenizer_json p4d_tokenizer_json;

/*
 * The caller closes it. Errors: JSON, IO, NO_MEMORY, VALUE (an unknown member; none is ignored except
 * "truncation", "padding" and "decoder", which do not affect the tokens of a text).
 */
int p4d_tokenizer__json_open(p4d_tokenizer_json **json, const char *path, p4d_error *err);
int p4d_tokenizer__json_parse(p4d_tokenizer_json **json, struct json_object *root, p4d_error *err);
void p4d_tokenizer__json_close(p4d_tokenizer_json *json);

/* The tokens that its template adds before and after a text; -1: none. */
void p4d_tokenizer__json_ends(const p4d_tokenizer_json *json, int32_t *begin, int32_t *end);
int32_t p4d_tokenizer__json_vocabulary(const p4d_tokenizer_json *json);
int32_t p4d_tokenizer__json_token(const p4d_tokenizer_json *json, const char *name);

/* Like p4d_tokenizer_encode; also VALUE if the text is not UTF-8. */
int p4d_tokenizer__json_encode(p4d_tokenizer_json *json, const char *text, size_t length, p4d_token_sink sink,
			       void *context, p4d_error *err);

/* Like p4d_tokenizer_text. */
size_t p4d_tokenizer__json_text(const p4d_tokenizer_json *json, int32_t token, char *buf, size_t size);
