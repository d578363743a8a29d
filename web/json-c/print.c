/* SPDX-License-Identifier: Apache-2.0 */
/* JSON text of a value, byte for byte as json-c 0.16 prints it. */
#include "json-c/value.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct printer {
	char *text;
	size_t length, room;
	int flags;
	bool failed;
} printer;

static bool grow(printer *p, size_t length)
{
	const size_t room = 2 * (p->length + length) + 64;
	char *more;

	if (p->failed || p->length + length < p->room)
		return !p->failed;
	more = realloc(p->text, room);
	p->failed = !more;
	if (!more)
		return false;
	p->text = more;
	p->room = room;
	return true;
}

static void put(printer *p, const char *text, size_t length)
{
	if (!grow(p, length))
		return;
	memcpy(p->text + p->length, text, length);
	p->length += length;
	p->text[p->length] = '\0';
}

static void put_text(printer *p, const char *text)
{
	put(p, text, strlen(text));
}

static void put_character(printer *p, char character)
{
	static const char plain[] = "\b\n\r\t\f\"\\", letters[] = "bnrtf\"\\";
	const char *at = character ? strchr(plain, character) : NULL;
	const bool slash = character == '/' && !(p->flags & JSON_C_TO_STRING_NOSLASHESCAPE);
	char escaped[8];

	if (at || slash)
		snprintf(escaped, sizeof(escaped), "\\%c", slash ? '/' : letters[at - plain]);
	else if ((unsigned char)character < ' ')
		snprintf(escaped, sizeof(escaped), "\\u%04x", (unsigned)(unsigned char)character);
	else
		snprintf(escaped, sizeof(escaped), "%c", character);
	put_text(p, escaped);
}

static void put_string(printer *p, const char *text, size_t length)
{
	put_text(p, "\"");
	for (size_t i = 0; i < length; i++)
		put_character(p, text[i]);
	put_text(p, "\"");
}

static void put_double(printer *p, double value)
{
	char digits[64];

	if (isnan(value))
		snprintf(digits, sizeof(digits), "NaN");
	else if (isinf(value))
		snprintf(digits, sizeof(digits), "%sInfinity", value < 0 ? "-" : "");
	else
		snprintf(digits, sizeof(digits), "%.17g", value);
	put_text(p, digits);
	if (isfinite(value) && !strpbrk(digits, ".e"))
		put_text(p, ".0");
}

static void put_number(printer *p, const struct json_object *object)
{
	char digits[32];

	if (object->is_unsigned)
		snprintf(digits, sizeof(digits), "%" PRIu64, (uint64_t)object->whole);
	else
		snprintf(digits, sizeof(digits), "%" PRId64, object->whole);
	put_text(p, digits);
}

static void new_line(printer *p, int level)
{
	if (!(p->flags & JSON_C_TO_STRING_PRETTY))
		return;
	put_text(p, "\n");
	for (int i = 0; i < level; i++)
		put_text(p, "  ");
}

static void put_value(printer *p, const struct json_object *object, int level);

static void put_members(printer *p, const struct json_object *object, int level)
{
	for (size_t i = 0; i < object->members; i++) {
		const struct json_member *member = &object->member[i];
		if (i)
			put_text(p, ",");
		new_line(p, level + 1);
		if (member->key) {
			put_string(p, member->key, strlen(member->key));
			put_text(p, ":");
		}
		put_value(p, member->value, level + 1);
	}
	if (object->members || object->type == json_type_array)
		new_line(p, level);
}

static void put_value(printer *p, const struct json_object *object, int level)
{
	const enum json_type type = json_object_get_type(object);

	if (type == json_type_null) {
		put_text(p, "null");
	} else if (type == json_type_boolean) {
		put_text(p, object->whole ? "true" : "false");
	} else if (type == json_type_int) {
		put_number(p, object);
	} else if (type == json_type_string) {
		put_string(p, object->text, object->length);
	} else if (type == json_type_double && object->text) {
		put_text(p, object->text);
	} else if (type == json_type_double) {
		put_double(p, object->real);
	} else {
		put_text(p, type == json_type_object ? "{" : "[");
		put_members(p, object, level);
		put_text(p, type == json_type_object ? "}" : "]");
	}
}

const char *json_object_to_json_string_ext(struct json_object *object, int flags)
{
	printer p = {.flags = flags};

	if (!object)
		return "null";
	put_value(&p, object, 0);
	free(object->printed);
	object->printed = p.text;
	if (!p.failed)
		return p.text;
	free(p.text);
	object->printed = NULL;
	return NULL;
}

const char *json_object_to_json_string(struct json_object *object)
{
	return json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN);
}
