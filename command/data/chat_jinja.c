/* SPDX-License-Identifier: Apache-2.0 */
/* Writes conversations in the form of a template in Jinja. */
#include "data/chat_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/grow.h"
#include "base/json_file.h"
#include "data/chat_source.h"
#include "template/template.h"

/*
 * STEPS: the most steps for all renderings of a conversation. SHORT: a conversation of at most this many
 * messages is always rendered as a whole. PART: number of messages after which a part of a longer
 * conversation ends.
 */
enum { STEPS = P4D_TEMPLATE_STEPS, SHORT = 32, PART = 8 };

/*
 * A part of a long conversation: messages 0 .. head-1, and those from `from` on. Each answer needs two
 * renderings of all messages before it. Without parts, the time would therefore grow with the square of
 * the conversation's length. from 0: the part is the whole conversation.
 *
 * text: what the template writes for the part up to the end of an answer, which is byte `at` of the whole
 * conversation. From there on, both texts must be the same.
 */
typedef struct conversation_part {
	size_t head, from, at;
	char *text;
	size_t length, room;
} conversation_part;

typedef struct p4d_chat_jinja {
	p4d_chat_source source;
	p4d_template *template, *for_tools; /* for_tools: may be NULL */
	p4d_template_values *values;
	struct json_object *messages, *tools, *on,
	    *off; /* messages and tools of the conversation; the values true and false */
	uint64_t steps;
	conversation_part part;
	size_t first, previous; /* the first answer, and the last one that was found: indices of messages */
	bool whole;             /* the conversation is no longer divided into parts */
	bool first_byte[256];   /* whether a special token's name begins with this byte */
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
	free(j->part.text);
	free(j);
}

const char *p4d_chat__jinja_place(const jinja *j)
{
	return j->source.place;
}

/* The text that the model thought before its answer. Messages have it under one of several names. */
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

/* Adds a message in the form in which transformers passes it to templates: without null members, and with
 * the thoughts under two names. */
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

static int render_messages(jinja *j, size_t messages, bool asks, p4d_template_text *text, p4d_error *err)
{
	return p4d_template_values_part(j->values, "messages", j->part.head, j->part.from, messages, err) <
			   0 ||
		       p4d_template_values_set(j->values, "add_generation_prompt", asks ? j->on : j->off,
					       err) < 0 ||
		       p4d_template_render(template_of(j), j->values, &j->steps, text, err) < 0
		   ? -1
		   : 0;
}

static bool begins(const char *text, size_t length, const char *with, size_t with_length)
{
	return with_length <= length && (with_length == 0 || !memcmp(text, with, with_length));
}

/*
 * Renders the first messages of a conversation. asks: with a prompt for an answer at the end. *same:
 * whether the whole text begins with the result. *length: the length of the result; 0 if it is not the
 * same.
 */
static int render_part(p4d_chat *chat, size_t messages, bool asks, size_t *length, bool *same, p4d_error *err)
{
	const conversation_part *p = &chat->jinja->part;
	p4d_template_text made;

	if (render_messages(chat->jinja, messages, asks, &made, err) < 0)
		return -1;
	*same =
	    begins(made.text, made.length, p->text, p->length) &&
	    begins(chat->text + p->at, chat->length - p->at, made.text + p->length, made.length - p->length);
	*length = *same ? p->at + made.length - p->length : 0;
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

/* Finds an answer: the text by which the conversation up to the answer is longer than the conversation
 * that asks for it. Returns 1, or 0 with the reason in *why. */
static int find_bounds(p4d_chat *chat, size_t i, size_t count, p4d_chat_answer *found, const char **why,
		       p4d_error *err)
{
	bool same = true;

	found->to = chat->length;
	if (render_part(chat, i, true, &found->from, &same, err) < 0)
		return -1;
	*why = "with add_generation_prompt, the template begins an answer otherwise than in the "
	       "conversation";
	if (!same)
		return 0;
	if (i + 1 < count && render_part(chat, i + 1, false, &found->to, &same, err) < 0)
		return -1;
	*why = "the template writes the message in another way if it is the last message";
	return same && found->to >= found->from;
}

static void take_whole(jinja *j)
{
	j->part.head = j->part.from = j->part.at = j->part.length = 0;
}

/*
 * The message with which a part that has the last answer may begin. It follows an answer, and has the role
 * of the message after the first answer, so that templates see a usual order of roles. 0: there is no such
 * message.
 */
static size_t part_begin(const jinja *j)
{
	const char *const role = p4d_chat__role(j->messages, j->first + 1);

	for (size_t i = j->previous; i > j->first + 1 && i + 2 * PART > j->previous; i--)
		if (p4d_chat__is_answer(j->messages, i - 1) && !strcmp(p4d_chat__role(j->messages, i), role))
			return i;
	return 0;
}

/* Begins a part that has the last answer, whose end is known. */
static int begin_part(p4d_chat *chat, p4d_error *err)
{
	jinja *j = chat->jinja;
	conversation_part *p = &j->part;
	const size_t from = part_begin(j);
	p4d_template_text made;

	if (from <= p->from)
		return 0;
	p->head = j->first + 1;
	p->from = from;
	p->at = chat->answer[chat->answers - 1].to;
	if (render_messages(j, j->previous + 1, false, &made, err) < 0)
		return -1;
	if (!p4d_grow(&p->text, &p->room, made.length + 1, 1))
		return p4d_chat__no_memory(err);
	memcpy(p->text, made.text, made.length);
	p->length = made.length;
	return 0;
}

/* Finds an answer in a part of a long conversation, as find_bounds does. Returns 0 if it is not found
 * there. */
static int find_in_part(p4d_chat *chat, size_t i, size_t count, p4d_chat_answer *found)
{
	jinja *j = chat->jinja;
	const char *why;
	p4d_error err;

	if (j->whole || i < SHORT || !chat->answers)
		return 0;
	if ((i >= j->part.from + PART && begin_part(chat, &err) < 0) ||
	    (j->part.from && find_bounds(chat, i, count, found, &why, &err) <= 0))
		j->whole = true;
	if (j->whole)
		take_whole(j);
	return j->part.from > 0;
}

static int find_answer(p4d_chat *chat, size_t i, size_t count, p4d_error *err)
{
	jinja *j = chat->jinja;
	const size_t done = chat->answers ? chat->answer[chat->answers - 1].to : 0;
	const char *why = NULL;
	p4d_chat_answer found = {0, 0};

	if (!find_in_part(chat, i, count, &found)) {
		const int rc = find_bounds(chat, i, count, &found, &why, err);
		if (rc <= 0)
			return rc < 0 ? rc : refuse(j, i, count, why, err);
	}
	if (!chat->answers)
		j->first = i;
	j->previous = i;
	if (p4d_chat__add_answer(chat, found.from < done ? done : found.from, err) < 0)
		return -1;
	chat->answer[chat->answers - 1].to = found.to;
	return 0;
}

static int find_answers(p4d_chat *chat, p4d_error *err)
{
	jinja *j = chat->jinja;
	const size_t count = json_object_array_length(j->messages);

	take_whole(j);
	j->whole = false;
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

/* Adds a cut at each special token. A wrong cut does no harm: number_cuts then removes the cuts. */
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
