/* SPDX-License-Identifier: Apache-2.0 */
/* Reads members, items and slices of values, as far as Jinja's sandbox allows. */
#include "template/operate.h"

#include <string.h>

#include "template/builtin.h"
#include "template/utf8.h"

static int undefined(const char *name, p4d_datum *result)
{
	*result = (p4d_datum){.kind = P4D_UNDEFINED, .name = name};
	return 0;
}

/* Returns how many values of a loop, counted from its start, must be known before this member can be read. */
static size_t needed_for(const p4d_loop *loop, const char *name)
{
	if (!strcmp(name, "last") || !strcmp(name, "nextitem"))
		return loop->index + 2;
	return !strcmp(name, "length") || !strncmp(name, "revindex", 8) ? SIZE_MAX : 0;
}

static int loop_member(p4d_rendering *r, p4d_loop *loop, const char *name, p4d_datum *result)
{
	if (p4d_template__reach(r, loop, needed_for(loop, name)) < 0)
		return -1;
	const struct {
		const char *name;
		p4d_datum value;
	} members[] = {
	    {"index", p4d_value_integer((int64_t)loop->index + 1)},
	    {"index0", p4d_value_integer((int64_t)loop->index)},
	    {"revindex", p4d_value_integer((int64_t)(loop->count - loop->index))},
	    {"revindex0", p4d_value_integer((int64_t)(loop->count - loop->index) - 1)},
	    {"first", p4d_value_bool(loop->index == 0)},
	    {"last", p4d_value_bool(loop->index + 1 == loop->count)},
	    {"length", p4d_value_integer((int64_t)loop->count)},
	    /* always 1, because p4d has no recursive loops */
	    {"depth", p4d_value_integer(1)},
	    {"depth0", p4d_value_integer(0)},
	};

	if (!strcmp(name, "previtem") && loop->index > 0)
		*result = loop->at[loop->index - 1];
	else if (!strcmp(name, "nextitem") && loop->index + 1 < loop->count)
		*result = loop->at[loop->index + 1];
	else
		undefined(name, result);
	for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++)
		if (!strcmp(name, members[i].name))
			*result = members[i].value;
	return 0;
}

/* Looks up a method. Returns 1: found; 0: the value has no such method; -1: error. */
static int find_method(p4d_rendering *r, p4d_datum value, const char *name, p4d_datum *result)
{
	const p4d_builtin *builtin = p4d_template__find_method(value, name);

	if (!builtin)
		return 0;
	if (value.markup)
		return p4d_template__fail(r, "p4d does not support methods of a result of escape or safe");
	p4d_method *made = p4d_template__take(r->arena, 1, sizeof(*made));
	if (!made)
		return p4d_template__no_memory(r);
	*made = (p4d_method){builtin, value};
	*result = (p4d_datum){.kind = P4D_FUNCTION, .function = made};
	return 1;
}

int p4d_template__attribute(p4d_rendering *r, p4d_datum value, const char *name, p4d_datum *result)
{
	if (value.kind == P4D_UNDEFINED)
		return p4d_template__not_a(r, value, "");
	const int found = find_method(r, value, name, result);
	if (found)
		return found < 0 ? -1 : 0;
	if (value.kind == P4D_LOOP)
		return loop_member(r, value.loop, name, result);
	undefined(name, result);
	if (value.kind == P4D_DICT || value.kind == P4D_NAMESPACE) {
		const p4d_datum *there = p4d_template__get_text(value.dict, name);
		if (p4d_template__spend(r, 1 + value.dict->count / 8) < 0)
			return -1;
		*result = there ? *there : *result;
	}
	return 0;
}

/* Converts an index to a position; -1 is the last element. False: there is no such element. */
static bool element(int64_t index, size_t count, size_t *at)
{
	const int64_t from_start = index < 0 ? index + (int64_t)count : index;

	*at = (size_t)from_start;
	return from_start >= 0 && (size_t)from_start < count;
}

static int text_item(p4d_rendering *r, p4d_string text, int64_t index, p4d_datum *result)
{
	size_t at;
	uint32_t code;

	if (p4d_template__spend(r, text.length / 16) < 0)
		return -1;
	if (!element(index, p4d_template__characters(text), &at))
		return undefined(NULL, result);
	at = p4d_template__place(text, at);
	*result =
	    p4d_value_text(text.at + at, p4d_template__character(text.at + at, text.length - at, &code));
	return 0;
}

/* Reads a member whose name is a value. */
static int member(p4d_rendering *r, p4d_datum value, p4d_string name, p4d_datum *result)
{
	char *copy = p4d_template__take(r->arena, name.length + 1, 1);

	if (!copy)
		return p4d_template__no_memory(r);
	memcpy(copy, name.at, name.length);
	return p4d_template__attribute(r, value, copy, result);
}

