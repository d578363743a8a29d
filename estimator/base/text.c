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

/* Reserves room for that many more bytes and a NUL; false if impossible. */
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
