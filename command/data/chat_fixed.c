/* SPDX-License-Identifier: Apache-2.0 */
/* Chat templates that p4d knows by name. */
#include "data/chat_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { SYSTEM, USER, ASSISTANT, ROLES };
enum { TRIMS = 1, IN_USER = 2 };

typedef struct p4d_chat_template {
	const char *name, *begin;
	struct {
		const char *before, *end,
		    *behind; /* texts around the content; `end` is trained on together with the content */
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

const struct p4d_chat_template *p4d_chat__find_fixed(const char *name)
{
	for (size_t i = 0; i < TEMPLATES; i++)
		if (!strcmp(templates[i].name, name))
			return &templates[i];
	return NULL;
}

const char *p4d_chat__fixed_name(const struct p4d_chat_template *template)
{
	return template->name;
}

char *p4d_chat__fixed_names(void)
{
	p4d_text names = {.grows = true};

	for (size_t i = 0; i < TEMPLATES; i++)
		p4d_text_print(&names, "%s%s", i ? ", " : "", templates[i].name);
	return names.at;
}

/* Adds special tokens, whose names are separated by blanks. */
static int add_names(p4d_chat *chat, const char *list, bool required, p4d_error *err)
{
	while (*list) {
		const size_t length = strcspn(list, " ");
		if (p4d_chat__add_name(chat, list, length, required, err) < 0)
			return -1;
		const p4d_chat_name *name = &chat->name[chat->names - 1];
		if (required && chat->tokenizer->model && name->token < 0) {
			p4d_fail(err, P4D_E_VALUE, "--chat=%s: the tokenizer has no token %s",
				 chat->template->name, name->text);
			return p4d_fix(err, "--chat with the template of the tokenizer's model");
		}
		list += length + (list[length] == ' ');
	}
	return 0;
}

int p4d_chat__open_fixed(p4d_chat *chat, p4d_error *err)
{
	return add_names(chat, chat->template->required, true, err) < 0
		   ? -1
		   : add_names(chat, chat->template->optional, false, err);
}

static int put_text(p4d_chat *chat, const char *text, p4d_error *err)
{
	return p4d_chat__put(chat, text, strlen(text), err);
}

/* Writes a text that the template has around a turn. */
static int put_frame(p4d_chat *chat, const char *text, p4d_error *err)
{
	const p4d_chat_name *name = p4d_chat__name_at(chat, text, strlen(text));

	if (name && name->begins && p4d_chat__add_cut(chat, chat->length, err) < 0)
		return -1;
	return put_text(chat, text, err);
}

/* A message that was checked. */
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
		return p4d_fail(err, P4D_E_VALUE,
				"message %zu has the role system, which only the first message can have",
				i + 1);
	if (!json_object_is_type(content, json_type_string))
		return p4d_fail(err, P4D_E_VALUE, "the content of message %zu is not a string", i + 1);
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

/* system: a message whose text is put at the beginning of the content; may be NULL. */
static int put_turn(p4d_chat *chat, const message *m, const message *system, p4d_error *err)
{
	const p4d_chat_template *t = chat->template;

	if (put_frame(chat, t->turn[m->role].before, err) < 0 ||
	    (m->role == ASSISTANT && p4d_chat__add_answer(chat, chat->length, err) < 0))
		return -1;
	if (system && (put_text(chat, t->turn[SYSTEM].before, err) < 0 ||
		       p4d_chat__put(chat, system->content, system->length, err) < 0 ||
		       put_text(chat, t->turn[SYSTEM].behind, err) < 0))
		return -1;
	if (p4d_chat__put(chat, m->content, m->length, err) < 0 ||
	    put_frame(chat, t->turn[m->role].end, err) < 0)
		return -1;
	if (m->role == ASSISTANT)
		chat->answer[chat->answers - 1].to = chat->length;
	return put_frame(chat, t->turn[m->role].behind, err);
}

int p4d_chat__write_fixed(p4d_chat *chat, struct json_object *messages, p4d_error *err)
{
	const p4d_chat_template *t = chat->template;
	const size_t count = json_object_array_length(messages);
	message system = {.content = NULL}, m;

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
			return p4d_fail(err, P4D_E_VALUE,
					"message 2 does not have the role user: with --chat=%s, the system "
					"message becomes a part of the first user message",
					t->name);
		if (put_turn(chat, &m, system.content ? &system : NULL, err) < 0)
			return -1;
		system.content = NULL;
	}
	return chat->answers ? 0
			     : p4d_fail(err, P4D_E_VALUE,
					"no message has the role assistant, so there is nothing to train on");
}
