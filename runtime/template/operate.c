/* SPDX-License-Identifier: Apache-2.0 */
#include "template/operate.h"

#include <math.h>
#include <string.h>

#include "template/strings.h"
#include "template/utf8.h"

const char *p4d_template__kind(p4d_datum value)
{
	static const char *const kinds[] = {[P4D_UNDEFINED] = "undefined value",
					    [P4D_NONE] = "none",
					    [P4D_BOOL] = "boolean",
					    [P4D_INTEGER] = "integer",
					    [P4D_REAL] = "float",
					    [P4D_STRING] = "string",
					    [P4D_LIST] = "list",
					    [P4D_DICT] = "mapping",
					    [P4D_NAMESPACE] = "namespace",
					    [P4D_LOOP] = "loop",
					    [P4D_MACRO] = "macro",
					    [P4D_FUNCTION] = "function"};

	return value.kind == P4D_LIST && value.list->form == P4D_GENERATOR ? "generator" : kinds[value.kind];
}

int p4d_template__not_a(p4d_rendering *r, p4d_datum value, const char *what)
{
	if (value.kind == P4D_UNDEFINED)
		return p4d_template__fail(r, "%.80s is undefined", value.name ? value.name : "a value");
	return p4d_template__fail(r, "a %s %s", p4d_template__kind(value), what);
}

int p4d_template__truth(p4d_rendering *r, p4d_datum value, bool *truth)
{
	(void)r;
	switch (value.kind) {
	case P4D_UNDEFINED:
	case P4D_NONE:
		*truth = false;
		break;
	case P4D_BOOL:
		*truth = value.truth;
		break;
	case P4D_INTEGER:
		*truth = value.integer != 0;
		break;
	case P4D_REAL:
		*truth = !(value.real >= 0 && value.real <= 0);
		break;
	case P4D_STRING:
		*truth = value.text.length > 0;
		break;
	case P4D_LIST:
		*truth = value.list->count > 0 || value.list->form == P4D_GENERATOR;
		break;
	case P4D_DICT:
		*truth = value.dict->count > 0;
		break;
	case P4D_NAMESPACE:
	case P4D_LOOP:
	case P4D_MACRO:
	case P4D_FUNCTION:
		*truth = true;
		break;
	}
	return 0;
}

/* Whether a number is NaN, which has no order, not even with itself. */
static bool is_nan(p4d_datum value)
{
	return value.kind == P4D_REAL && isnan(value.real);
}

#define TWO_TO_63 9223372036854775808.0

/*
 * Compares an integer and a real number exactly. Converting the integer to a double would not, because a
 * double cannot represent most integers above 2^53.
 */
static int compare_mixed(int64_t x, double y)
{
	if (y >= TWO_TO_63 || y < -TWO_TO_63)
		return y > 0 ? -1 : 1;
	const int64_t floor_of_y = (int64_t)y - (y < (double)(int64_t)y);
	return x != floor_of_y ? (x > floor_of_y) - (x < floor_of_y) : -(y > (double)floor_of_y);
}

/* Compares two numbers that are not NaN. */
static int compare_numbers(p4d_datum a, p4d_datum b)
{
	if (a.kind == P4D_REAL && b.kind == P4D_REAL)
		return (a.real > b.real) - (a.real < b.real);
	if (a.kind == P4D_REAL)
		return -compare_mixed(p4d_template__whole(b), a.real);
	if (b.kind == P4D_REAL)
		return compare_mixed(p4d_template__whole(a), b.real);
	const int64_t x = p4d_template__whole(a), y = p4d_template__whole(b);
	return (x > y) - (x < y);
}

static int compare_texts(p4d_string a, p4d_string b)
{
	const size_t both = a.length < b.length ? a.length : b.length;
	const int order = both ? memcmp(a.at, b.at, both) : 0;

	return order ? order : (a.length > b.length) - (a.length < b.length);
}

static int equal_lists(p4d_rendering *r, const p4d_list *a, const p4d_list *b, bool *equal)
{
	*equal = a == b || (a->form == b->form && a->count == b->count && a->form != P4D_GENERATOR);
	for (size_t i = 0; a != b && *equal && i < a->count; i++)
		if (p4d_template__equal(r, a->at[i], b->at[i], equal) < 0)
			return -1;
	return 0;
}

static int equal_dicts(p4d_rendering *r, const p4d_dict *a, const p4d_dict *b, bool *equal)
{
	*equal = a->count == b->count;
	for (size_t i = 0; *equal && i < a->count; i++) {
		const p4d_datum *other = p4d_template__get(r, b, a->at[i].key);
		*equal = other != NULL;
		if (r->failed || (other && p4d_template__equal(r, a->at[i].value, *other, equal) < 0))
			return -1;
	}
	return 0;
}

