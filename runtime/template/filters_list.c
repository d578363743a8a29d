/* SPDX-License-Identifier: Apache-2.0 */
/* Filters of lists. */
#include "template/builtin.h"

#include <string.h>

#include "template/operate.h"
#include "template/strings.h"

static int new_from(p4d_rendering *r, const p4d_invocation *call, p4d_list_form form, p4d_list **made)
{
	const p4d_datum *at = NULL;
	size_t count = 0;

	if (p4d_template__iterate(r, call->self, &at, &count) < 0 ||
	    p4d_template__new_list(r, form, count, made) < 0)
		return -1;
	for (size_t i = 0; i < count; i++)
		if (p4d_template__append(r, *made, at[i]) < 0)
			return -1;
	return 0;
}

static int filter_list(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	p4d_list *made;

	if (new_from(r, call, P4D_LIST_PLAIN, &made) < 0)
		return -1;
	*result = p4d_value_list(made);
	return 0;
}

static int filter_first(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	const bool last = *call->builtin->name == 'l';
	const p4d_datum *at = NULL;
	size_t count = 0;

	const bool generator = call->self.kind == P4D_LIST && call->self.list->form == P4D_GENERATOR;
	if (last && generator)
		return p4d_template__not_a(r, call->self, "has no last value");
	if (generator) {
		*result = call->self.list->count ? *call->self.list->at : (p4d_datum){.kind = P4D_UNDEFINED};
		p4d_template__pass(call->self.list, call->self.list->count > 0);
		return 0;
	}
	if (p4d_template__iterate(r, call->self, &at, &count) < 0)
		return -1;
	*result = count ? at[last ? count - 1 : 0] : (p4d_datum){.kind = P4D_UNDEFINED};
	return 0;
}

static int filter_reverse(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	p4d_list *made;
	p4d_written buffer = {.at = NULL};

	if (new_from(r, call, P4D_GENERATOR, &made) < 0)
		return -1;
	for (size_t i = 0; i < made->count / 2; i++) {
		const p4d_datum one = made->at[i];
		made->at[i] = made->at[made->count - 1 - i];
		made->at[made->count - 1 - i] = one;
	}
	*result = p4d_value_list(made);
	if (call->self.kind != P4D_STRING)
		return 0;
	for (size_t i = 0; i < made->count; i++)
		if (p4d_template__write(r, &buffer, made->at[i].text.at, made->at[i].text.length) < 0)
			return -1;
	*result = p4d_value_text(buffer.at ? buffer.at : "", buffer.length);
	result->markup = call->self.markup;
	return 0;
}

static int filter_join(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	p4d_string between = {"", 0};
	p4d_written buffer = {.at = NULL};
	const p4d_datum *at = NULL;
	size_t count = 0;
	p4d_datum value;

	if ((call->slot[0] && p4d_template__string(r, *call->slot[0], &between) < 0) ||
	    p4d_template__iterate(r, call->self, &at, &count) < 0)
		return -1;
	for (size_t i = 0; i < count; i++) {
		value = at[i];
		if (p4d_template__spend(r, 1) < 0 ||
		    (call->slot[1] && p4d_template__member(r, at[i], *call->slot[1], &value) < 0) ||
		    (i && p4d_template__write(r, &buffer, between.at, between.length) < 0) ||
		    p4d_template__write_value(r, &buffer, value) < 0)
			return -1;
	}
	*result = p4d_value_text(buffer.at ? buffer.at : "", buffer.length);
	return 0;
}

static int filter_items(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	p4d_invocation method = {.self = call->self,
				 .builtin = p4d_template__find_method(call->self, "items")};

	if (call->self.kind == P4D_UNDEFINED) {
		p4d_list *made;
		if (p4d_template__new_list(r, P4D_GENERATOR, 0, &made) < 0)
			return -1;
		*result = p4d_value_list(made);
		return 0;
	}
	if (!method.builtin)
		return p4d_template__not_a(r, call->self, "has no items: a mapping is expected");
	if (p4d_template__call(r, &method, result) < 0)
		return -1;
	result->list->form = P4D_GENERATOR;
	return 0;
}

