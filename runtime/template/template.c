/* SPDX-License-Identifier: Apache-2.0 */
#include "template/template.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "template/operate.h"

enum { SOURCE_MEMORY = 512 << 20, INPUT_MEMORY = 1 << 30, JSON_DEPTH = 64, TOO_LARGE = -2 };

int p4d_template_open(p4d_template **template, const char *name, const char *source, size_t length,
		      p4d_error *err)
{
	if (length > P4D_TEMPLATE_SOURCE)
		return p4d_fail(err, P4D_E_VALUE,
				"%.200s: the template has %zu bytes, but p4d reads at most %d", name, length,
				P4D_TEMPLATE_SOURCE);
	p4d_template *made = calloc(1, sizeof(*made));
	if (!made)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the template %.200s", name);
	made->name = name;
	made->arena.most_bytes = SOURCE_MEMORY;
	if (p4d_template__parse(made, (p4d_string){source, length}, err) < 0) {
		p4d_template_close(made);
		return -1;
	}
	*template = made;
	return 0;
}

void p4d_template_close(p4d_template *template)
{
	if (template)
		p4d_template__give_back(&template->arena);
	free(template);
}

int p4d_template_generates(const p4d_template *template)
{
	return template->generates;
}

int p4d_template_values_open(p4d_template_values **values, p4d_error *err)
{
	*values = calloc(1, sizeof(**values));
	if (!*values)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the variables of a template");
	(*values)->input.most_bytes = INPUT_MEMORY;
	(*values)->work.most_bytes = P4D_TEMPLATE_MEMORY;
	return 0;
}

void p4d_template_values_clear(p4d_template_values *values)
{
	p4d_template__give_back(&values->input);
	p4d_template__give_back(&values->work);
	values->count = 0;
}

void p4d_template_values_close(p4d_template_values *values)
{
	if (!values)
		return;
	p4d_template_values_clear(values);
	free(values->variable);
	free(values);
}

void p4d_template_values_date(p4d_template_values *values, const struct tm *date)
{
	values->date = *date;
	values->has_date = true;
}

static int copy(p4d_arena *arena, struct json_object *from, unsigned depth, p4d_datum *to);

static int copy_string(p4d_arena *arena, struct json_object *from, p4d_datum *to)
{
	const size_t length = (size_t)json_object_get_string_len(from);
	char *text = p4d_template__take(arena, length + 1, 1);

	if (!text)
		return -1;
	memcpy(text, json_object_get_string(from), length);
	*to = p4d_value_text(text, length);
	return 0;
}

static int copy_list(p4d_arena *arena, struct json_object *from, unsigned depth, p4d_datum *to)
{
	const size_t count = json_object_array_length(from);
	p4d_list *list = p4d_template__take(arena, 1, sizeof(*list));

	if (!list || !(list->at = p4d_template__take(arena, count + 1, sizeof(*list->at))))
		return -1;
	list->count = count;
	list->room = count + 1;
	for (size_t i = 0; i < count; i++) {
		const int rc = copy(arena, json_object_array_get_idx(from, i), depth + 1, &list->at[i]);
		if (rc < 0)
			return rc;
	}
	*to = p4d_value_list(list);
	return 0;
}

static int copy_dict(p4d_arena *arena, struct json_object *from, unsigned depth, p4d_datum *to)
{
	const size_t count = (size_t)json_object_object_length(from);
	p4d_dict *dict = p4d_template__take(arena, 1, sizeof(*dict));

	if (!dict || !(dict->at = p4d_template__take(arena, count + 1, sizeof(*dict->at))))
		return -1;
	dict->room = count + 1;
	json_object_object_foreach(from, key, value)
	{
		const size_t length = strlen(key);
		char *text = p4d_template__take(arena, length + 1, 1);
		const int rc = text ? copy(arena, value, depth + 1, &dict->at[dict->count].value) : -1;
		if (rc < 0)
			return rc;
		memcpy(text, key, length);
		dict->at[dict->count++].key = p4d_value_text(text, length);
	}
	*to = (p4d_datum){.kind = P4D_DICT, .dict = dict};
	return 0;
}

/*
 * Copies an integer. json-c clamps integers to 64 bits, so this checks for the largest and smallest values.
 */
static int copy_integer(struct json_object *from, p4d_datum *to)
{
	const int64_t integer = json_object_get_int64(from);

	if (integer == INT64_MIN || (integer == INT64_MAX && json_object_get_uint64(from) > INT64_MAX))
		return TOO_LARGE;
	*to = p4d_value_integer(integer);
	return 0;
}

