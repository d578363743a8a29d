/* SPDX-License-Identifier: Apache-2.0 */
/* Writes conversations in the form of a template in Jinja. */
#include "data/chat_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json_file.h"
#include "data/chat_source.h"
#include "template/template.h"

/* Maximum steps for all renderings of a conversation. */
enum { STEPS = P4D_TEMPLATE_STEPS };

typedef struct p4d_chat_jinja {
	p4d_chat_source source;
	p4d_template *template, *for_tools; /* for_tools: may be NULL */
	p4d_template_values *values;
	struct json_object *messages, *tools, *on,
	    *off; /* messages and tools of the conversation; the values true and false */
	uint64_t steps;
	bool first_byte[256]; /* whether a special token's name begins with this byte */
} jinja;

static int open_templates(jinja *j, p4d_error *err)
{
	const p4d_chat_source *s = &j->source;

	if (p4d_template_open(&j->template, s->place, s->text, s->length, err) < 0)
		return -1;
	return s->for_tools
		   ? p4d_template_open(&j->for_tools, s->place, s->for_tools, s->for_tools_length, err)
		   : 0;
}

static int read_date(jinja *j, const char *text, p4d_error *err)
{
	struct tm date = {.tm_isdst = 0};
	const char *end = text ? strptime(text, "%Y-%m-%d", &date) : NULL;

	if (!text)
		return 0;
	if (!end || *end)
		return p4d_fail(err, P4D_E_VALUE, "--chat-date=%.40s: not a date, YYYY-MM-DD is expected",
				text);
	p4d_template_values_date(j->values, &date);
	return 0;
}

static int add_names(p4d_chat *chat, jinja *j, p4d_error *err)
{
	for (size_t i = 0; i < json_object_array_length(j->source.added); i++) {
		struct json_object *name = json_object_array_get_idx(j->source.added, i);
		const char *text = json_object_get_string(name);
		if (p4d_chat__add_name(chat, text, (size_t)json_object_get_string_len(name), true, err) < 0)
			return -1;
		j->first_byte[(unsigned char)*text] = true;
	}
	return 0;
}

int p4d_chat__open_jinja(p4d_chat *chat, const char *wanted, const char *date, const char *tokenizer,
			 p4d_error *err)
{
	jinja *j = calloc(1, sizeof(*j));

	if (!j)
		return p4d_chat__no_memory(err);
	chat->jinja = j;
	const int found = p4d_chat__find_source(&j->source, wanted, tokenizer, err);
	if (found <= 0)
		return found;
	j->on = json_object_new_boolean(true);
	j->off = json_object_new_boolean(false);
	if (!j->on || !j->off)
		return p4d_chat__no_memory(err);
	if (open_templates(j, err) < 0 || p4d_template_values_open(&j->values, err) < 0 ||
	    read_date(j, date, err) < 0 || add_names(chat, j, err) < 0)
		return -1;
	return 1;
}

void p4d_chat__close_jinja(jinja *j)
{
	if (!j)
		return;
	p4d_chat__close_source(&j->source);
	p4d_template_close(j->template);
	p4d_template_close(j->for_tools);
	p4d_template_values_close(j->values);
	json_object_put(j->messages);
	json_object_put(j->tools);
	json_object_put(j->on);
	json_object_put(j->off);
	free(j);
}

const char *p4d_chat__jinja_place(const jinja *j)
{
	return j->source.place;
}

/* What the model thought before its answer; messages have this text under one of several names. */
static struct json_object *reasoning(struct json_object *message)
{
	static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct json_object *value = NULL;
		json_object_object_get_ex(message, names[i], &value);
		if (value)
			return value;
	}
	return NULL;
}

static int set(struct json_object *object, const char *key, struct json_object *value)
{
	return json_object_object_add(object, key, json_object_get(value));
}

/*
 * Adds a message as transformers passes it to templates: without null members, and with the text that the
 * model thought under two names.
 */
