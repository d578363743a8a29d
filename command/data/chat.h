/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <json-c/json.h>

#include "data/tokenizer.h"

/*
 * Conversations as tokens: [{"role": "system"|"user"|"assistant", "content": TEXT}, ...] in the form of a
 * chat template. The tokens of an answer that are trained on are those of its content and of the end of its
 * turn. A token that begins before an answer and reaches into it counts as part of the answer.
 */
typedef struct p4d_chat {
	const struct p4d_chat_template *template;
	const p4d_tokenizer *tokenizer;
	char *text; /* text of a conversation */
	size_t length, room;
	int32_t *tokens; /* tokens of the whole text, and of its beginning, to compare them */
	size_t count, tokens_room;
	int32_t *part;
	size_t part_count, part_room;
	struct p4d_chat_answer *answer;
	size_t answers, answers_room;
	struct p4d_chat_cut *cut;
	size_t cuts, cuts_room;
} p4d_chat;

/* Called with tokens in order. trained: whether they are. */
typedef int (*p4d_chat_sink)(void *context, const int32_t *tokens, size_t count, bool trained,
			     p4d_error *err);

/*
 * The tokenizer is borrowed. bytes, which has no names, spells special tokens. Errors: VALUE (no such
 * template, or the tokenizer lacks its tokens).
 */
int p4d_chat__open(p4d_chat *chat, const char *template, const p4d_tokenizer *tokenizer, p4d_error *err);
void p4d_chat__close(p4d_chat *chat);

/* Errors: VALUE (what is wrong in which message), those of the tokenizer and the sink, NO_MEMORY. */
int p4d_chat__encode(p4d_chat *chat, struct json_object *messages, p4d_chat_sink sink, void *context,
		     p4d_error *err);
