/* SPDX-License-Identifier: Apache-2.0 */
/* Writes Python's str and repr of values. */
#include "template/operate.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "template/utf8.h"

/* Writes a number 0.d1d2... * 10^exponent; digits: its digits without the point. */
static void place_point(char text[64], bool negative, const char *digits, int exponent)
{
	const int count = (int)strlen(digits);
	const char *const minus = negative ? "-" : "";

	if (exponent > 16 || exponent < -3)
		snprintf(text, 64, "%s%c%s%se%c%02d", minus, digits[0], count > 1 ? "." : "", digits + 1,
			 exponent > 0 ? '+' : '-', abs(exponent - 1));
	else if (exponent <= 0)
		snprintf(text, 64, "%s0.%.*s%s", minus, -exponent, "0000", digits);
	else if (exponent >= count)
		snprintf(text, 64, "%s%s%.*s.0", minus, digits, exponent - count, "00000000000000000");
	else
		snprintf(text, 64, "%s%.*s.%s", minus, exponent, digits, digits + exponent);
}

/* The repr of a float. */
static void real_text(double real, char text[64])
{
	char shortest[40], digits[24];
	size_t count = 0;

	if (isnan(real) || isinf(real)) {
		snprintf(text, 64, "%s", isnan(real) ? "nan" : real < 0 ? "-inf" : "inf");
		return;
	}
	for (int precision = 0; precision < 17; precision++) {
		snprintf(shortest, sizeof(shortest), "%.*e", precision, real);
		if (!(strtod(shortest, NULL) < real) && !(strtod(shortest, NULL) > real))
			break;
	}
	const char *at = shortest;
	for (; *at && *at != 'e'; at++)
		if (*at >= '0' && *at <= '9')
			digits[count++] = *at;
	while (count > 1 && digits[count - 1] == '0')
		count--;
	digits[count] = '\0';
	const int exponent = *at ? (int)strtol(at + 1, NULL, 10) + 1 : 1;
	place_point(text, shortest[0] == '-', digits, exponent);
}

/* Whether repr shows a character unchanged. Unassigned characters count as letters. */
static bool is_printable(uint32_t code)
{
	static const uint32_t others[][2] = {
	    {0x0, 0x1f},        {0x7f, 0xa0},       {0xad, 0xad},        {0x600, 0x605},
	    {0x61c, 0x61c},     {0x6dd, 0x6dd},     {0x70f, 0x70f},      {0x890, 0x891},
	    {0x8e2, 0x8e2},     {0x180e, 0x180e},   {0x200b, 0x200f},    {0x202a, 0x202e},
	    {0x2060, 0x206f},   {0xe000, 0xf8ff},   {0xfeff, 0xfeff},    {0xfff9, 0xfffb},
	    {0x110bd, 0x110bd}, {0x110cd, 0x110cd}, {0x13430, 0x1343f},  {0x1bca0, 0x1bca3},
	    {0x1d173, 0x1d17a}, {0xe0000, 0xe00ff}, {0xe01f0, 0x10ffff},
	};

	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (code >= others[i][0] && code <= others[i][1])
			return false;
	return code == ' ' || !p4d_template__is_space(code);
}

