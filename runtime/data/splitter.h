/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <json-c/json.h>

#include "base/error.h"

/*
 * The "pre_tokenizer" of a tokenizer.json. It splits a text into words, which are then encoded separately. A
 * zeroed splitter makes one word of the whole text.
 */
typedef struct p4d_splitter {
	struct p4d_splitter_step *steps;
	size_t count;
	bool byte_level; /* the model's symbols are bytes */
} p4d_splitter;

/* Called with every word. Returns 0, or -1 with *err filled. */
typedef int (*p4d_word_sink)(void *context, const char *word, size_t length, p4d_error *err);

/*
 * description: NULL if the file has no pre_tokenizer. The caller closes it, also after an error. Errors:
 * VALUE (an unknown kind), NO_MEMORY.
 */
int p4d_splitter__open(p4d_splitter *splitter, struct json_object *description, p4d_error *err);
void p4d_splitter__close(p4d_splitter *splitter);

/*
 * Splits a text (valid UTF-8) and passes its words to the sink. first: the text is the beginning of a
 * document. Errors: the sink's, VALUE, NO_MEMORY.
 */
int p4d_splitter__apply(const p4d_splitter *splitter, const char *text, size_t length, bool first,
			p4d_word_sink sink, void *context, p4d_error *err);
