/* SPDX-License-Identifier: Apache-2.0 */
#include "data/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/text.h"

enum { SYSTEM, USER, ASSISTANT, ROLES };
enum { TRIMS = 1, IN_USER = 2, NAME = 64 };

typedef struct p4d_chat_template {
	const char *name, *begin;
	struct {
		const char *before, *end, *behind; /* end: trained on with the content */
	} turn[ROLES];
	const char *otherwise;
	unsigned form;
	const char *required, *optional;
} p4d_chat_template;

#define TURN(before, behind) \
	{ \
		before, "", behind \
	}
#define ANSWER(before, end, behind) \
	{ \
		before, end, behind \
	}
static const p4d_chat_template templates[] = {
#define TEMPLATE(name, begin, system, user, assistant, otherwise, form, required, optional) \
	{name, begin, {system, user, assistant}, otherwise, form, required, optional},
#include "data/chat_templates.def"
};
enum { TEMPLATES = sizeof(templates) / sizeof(*templates) };

/* Where an answer begins and ends in the text. */
typedef struct p4d_chat_answer {
	size_t from, to;
} p4d_chat_answer;

/*
 * A place where a special token of the template begins. Tokenizers split texts there first, so the tokens
 * after it do not depend on the text before it. token: the first one after it, counted in the whole text.
 */
typedef struct p4d_chat_cut {
	size_t at, token;
} p4d_chat_cut;

static int no_memory(p4d_error *err)
{
	return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a conversation");
}

/* The next of a list of names with blanks between them; false: there is none. */
static bool next_name(const char **list, char name[NAME])
{
	const size_t length = strcspn(*list, " ");

	snprintf(name, NAME, "%.*s", (int)length, *list);
	*list += length + ((*list)[length] == ' ');
	return length > 0;
}

static int check_names(const p4d_chat *chat, p4d_error *err)
{
	const char *list = chat->template->required;
	char name[NAME];

	while (chat->tokenizer->model && next_name(&list, name))
		if (p4d_tokenizer_token(chat->tokenizer, name) < 0) {
			p4d_fail(err, P4D_E_VALUE, "--chat=%s: the tokenizer has no token %s",
				 chat->template->name, name);
			return p4d_fix(err, "--chat with the template of the tokenizer's model");
		}
	return 0;
}

int p4d_chat__open(p4d_chat *chat, const char *name, const p4d_tokenizer *tokenizer, p4d_error *err)
{
	p4d_text names = {.grows = true};

	*chat = (p4d_chat){.tokenizer = tokenizer};
	for (size_t i = 0; i < TEMPLATES; i++) {
		if (!strcmp(templates[i].name, name))
			chat->template = &templates[i];
		p4d_text_print(&names, "%s%s", i ? ", " : "", templates[i].name);
	}
	if (!chat->template)
		p4d_fail(err, P4D_E_VALUE, "--chat=%.64s: not a template; there are %s", name, names.at);
	free(names.at);
	return chat->template ? check_names(chat, err) : -1;
}

void p4d_chat__close(p4d_chat *chat)
{
	free(chat->text);
	free(chat->tokens);
	free(chat->part);
	free(chat->answer);
	free(chat->cut);
	*chat = (p4d_chat){.template = NULL};
}

static int put(p4d_chat *chat, const char *text, size_t length, p4d_error *err)
{
	if (!p4d_grow(&chat->text, &chat->room, chat->length + length + 1, sizeof(*chat->text)))
		return no_memory(err);
	memcpy(chat->text + chat->length, text, length);
	chat->length += length;
	chat->text[chat->length] = '\0';
	return 0;
}

static int put_text(p4d_chat *chat, const char *text, p4d_error *err)
{
	return put(chat, text, strlen(text), err);
}

static int add_cut(p4d_chat *chat, p4d_error *err)
{
	if (!p4d_grow(&chat->cut, &chat->cuts_room, chat->cuts + 1, sizeof(*chat->cut)))
		return no_memory(err);
	chat->cut[chat->cuts++] = (p4d_chat_cut){.at = chat->length};
	return 0;
}

/* What the template has around a turn. */
static int put_frame(p4d_chat *chat, const char *text, p4d_error *err)
{
	const char *list = chat->template->required;
	char name[NAME];

	while (next_name(&list, name))
		if (!strncmp(text, name, strlen(name))) {
			if (add_cut(chat, err) < 0)
				return -1;
			break;
		}
	return put_text(chat, text, err);
}

static int begin_answer(p4d_chat *chat, p4d_error *err)
{
	if (!p4d_grow(&chat->answer, &chat->answers_room, chat->answers + 1, sizeof(*chat->answer)))
		return no_memory(err);
	chat->answer[chat->answers++].from = chat->length;
	return 0;
}