static const p4d_datum *named(const p4d_invocation *call, const char *name)
{
	for (size_t i = 0; i < call->names; i++)
		if (!strcmp(call->named[i].name, name))
			return &call->named[i].value;
	return NULL;
}

/* Applies a filter or test to one value. `first`: index of the first argument after its name. */
static int apply(p4d_rendering *r, const p4d_invocation *call, size_t first, const p4d_builtin *builtin,
		 p4d_datum one, p4d_datum *result)
{
	p4d_invocation inner = {.self = one, .builtin = builtin};

	inner.at = call->count > first ? call->at + first : NULL;
	inner.count = call->count > first ? call->count - first : 0;
	inner.named = call->named;
	inner.names = call->names;
	return p4d_template__deeper(r) < 0
		   ? -1
		   : (p4d_template__call(r, &inner, result) < 0 ? -1 : (r->depth--, 0));
}

static int unknown(p4d_rendering *r, const char *what, p4d_datum name)
{
	if (name.kind != P4D_STRING)
		return p4d_template__not_a(r, name, "is not the name of a filter or test");
	return p4d_template__fail(r, "p4d does not support the %s %.*s", what,
				  name.text.length < 60 ? (int)name.text.length : 60, name.text.at);
}

/*
 * Copies a value to buf as a NUL-terminated name; NULL: the value is not a text, or is too long for a name.
 */
static const char *name_of(p4d_datum value, char buf[64])
{
	if (value.kind != P4D_STRING || value.text.length >= 64)
		return NULL;
	memcpy(buf, value.text.at, value.text.length);
	buf[value.text.length] = '\0';
	return buf;
}

static int map_one(p4d_rendering *r, const p4d_invocation *call, const p4d_builtin *builtin,
		   const p4d_datum *member, p4d_datum one, p4d_datum *result)
{
	const p4d_datum *otherwise = named(call, "default");

	if (!member)
		return apply(r, call, 1, builtin, one, result);
	if (p4d_template__member(r, one, *member, result) < 0)
		return -1;
	if (result->kind == P4D_UNDEFINED && otherwise)
		*result = *otherwise;
	return 0;
}

static int filter_map(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	const p4d_datum *member = call->count ? NULL : named(call, "attribute");
	const p4d_datum *at = NULL;
	char buf[64];
	p4d_list *made;
	size_t count = 0;
	p4d_datum value;

	if (!call->count && !member)
		return p4d_template__fail(r, "map: a filter or attribute= is expected");
	const char *name = call->count ? name_of(call->at[0], buf) : NULL;
	const p4d_builtin *builtin = name ? p4d_template__find_filter(name) : NULL;
	if (!member && !builtin)
		return unknown(r, "filter", call->at[0]);
	if (p4d_template__iterate(r, call->self, &at, &count) < 0 ||
	    p4d_template__new_list(r, P4D_GENERATOR, 0, &made) < 0)
		return -1;
	for (size_t i = 0; i < count; i++)
		if (map_one(r, call, builtin, member, at[i], &value) < 0 ||
		    p4d_template__append(r, made, value) < 0)
			return -1;
	*result = p4d_value_list(made);
	return 0;
}

/* Whether a value passes the test of select or selectattr. Without a test, it passes if it is true. */
static int passes(p4d_rendering *r, const p4d_invocation *call, bool by_member, const p4d_builtin *test,
		  p4d_datum one, bool *truth)
{
	p4d_datum value = one;

	if (by_member && p4d_template__member(r, one, call->at[0], &value) < 0)
		return -1;
	if (test && apply(r, call, by_member ? 2 : 1, test, value, &value) < 0)
		return -1;
	return p4d_template__truth(r, value, truth);
}

