/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/chat.h"

/* Where an answer begins and ends in the text. */
typedef struct p4d_chat_answer {
	size_t from, to;
} p4d_chat_answer;

/*
 * A position at which a special token of the template begins. Tokenizers split texts there first, so the
 * tokens after it do not depend on the text before it. token: index of the first token after the position,
 * counted in the whole text.
 */
typedef struct p4d_chat_cut {
	size_t at, token;
} p4d_chat_cut;

/* A special token that the template may write. begins: some part of the text begins with it. */
typedef struct p4d_chat_name {
	char *text;
	size_t length;
	int32_t token; /* -1: the tokenizer does not have it */
	bool begins;
} p4d_chat_name;

/* Sets *err to NO_MEMORY; returns -1. */
int p4d_chat__no_memory(p4d_error *err);
int p4d_chat__put(p4d_chat *chat, const char *text, size_t length, p4d_error *err);
int p4d_chat__add_cut(p4d_chat *chat, size_t at, p4d_error *err);
int p4d_chat__add_answer(p4d_chat *chat, size_t from,
			 p4d_error *err); /* the caller sets the end of the answer later */
int p4d_chat__add_name(p4d_chat *chat, const char *text, size_t length, bool begins, p4d_error *err);
/* The special token with which a text begins; if there are several, the longest; NULL: none. */
const p4d_chat_name *p4d_chat__name_at(const p4d_chat *chat, const char *text, size_t length);

/* Templates that p4d knows by name. find: NULL if p4d knows no such template. */
const struct p4d_chat_template *p4d_chat__find_fixed(const char *name);
const char *p4d_chat__fixed_name(const struct p4d_chat_template *template);
/* The names of all templates, separated by commas; the caller frees the text. NULL: no memory. */
char *p4d_chat__fixed_names(void);
int p4d_chat__open_fixed(p4d_chat *chat, p4d_error *err);
/* Fills text, answers and cuts. */
int p4d_chat__write_fixed(p4d_chat *chat, struct json_object *messages, p4d_error *err);

/* Templates in Jinja. 1: found; 0: there is none; -1: error. */
int p4d_chat__open_jinja(p4d_chat *chat, const char *wanted, const char *date, const char *tokenizer,
			 p4d_error *err);
void p4d_chat__close_jinja(struct p4d_chat_jinja *jinja);
const char *p4d_chat__jinja_place(const struct p4d_chat_jinja *jinja);
int p4d_chat__write_jinja(p4d_chat *chat, const p4d_conversation *conversation, p4d_error *err);
