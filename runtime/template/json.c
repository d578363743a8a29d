/* SPDX-License-Identifier: Apache-2.0 */
/* tojson as in transformers: Python's json.dumps. */
#include "template/builtin.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "template/operate.h"
#include "template/utf8.h"

typedef struct json {
	p4d_rendering *r;
	p4d_written buffer;
	bool ascii, sorts;
	const p4d_string *indent; /* indentation of a level; NULL: all in one line */
	p4d_string between, colon;
	unsigned level;
} json;

static int write(json *j, const char *text)
{
	return p4d_template__write_text(j->r, &j->buffer, text);
}

static int write_escaped(json *j, uint32_t code)
{
	static const char plain[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
	char text[16];
	const char *found = code && code < 128 ? strchr(plain, (int)code) : NULL;

	if (found)
		snprintf(text, sizeof(text), "\\%c", letters[found - plain]);
	else if (code < 0x10000)
		snprintf(text, sizeof(text), "\\u%04x", code);
	else
		snprintf(text, sizeof(text), "\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10),
			 0xdc00 + ((code - 0x10000) & 0x3ff));
	return write(j, text);
}

static int write_string(json *j, p4d_string text)
{
	size_t from = 0, bytes;
	uint32_t code;

	if (write(j, "\"") < 0 || p4d_template__spend(j->r, text.length / 16) < 0)
		return -1;
	for (size_t at = 0; at < text.length; at += bytes) {
		bytes = p4d_template__character(text.at + at, text.length - at, &code);
		if (code >= 0x20 && code != '"' && code != '\\' && (!j->ascii || code < 0x7f))
			continue;
		if (p4d_template__write(j->r, &j->buffer, text.at + from, at - from) < 0 ||
		    write_escaped(j, code) < 0)
			return -1;
		from = at + bytes;
	}
	return p4d_template__write(j->r, &j->buffer, text.at + from, text.length - from) < 0 ? -1
											     : write(j, "\"");
}

static int new_line(json *j)
{
	if (!j->indent)
		return 0;
	if (write(j, "\n") < 0)
		return -1;
	for (unsigned i = 0; i < j->level; i++)
		if (p4d_template__write(j->r, &j->buffer, j->indent->at, j->indent->length) < 0)
			return -1;
	return 0;
}

static int write_value(json *j, p4d_datum value);

/* Writes what is before element i: a separator, unless it is the first, and a new line. */
static int begin_element(json *j, size_t i)
{
	if (i && p4d_template__write(j->r, &j->buffer, j->between.at, j->between.length) < 0)
		return -1;
	return new_line(j);
}

static int write_list(json *j, const p4d_list *list)
{
	if (list->form >= P4D_RANGE)
		return p4d_template__fail(j->r, "tojson: a range, a generator or a view of a mapping cannot "
						"be written as JSON: use | list");
	if (!list->count)
		return write(j, "[]");
	j->level++;
	if (write(j, "[") < 0)
		return -1;
	for (size_t i = 0; i < list->count; i++)
		if (begin_element(j, i) < 0 || write_value(j, list->at[i]) < 0)
			return -1;
	j->level--;
	return new_line(j) < 0 ? -1 : write(j, "]");
}

static int write_key(json *j, p4d_datum key)
{
	p4d_string text;

	if (key.kind == P4D_STRING)
		return write_string(j, key.text);
	if (key.kind == P4D_BOOL)
		return write(j, key.truth ? "\"true\"" : "\"false\"");
	if (key.kind == P4D_NONE)
		return write(j, "\"null\"");
	if (key.kind != P4D_INTEGER && key.kind != P4D_REAL)
		return p4d_template__not_a(j->r, key, "cannot be a key in JSON");
	return p4d_template__string(j->r, key, &text) < 0 ? -1 : write_string(j, text);
}

/* Copies the items of a mapping and sorts them by their keys. */
static int sort_items(json *j, const p4d_dict *dict, p4d_dict *sorted)
{
	p4d_rendering *r = j->r;

	if (p4d_template__grow(r, &sorted->at, &sorted->room, dict->count, sizeof(*sorted->at)) < 0)
		return -1;
	for (size_t i = 0; i < dict->count; i++) {
		size_t at = i;
		int order = -1;
		for (; at > 0; at--) {
			if (p4d_template__compare(r, dict->at[i].key, sorted->at[at - 1].key, &order) < 0)
				return -1;
			if (order >= 0)
				break;
			sorted->at[at] = sorted->at[at - 1];
		}
		sorted->at[at] = dict->at[i];
	}
	sorted->count = dict->count;
	return 0;
}

static int write_dict(json *j, const p4d_dict *dict)
{
	p4d_dict sorted = {.count = 0};

	if (!dict->count)
		return write(j, "{}");
	if (j->sorts && sort_items(j, dict, &sorted) < 0)
		return -1;
	const p4d_pair *at = j->sorts ? sorted.at : dict->at;
	j->level++;
	if (write(j, "{") < 0)
		return -1;
	for (size_t i = 0; i < dict->count; i++)
		if (begin_element(j, i) < 0 || write_key(j, at[i].key) < 0 ||
		    p4d_template__write(j->r, &j->buffer, j->colon.at, j->colon.length) < 0 ||
		    write_value(j, at[i].value) < 0)
			return -1;
	j->level--;
	return new_line(j) < 0 ? -1 : write(j, "}");
}

static int write_nested(json *j, p4d_datum value)
{
	if (p4d_template__spend(j->r, 1) < 0 || p4d_template__deeper(j->r) < 0)
		return -1;
	const int rc = value.kind == P4D_LIST ? write_list(j, value.list) : write_dict(j, value.dict);
	j->r->depth--;
	return rc;
}

static int write_value(json *j, p4d_datum value)
{
	switch (value.kind) {
	case P4D_NONE:
		return write(j, "null");
	case P4D_BOOL:
		return write(j, value.truth ? "true" : "false");
	case P4D_INTEGER:
		return p4d_template__write_value(j->r, &j->buffer, value);
	case P4D_REAL:
		if (isnan(value.real) || isinf(value.real))
			return write(j, isnan(value.real) ? "NaN"
					: value.real < 0  ? "-Infinity"
							  : "Infinity");
		return p4d_template__write_value(j->r, &j->buffer, value);
	case P4D_STRING:
		return write_string(j, value.text);
	case P4D_LIST:
	case P4D_DICT:
		return write_nested(j, value);
	case P4D_UNDEFINED:
	case P4D_NAMESPACE:
	case P4D_LOOP:
	case P4D_MACRO:
	case P4D_FUNCTION:
		break;
	}
	return p4d_template__not_a(j->r, value, "is no JSON");
}

/* Reads the argument `indent`, which is a number of blanks or a text. */
static int read_indent(json *j, const p4d_invocation *call, p4d_string *indent)
{
	const p4d_datum *given = call->slot[1];
	p4d_datum blanks;

	if (!given || given->kind == P4D_NONE)
		return 0;
	if (given->kind == P4D_STRING) {
		*indent = given->text;
	} else {
		if (p4d_template__math(j->r, P4D_OP_MULTIPLY, P4D_TEXT(" "), *given, &blanks) < 0)
			return -1;
		*indent = blanks.text;
	}
	j->indent = indent;
	j->between = (p4d_string){",", 1};
	return 0;
}

static int read_separators(json *j, const p4d_datum *given)
{
	if (!given || given->kind == P4D_NONE)
		return 0;
	if (given->kind != P4D_LIST || given->list->count != 2 || given->list->at[0].kind != P4D_STRING ||
	    given->list->at[1].kind != P4D_STRING)
		return p4d_template__fail(j->r, "tojson: separators must be two strings");
	j->between = given->list->at[0].text;
	j->colon = given->list->at[1].text;
	return 0;
}

int p4d_template__json(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	json j = {.r = r, .between = {", ", 2}, .colon = {": ", 2}};
	p4d_string indent = {"", 0};

	if (p4d_template__truth_slot(r, call, 0, &j.ascii) < 0 || read_indent(&j, call, &indent) < 0 ||
	    read_separators(&j, call->slot[2]) < 0 || p4d_template__truth_slot(r, call, 3, &j.sorts) < 0 ||
	    write_value(&j, call->self) < 0)
		return -1;
	*result = p4d_value_text(j.buffer.at, j.buffer.length);
	return 0;
}
