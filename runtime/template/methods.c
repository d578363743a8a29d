/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of texts, mappings, lists and loops. transformers' sandbox forbids methods that change a value. */
#include "template/builtin.h"

#include <string.h>

#include "template/operate.h"
#include "template/strings.h"
#include "template/utf8.h"

static int strip(p4d_rendering *r, const p4d_invocation *call, bool left, bool right, p4d_datum *result)
{
	p4d_string characters = {NULL, 0};

	if (p4d_template__text_slot(r, call, 0, &characters) < 0 ||
	    p4d_template__spend(r, characters.at ? call->self.text.length * (1 + characters.length / 8) : 0) <
		0)
		return -1;
	const p4d_string text =
	    p4d_template__strip(call->self.text, characters.at ? &characters : NULL, left, right);
	*result = p4d_value_text(text.at, text.length);
	return 0;
}

static int text_strip(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	return strip(r, call, true, true, result);
}

static int text_lstrip(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	return strip(r, call, true, false, result);
}

static int text_rstrip(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	return strip(r, call, false, true, result);
}

/* Splits at white space; leading and trailing white space is ignored. */
static int split_at_space(p4d_rendering *r, p4d_string text, int64_t most, p4d_list *parts)
{
	text = p4d_template__strip(text, NULL, true, false);
	while (text.length) {
		size_t end = 0, bytes;
		uint32_t code;
		while ((bytes = p4d_template__character(text.at + end, text.length - end, &code)) != 0 &&
		       !p4d_template__is_space(code))
			end += bytes;
		if (most-- == 0)
			end = text.length;
		if (p4d_template__append(r, parts, p4d_value_text(text.at, end)) < 0)
			return -1;
		text = p4d_template__strip((p4d_string){text.at + end, text.length - end}, NULL, true, false);
	}
	return 0;
}

static int split_at(p4d_rendering *r, p4d_string text, p4d_string separator, int64_t most, p4d_list *parts)
{
	const char *found;

	for (; most != 0; most--) {
		if (p4d_template__find(r, text, separator, false, &found) < 0)
			return -1;
		if (!found)
			break;
		const size_t before = (size_t)(found - text.at);
		if (p4d_template__append(r, parts, p4d_value_text(text.at, before)) < 0)
			return -1;
		text = (p4d_string){found + separator.length, text.length - before - separator.length};
	}
	return p4d_template__append(r, parts, p4d_value_text(text.at, text.length));
}

static int read_split(p4d_rendering *r, const p4d_invocation *call, p4d_string *separator, int64_t *most,
		      p4d_list **parts)
{
	*separator = (p4d_string){NULL, 0};
	*most = -1;
	if (p4d_template__text_slot(r, call, 0, separator) < 0 ||
	    p4d_template__integer_slot(r, call, 1, most) < 0 ||
	    p4d_template__new_list(r, P4D_LIST_PLAIN, 0, parts) < 0)
		return -1;
	if (separator->at && !separator->length)
		return p4d_template__fail(r, "split: an empty separator");
	return p4d_template__spend(r, call->self.text.length / 16);
}

static int text_split(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	p4d_string separator;
	p4d_list *parts;
	int64_t most;

	if (read_split(r, call, &separator, &most, &parts) < 0)
		return -1;
	*result = p4d_value_list(parts);
	return separator.at ? split_at(r, call->self.text, separator, most, parts)
			    : split_at_space(r, call->self.text, most, parts);
}

static void turn_round(p4d_list *list)
{
	for (size_t i = 0; i < list->count / 2; i++) {
		const p4d_datum one = list->at[i];
		list->at[i] = list->at[list->count - 1 - i];
		list->at[list->count - 1 - i] = one;
	}
}

static int text_rsplit(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	p4d_string separator, text = call->self.text;
	p4d_list *parts;
	int64_t most;
	const char *found;

	if (read_split(r, call, &separator, &most, &parts) < 0)
		return -1;
	if (!separator.at && most >= 0)
		return p4d_template__fail(r, "p4d does not support rsplit at white space with a number");
	*result = p4d_value_list(parts);
	if (!separator.at)
		return split_at_space(r, text, most, parts);
	for (; most != 0; most--) {
		if (p4d_template__find(r, text, separator, true, &found) < 0)
			return -1;
		if (!found)
			break;
		const char *behind = found + separator.length;
		if (p4d_template__append(
			r, parts, p4d_value_text(behind, (size_t)(text.at + text.length - behind))) < 0)
			return -1;
		text.length = (size_t)(found - text.at);
	}
	if (p4d_template__append(r, parts, p4d_value_text(text.at, text.length)) < 0)
		return -1;
	turn_round(parts);
	return 0;
}

