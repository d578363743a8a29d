/* SPDX-License-Identifier: Apache-2.0 */
/* Filters of texts. As in Jinja, the filtered value is converted to a text. */
#include "template/builtin.h"

#include <string.h>

#include "template/operate.h"
#include "template/strings.h"
#include "template/utf8.h"

static int filter_trim(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	p4d_string text, characters = {NULL, 0};

	if (p4d_template__self_text(r, call, &text) < 0 ||
	    p4d_template__text_slot(r, call, 0, &characters) < 0 ||
	    p4d_template__spend(r, characters.at ? text.length * (1 + characters.length / 8) : 0) < 0)
		return -1;
	text = p4d_template__strip(text, characters.at ? &characters : NULL, true, true);
	*result = p4d_value_text(text.at, text.length);
	result->markup = call->self.markup;
	return 0;
}

static int change(p4d_rendering *r, const p4d_invocation *call, p4d_case to, p4d_datum *result)
{
	p4d_string text;

	if (p4d_template__self_text(r, call, &text) < 0 || p4d_template__change_case(r, text, to, result) < 0)
		return -1;
	result->markup = call->self.markup && to != P4D_TITLE_FILTER;
	return 0;
}

static int filter_upper(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	return change(r, call, P4D_UPPER, result);
}

static int filter_lower(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	return change(r, call, P4D_LOWER, result);
}

static int filter_capitalize(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	return change(r, call, P4D_CAPITAL, result);
}

static int filter_title(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	return change(r, call, P4D_TITLE_FILTER, result);
}

static int filter_string(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	p4d_string text;

	if (p4d_template__self_text(r, call, &text) < 0)
		return -1;
	*result = p4d_value_text(text.at, text.length);
	result->markup = call->self.markup;
	return 0;
}

static int filter_replace(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	p4d_string text, old, new;
	int64_t most = -1;

	if (!call->slot[0] || !call->slot[1])
		return p4d_template__fail(r, "replace: two arguments are expected");
	if (p4d_template__self_text(r, call, &text) < 0 ||
	    p4d_template__string(r, *call->slot[0], &old) < 0 ||
	    p4d_template__string(r, *call->slot[1], &new) < 0 ||
	    p4d_template__integer_slot(r, call, 2, &most) < 0)
		return -1;
	return p4d_template__replace(r, text, old, new, most, result);
}

/* Reads the text that is put before lines. */
static int read_margin(p4d_rendering *r, const p4d_invocation *call, p4d_string *margin)
{
	int64_t width = 4;
	p4d_datum blanks;

	if (call->slot[0] && call->slot[0]->kind == P4D_STRING) {
		*margin = call->slot[0]->text;
		return 0;
	}
	if (p4d_template__integer_slot(r, call, 0, &width) < 0 ||
	    p4d_template__math(r, P4D_OP_MULTIPLY, P4D_TEXT(" "), p4d_value_integer(width), &blanks) < 0)
		return -1;
	*margin = blanks.text;
	return 0;
}

static int filter_indent(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	p4d_string text, margin;
	p4d_written buffer = {.at = NULL};
	p4d_list *lines;
	bool first = false, blank = false;

	if (call->self.kind != P4D_STRING)
		return p4d_template__not_a(r, call->self, "cannot be indented: a text is expected");
	if (p4d_template__self_text(r, call, &text) < 0 || read_margin(r, call, &margin) < 0 ||
	    p4d_template__truth_slot(r, call, 1, &first) < 0 ||
	    p4d_template__truth_slot(r, call, 2, &blank) < 0)
		return -1;
	/* Jinja adds a newline, so that the last line counts even if the text does not end with a newline. */
	if (p4d_template__write(r, &buffer, text.at, text.length) < 0 ||
	    p4d_template__write(r, &buffer, "\n", 1) < 0 ||
	    p4d_template__lines(r, (p4d_string){buffer.at, buffer.length}, false, &lines) < 0)
		return -1;
	buffer = (p4d_written){.at = NULL};
	for (size_t i = 0; i < lines->count; i++) {
		const p4d_string line = lines->at[i].text;
		const bool indented = i == 0 ? first : blank || line.length > 0;
		if ((i && p4d_template__write(r, &buffer, "\n", 1) < 0) ||
		    (indented && p4d_template__write(r, &buffer, margin.at, margin.length) < 0) ||
		    p4d_template__write(r, &buffer, line.at, line.length) < 0)
			return -1;
	}
	*result = p4d_value_text(buffer.at ? buffer.at : "", buffer.length);
	result->markup = call->self.markup;
	return 0;
}

static int filter_escape(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	p4d_string text;

	if (p4d_template__self_text(r, call, &text) < 0)
		return -1;
	*result = call->self;
	return call->self.markup ? 0 : p4d_template__escape(r, text, result);
}

static int filter_safe(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	if (filter_string(r, call, result) < 0)
		return -1;
	result->markup = true;
	return 0;
}

/* Counts the words of a text: letters, digits, _ and bytes beyond ASCII. */
static int filter_wordcount(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	p4d_string text;
	int64_t words = 0;
	bool before = false;

	if (p4d_template__self_text(r, call, &text) < 0 || p4d_template__spend(r, text.length / 8) < 0)
		return -1;
	if (!p4d_template__is_ascii(text))
		return p4d_template__fail(r, "p4d does not support wordcount beyond ASCII");
	for (size_t i = 0; i < text.length; i++) {
		const char c = text.at[i];
		const bool now =
		    (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
		words += now && !before;
		before = now;
	}
	*result = p4d_value_integer(words);
	return 0;
}

const p4d_builtin p4d_template__text_filters[] = {
    {"trim", filter_trim, "chars"},
    {"upper", filter_upper, ""},
    {"lower", filter_lower, ""},
    {"capitalize", filter_capitalize, ""},
    {"title", filter_title, ""},
    {"string", filter_string, ""},
    {"safe", filter_safe, ""},
    {"replace", filter_replace, "old new count"},
    {"indent", filter_indent, "width first blank"},
    {"escape", filter_escape, ""},
    {"e", filter_escape, ""},
    {"wordcount", filter_wordcount, ""},
    {NULL, NULL, NULL},
};