/* The filters select, reject, selectattr and rejectattr. */
static int filter_select(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	const char *name = call->builtin->name;
	const bool by_member = strstr(name, "attr") != NULL, wanted = *name == 's';
	const p4d_datum *at = NULL;
	char buf[64];
	p4d_list *made;
	size_t count = 0;

	if (by_member && !call->count)
		return p4d_template__fail(r, "%s: an attribute is expected", name);
	const p4d_datum *by = call->count > by_member ? &call->at[by_member] : NULL;
	const char *test_name = by ? name_of(*by, buf) : NULL;
	const p4d_builtin *test = test_name ? p4d_template__find_test(test_name) : NULL;
	if (by && !test)
		return unknown(r, "test", *by);
	if (p4d_template__iterate(r, call->self, &at, &count) < 0 ||
	    p4d_template__new_list(r, P4D_GENERATOR, 0, &made) < 0)
		return -1;
	for (size_t i = 0; i < count; i++) {
		bool truth = false;
		if (passes(r, call, by_member, test, at[i], &truth) < 0 ||
		    (truth == wanted && p4d_template__append(r, made, at[i]) < 0))
			return -1;
	}
	*result = p4d_value_list(made);
	return 0;
}

/*
 * Computes the key by which a value is sorted: a member of the value, or the value itself. Texts are compared
 * in lower case unless by_case is set.
 */
static int sort_key(p4d_rendering *r, p4d_datum value, const p4d_datum *member, bool by_case, p4d_datum *key)
{
	*key = value;
	if (member && p4d_template__member(r, value, *member, key) < 0)
		return -1;
	return key->kind == P4D_STRING && !by_case ? p4d_template__change_case(r, key->text, P4D_LOWER, key)
						   : 0;
}

/* Merges two sorted ranges of pairs (key, value). */
static int merge(p4d_rendering *r, p4d_pair *at, p4d_pair *to, size_t half, size_t count, bool down)
{
	size_t left = 0, right = half;

	for (size_t i = 0; i < count; i++) {
		int order = 0;
		const bool both = left < half && right < count;
		if (both && p4d_template__compare(r, at[right].key, at[left].key, &order) < 0)
			return -1;
		const bool takes_right = both ? (down ? order > 0 : order < 0) : left == half;
		to[i] = takes_right ? at[right++] : at[left++];
	}
	memcpy(at, to, count * sizeof(*at));
	return 0;
}

static int sort_pairs(p4d_rendering *r, p4d_pair *at, p4d_pair *to, size_t count, bool down)
{
	for (size_t width = 1; width < count; width *= 2)
		for (size_t from = 0; from + width < count; from += 2 * width) {
			const size_t rest = count - from;
			if (merge(r, at + from, to, width, rest < 2 * width ? rest : 2 * width, down) < 0)
				return -1;
		}
	return 0;
}

/* Sorts values by their keys into a new list. */
static int sorted(p4d_rendering *r, const p4d_datum *at, size_t count, const p4d_datum *member, bool by_case,
		  bool down, p4d_datum *result)
{
	p4d_pair *pairs = p4d_template__take(r->arena, count + 1, sizeof(*pairs)),
		 *room = p4d_template__take(r->arena, count + 1, sizeof(*room));
	p4d_list *made;

	if (!pairs || !room)
		return p4d_template__no_memory(r);
	for (size_t i = 0; i < count; i++) {
		pairs[i].value = at[i];
		if (p4d_template__spend(r, 1) < 0 || sort_key(r, at[i], member, by_case, &pairs[i].key) < 0)
			return -1;
	}
	if (sort_pairs(r, pairs, room, count, down) < 0 ||
	    p4d_template__new_list(r, P4D_LIST_PLAIN, count, &made) < 0)
		return -1;
	for (size_t i = 0; i < count; i++)
		if (p4d_template__append(r, made, pairs[i].value) < 0)
			return -1;
	*result = p4d_value_list(made);
	return 0;
}

static int filter_sort(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	const p4d_datum *at = NULL;
	bool down = false, by_case = false;
	size_t count = 0;

	if (p4d_template__truth_slot(r, call, 0, &down) < 0 ||
	    p4d_template__truth_slot(r, call, 1, &by_case) < 0 ||
	    p4d_template__iterate(r, call->self, &at, &count) < 0)
		return -1;
	return sorted(r, at, count, call->slot[2], by_case, down, result);
}

