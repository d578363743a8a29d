/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

int p4d_fail(p4d_error *err, p4d_code code, const char *format, ...)
{
	va_list args;

	if (!err)
		return -1;
	err->code = code;
	err->fix[0] = '\0';
	va_start(args, format);
	vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	return -1;
}

int p4d_fix(p4d_error *err, const char *format, ...)
{
	va_list args;

	if (!err)
		return -1;
	va_start(args, format);
	vsnprintf(err->fix, sizeof(err->fix), format, args);
	va_end(args);
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
