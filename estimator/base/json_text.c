/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/number.h"

void p4d_json_text_quote(p4d_text *text, const char *string)
{
	static const char special[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";

	p4d_text_add(text, "\"");
	while (*string) {
		size_t plain = 0;
		while ((unsigned char)string[plain] >= ' ' && string[plain] != '"' && string[plain] != '\\')
			plain++;
		p4d_text_add_bytes(text, string, plain);
		string += plain;
		if (!*string)
			break;
		const char *known = strchr(special, *string);
		if (known)
			p4d_text_print(text, "\\%c", letter[known - special]);
		else
			p4d_text_print(text, "\\u%04x", (unsigned)*string);
		string++;
	}
	p4d_text_add(text, "\"");
}

/* Writes the text before a value: a comma unless it is the first one, and its key. */
static void begin(p4d_text *text, const char *key)
{
	/* no comma after {, [, or a NUL that precedes the JSON (strchr also finds the NUL) */
	if (text->length && !strchr("{[", text->at[text->length - 1]))
		p4d_text_add(text, ",");
	if (!key)
		return;
	p4d_json_text_quote(text, key);
	p4d_text_add(text, ":");
}

void p4d_json_text_open(p4d_text *text, const char *key, char bracket)
{
	begin(text, key);
	p4d_text_add_bytes(text, &bracket, 1);
}

void p4d_json_text_close(p4d_text *text, char bracket)
{
	p4d_text_add_bytes(text, &bracket, 1);
}

void p4d_json_text_string(p4d_text *text, const char *key, const char *string)
{
	begin(text, key);
	p4d_json_text_quote(text, string);
}

void p4d_json_text_whole(p4d_text *text, const char *key, uint64_t number)
{
	begin(text, key);
	p4d_text_print(text, "%" PRIu64, number);
}

void p4d_json_text_real(p4d_text *text, const char *key, double number)
{
	char buf[P4D_NUMBER_TEXT];

	begin(text, key);
	p4d_text_add(text, isfinite(number) ? p4d_number_text(number, 9, buf) : "null");
}

void p4d_json_text_bool(p4d_text *text, const char *key, bool value)
{
	begin(text, key);
	p4d_text_add(text, value ? "true" : "false");
}

void p4d_json_text_null(p4d_text *text, const char *key)
{
	begin(text, key);
	p4d_text_add(text, "null");
}
