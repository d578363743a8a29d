/* SPDX-License-Identifier: Apache-2.0 */
/* Calls built-in functions and macros. */
#include "template/builtin.h"

#include <string.h>

#include "template/operate.h"

/* The arguments of a call while they are being collected. */
typedef struct given {
	p4d_datum *at;
	p4d_named_value *named;
	size_t count, room, names, names_room;
} given;

static int add_argument(p4d_rendering *r, given *a, p4d_datum value)
{
	if (p4d_template__grow(r, &a->at, &a->room, a->count + 1, sizeof(*a->at)) < 0)
		return -1;
	a->at[a->count++] = value;
	return p4d_template__spend(r, 1);
}

static int add_named(p4d_rendering *r, given *a, const char *name, p4d_datum value)
{
	if (p4d_template__grow(r, &a->named, &a->names_room, a->names + 1, sizeof(*a->named)) < 0)
		return -1;
	a->named[a->names++] = (p4d_named_value){name, value};
	return p4d_template__spend(r, 1);
}

/* For f(*values): adds the elements of `values` to the arguments. */
static int add_all(p4d_rendering *r, given *a, p4d_datum values)
{
	const p4d_datum *at = NULL;
	size_t count = 0;

	if (p4d_template__iterate(r, values, &at, &count) < 0)
		return -1;
	for (size_t i = 0; i < count; i++)
		if (add_argument(r, a, at[i]) < 0)
			return -1;
	return 0;
}

/* For f(**mapping): adds the entries of `mapping` to the named arguments. */
static int add_mapping(p4d_rendering *r, given *a, p4d_datum mapping)
{
	if (mapping.kind != P4D_DICT)
		return p4d_template__not_a(r, mapping,
					   "cannot be the named arguments: a mapping is expected");
	for (size_t i = 0; i < mapping.dict->count; i++) {
		const p4d_datum key = mapping.dict->at[i].key;
		if (key.kind != P4D_STRING)
			return p4d_template__not_a(r, key, "is not a name of an argument");
		char *name = p4d_template__take(r->arena, key.text.length + 1, 1);
		if (!name)
			return p4d_template__no_memory(r);
		memcpy(name, key.text.at, key.text.length);
		if (add_named(r, a, name, mapping.dict->at[i].value) < 0)
			return -1;
	}
	return 0;
}

int p4d_template__call_arguments(p4d_rendering *r, const p4d_node *list, p4d_invocation *call)
{
	given a = {.count = 0};
	p4d_datum value;

	for (; list; list = list->next) {
		if (p4d_template__evaluate(r, list->a, &value) < 0)
			return -1;
		const int rc = list->op == P4D_OP_MULTIPLY ? add_all(r, &a, value)
			       : list->op == P4D_OP_POWER  ? add_mapping(r, &a, value)
			       : list->name                ? add_named(r, &a, list->name, value)
							   : add_argument(r, &a, value);
		if (rc < 0)
			return -1;
	}
	call->at = a.at;
	call->count = a.count;
	call->named = a.named;
	call->names = a.names;
	return 0;
}

/* Returns the position of a name in a list of names separated by blanks; -1: it is not in the list. */
static int slot_of(const char *parameters, const char *name)
{
	const size_t length = strlen(name);
	int slot = 0;

	for (const char *at = parameters; *at; slot++) {
		const size_t width = strcspn(at, " ");
		if (width == length && !memcmp(at, name, length))
			return slot;
		at += width + (at[width] == ' ');
	}
	return -1;
}

static size_t slots_of(const char *parameters)
{
	size_t count = *parameters != '\0';

	for (const char *at = parameters; (at = strchr(at, ' ')) != NULL; at++)
		count++;
	return count;
}

static int fill_slots(p4d_rendering *r, p4d_invocation *call)
{
	const char *parameters = call->builtin->parameters;

	if (call->count > slots_of(parameters))
		return p4d_template__fail(r, "%s: %zu arguments, at most %zu are expected",
					  call->builtin->name, call->count, slots_of(parameters));
	for (size_t i = 0; i < call->count; i++)
		call->slot[i] = &call->at[i];
	for (size_t i = 0; i < call->names; i++) {
		const int slot = slot_of(parameters, call->named[i].name);
		if (slot < 0 || call->slot[slot])
			return p4d_template__fail(r, "%s: the argument %.60s is not known, or given twice",
						  call->builtin->name, call->named[i].name);
		call->slot[slot] = &call->named[i].value;
	}
	return 0;
}

int p4d_template__call(p4d_rendering *r, p4d_invocation *call, p4d_datum *result)
{
	if (call->builtin->parameters && fill_slots(r, call) < 0)
		return -1;
	return call->builtin->call(r, call, result);
}

static const p4d_datum *argument(const p4d_invocation *call, size_t i, const char *name)
{
	if (i < call->count)
		return &call->at[i];
	for (size_t j = 0; j < call->names; j++)
		if (!strcmp(call->named[j].name, name))
			return &call->named[j].value;
	return NULL;
}