int p4d_template__item(p4d_rendering *r, p4d_datum value, p4d_datum index, p4d_datum *result)
{
	const bool whole = index.kind == P4D_INTEGER || index.kind == P4D_BOOL;
	const int64_t number = index.kind == P4D_BOOL ? index.truth : index.integer;
	size_t at;

	if (value.kind == P4D_UNDEFINED)
		return p4d_template__not_a(r, value, "");
	undefined(NULL, result);
	if (value.kind == P4D_DICT) {
		const p4d_datum *there = p4d_template__get(r, value.dict, index);
		if (there)
			*result = *there;
		if (there || r->failed)
			return r->failed ? -1 : 0;
	}
	if (index.kind == P4D_STRING)
		return member(r, value, index.text, result);
	if (value.kind == P4D_STRING && whole) {
		const int rc = text_item(r, value.text, number, result);
		result->markup = value.markup;
		return rc;
	}
	const bool indexed = value.kind == P4D_LIST && value.list->form <= P4D_RANGE;
	if (indexed && whole && element(number, value.list->count, &at))
		*result = value.list->at[at];
	return 0;
}

/* Computes one bound of a slice, as Python's slice.indices does. */
static int64_t limit(const p4d_datum *bound, int64_t count, bool backwards, int64_t otherwise)
{
	if (!bound || bound->kind == P4D_NONE)
		return otherwise;
	int64_t at = bound->kind == P4D_BOOL ? bound->truth : bound->integer;
	const int64_t least = backwards ? -1 : 0, most = backwards ? count - 1 : count;

	if (at < 0)
		at = at < -count ? least : at + count;
	return at < least ? least : at > most ? most : at;
}

typedef struct bounds {
	int64_t from, to, step;
} bounds;

static int read_range(p4d_rendering *r, const p4d_datum *const bound[3], size_t count, bounds *range)
{
	for (int i = 0; i < 3; i++)
		if (bound[i] && bound[i]->kind != P4D_INTEGER && bound[i]->kind != P4D_NONE &&
		    bound[i]->kind != P4D_BOOL)
			return p4d_template__not_a(r, *bound[i], "cannot be the bound of a slice");
	const bool has_step = bound[2] && bound[2]->kind != P4D_NONE;
	range->step = !has_step ? 1 : bound[2]->kind == P4D_BOOL ? bound[2]->truth : bound[2]->integer;
	if (range->step == 0)
		return p4d_template__fail(r, "the step of a slice is 0");
	const bool backwards = range->step < 0;
	range->step = range->step > (int64_t)count    ? (int64_t)count + 1
		      : range->step < -(int64_t)count ? -(int64_t)count - 1
						      : range->step;
	range->from = limit(bound[0], (int64_t)count, backwards, backwards ? (int64_t)count - 1 : 0);
	range->to = limit(bound[1], (int64_t)count, backwards, backwards ? -1 : (int64_t)count);
	return 0;
}

static bool inside(const bounds *range, int64_t at)
{
	return range->step > 0 ? at < range->to : at > range->to;
}

static int slice_list(p4d_rendering *r, const p4d_list *list, const bounds *range, p4d_datum *result)
{
	p4d_list *made;

	if (p4d_template__new_list(r, list->form, 0, &made) < 0)
		return -1;
	for (int64_t at = range->from; inside(range, at); at += range->step)
		if (p4d_template__append(r, made, list->at[at]) < 0)
			return -1;
	*result = p4d_value_list(made);
	return 0;
}

static int slice_text(p4d_rendering *r, p4d_string text, const bounds *range, p4d_datum *result)
{
	const p4d_datum *at = NULL;
	size_t count = 0;
	p4d_written buffer = {.at = NULL};

	if (range->step == 1) {
		const size_t from = p4d_template__place(text, (size_t)range->from),
			     to = range->to > range->from ? p4d_template__place(text, (size_t)range->to)
							  : from;
		*result = p4d_value_text(text.at + from, to - from);
		return p4d_template__spend(r, text.length / 8);
	}
	if (p4d_template__iterate(r, p4d_value_text(text.at, text.length), &at, &count) < 0)
		return -1;
	for (int64_t i = range->from; inside(range, i); i += range->step)
		if (p4d_template__write(r, &buffer, at[i].text.at, at[i].text.length) < 0)
			return -1;
	*result = p4d_value_text(buffer.at ? buffer.at : "", buffer.length);
	return 0;
}

int p4d_template__slice(p4d_rendering *r, p4d_datum value, const p4d_datum *const bound[3], p4d_datum *result)
{
	const bool text = value.kind == P4D_STRING;
	bounds range = {0, 0, 1};

	if (value.kind == P4D_UNDEFINED)
		return p4d_template__not_a(r, value, "");
	if (!text && (value.kind != P4D_LIST || value.list->form > P4D_RANGE))
		return p4d_template__not_a(r, value, "has no slices");
	const size_t count = text ? p4d_template__characters(value.text) : value.list->count;
	if (read_range(r, bound, count, &range) < 0)
		return -1;
	if (!text)
		return slice_list(r, value.list, &range, result);
	const int rc = slice_text(r, value.text, &range, result);
	result->markup = value.markup;
	return rc;
}