static int equal_others(p4d_rendering *r, p4d_datum a, p4d_datum b, bool *equal)
{
	switch (a.kind) {
	case P4D_LIST:
		return equal_lists(r, a.list, b.list, equal);
	case P4D_DICT:
		return equal_dicts(r, a.dict, b.dict, equal);
	case P4D_STRING:
		*equal = a.text.length == b.text.length &&
			 (a.text.length == 0 || !memcmp(a.text.at, b.text.at, a.text.length));
		break;
	case P4D_NAMESPACE:
		*equal = a.dict == b.dict;
		break;
	case P4D_LOOP:
		*equal = a.loop == b.loop;
		break;
	case P4D_MACRO:
		*equal = a.macro == b.macro;
		break;
	case P4D_FUNCTION:
		*equal = a.function == b.function;
		break;
	case P4D_UNDEFINED:
	case P4D_NONE:
	case P4D_BOOL:
	case P4D_INTEGER:
	case P4D_REAL:
		*equal = true;
		break;
	}
	return 0;
}

int p4d_template__equal(p4d_rendering *r, p4d_datum a, p4d_datum b, bool *equal)
{
	const size_t length = a.kind == P4D_STRING ? a.text.length : 0;

	if (p4d_template__is_number(a) && p4d_template__is_number(b)) {
		*equal = !is_nan(a) && !is_nan(b) && compare_numbers(a, b) == 0;
		return 0;
	}
	*equal = false;
	if (a.kind != b.kind)
		return 0;
	if (p4d_template__spend(r, 1 + length / 64) < 0 || p4d_template__deeper(r) < 0)
		return -1;
	const int rc = equal_others(r, a, b, equal);
	r->depth--;
	return rc;
}

static int compare_lists(p4d_rendering *r, const p4d_list *a, const p4d_list *b, int *order)
{
	bool equal = true;

	for (size_t i = 0; i < a->count && i < b->count; i++) {
		if (p4d_template__equal(r, a->at[i], b->at[i], &equal) < 0)
			return -1;
		if (!equal)
			return p4d_template__compare(r, a->at[i], b->at[i], order);
	}
	*order = (a->count > b->count) - (a->count < b->count);
	return 0;
}

int p4d_template__compare(p4d_rendering *r, p4d_datum a, p4d_datum b, int *order)
{
	if (p4d_template__spend(r, 1 + (a.kind == P4D_STRING ? a.text.length / 64 : 0)) < 0)
		return -1;
	if (is_nan(a) || is_nan(b))
		return p4d_template__fail(r, "p4d does not order nan");
	if (p4d_template__is_number(a) && p4d_template__is_number(b)) {
		*order = compare_numbers(a, b);
		return 0;
	}
	if (a.kind == P4D_STRING && b.kind == P4D_STRING) {
		*order = compare_texts(a.text, b.text);
		return 0;
	}
	if (a.kind == P4D_LIST && b.kind == P4D_LIST && a.list->form == b.list->form &&
	    a.list->form <= P4D_TUPLE) {
		if (p4d_template__deeper(r) < 0)
			return -1;
		const int rc = compare_lists(r, a.list, b.list, order);
		r->depth--;
		return rc;
	}
	if (a.kind == P4D_UNDEFINED || b.kind == P4D_UNDEFINED)
		return p4d_template__not_a(r, a.kind == P4D_UNDEFINED ? a : b, "");
	return p4d_template__fail(r, "a %s and a %s have no order", p4d_template__kind(a),
				  p4d_template__kind(b));
}

/* Whether Python can hash a value. For tuples and similar values, the elements are not checked. */
static bool is_key(p4d_datum value)
{
	return value.kind != P4D_DICT && (value.kind != P4D_LIST || value.list->form != P4D_LIST_PLAIN);
}

static int contains_value(p4d_rendering *r, p4d_list *all, p4d_datum one, bool *contains)
{
	size_t i = 0;

	*contains = false;
	for (; !*contains && i < all->count; i++)
		if (p4d_template__spend(r, 1) < 0 || p4d_template__equal(r, all->at[i], one, contains) < 0)
			return -1;
	if (all->form == P4D_GENERATOR)
		p4d_template__pass(all, i);
	return 0;
}

int p4d_template__contains(p4d_rendering *r, p4d_datum all, p4d_datum one, bool *contains)
{
	if (all.kind == P4D_STRING) {
		if (one.kind != P4D_STRING)
			return p4d_template__not_a(r, one, "cannot be in a string");
		const char *found;
		if (p4d_template__find(r, all.text, one.text, false, &found) < 0)
			return -1;
		*contains = found != NULL;
		return 0;
	}
	if (all.kind == P4D_DICT) {
		if (!is_key(one))
			return p4d_template__not_a(r, one, "is no key");
		*contains = p4d_template__get(r, all.dict, one) != NULL;
		return p4d_template__spend(r, 1);
	}
	if (all.kind == P4D_LIST)
		return contains_value(r, all.list, one, contains);
	*contains = false;
	return all.kind == P4D_UNDEFINED ? 0 : p4d_template__not_a(r, all, "contains no values");
}