static int add_message(struct json_object *list, struct json_object *message)
{
	struct json_object *made = json_object_new_object(), *thought = reasoning(message);

	if (!made || json_object_array_add(list, made) < 0) {
		json_object_put(made);
		return -1;
	}
	if (thought && set(made, "thinking", thought) < 0)
		return -1;
	json_object_object_foreach(message, key, value) if (value && set(made, key, value) < 0) return -1;
	return thought ? set(made, "reasoning_content", thought) : 0;
}

static int take_messages(jinja *j, struct json_object *messages, p4d_error *err)
{
	json_object_put(j->messages);
	j->messages = json_object_new_array();
	if (!j->messages)
		return p4d_chat__no_memory(err);
	for (size_t i = 0; i < json_object_array_length(messages); i++) {
		struct json_object *one = json_object_array_get_idx(messages, i), *role = NULL;
		if (!json_object_is_type(one, json_type_object) ||
		    !json_object_object_get_ex(one, "role", &role) ||
		    !json_object_is_type(role, json_type_string))
			return p4d_fail(err, P4D_E_VALUE, "message %zu is not an object with a role", i + 1);
		if (add_message(j->messages, one) < 0)
			return p4d_chat__no_memory(err);
	}
	return 0;
}

/* Reads the line's tools: a list, or a text with JSON of a list. */
static int take_tools(jinja *j, struct json_object *line, p4d_error *err)
{
	struct json_object *tools = NULL;

	json_object_put(j->tools);
	j->tools = NULL;
	json_object_object_get_ex(line, "tools", &tools);
	if (json_object_is_type(tools, json_type_string)) {
		enum json_tokener_error state;
		j->tools = json_tokener_parse_verbose(json_object_get_string(tools), &state);
		if (state != json_tokener_success)
			return p4d_fail(err, P4D_E_VALUE, "tools is a string, but not JSON");
	} else {
		j->tools = json_object_get(tools);
	}
	if (j->tools && !json_object_is_type(j->tools, json_type_array))
		return p4d_fail(err, P4D_E_VALUE, "tools is not a list");
	return 0;
}

static int set_all(jinja *j, struct json_object *object, p4d_error *err)
{
	json_object_object_foreach(
	    object, key, value) if (p4d_template_values_set(j->values, key, value, err) < 0) return -1;
	return 0;
}

static int set_variables(jinja *j, struct json_object *line, p4d_error *err)
{
	struct json_object *more = NULL;

	p4d_template_values_clear(j->values);
	if (take_tools(j, line, err) < 0 || set_all(j, j->source.names, err) < 0)
		return -1;
	if (json_object_object_get_ex(line, "chat_template_kwargs", &more) && more) {
		if (!json_object_is_type(more, json_type_object))
			return p4d_fail(err, P4D_E_VALUE, "chat_template_kwargs is not an object");
		if (set_all(j, more, err) < 0)
			return -1;
	}
	return p4d_template_values_set(j->values, "messages", j->messages, err) < 0 ||
		       p4d_template_values_set(j->values, "tools", j->tools, err) < 0 ||
		       p4d_template_values_set(j->values, "documents", NULL, err) < 0 ||
		       p4d_template_values_set(j->values, "add_generation_prompt", j->off, err) < 0
		   ? -1
		   : 0;
}

static const p4d_template *template_of(const jinja *j)
{
	return j->tools && j->for_tools ? j->for_tools : j->template;
}

/*
 * Renders the first messages of a conversation. asks: with a prompt for an answer. Returns its length, or -1;
 * *same: whether the whole text begins with it.
 */
static int render_part(p4d_chat *chat, size_t messages, bool asks, size_t *length, bool *same, p4d_error *err)
{
	jinja *j = chat->jinja;
	p4d_template_text part;

	p4d_template_values_shorten(j->values, "messages", messages);
	if (p4d_template_values_set(j->values, "add_generation_prompt", asks ? j->on : j->off, err) < 0 ||
	    p4d_template_render(template_of(j), j->values, &j->steps, &part, err) < 0)
		return -1;
	*length = part.length;
	*same = part.length <= chat->length && !memcmp(part.text, chat->text, part.length);
	return 0;
}