static int filter_dictsort(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	const p4d_builtin *items = p4d_template__find_method(call->self, "items");
	p4d_invocation method = {.self = call->self, .builtin = items};
	p4d_string by = {"key", 3};
	bool by_case = false, down = false;
	p4d_datum pairs;

	if (call->self.kind != P4D_DICT)
		return p4d_template__not_a(r, call->self, "is not a mapping, so it cannot be sorted");
	if (p4d_template__truth_slot(r, call, 0, &by_case) < 0 ||
	    p4d_template__text_slot(r, call, 1, &by) < 0 || p4d_template__truth_slot(r, call, 2, &down) < 0 ||
	    p4d_template__call(r, &method, &pairs) < 0)
		return -1;
	const p4d_datum member = p4d_value_integer(by.length && *by.at == 'v');
	return sorted(r, pairs.list->at, pairs.list->count, &member, by_case, down, result);
}

static int filter_unique(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	const p4d_datum *at = NULL;
	p4d_list *keys, *made;
	bool by_case = false;
	size_t count = 0;
	p4d_datum key;

	if (p4d_template__truth_slot(r, call, 0, &by_case) < 0 ||
	    p4d_template__iterate(r, call->self, &at, &count) < 0 ||
	    p4d_template__new_list(r, P4D_LIST_PLAIN, 0, &keys) < 0 ||
	    p4d_template__new_list(r, P4D_GENERATOR, 0, &made) < 0)
		return -1;
	for (size_t i = 0; i < count; i++) {
		bool there = false;
		if (sort_key(r, at[i], call->slot[1], by_case, &key) < 0 ||
		    p4d_template__contains(r, p4d_value_list(keys), key, &there) < 0 ||
		    (!there &&
		     (p4d_template__append(r, keys, key) < 0 || p4d_template__append(r, made, at[i]) < 0)))
			return -1;
	}
	*result = p4d_value_list(made);
	return 0;
}

/* The filters min and max. */
static int filter_most(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	const bool largest = call->builtin->name[1] == 'a';
	const p4d_datum *at = NULL;
	bool by_case = false;
	size_t count = 0;
	p4d_datum best = {.kind = P4D_UNDEFINED}, key;

	*result = best;
	if (p4d_template__truth_slot(r, call, 0, &by_case) < 0 ||
	    p4d_template__iterate(r, call->self, &at, &count) < 0)
		return -1;
	for (size_t i = 0; i < count; i++) {
		int order = 0;
		if (sort_key(r, at[i], call->slot[1], by_case, &key) < 0 ||
		    (i && p4d_template__compare(r, key, best, &order) < 0))
			return -1;
		if (i && (largest ? order <= 0 : order >= 0))
			continue;
		best = key;
		*result = at[i];
	}
	return 0;
}

static int filter_sum(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	const p4d_datum *at = NULL;
	size_t count = 0;
	p4d_datum value;

	*result = call->slot[1] ? *call->slot[1] : p4d_value_integer(0);
	if (p4d_template__iterate(r, call->self, &at, &count) < 0)
		return -1;
	for (size_t i = 0; i < count; i++) {
		value = at[i];
		if (p4d_template__spend(r, 1) < 0 ||
		    (call->slot[0] && p4d_template__member(r, at[i], *call->slot[0], &value) < 0) ||
		    p4d_template__math(r, P4D_OP_ADD, *result, value, result) < 0)
			return -1;
	}
	return 0;
}

const p4d_builtin p4d_template__list_filters[] = {
    {"list", filter_list, ""},
    {"first", filter_first, ""},
    {"last", filter_first, ""},
    {"reverse", filter_reverse, ""},
    {"join", filter_join, "d attribute"},
    {"items", filter_items, ""},
    {"map", filter_map, NULL},
    {"select", filter_select, NULL},
    {"reject", filter_select, NULL},
    {"selectattr", filter_select, NULL},
    {"rejectattr", filter_select, NULL},
    {"sort", filter_sort, "reverse case_sensitive attribute"},
    {"dictsort", filter_dictsort, "case_sensitive by reverse"},
    {"unique", filter_unique, "case_sensitive attribute"},
    {"min", filter_most, "case_sensitive attribute"},
    {"max", filter_most, "case_sensitive attribute"},
    {"sum", filter_sum, "attribute start"},
    {NULL, NULL, NULL},
};