int p4d_template__length(p4d_rendering *r, p4d_datum value, size_t *length)
{
	if (value.kind == P4D_STRING)
		*length = p4d_template__characters(value.text);
	else if (value.kind == P4D_LIST && value.list->form != P4D_GENERATOR)
		*length = value.list->count;
	else if (value.kind == P4D_DICT)
		*length = value.dict->count;
	else if (value.kind == P4D_LOOP && p4d_template__reach(r, value.loop, SIZE_MAX) < 0)
		return -1;
	else if (value.kind == P4D_LOOP)
		*length = value.loop->count;
	else if (value.kind == P4D_UNDEFINED)
		*length = 0;
	else
		return p4d_template__not_a(r, value, "has no length");
	return p4d_template__spend(r, value.kind == P4D_STRING ? value.text.length / 16 : 0);
}

static int characters(p4d_rendering *r, p4d_string text, const p4d_datum **at, size_t *count)
{
	p4d_list *list;
	uint32_t code;

	if (p4d_template__new_list(r, P4D_LIST_PLAIN, 0, &list) < 0)
		return -1;
	for (size_t i = 0, bytes; i < text.length; i += bytes) {
		bytes = p4d_template__character(text.at + i, text.length - i, &code);
		if (p4d_template__append(r, list, p4d_value_text(text.at + i, bytes)) < 0)
			return -1;
	}
	*at = list->at;
	*count = list->count;
	return 0;
}

static int keys(p4d_rendering *r, const p4d_dict *dict, const p4d_datum **at, size_t *count)
{
	p4d_list *list;

	if (p4d_template__new_list(r, P4D_LIST_PLAIN, dict->count, &list) < 0)
		return -1;
	for (size_t i = 0; i < dict->count; i++)
		if (p4d_template__append(r, list, dict->at[i].key) < 0)
			return -1;
	*at = list->at;
	*count = list->count;
	return 0;
}

void p4d_template__pass(p4d_list *generator, size_t count)
{
	if (!count)
		return; /* nothing to do; the list's array may not exist yet */
	generator->at += count;
	generator->count -= count;
	generator->room = generator->count;
}

int p4d_template__iterate(p4d_rendering *r, p4d_datum value, const p4d_datum **at, size_t *count)
{
	*count = 0;
	if (value.kind == P4D_STRING)
		return characters(r, value.text, at, count);
	if (value.kind == P4D_DICT)
		return keys(r, value.dict, at, count);
	if (value.kind == P4D_LIST) {
		*at = value.list->at;
		*count = value.list->count;
		if (value.list->form == P4D_GENERATOR)
			p4d_template__pass(value.list, *count);
		return 0;
	}
	return value.kind == P4D_UNDEFINED ? 0 : p4d_template__not_a(r, value, "cannot be iterated");
}

int p4d_template__new_list(p4d_rendering *r, p4d_list_form form, size_t room, p4d_list **list)
{
	*list = p4d_template__take(r->arena, 1, sizeof(**list));
	if (!*list)
		return p4d_template__no_memory(r);
	(*list)->form = form;
	return p4d_template__grow(r, &(*list)->at, &(*list)->room, room, sizeof(*(*list)->at));
}

int p4d_template__append(p4d_rendering *r, p4d_list *list, p4d_datum value)
{
	if (p4d_template__spend(r, 1) < 0 ||
	    p4d_template__grow(r, &list->at, &list->room, list->count + 1, sizeof(*list->at)) < 0)
		return -1;
	list->at[list->count++] = value;
	return 0;
}

int p4d_template__new_dict(p4d_rendering *r, p4d_dict **dict)
{
	*dict = p4d_template__take(r->arena, 1, sizeof(**dict));
	return *dict ? 0 : p4d_template__no_memory(r);
}

const p4d_datum *p4d_template__get(p4d_rendering *r, const p4d_dict *dict, p4d_datum key)
{
	for (size_t i = 0; i < dict->count; i++) {
		bool equal = false;
		if (p4d_template__equal(r, dict->at[i].key, key, &equal) < 0)
			return NULL;
		if (equal)
			return &dict->at[i].value;
	}
	return NULL;
}

const p4d_datum *p4d_template__get_text(const p4d_dict *dict, const char *key)
{
	const size_t length = strlen(key);

	for (size_t i = 0; i < dict->count; i++)
		if (dict->at[i].key.kind == P4D_STRING && dict->at[i].key.text.length == length &&
		    !memcmp(dict->at[i].key.text.at, key, length))
			return &dict->at[i].value;
	return NULL;
}

int p4d_template__put(p4d_rendering *r, p4d_dict *dict, p4d_datum key, p4d_datum value)
{
	const p4d_datum *there = p4d_template__get(r, dict, key);

	if (!is_key(key))
		return p4d_template__not_a(r, key, "is no key");
	if (r->failed || p4d_template__spend(r, 1) < 0)
		return -1;
	if (there) {
		dict->at[(const p4d_pair *)(const void *)((const char *)there - offsetof(p4d_pair, value)) -
			 dict->at]
		    .value = value;
		return 0;
	}
	if (p4d_template__grow(r, &dict->at, &dict->room, dict->count + 1, sizeof(*dict->at)) < 0)
		return -1;
	dict->at[dict->count++] = (p4d_pair){key, value};
	return 0;
}
