/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* Makes one printable line of any text. */
static void print(char *buf, size_t size, const char *format, va_list args)
{
	char raw[sizeof(((p4d_error *)0)->text)];
	p4d_text line = p4d_text_in(buf, size);

	vsnprintf(raw, sizeof(raw), format, args);
	p4d_text_escaped(&line, raw);
}

int p4d_fail(p4d_error *err, p4d_code code, const char *format, ...)
{
	va_list args;

	if (!err)
		return -1;
	err->code = code;
	err->fix[0] = '\0';
	va_start(args, format);
	print(err->text, sizeof(err->text), format, args);
	va_end(args);
	return -1;
}

int p4d_fix(p4d_error *err, const char *format, ...)
{
	va_list args;

	if (!err)
		return -1;
	va_start(args, format);
	print(err->fix, sizeof(err->fix), format, args);
	va_end(args);
	return -1;
}

int p4d_error_in(p4d_error *err, const char *what)
{
	char text[sizeof(err->text)];

	if (!err)
		return -1;
	memcpy(text, err->text, sizeof(text));
	snprintf(err->text, sizeof(err->text), "%.200s: %.270s", what, text);
	return -1;
}

const char *p4d_error_code_title(p4d_code code)
{
	switch ((int)code) {
#define CODE(number, name, title, text) \
	case number: \
		return title;
#include "base/codes.def"
#undef CODE
	default:
		return NULL;
	}
}

const char *p4d_error_code_text(p4d_code code)
{
	switch ((int)code) {
#define CODE(number, name, title, text) \
	case number: \
		return text;
#include "base/codes.def"
#undef CODE
	default:
		return NULL;
	}
}
