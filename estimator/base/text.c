/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

p4d_text p4d_text_in(char *buf, size_t size)
{
	if (size)
		buf[0] = '\0';
	return (p4d_text){.at = buf, .size = size, .truncated = !size};
}

/* Reserves room for this many more bytes and a NUL; false if that is impossible. */
static bool make_room(p4d_text *text, size_t more)
{
	if (text->truncated || more < text->size - text->length)
		return !text->truncated;
	const size_t size = 2 * (text->length + more) + 64;
	char *grown = text->grows ? realloc(text->at, size) : NULL;
	if (grown) {
		text->at = grown;
		text->size = size;
	}
	return grown != NULL;
}

void p4d_text_add_bytes(p4d_text *text, const char *bytes, size_t length)
{
	if (text->truncated)
		return;
	text->truncated = !make_room(text, length);
	if (text->truncated)
		length = text->size ? text->size - text->length - 1 : 0;
	if (length)
		memcpy(text->at + text->length, bytes, length);
	text->length += length;
	if (text->size)
		text->at[text->length] = '\0';
}

void p4d_text_add(p4d_text *text, const char *string)
{
	p4d_text_add_bytes(text, string, strlen(string));
}

static void print(p4d_text *text, const char *format, va_list args)
{
	va_list again;

	if (text->truncated)
		return;
	va_copy(again, args);
	size_t room = text->size - text->length;
	int length = vsnprintf(room ? text->at + text->length : NULL, room, format, args);
	if (length >= 0 && (size_t)length >= room && make_room(text, (size_t)length)) {
		room = text->size - text->length;
		length = vsnprintf(text->at + text->length, room, format, again);
	}
	va_end(again);
	text->truncated = length < 0 || (size_t)length >= room;
	if (!text->truncated)
		text->length += (size_t)length;
	else if (room)
		text->length += strlen(text->at + text->length);
}

void p4d_text_print(p4d_text *text, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print(text, format, args);
	va_end(args);
}

void p4d_text_entry(p4d_text *text, const char *separator, const char *format, ...)
{
	const size_t before = text->length;
	va_list args;

	if (before)
		p4d_text_add(text, separator);
	va_start(args, format);
	print(text, format, args);
	va_end(args);
	if (text->truncated && text->size) {
		text->length = before;
		text->at[before] = '\0';
	}
}

/*
 * Number of bytes of the printable character at this position; 0: no printable character. In UTF-8, control
 * characters (U+0080 to U+009F) and General Punctuation (with line separators and changes of direction) count
 * as not printable.
 */
static size_t printable(const unsigned char *at)
{
	const unsigned second = at[0] ? at[1] : 0;
	const bool two = second >> 6 == 2, three = two && at[2] >> 6 == 2;

	if (at[0] < 0x80)
		return at[0] >= ' ' && at[0] != 0x7f;
	if (at[0] >= 0xc2 && at[0] <= 0xdf)
		return two && (at[0] > 0xc2 || second >= 0xa0) ? 2 : 0;
	if (at[0] >> 4 == 0xe)
		return three && (at[0] > 0xe0 || second >= 0xa0) && (at[0] != 0xe2 || second > 0x81) ? 3 : 0;
	return three && at[3] >> 6 == 2 && at[0] >= 0xf0 && at[0] <= 0xf4 && (at[0] > 0xf0 || second >= 0x90)
		   ? 4
		   : 0;
}

static void escape(p4d_text *text, const char *string, const char *special)
{
	while (*string && !text->truncated) {
		size_t plain = 0, length;
		while ((length = printable((const unsigned char *)string + plain)) &&
		       !strchr(special, string[plain]))
			plain += length;
		p4d_text_add_bytes(text, string, plain);
		string += plain;
		if (!*string)
			break;
		p4d_text_print(text, length ? "\\%c" : "\\x%02x", (unsigned char)*string++);
	}
}

void p4d_text_escaped(p4d_text *text, const char *string)
{
	escape(text, string, "");
}

void p4d_text_escape_in_place(char *text, size_t size)
{
	char copy[1024];

	text[size - 1] = '\0';
	snprintf(copy, sizeof(copy), "%s", text);
	p4d_text escaped = p4d_text_in(text, size);
	p4d_text_escaped(&escaped, copy);
}

void p4d_text_quoted(p4d_text *text, const char *string)
{
	p4d_text_add(text, "\"");
	escape(text, string, "\"\\");
	p4d_text_add(text, "\"");
}