/* A message, checked. */
typedef struct message {
	int role;
	const char *content;
	size_t length;
} message;

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static int read_message(const p4d_chat *chat, struct json_object *messages, size_t i, message *m,
			p4d_error *err)
{
	static const char *const roles[ROLES] = {"system", "user", "assistant"};
	struct json_object *one = json_object_array_get_idx(messages, i), *role = NULL, *content = NULL;

	if (!json_object_is_type(one, json_type_object) || !json_object_object_get_ex(one, "role", &role) ||
	    !json_object_object_get_ex(one, "content", &content))
		return p4d_fail(err, P4D_E_VALUE, "message %zu is not an object with role and content",
				i + 1);
	const char *name = json_object_is_type(role, json_type_string) ? json_object_get_string(role) : "";
	for (m->role = SYSTEM; m->role < ROLES && strcmp(roles[m->role], name) != 0;)
		m->role++;
	if (m->role == ROLES)
		return p4d_fail(err, P4D_E_VALUE,
				"message %zu has the role \"%.40s\", expected system, user or assistant",
				i + 1, name);
	if (m->role == SYSTEM && i > 0)
		return p4d_fail(err, P4D_E_VALUE, "message %zu is the system's, which can be the first only",
				i + 1);
	if (!json_object_is_type(content, json_type_string))
		return p4d_fail(err, P4D_E_VALUE, "the content of message %zu is not a text", i + 1);
	m->content = json_object_get_string(content);
	m->length = (size_t)json_object_get_string_len(content);
	const unsigned form = chat->template->form;
	const bool trims = form & TRIMS && !(m->role == SYSTEM && form & IN_USER);
	while (trims && m->length && is_blank(m->content[m->length - 1]))
		m->length--;
	while (trims && m->length && is_blank(*m->content)) {
		m->content++;
		m->length--;
	}
	return 0;
}

/* system (may be NULL): what the content begins with. */
static int put_turn(p4d_chat *chat, const message *m, const message *system, p4d_error *err)
{
	const p4d_chat_template *t = chat->template;

	if (put_frame(chat, t->turn[m->role].before, err) < 0 ||
	    (m->role == ASSISTANT && begin_answer(chat, err) < 0))
		return -1;
	if (system && (put_text(chat, t->turn[SYSTEM].before, err) < 0 ||
		       put(chat, system->content, system->length, err) < 0 ||
		       put_text(chat, t->turn[SYSTEM].behind, err) < 0))
		return -1;
	if (put(chat, m->content, m->length, err) < 0 || put_frame(chat, t->turn[m->role].end, err) < 0)
		return -1;
	if (m->role == ASSISTANT)
		chat->answer[chat->answers - 1].to = chat->length;
	return put_frame(chat, t->turn[m->role].behind, err);
}

static int write_text(p4d_chat *chat, struct json_object *messages, p4d_error *err)
{
	const p4d_chat_template *t = chat->template;
	const size_t count = json_object_array_length(messages);
	message system = {.content = NULL}, m;

	chat->length = chat->answers = chat->cuts = 0;
	if (add_cut(chat, err) < 0)
		return -1;
	if (put_text(chat, t->begin, err) < 0)
		return -1;
	for (size_t i = 0; i < count; i++) {
		if (read_message(chat, messages, i, &m, err) < 0)
			return -1;
		const message own = {SYSTEM, t->otherwise, t->otherwise ? strlen(t->otherwise) : 0};
		if (i == 0 && m.role != SYSTEM && t->otherwise && put_turn(chat, &own, NULL, err) < 0)
			return -1;
		if (m.role == SYSTEM && t->form & IN_USER) {
			system = m;
			continue;
		}
		if (system.content && m.role != USER)
			return p4d_fail(
			    err, P4D_E_VALUE,
			    "message 2 is not the user's: with --chat=%s the system's begins that", t->name);
		if (put_turn(chat, &m, system.content ? &system : NULL, err) < 0)
			return -1;
		system.content = NULL;
	}
	return chat->answers ? 0
			     : p4d_fail(err, P4D_E_VALUE,
					"no message is the assistant's: there is nothing to train on");
}

static int take(void *context, const int32_t *tokens, uint64_t count, p4d_error *err)
{
	p4d_chat *chat = context;

	if (!p4d_grow(&chat->part, &chat->part_room, chat->part_count + count, sizeof(*chat->part)))
		return no_memory(err);
	memcpy(chat->part + chat->part_count, tokens, count * sizeof(*tokens));
	chat->part_count += count;
	return 0;
}