/* Checks that each argument has a parameter. Every macro also accepts `caller`. */
static int check_arguments(p4d_rendering *r, const p4d_node *parameters, const p4d_invocation *call)
{
	size_t count = 0, used = call->count;

	for (const p4d_node *one = parameters; one; one = one->next, count++) {
		/* charged here because define_arguments repeats these comparisons */
		if (p4d_template__spend(r, call->names / 4) < 0)
			return -1;
		for (size_t j = 0; count >= call->count && j < call->names; j++)
			used += !strcmp(call->named[j].name, one->name);
	}
	for (size_t j = 0; j < call->names; j++)
		used += !strcmp(call->named[j].name, "caller");
	if (call->count <= count && used == call->count + call->names)
		return 0;
	return p4d_template__fail(
	    r,
	    "a macro with %zu parameters is called with %zu arguments, or with an argument of another name",
	    count, call->count + call->names);
}

static int define_arguments(p4d_rendering *r, const p4d_macro *macro, const p4d_invocation *call)
{
	size_t i = 0;

	for (const p4d_node *one = macro->node->a; one; one = one->next, i++) {
		const p4d_datum *passed = argument(call, i, one->name);
		p4d_datum value = passed ? *passed : (p4d_datum){.kind = P4D_UNDEFINED, .name = one->name};
		if (!passed && one->a && p4d_template__evaluate(r, one->a, &value) < 0)
			return -1;
		if (p4d_template__define(r, r->scope, one->name, value) < 0)
			return -1;
	}
	for (size_t j = 0; j < call->names; j++)
		if (!strcmp(call->named[j].name, "caller") &&
		    p4d_template__define(r, r->scope, call->named[j].name, call->named[j].value) < 0)
			return -1;
	return 0;
}

int p4d_template__call_macro(p4d_rendering *r, const p4d_macro *macro, const p4d_invocation *call,
			     p4d_datum *result)
{
	p4d_scope *const before = r->scope, *made = p4d_template__scope(r, macro->scope);

	if (!made || check_arguments(r, macro->node->a, call) < 0 || p4d_template__deeper(r) < 0)
		return -1;
	r->scope = made;
	int rc = define_arguments(r, macro, call);
	if (rc == 0)
		rc = p4d_template__capture(r, macro->node->c, result);
	r->scope = before;
	r->depth--;
	return rc;
}

int p4d_template__text_slot(p4d_rendering *r, const p4d_invocation *call, size_t slot, p4d_string *text)
{
	const p4d_datum *value = call->slot[slot];

	if (!value || value->kind == P4D_NONE)
		return 0;
	if (value->kind != P4D_STRING)
		return p4d_template__fail(r, "%s: got a %s, expected a string", call->builtin->name,
					  p4d_template__kind(*value));
	*text = value->text;
	return 0;
}

int p4d_template__integer_slot(p4d_rendering *r, const p4d_invocation *call, size_t slot, int64_t *integer)
{
	const p4d_datum *value = call->slot[slot];

	if (!value || value->kind == P4D_NONE)
		return 0;
	if (value->kind != P4D_INTEGER && value->kind != P4D_BOOL)
		return p4d_template__fail(r, "%s: got a %s, expected an integer", call->builtin->name,
					  p4d_template__kind(*value));
	*integer = value->kind == P4D_BOOL ? value->truth : value->integer;
	return 0;
}

int p4d_template__truth_slot(p4d_rendering *r, const p4d_invocation *call, size_t slot, bool *truth)
{
	return call->slot[slot] ? p4d_template__truth(r, *call->slot[slot], truth) : 0;
}

int p4d_template__self_text(p4d_rendering *r, const p4d_invocation *call, p4d_string *text)
{
	return p4d_template__string(r, call->self, text);
}

/* Reads one part of a path. If it has only digits, it is an index. */
static int step_into(p4d_rendering *r, p4d_datum value, p4d_string part, p4d_datum *result)
{
	int64_t index = 0;
	bool digits = part.length > 0 && part.length < 10;

	for (size_t i = 0; digits && i < part.length; i++) {
		digits = part.at[i] >= '0' && part.at[i] <= '9';
		index = index * 10 + (part.at[i] - '0');
	}
	return p4d_template__item(
	    r, value, digits ? p4d_value_integer(index) : p4d_value_text(part.at, part.length), result);
}

int p4d_template__member(p4d_rendering *r, p4d_datum value, p4d_datum path, p4d_datum *result)
{
	*result = value;
	if (path.kind != P4D_STRING)
		return p4d_template__item(r, value, path, result);
	for (p4d_string rest = path.text;;) {
		const char *dot = rest.length ? memchr(rest.at, '.', rest.length) : NULL;
		const p4d_string part = {rest.at, dot ? (size_t)(dot - rest.at) : rest.length};
		if (step_into(r, *result, part, result) < 0)
			return -1;
		if (!dot)
			return 0;
		rest = (p4d_string){dot + 1, rest.length - part.length - 1};
	}
}
