/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <json-c/json.h>

#include "data/tokenizer.h"

/*
 * Conversations as tokens: [{"role": "system"|"user"|"assistant", "content": TEXT}, ...] in the form of a
 * chat template. The template is one that p4d knows by name, or one in Jinja. p4d decides which tokens are
 * trained on:
 *
 * - with a template that p4d knows: the content of the assistant's messages and the end of its turns;
 * - with a template in Jinja: the text between {% generation %} and {% endgeneration %}; without these, the
 * part by which a conversation with the assistant's message is longer than one that asks for it
 *   (add_generation_prompt). Both must be prefixes of the whole conversation.
 *
 * A token that lies only partly in an answer is also trained on. Some templates change an answer if
 * another message follows: Qwen3 then omits its thoughts. The caller must pass such a conversation once
 * for each answer, cut off after this answer, with `last`.
 */
typedef struct p4d_chat {
	const struct p4d_chat_template *template; /* NULL unless it is a template that p4d knows */
	struct p4d_chat_jinja *jinja;             /* or a template in Jinja */
	const p4d_tokenizer *tokenizer;
	bool last;                  /* the caller's choice: train only on the last answer */
	struct p4d_chat_name *name; /* special tokens that the template may write */
	size_t names, names_room;
	char *text; /* text of a conversation */
	size_t length, room;
	int32_t *tokens; /* tokens: of the whole text. part: of the beginning of the text, to compare. */
	size_t count, tokens_room;
	int32_t *part;
	size_t part_count, part_room;
	struct p4d_chat_answer *answer;
	size_t answers, answers_room;
	struct p4d_chat_cut *cut;
	size_t cuts, cuts_room;
	struct p4d_chat_piece *piece; /* the text of each token */
	char *pieces;
	size_t pieces_length, pieces_room;
} p4d_chat;

/* A line of data: its messages, and the object that contains them. */
typedef struct p4d_conversation {
	struct json_object *messages, *line;
} p4d_conversation;

/* Called with tokens in order. trained: whether they are trained on. */
typedef int (*p4d_chat_sink)(void *context, const int32_t *tokens, size_t count, bool trained,
			     p4d_error *err);

/*
 * template: a name that p4d knows, or what chat_source.h describes. date: the date that a template shows
 * as today's, YYYY-MM-DD; NULL: a template that asks for the date fails. The tokenizer is borrowed;
 * tokenizer_name is the name given to p4d_tokenizer_open. The tokenizer `bytes` has no special tokens, so
 * they are spelled out as text. Errors: VALUE (no such template, one that is wrong or not supported, or
 * the tokenizer lacks its tokens), JSON, IO, NO_MEMORY.
 */
int p4d_chat__open(p4d_chat *chat, const char *template, const char *date, const p4d_tokenizer *tokenizer,
		   const char *tokenizer_name, p4d_error *err);
void p4d_chat__close(p4d_chat *chat);

/* The name of the template in use, or the path of its file. */
const char *p4d_chat__taken(const p4d_chat *chat);

/* A message's role; "": it has none, or there is no such message. */
const char *p4d_chat__role(struct json_object *messages, size_t i);

/* Whether a message is the assistant's. */
bool p4d_chat__is_answer(struct json_object *messages, size_t i);

/*
 * Encodes a conversation and passes its tokens to the sink. A template in Jinja also gets the line's tools (a
 * list, or JSON of one) and the members of chat_template_kwargs as variables. Errors: VALUE (what is wrong in
 * which message, or the template's own refusal), those of the tokenizer and the sink, NO_MEMORY.
 */
int p4d_chat__encode(p4d_chat *chat, const p4d_conversation *conversation, p4d_chat_sink sink, void *context,
		     p4d_error *err);
