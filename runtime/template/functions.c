/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of templates, and the look-up of all built-in functions, filters and tests. */
#include "template/builtin.h"

#include <string.h>
#include <time.h>

#include "template/operate.h"

static int call_raise(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	p4d_string text = {"", 0};

	(void)result;
	if (call->slot[0] && p4d_template__string(r, *call->slot[0], &text) < 0)
		return -1;
	return p4d_template__fail(r, "the template reports an error: %.*s",
				  text.length < 240 ? (int)text.length : 240, text.at);
}

/*
 * Copies a format for strftime, and replaces the directives whose value strftime does not know: microseconds
 * become 000000, and the time zone, which this date does not have, is left out.
 */
static size_t plain_format(p4d_string format, char *copy)
{
	size_t length = 0;

	for (size_t i = 0; i < format.length; i++) {
		const char next = format.at[i] == '%' && i + 1 < format.length ? format.at[i + 1] : '\0';
		if (next == 'f')
			memcpy(copy + length, "000000", 6);
		length += next == 'f' ? 6 : 0;
		i += next == 'f' || next == 'z' || next == 'Z';
		if (next != 'f' && next != 'z' && next != 'Z')
			copy[length++] = format.at[i];
		if (next == '%')
			copy[length++] = format.at[++i];
	}
	copy[length] = '\0';
	return length;
}

static int call_date(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	enum { LONGEST = 512, ROOM = 1 << 16 };
	p4d_string format = {"", 0};
	char copy[3 * LONGEST];

	if (!call->slot[0] || p4d_template__text_slot(r, call, 0, &format) < 0 || format.length >= LONGEST)
		return r->failed
			   ? -1
			   : p4d_template__fail(r, "strftime_now: a format of at most 511 bytes is expected");
	if (!r->values->has_date) {
		p4d_template__fail(
		    r, "the template shows the date of today: give the date with --chat-date YYYY-MM-DD");
		return p4d_fix(r->err, "--chat-date YYYY-MM-DD");
	}
	/*
	 * strftime returns 0 both for an empty text and for one that is too long. So the format gets a blank
	 * at its end, and the text is never empty.
	 */
	size_t length = plain_format(format, copy);
	memcpy(copy + length, " ", 2);
	char *text = p4d_template__take(r->arena, ROOM, 1);
	if (!text)
		return p4d_template__no_memory(r);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	length = strftime(text, ROOM, copy, &r->values->date);
#pragma GCC diagnostic pop
	if (!length)
		return p4d_template__fail(r, "strftime_now: a date of more than %d bytes", ROOM - 2);
	*result = p4d_value_text(text, length - 1);
	return p4d_template__spend(r, length / 64);
}

static int call_range(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	enum { LONGEST = 100000 };
	int64_t part[3] = {0, 0, 1};
	p4d_list *made;

	if (call->count < 1 || call->count > 3 || call->names)
		return p4d_template__fail(r, "range: one to three numbers are expected");
	for (size_t i = 0; i < call->count; i++) {
		if (call->at[i].kind != P4D_INTEGER && call->at[i].kind != P4D_BOOL)
			return p4d_template__not_a(r, call->at[i], "cannot be the bound of a range");
		part[call->count == 1 ? 1 : i] =
		    call->at[i].kind == P4D_BOOL ? call->at[i].truth : call->at[i].integer;
	}
	if (part[2] == 0)
		return p4d_template__fail(r, "range: a step of 0");
	if (p4d_template__new_list(r, P4D_RANGE, 0, &made) < 0)
		return -1;
	for (int64_t at = part[0]; part[2] > 0 ? at < part[1] : at > part[1];) {
		if (made->count == LONGEST)
			return p4d_template__fail(r, "range: more than %d numbers, the limit", LONGEST);
		if (p4d_template__append(r, made, p4d_value_integer(at)) < 0)
			return -1;
		if (__builtin_add_overflow(at, part[2], &at))
			break;
	}
	*result = p4d_value_list(made);
	return 0;
}

/* The functions dict and namespace, which take a mapping and named values. */
static int call_dict(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	const bool space = *call->builtin->name == 'n';
	p4d_dict *made;

	if (call->count > 1 || (call->count && call->at[0].kind != P4D_DICT))
		return p4d_template__fail(
		    r, "p4d supports %s only with at most one mapping, then name=value arguments",
		    call->builtin->name);
	if (p4d_template__new_dict(r, &made) < 0)
		return -1;
	for (size_t i = 0; call->count && i < call->at[0].dict->count; i++)
		if (p4d_template__put(r, made, call->at[0].dict->at[i].key, call->at[0].dict->at[i].value) <
		    0)
			return -1;
	for (size_t i = 0; i < call->names; i++) {
		const char *name = call->named[i].name;
		if (space && *name == '_')
			return p4d_template__fail(r, "a member of a namespace begins with _: %.60s", name);
		if (p4d_template__put(r, made, p4d_value_text(name, strlen(name)), call->named[i].value) < 0)
			return -1;
	}
	*result = (p4d_datum){.kind = space ? P4D_NAMESPACE : P4D_DICT, .dict = made};
	return 0;
}

static const p4d_builtin functions[] = {
    {"raise_exception", call_raise, "message"},
    {"strftime_now", call_date, "format"},
    {"range", call_range, NULL},
    {"dict", call_dict, NULL},
    {"namespace", call_dict, NULL},
    {NULL, NULL, NULL},
};

static const p4d_builtin *find_in(const p4d_builtin *list, const char *name)
{
	for (; list->name; list++)
		if (!strcmp(list->name, name))
			return list;
	return NULL;
}

const p4d_method *p4d_template__find_function(const char *name)
{
	static const p4d_method methods[] = {
	    {&functions[0], {.kind = P4D_NONE}}, {&functions[1], {.kind = P4D_NONE}},
	    {&functions[2], {.kind = P4D_NONE}}, {&functions[3], {.kind = P4D_NONE}},
	    {&functions[4], {.kind = P4D_NONE}},
	};
	const p4d_builtin *found = find_in(functions, name);

	return found ? &methods[found - functions] : NULL;
}

const p4d_builtin *p4d_template__find_filter(const char *name)
{
	static const p4d_builtin *const lists[] = {p4d_template__text_filters, p4d_template__value_filters,
						   p4d_template__list_filters};
	const p4d_builtin *found = NULL;

	for (size_t i = 0; !found && i < sizeof(lists) / sizeof(*lists); i++)
		found = find_in(lists[i], name);
	return found;
}

const p4d_builtin *p4d_template__find_test(const char *name)
{
	return find_in(p4d_template__tests, name);
}

const p4d_builtin *p4d_template__find_method(p4d_datum self, const char *name)
{
	const p4d_builtin *list = self.kind == P4D_STRING ? p4d_template__text_methods
				  : self.kind == P4D_DICT ? p4d_template__dict_methods
				  : self.kind == P4D_LOOP ? p4d_template__loop_methods
							  : NULL;

	if (self.kind == P4D_LIST && (self.list->form == P4D_LIST_PLAIN || self.list->form == P4D_TUPLE))
		list = p4d_template__list_methods;
	return list ? find_in(list, name) : NULL;
}