static int write_code(p4d_rendering *r, p4d_written *buffer, uint32_t code)
{
	char text[16];

	if (code == '\n' || code == '\r' || code == '\t')
		snprintf(text, sizeof(text), "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
	else
		snprintf(text, sizeof(text),
			 code < 0x100     ? "\\x%02x"
			 : code < 0x10000 ? "\\u%04x"
					  : "\\U%08x",
			 code);
	return p4d_template__write_text(r, buffer, text);
}

static int write_quoted(p4d_rendering *r, p4d_written *buffer, p4d_string text)
{
	const bool single = text.length && memchr(text.at, '\'', text.length);
	const char quote = single && !memchr(text.at, '"', text.length) ? '"' : '\'';
	uint32_t code;

	if (p4d_template__write(r, buffer, &quote, 1) < 0 || p4d_template__spend(r, text.length / 8) < 0)
		return -1;
	for (size_t at = 0, bytes; at < text.length; at += bytes) {
		bytes = p4d_template__character(text.at + at, text.length - at, &code);
		const bool escaped = code == '\\' || code == (unsigned char)quote;
		const bool shown = is_printable(code);
		if ((escaped && p4d_template__write(r, buffer, "\\", 1) < 0) ||
		    (shown ? p4d_template__write(r, buffer, text.at + at, bytes)
			   : write_code(r, buffer, code)) < 0)
			return -1;
	}
	return p4d_template__write(r, buffer, &quote, 1);
}

static int write_list(p4d_rendering *r, p4d_written *buffer, const p4d_list *list)
{
	const bool tuple = list->form == P4D_TUPLE;

	if (list->form != P4D_LIST_PLAIN && !tuple)
		return p4d_template__fail(
		    r, "p4d does not print a range, a generator or a view of a mapping: use | list");
	if (p4d_template__write_text(r, buffer, tuple ? "(" : "[") < 0)
		return -1;
	for (size_t i = 0; i < list->count; i++)
		if ((i && p4d_template__write_text(r, buffer, ", ") < 0) ||
		    p4d_template__write_repr(r, buffer, list->at[i]) < 0)
			return -1;
	return p4d_template__write_text(r, buffer, !tuple ? "]" : list->count == 1 ? ",)" : ")");
}

static int write_dict(p4d_rendering *r, p4d_written *buffer, const p4d_dict *dict)
{
	if (p4d_template__write_text(r, buffer, "{") < 0)
		return -1;
	for (size_t i = 0; i < dict->count; i++)
		if ((i && p4d_template__write_text(r, buffer, ", ") < 0) ||
		    p4d_template__write_repr(r, buffer, dict->at[i].key) < 0 ||
		    p4d_template__write_text(r, buffer, ": ") < 0 ||
		    p4d_template__write_repr(r, buffer, dict->at[i].value) < 0)
			return -1;
	return p4d_template__write_text(r, buffer, "}");
}

static int write_scalar(p4d_rendering *r, p4d_written *buffer, p4d_datum value)
{
	char text[64] = "";

	switch (value.kind) {
	case P4D_UNDEFINED:
		break;
	case P4D_NONE:
		strcpy(text, "None");
		break;
	case P4D_BOOL:
		strcpy(text, value.truth ? "True" : "False");
		break;
	case P4D_INTEGER:
		snprintf(text, sizeof(text), "%" PRId64, value.integer);
		break;
	case P4D_REAL:
		real_text(value.real, text);
		break;
	case P4D_STRING:
	case P4D_LIST:
	case P4D_DICT:
	case P4D_NAMESPACE:
	case P4D_LOOP:
	case P4D_MACRO:
	case P4D_FUNCTION:
		return p4d_template__fail(r, "p4d does not print a %s", p4d_template__kind(value));
	}
	return p4d_template__write_text(r, buffer, text);
}

int p4d_template__write_repr(p4d_rendering *r, p4d_written *buffer, p4d_datum value)
{
	int rc;

	if (value.markup)
		return p4d_template__write_text(r, buffer, "Markup(") < 0 ||
			       write_quoted(r, buffer, value.text) < 0
			   ? -1
			   : p4d_template__write_text(r, buffer, ")");
	if (value.kind == P4D_STRING)
		return write_quoted(r, buffer, value.text);
	if (value.kind == P4D_UNDEFINED)
		return p4d_template__write_text(r, buffer, "Undefined");
	if (value.kind != P4D_LIST && value.kind != P4D_DICT)
		return write_scalar(r, buffer, value);
	if (p4d_template__spend(r, 1) < 0 || p4d_template__deeper(r) < 0)
		return -1;
	rc = value.kind == P4D_LIST ? write_list(r, buffer, value.list) : write_dict(r, buffer, value.dict);
	r->depth--;
	return rc;
}

int p4d_template__write_value(p4d_rendering *r, p4d_written *buffer, p4d_datum value)
{
	if (value.kind == P4D_STRING)
		return p4d_template__write(r, buffer, value.text.at, value.text.length);
	return value.kind == P4D_UNDEFINED ? 0 : p4d_template__write_repr(r, buffer, value);
}

int p4d_template__string(p4d_rendering *r, p4d_datum value, p4d_string *text)
{
	p4d_written buffer = {.at = NULL};

	if (value.kind == P4D_STRING) {
		*text = value.text;
		return 0;
	}
	if (p4d_template__write_value(r, &buffer, value) < 0)
		return -1;
	*text = (p4d_string){buffer.at ? buffer.at : "", buffer.length};
	return 0;
}