/* The first name of the template's tokens in a text, at *at; -1: there is none. */
static int32_t find_name(const p4d_chat *chat, const char *text, size_t length, size_t *at, size_t *size)
{
	const char *lists[] = {chat->template->required, chat->template->optional};
	int32_t found = -1;
	char name[NAME];

	*at = length;
	for (int i = 0; i < 2; i++)
		for (const char *list = lists[i]; next_name(&list, name);) {
			const int32_t token = p4d_tokenizer_token(chat->tokenizer, name);
			const char *place = token >= 0 ? memmem(text, length, name, strlen(name)) : NULL;
			if (!place || (size_t)(place - text) >= *at)
				continue;
			*at = (size_t)(place - text);
			*size = strlen(name);
			found = token;
		}
	return found;
}

/* Encodes the text from..to into part. Tokenizers that do not read names in texts get only the text between
 * them. */
static int encode(p4d_chat *chat, size_t from, size_t to, p4d_error *err)
{
	const bool itself = !chat->tokenizer->model || p4d_tokenizer_reads_names(chat->tokenizer);
	const char *text = chat->text + from;
	size_t length = to - from;

	chat->part_count = 0;
	while (!itself && length) {
		size_t at, size = 0;
		const int32_t token = find_name(chat, text, length, &at, &size);
		if (at && p4d_tokenizer_encode(chat->tokenizer, text, at, take, chat, err) < 0)
			return -1;
		if (token >= 0 && take(chat, &token, 1, err) < 0)
			return -1;
		text += at + size;
		length -= at + size;
	}
	return itself ? p4d_tokenizer_encode(chat->tokenizer, text, length, take, chat, err) : 0;
}

/* How many tokens of part are the whole text's, from number `first` on. */
static size_t count_same(const p4d_chat *chat, size_t first)
{
	size_t same = 0;

	while (same < chat->part_count && first + same < chat->count &&
	       chat->part[same] == chat->tokens[first + same])
		same++;
	return same;
}

/* Tokens of the whole text that are those of its beginning. *cut: the last one before that, to begin with at
 * 0. */
static int count_alike(p4d_chat *chat, size_t length, size_t *cut, size_t *alike, p4d_error *err)
{
	while (*cut + 1 < chat->cuts && chat->cut[*cut + 1].at < length)
		++*cut;
	if (encode(chat, chat->cut[*cut].at, length, err) < 0)
		return -1;
	*alike = chat->cut[*cut].token + count_same(chat, chat->cut[*cut].token);
	return 0;
}

/*
 * Numbers the tokens at the cuts. Where the parts between them have together other tokens than the whole,
 * which no known tokenizer does, only the beginning remains as a cut, and time is quadratic.
 */
static int number_cuts(p4d_chat *chat, p4d_error *err)
{
	size_t token = 0;

	for (size_t i = 0; i < chat->cuts; i++) {
		chat->cut[i].token = token;
		if (encode(chat, chat->cut[i].at, i + 1 < chat->cuts ? chat->cut[i + 1].at : chat->length,
			   err) < 0)
			return -1;
		if (count_same(chat, token) < chat->part_count)
			break;
		token += chat->part_count;
	}
	chat->cuts = token == chat->count ? chat->cuts : 1;
	return 0;
}

static int encode_whole(p4d_chat *chat, p4d_error *err)
{
	int32_t *const tokens = chat->tokens;
	const size_t room = chat->tokens_room;

	if (encode(chat, 0, chat->length, err) < 0)
		return -1;
	chat->tokens = chat->part;
	chat->count = chat->part_count;
	chat->tokens_room = chat->part_room;
	chat->part = tokens;
	chat->part_room = room;
	return 0;
}

int p4d_chat__encode(p4d_chat *chat, struct json_object *messages, p4d_chat_sink sink, void *context,
		     p4d_error *err)
{
	size_t done = 0, cut = 0, from, to;

	if (write_text(chat, messages, err) < 0 || encode_whole(chat, err) < 0 || number_cuts(chat, err) < 0)
		return -1;
	for (size_t i = 0; i < chat->answers; i++) {
		if (count_alike(chat, chat->answer[i].from, &cut, &from, err) < 0 ||
		    count_alike(chat, chat->answer[i].to, &cut, &to, err) < 0)
			return -1;
		from = from < done ? done : from;
		to = to < from ? from : to;
		if (sink(context, chat->tokens + done, from - done, false, err) < 0 ||
		    sink(context, chat->tokens + from, to - from, true, err) < 0)
			return -1;
		done = to;
	}
	return sink(context, chat->tokens + done, chat->count - done, false, err);
}