static int refuse(const jinja *j, size_t message, size_t messages, const char *what, p4d_error *err)
{
	p4d_fail(err, P4D_E_VALUE,
		 "%.150s: p4d does not know which tokens of message %zu of %zu to train on: %s",
		 j->source.place, message + 1, messages, what);
	return p4d_fix(err, "--answers each, or --chat FILE, a template with {%% generation %%} and "
			    "{%% endgeneration %%} around answers");
}

/*
 * Finds an answer: the part by which the conversation up to the answer is longer than the one that asks for
 * it.
 */
static int find_answer(p4d_chat *chat, size_t i, size_t count, p4d_error *err)
{
	size_t from = 0, to = chat->length;
	bool same = true;

	if (render_part(chat, i, true, &from, &same, err) < 0)
		return -1;
	if (!same)
		return refuse(chat->jinja, i, count,
			      "the template writes the beginning of an answer differently in the prompt and "
			      "in the conversation",
			      err);
	if (i + 1 < count && render_part(chat, i + 1, false, &to, &same, err) < 0)
		return -1;
	if (!same || to < from)
		return refuse(chat->jinja, i, count,
			      "the template writes the message differently when it is the last one", err);
	const size_t done = chat->answers ? chat->answer[chat->answers - 1].to : 0;
	if (p4d_chat__add_answer(chat, from < done ? done : from, err) < 0)
		return -1;
	chat->answer[chat->answers - 1].to = to;
	return 0;
}

static int find_answers(p4d_chat *chat, p4d_error *err)
{
	jinja *j = chat->jinja;
	const size_t count = json_object_array_length(j->messages);

	for (size_t i = 0; i < count; i++)
		if (p4d_chat__is_answer(j->messages, i) && (!chat->last || i + 1 == count) &&
		    find_answer(chat, i, count, err) < 0)
			return -1;
	return 0;
}

static int take_spans(p4d_chat *chat, const p4d_template_text *text, p4d_error *err)
{
	for (size_t i = 0; i < text->spans; i++) {
		if (text->generated[i].to <= text->generated[i].from)
			continue;
		if (p4d_chat__add_answer(chat, text->generated[i].from, err) < 0)
			return -1;
		chat->answer[chat->answers - 1].to = text->generated[i].to;
	}
	return 0;
}

/* Adds a cut at each special token. Wrong cuts do no harm: tokens are then found without cuts. */
static int add_cuts(p4d_chat *chat, p4d_error *err)
{
	const jinja *j = chat->jinja;

	for (size_t at = 1; at < chat->length; at++)
		if (j->first_byte[(unsigned char)chat->text[at]] &&
		    p4d_chat__name_at(chat, chat->text + at, chat->length - at) &&
		    p4d_chat__add_cut(chat, at, err) < 0)
			return -1;
	return 0;
}

int p4d_chat__write_jinja(p4d_chat *chat, const p4d_conversation *conversation, p4d_error *err)
{
	jinja *j = chat->jinja;
	p4d_template_text text;

	j->steps = STEPS;
	if (take_messages(j, conversation->messages, err) < 0 ||
	    set_variables(j, conversation->line, err) < 0 ||
	    p4d_template_render(template_of(j), j->values, &j->steps, &text, err) < 0 ||
	    p4d_chat__put(chat, text.text, text.length, err) < 0)
		return -1;
	const int rc =
	    p4d_template_generates(template_of(j)) ? take_spans(chat, &text, err) : find_answers(chat, err);
	if (rc < 0)
		return -1;
	if (!chat->answers)
		return p4d_fail(err, P4D_E_VALUE,
				"no message has the role assistant, so there is nothing to train on");
	return add_cuts(chat, err);
}
