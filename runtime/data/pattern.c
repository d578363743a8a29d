/* SPDX-License-Identifier: Apache-2.0 */
#include "data/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <ctype.h>
#include <pcre2.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* White space by Unicode's definition. PCRE2's \s also includes U+180E. */
#define SPACE "\\t-\\r\\x{85}\\p{Z}"
/* The longest pattern of a released model has 500 characters. */
enum { LONGEST = 8192 };

static int unsupported(const char *pattern, const char *what, p4d_error *err)
{
	return p4d_fail(err, P4D_E_VALUE, "the tokenizer's pattern %.200s has %s, which is not supported",
			pattern, what);
}

/*
 * Translates a property such as \p{Han}. Han is a script. PCRE2 also counts script extensions unless the
 * pattern excludes them. Returns the number of bytes read.
 */
static size_t property(const char *from, p4d_text *out)
{
	const size_t name = strspn(from + 3, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_");

	if (from[2] != '{' || name <= 2 || from[3 + name] != '}' || !strncmp(from + 3, "Any", 3))
		return 0;
	p4d_text_print(out, "\\%c{sc:%.*s}", from[1], (int)name, from + 3);
	return name + 4;
}

/* Translates one escape; from[0] is '\\\\'. Returns the number of bytes read; 0: error. */
static size_t escape(const char *pattern, const char *from, bool in_class, p4d_text *out, p4d_error *err)
{
	const char letter = from[1];
	char text[8] = {'\\', letter};
	size_t read = 2;

	if (letter == 's') {
		p4d_text_add(out, in_class ? SPACE : "[" SPACE "]");
	} else if (letter == 'S' && !in_class) {
		p4d_text_add(out, "[^" SPACE "]");
	} else if (letter == 'u' && strspn(from + 2, "0123456789abcdefABCDEF") >= 4) {
		p4d_text_print(out, "\\x{%.4s}", from + 2);
		read = 6;
	} else if ((letter == 'p' || letter == 'P') && (read = property(from, out)) != 0) {
		return read;
	} else if (letter && (strchr("pPdDrntfx", letter) || !isalnum((unsigned char)letter))) {
		p4d_text_add(out, text);
		read = 2;
	} else {
		unsupported(pattern, letter ? text : "a backslash at its end", err);
		return 0;
	}
	return read;
}

/*
 * Whether a repetition in braces is itself repeated: {n,m}+. Ruby repeats it again, but in PCRE2 it is
 * possessive.
 */
static bool repeats_twice(const char *brace)
{
	const size_t inside = strspn(brace + 1, "0123456789,");

	return inside && brace[1 + inside] == '}' && brace[2 + inside] == '+';
}

/*
 * Whether a group sets the option m. In Ruby, (?m) lets a dot match line feeds; in PCRE2, it lets ^ and $
 * match at the ends of lines. So p4d refuses it.
 */
static bool sets_m(const char *group)
{
	return !strncmp(group, "(?", 2) && memchr(group + 2, 'm', strspn(group + 2, "imx-"));
}

static int translate(const char *pattern, char *to, size_t size, p4d_error *err)
{
	p4d_text out = p4d_text_in(to, size);
	bool in_class = false;

	for (const char *at = pattern; *at;) {
		if (*at == '\\') {
			const size_t read = escape(pattern, at, in_class, &out, err);
			if (!read)
				return -1;
			at += read;
			continue;
		}
		if (in_class && (*at == '[' || !strncmp(at, "&&", 2)))
			return unsupported(pattern, "a class inside a class", err);
		if (!in_class && *at == '{' && repeats_twice(at))
			return unsupported(pattern, "a + after {}", err);
		if (!in_class && sets_m(at))
			return unsupported(pattern, "(?m)", err);
		if (!in_class && *at == '[') {
			in_class = true;
			p4d_text_add(&out, at[1] == '^' ? "[^" : "[");
			at += at[1] == '^' ? 2 : 1;
			continue;
		}
		in_class = in_class && *at != ']';
		p4d_text_add_bytes(&out, at++, 1);
	}
	return out.truncated ? unsupported(pattern, "too many characters", err) : 0;
}

int p4d_pattern__open(p4d_pattern *pattern, const char *text, bool literal, p4d_error *err)
{
	char translated[LONGEST];
	PCRE2_UCHAR why[120];
	PCRE2_SIZE place = 0;
	int error = 0;
	const uint32_t options = literal ? PCRE2_UTF | PCRE2_LITERAL
					 : PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;

	if (!literal && translate(text, translated, sizeof(translated), err) < 0)
		return -1;
	/* ^ and $ match at the ends of lines, which end only with a line feed */
	pcre2_compile_context *context = pcre2_compile_context_create(NULL);
	if (!context)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a pattern");
	pcre2_set_newline(context, PCRE2_NEWLINE_LF);
	pcre2_code *code = pcre2_compile((PCRE2_SPTR)(literal ? text : translated), PCRE2_ZERO_TERMINATED,
					 options, &error, &place, context);
	pcre2_compile_context_free(context);
	if (!code) {
		pcre2_get_error_message(error, why, sizeof(why));
		return p4d_fail(err, P4D_E_VALUE, "the tokenizer's pattern %.200s: %s", text,
				(const char *)why);
	}
	/* JIT only makes matching several times as fast, so it is no error if the system forbids it */
	pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
	pattern->code = code;
	pattern->match = pcre2_match_data_create(1, NULL);
	return pattern->match ? 0 : p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a pattern");
}

void p4d_pattern__close(p4d_pattern *pattern)
{
	pcre2_match_data_free(pattern->match);
	pcre2_code_free(pattern->code);
}

int p4d_pattern__next(const p4d_pattern *pattern, const char *text, size_t length, size_t from, size_t *begin,
		      size_t *end, p4d_error *err)
{
	PCRE2_UCHAR why[120];
	const int found = pcre2_match(pattern->code, (PCRE2_SPTR)text, length, from, PCRE2_NO_UTF_CHECK,
				      pattern->match, NULL);

	if (found == PCRE2_ERROR_NOMATCH)
		return 0;
	if (found < 0) {
		pcre2_get_error_message(found, why, sizeof(why));
		return p4d_fail(err, P4D_E_VALUE, "a text of %zu bytes cannot be split: %s", length,
				(const char *)why);
	}
	const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(pattern->match);
	*begin = bounds[0];
	*end = bounds[1];
	return 1;
}