static int text_partition(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	const p4d_string text = call->self.text;
	p4d_string separator = {"", 0};
	p4d_list *parts;

	if (p4d_template__text_slot(r, call, 0, &separator) < 0 ||
	    p4d_template__new_list(r, P4D_TUPLE, 3, &parts) < 0)
		return -1;
	if (!separator.length)
		return p4d_template__fail(r, "%s: an empty separator", call->builtin->name);
	const bool last = *call->builtin->name == 'r';
	const char *found;
	if (p4d_template__find(r, text, separator, last, &found) < 0)
		return -1;
	const size_t before = found ? (size_t)(found - text.at) : last ? 0 : text.length;
	const size_t behind = found ? before + separator.length : last ? 0 : text.length;
	*result = p4d_value_list(parts);
	if (p4d_template__append(r, parts, p4d_value_text(text.at, before)) < 0 ||
	    p4d_template__append(r, parts,
				 found ? p4d_value_text(separator.at, separator.length) : P4D_TEXT("")) < 0)
		return -1;
	return p4d_template__append(r, parts, p4d_value_text(text.at + behind, text.length - behind));
}

static int text_lines(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	bool with_ends = false;
	p4d_list *lines;

	if (p4d_template__truth_slot(r, call, 0, &with_ends) < 0 ||
	    p4d_template__lines(r, call->self.text, with_ends, &lines) < 0)
		return -1;
	*result = p4d_value_list(lines);
	return 0;
}

static bool is_at(p4d_string text, p4d_string part, bool end)
{
	return part.length <= text.length &&
	       (!part.length ||
		!memcmp(text.at + (end ? text.length - part.length : 0), part.at, part.length));
}

/* The methods startswith and endswith, with one text or a tuple of texts. */
static int is_at_any(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	const p4d_datum *part = call->slot[0];
	const bool end = *call->builtin->name == 'e';

	if (!part || call->slot[1])
		return p4d_template__fail(r, "p4d supports %s with one argument", call->builtin->name);
	*result = p4d_value_bool(false);
	const bool several = part->kind == P4D_LIST && part->list->form == P4D_TUPLE;
	if (!several && part->kind != P4D_STRING)
		return p4d_template__not_a(r, *part, "is not text, so no string can start or end with it");
	for (size_t i = 0; i < (several ? part->list->count : 1); i++) {
		const p4d_datum one = several ? part->list->at[i] : *part;
		if (one.kind != P4D_STRING)
			return p4d_template__not_a(r, one,
						   "is not text, so no string can start or end with it");
		if (p4d_template__spend(r, one.text.length / 64) < 0)
			return -1;
		result->truth |= is_at(call->self.text, one.text, end);
	}
	return 0;
}

static int text_find(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	const p4d_string text = call->self.text;
	p4d_string what = {"", 0};
	const char *name = call->builtin->name, *found;

	if (!call->slot[0] || call->slot[1])
		return p4d_template__fail(r, "p4d supports %s with one argument", name);
	if (p4d_template__text_slot(r, call, 0, &what) < 0 || p4d_template__spend(r, text.length / 16) < 0 ||
	    p4d_template__find(r, text, what, *name == 'r', &found) < 0)
		return -1;
	if (!found && !strcmp(name + (*name == 'r'), "index"))
		return p4d_template__fail(r, "index: the text does not occur");
	*result = p4d_value_integer(
	    found ? (int64_t)p4d_template__characters((p4d_string){text.at, (size_t)(found - text.at)}) : -1);
	return 0;
}

static int text_count(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	p4d_string what = {"", 0}, text = call->self.text;
	int64_t count = 0;
	const char *found;

	if (p4d_template__text_slot(r, call, 0, &what) < 0)
		return -1;
	if (!what.length)
		count = (int64_t)p4d_template__characters(text) + 1;
	while (what.length) {
		if (p4d_template__find(r, text, what, false, &found) < 0)
			return -1;
		if (!found)
			break;
		const size_t behind = (size_t)(found - text.at) + what.length;
		text = (p4d_string){text.at + behind, text.length - behind};
		count++;
	}
	*result = p4d_value_integer(count);
	return p4d_template__spend(r, call->self.text.length / 8);
}

static int text_replace(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	p4d_string old = {"", 0}, new = {"", 0};
	int64_t most = -1;

	if (!call->slot[0] || !call->slot[1])
		return p4d_template__fail(r, "replace: two arguments are expected");
	if (p4d_template__text_slot(r, call, 0, &old) < 0 || p4d_template__text_slot(r, call, 1, &new) < 0 ||
	    p4d_template__integer_slot(r, call, 2, &most) < 0)
		return -1;
	return p4d_template__replace(r, call->self.text, old, new, most, result);
}

