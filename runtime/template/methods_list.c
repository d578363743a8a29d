/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of mappings, lists and loops. */
#include "template/builtin.h"

#include <string.h>

#include "template/operate.h"

/* The methods keys, values and items, and the filter items. */
static int dict_parts(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	const p4d_dict *dict = call->self.dict;
	const char which = *call->builtin->name;
	p4d_list *list, *pair;

	if (p4d_template__new_list(r, P4D_VIEW, dict->count, &list) < 0)
		return -1;
	for (size_t i = 0; i < dict->count; i++) {
		p4d_datum part = which == 'k' ? dict->at[i].key : dict->at[i].value;
		if (which == 'i') {
			if (p4d_template__new_list(r, P4D_TUPLE, 2, &pair) < 0 ||
			    p4d_template__append(r, pair, dict->at[i].key) < 0 ||
			    p4d_template__append(r, pair, dict->at[i].value) < 0)
				return -1;
			part = p4d_value_list(pair);
		}
		if (p4d_template__append(r, list, part) < 0)
			return -1;
	}
	*result = p4d_value_list(list);
	return 0;
}

static int dict_get(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	if (!call->slot[0])
		return p4d_template__fail(r, "get: a key is expected");
	const p4d_datum *there = p4d_template__get(r, call->self.dict, *call->slot[0]);
	*result = there ? *there : call->slot[1] ? *call->slot[1] : (p4d_datum){.kind = P4D_NONE};
	return r->failed ? -1 : 0;
}

static int dict_copy(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	p4d_dict *made;

	if (p4d_template__new_dict(r, &made) < 0)
		return -1;
	for (size_t i = 0; i < call->self.dict->count; i++)
		if (p4d_template__put(r, made, call->self.dict->at[i].key, call->self.dict->at[i].value) < 0)
			return -1;
	*result = (p4d_datum){.kind = P4D_DICT, .dict = made};
	return 0;
}

static int forbidden(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	(void)result;
	return p4d_template__fail(r, "%s changes a value, which templates may not do", call->builtin->name);
}

const p4d_builtin p4d_template__dict_methods[] = {
    {"items", dict_parts, ""},        {"keys", dict_parts, ""},        {"values", dict_parts, ""},
    {"get", dict_get, "key default"}, {"copy", dict_copy, ""},         {"pop", forbidden, NULL},
    {"update", forbidden, NULL},      {"setdefault", forbidden, NULL}, {"clear", forbidden, NULL},
    {"popitem", forbidden, NULL},     {"fromkeys", forbidden, NULL},   {NULL, NULL, NULL},
};

static int list_find(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	const p4d_list *list = call->self.list;
	const bool counts = *call->builtin->name == 'c';
	int64_t count = 0;

	if (!call->slot[0])
		return p4d_template__fail(r, "%s: a value is expected", call->builtin->name);
	for (size_t i = 0; i < list->count; i++) {
		bool equal = false;
		if (p4d_template__equal(r, list->at[i], *call->slot[0], &equal) < 0)
			return -1;
		if (equal && !counts) {
			*result = p4d_value_integer((int64_t)i);
			return 0;
		}
		count += equal;
	}
	*result = p4d_value_integer(count);
	return counts ? 0 : p4d_template__fail(r, "index: the value is not in the list");
}

const p4d_builtin p4d_template__list_methods[] = {
    {"index", list_find, "value"},
    {"count", list_find, "value"},
    {"append", forbidden, NULL},
    {"extend", forbidden, NULL},
    {"insert", forbidden, NULL},
    {"pop", forbidden, NULL},
    {"remove", forbidden, NULL},
    {"reverse", forbidden, NULL},
    {"sort", forbidden, NULL},
    {"clear", forbidden, NULL},
    {NULL, NULL, NULL},
};

static int loop_cycle(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	if (!call->count)
		return p4d_template__fail(r, "loop.cycle: values are expected");
	*result = call->at[call->self.loop->index % call->count];
	return 0;
}

const p4d_builtin p4d_template__loop_methods[] = {
    {"cycle", loop_cycle, NULL},
    {NULL, NULL, NULL},
};