/* Copies a JSON value. -1: no memory, or too many levels; TOO_LARGE: an integer is too large. */
static int copy(p4d_arena *arena, struct json_object *from, unsigned depth, p4d_datum *to)
{
	if (depth > JSON_DEPTH)
		return -1;
	switch (json_object_get_type(from)) {
	case json_type_null:
		*to = (p4d_datum){.kind = P4D_NONE};
		return 0;
	case json_type_boolean:
		*to = p4d_value_bool(json_object_get_boolean(from));
		return 0;
	case json_type_int:
		return copy_integer(from, to);
	case json_type_double:
		*to = p4d_value_real(json_object_get_double(from));
		return 0;
	case json_type_string:
		return copy_string(arena, from, to);
	case json_type_array:
		return copy_list(arena, from, depth, to);
	case json_type_object:
		return copy_dict(arena, from, depth, to);
	}
	return -1;
}

static struct p4d_input *find(const p4d_template_values *values, const char *name)
{
	for (size_t i = 0; i < values->count; i++)
		if (!strcmp(values->variable[i].name, name))
			return &values->variable[i];
	return NULL;
}

int p4d_template_values_set(p4d_template_values *values, const char *name, struct json_object *value,
			    p4d_error *err)
{
	struct p4d_input *there = find(values, name);
	p4d_datum made;

	const int rc = copy(&values->input, value, 0, &made);
	if (rc == TOO_LARGE)
		return p4d_fail(err, P4D_E_VALUE, "%.60s: an integer exceeds 64 bits", name);
	if (rc < 0)
		return p4d_fail(err, P4D_E_VALUE, "%.60s: more than %d nested lists, or larger than %d MiB",
				name, JSON_DEPTH, INPUT_MEMORY >> 20);
	if (!there) {
		if (!p4d_grow(&values->variable, &values->room, values->count + 1, sizeof(*values->variable)))
			return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the variables of a template");
		there = &values->variable[values->count++];
		there->name = name;
	}
	there->value = made;
	there->whole = NULL;
	return 0;
}

/*
 * Gives a variable a new list with the same room. The stored list moves to input->whole, so that parts can be
 * copied from it.
 */
static int keep_whole(p4d_template_values *values, struct p4d_input *input, p4d_error *err)
{
	p4d_list *list = p4d_template__take(&values->input, 1, sizeof(*list));

	if (!list ||
	    !(list->at = p4d_template__take(&values->input, input->value.list->room, sizeof(*list->at))))
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a part of %.60s", input->name);
	list->room = input->value.list->room;
	input->whole = input->value.list;
	input->value.list = list;
	return 0;
}

/* Appends elements from .. to-1 of the whole list to the part. */
static void add_range(struct p4d_input *input, size_t from, size_t to)
{
	const p4d_list *whole = input->whole;
	p4d_list *part = input->value.list;

	for (size_t i = from; i < to && i < whole->count; i++)
		part->at[part->count++] = whole->at[i];
}

int p4d_template_values_part(p4d_template_values *values, const char *name, size_t head, size_t from,
			     size_t to, p4d_error *err)
{
	struct p4d_input *there = find(values, name);

	if (!there || there->value.kind != P4D_LIST)
		return 0;
	if (!there->whole && keep_whole(values, there, err) < 0)
		return -1;
	there->value.list->count = 0;
	add_range(there, 0, head < to ? head : to);
	add_range(there, from, to);
	return 0;
}

static int run(p4d_rendering *r, p4d_written *out)
{
	if (!(r->scope = p4d_template__scope(r, NULL)) || p4d_template__write(r, out, "", 0) < 0)
		return -1;
	r->out = out;
	return p4d_template__execute(r, r->template->body);
}

int p4d_template_render(const p4d_template *template, p4d_template_values *values, uint64_t *steps,
			p4d_template_text *text, p4d_error *err)
{
	p4d_written out = {.at = NULL};
	p4d_rendering r = {
	    .template = template, .values = values, .arena = &values->work, .err = err, .line = 1};

	p4d_template__give_back(&values->work);
	r.steps = steps ? *steps : P4D_TEMPLATE_STEPS;
	const int rc = run(&r, &out);
	if (steps)
		*steps = r.steps;
	if (rc < 0)
		return -1;
	*text = (p4d_template_text){out.at, out.length, r.span, r.spans};
	return 0;
}