static int text_upper(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	return p4d_template__change_case(r, call->self.text, P4D_UPPER, result);
}

static int text_lower(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	return p4d_template__change_case(r, call->self.text, P4D_LOWER, result);
}

static int text_casefold(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	if (!p4d_template__is_ascii(call->self.text))
		return p4d_template__fail(r, "p4d does not support casefold beyond ASCII");
	return text_lower(r, call, result);
}

static int text_capitalize(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	return p4d_template__change_case(r, call->self.text, P4D_CAPITAL, result);
}

static int text_title(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	return p4d_template__change_case(r, call->self.text, P4D_TITLE, result);
}

static int text_join(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	const p4d_datum *at = NULL;
	size_t count = 0;
	p4d_written buffer = {.at = NULL};

	if (!call->slot[0])
		return p4d_template__fail(r, "join: an argument is expected");
	if (p4d_template__iterate(r, *call->slot[0], &at, &count) < 0)
		return -1;
	for (size_t i = 0; i < count; i++) {
		if (at[i].kind != P4D_STRING)
			return p4d_template__not_a(r, at[i], "cannot be joined: a string is expected");
		if ((i && p4d_template__write(r, &buffer, call->self.text.at, call->self.text.length) < 0) ||
		    p4d_template__write(r, &buffer, at[i].text.at, at[i].text.length) < 0)
			return -1;
	}
	*result = p4d_value_text(buffer.at ? buffer.at : "", buffer.length);
	return 0;
}

static int remove_part(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	const bool end = !strcmp(call->builtin->name, "removesuffix");
	p4d_string part = {"", 0}, text = call->self.text;

	if (p4d_template__text_slot(r, call, 0, &part) < 0 || p4d_template__spend(r, part.length / 64) < 0)
		return -1;
	if (is_at(text, part, end))
		text = (p4d_string){text.at + (end ? 0 : part.length), text.length - part.length};
	*result = p4d_value_text(text.at, text.length);
	return 0;
}

/* The methods isdigit, isalpha, isalnum, isspace, isupper, islower, only for ASCII. */
static int text_is(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	const p4d_string text = call->self.text;
	const char *what = call->builtin->name + 2;
	bool all = text.length > 0, letter = false;

	if (!p4d_template__is_ascii(text))
		return p4d_template__fail(r, "p4d does not support is%s beyond ASCII", what);
	for (size_t i = 0; i < text.length; i++) {
		const char c = text.at[i];
		const bool digit = c >= '0' && c <= '9', up = c >= 'A' && c <= 'Z',
			   low = c >= 'a' && c <= 'z';
		letter |= up || low;
		all &= !strcmp(what, "digit")   ? digit
		       : !strcmp(what, "alpha") ? up || low
		       : !strcmp(what, "alnum") ? up || low || digit
		       : !strcmp(what, "space") ? p4d_template__is_space((unsigned char)c)
		       : !strcmp(what, "upper") ? !low
						: !up;
	}
	*result =
	    p4d_value_bool(all && (letter || (strcmp(what, "upper") != 0 && strcmp(what, "lower") != 0)));
	return p4d_template__spend(r, text.length / 8);
}

const p4d_builtin p4d_template__text_methods[] = {
    {"strip", text_strip, "chars"},
    {"lstrip", text_lstrip, "chars"},
    {"rstrip", text_rstrip, "chars"},
    {"split", text_split, "sep maxsplit"},
    {"rsplit", text_rsplit, "sep maxsplit"},
    {"partition", text_partition, "sep"},
    {"rpartition", text_partition, "sep"},
    {"splitlines", text_lines, "keepends"},
    {"startswith", is_at_any, "prefix start"},
    {"endswith", is_at_any, "suffix start"},
    {"find", text_find, "sub start"},
    {"rfind", text_find, "sub start"},
    {"index", text_find, "sub start"},
    {"rindex", text_find, "sub start"},
    {"count", text_count, "sub"},
    {"replace", text_replace, "old new count"},
    {"upper", text_upper, ""},
    {"lower", text_lower, ""},
    {"casefold", text_casefold, ""},
    {"capitalize", text_capitalize, ""},
    {"title", text_title, ""},
    {"join", text_join, "iterable"},
    {"removeprefix", remove_part, "prefix"},
    {"removesuffix", remove_part, "suffix"},
    {"isdigit", text_is, ""},
    {"isalpha", text_is, ""},
    {"isalnum", text_is, ""},
    {"isspace", text_is, ""},
    {"isupper", text_is, ""},
    {"islower", text_is, ""},
    {NULL, NULL, NULL},
};
