/* SPDX-License-Identifier: Apache-2.0 */
#include "template/literal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "template/utf8.h"

size_t p4d_template__utf8(uint32_t code, char buf[4])
{
	if (code < 0x80) {
		buf[0] = (char)code;
		return 1;
	}
	const size_t bytes = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
	for (size_t i = bytes; i-- > 1; code >>= 6)
		buf[i] = (char)(0x80 | (code & 0x3f));
	buf[0] = (char)((0xf00U >> bytes & 0xf0) | code);
	return bytes;
}

static int digit(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'z' ? c - 'a' + 10
	       : c >= 'A' && c <= 'Z' ? c - 'A' + 10
				      : 99;
}

/* Reads the digits of a character code; false: there are fewer than `least`. */
static bool read_code(p4d_string raw, size_t *at, int base, size_t least, size_t most, uint32_t *code)
{
	size_t count = 0;

	*code = 0;
	for (; count < most && *at < raw.length && digit(raw.at[*at]) < base; count++)
		*code = *code * (uint32_t)base + (uint32_t)digit(raw.at[(*at)++]);
	return count >= least;
}

/*
 * Reads one escape after the backslash at *at. Returns 1: it is *code; 0: it is not an escape; 2: it is an
 * escaped newline, which is removed; -1: it is malformed.
 */
static int escape(p4d_string raw, size_t *at, uint32_t *code)
{
	static const char names[] = "abfnrtv\\'\"", codes[] = "\a\b\f\n\r\t\v\\'\"";
	const char c = raw.at[*at], *simple = strchr(names, c);

	if (c == '\n') {
		++*at;
		return 2;
	}
	if (c && simple) {
		++*at;
		*code = (unsigned char)codes[simple - names];
		return 1;
	}
	if (c >= '0' && c <= '7')
		return read_code(raw, at, 8, 1, 3, code) ? 1 : -1;
	const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
	if (!digits)
		return c == 'N' ? -1 : 0;
	++*at;
	if (!read_code(raw, at, 16, digits, digits, code))
		return -1;
	return *code < 0x110000 && (*code < 0xd800 || *code > 0xdfff) ? 1 : -1;
}

int p4d_template__unescape(p4d_string raw, p4d_arena *arena, p4d_string *text)
{
	/*
	 * a character's UTF-8 is never longer than its escape: \1 to \377 have at least two bytes, \xHH four,
	 * \uHHHH six
	 */
	char *to = p4d_template__take(arena, raw.length + 1, 1);
	size_t length = 0, at = 0;
	uint32_t code = 0;

	if (!to)
		return -1;
	while (at < raw.length) {
		const char c = raw.at[at++];
		const int what = c == '\\' && at < raw.length ? escape(raw, &at, &code) : 0;
		if (what < 0)
			return -1;
		if (what == 1)
			length += p4d_template__utf8(code, to + length);
		else if (what == 0)
			to[length++] = c;
	}
	*text = (p4d_string){to, length};
	return 0;
}

/* Skips digits of a base with single underscores between them; returns their end. */
static size_t digits(p4d_string text, size_t at, int base)
{
	const size_t from = at;

	while (at < text.length &&
	       (digit(text.at[at]) < base ||
		(at > from && text.at[at] == '_' && at + 1 < text.length && digit(text.at[at + 1]) < base)))
		at++;
	return at;
}

/* Returns the end of the real number at the beginning of the text; 0: there is no real number. */
static size_t real_end(p4d_string text)
{
	size_t end = digits(text, 0, 10);
	const size_t whole = end;

	if (end < text.length && text.at[end] == '.' && digits(text, end + 1, 10) > end + 1)
		end = digits(text, end + 1, 10);
	if (end < text.length && (text.at[end] | 32) == 'e') {
		size_t power = end + 1;
		power += power < text.length && (text.at[power] == '+' || text.at[power] == '-');
		if (digits(text, power, 10) > power)
			end = digits(text, power, 10);
	}
	return end > whole ? end : 0;
}

static bool without_lines(p4d_string text, char *buf, size_t size)
{
	size_t count = 0;

	for (size_t i = 0; i < text.length; i++)
		if (text.at[i] != '_') {
			if (count + 1 >= size)
				return false;
			buf[count++] = text.at[i];
		}
	buf[count] = '\0';
	return true;
}

enum { LONGEST = 128 };

int p4d_template__number(p4d_string text, bool may_be_real, int64_t *integer, double *real, size_t *length)
{
	static const char bases[] = "bBoOxX";
	static const int base_of[] = {2, 2, 8, 8, 16, 16};
	const char *which = text.length > 2 && text.at[0] == '0' ? strchr(bases, text.at[1]) : NULL;
	const int base = which && text.at[1] ? base_of[which - bases] : 10;
	const size_t from = base == 10 ? 0 : 2, end = may_be_real && base == 10 ? real_end(text) : 0;
	char buf[LONGEST];

	*length = end ? end : digits(text, from, base);
	if (!without_lines((p4d_string){text.at + from, *length - from}, buf, sizeof(buf)))
		return -1;
	errno = 0;
	if (end)
		*real = strtod(buf, NULL);
	else
		*integer = strtoll(buf, NULL, base);
	return !end && errno ? -1 : end != 0;
}

static p4d_string stripped(p4d_string text)
{
	const size_t before = p4d_template__leading_space(text);

	text = (p4d_string){text.at + before, text.length - before};
	text.length -= p4d_template__trailing_space(text);
	return text;
}

/*
 * Whether a text may have digits of other scripts. Python's int and float accept these, but p4d does not read
 * them.
 */
static bool may_be_foreign(p4d_string text)
{
	bool foreign = false;

	for (size_t i = 0; i < text.length; i++) {
		const char c = text.at[i];
		foreign |= (unsigned char)c >= 0x80;
		if ((unsigned char)c < 0x80 && digit(c) >= 10 && !memchr("+-._eE", c, 6))
			return false;
	}
	return foreign;
}

/*
 * Returns the position of the first digit, after a prefix such as "0x". *base: the number's base; 0: the
 * prefix gives it. Returns text.length if the text is no number in this base.
 */
static size_t behind_prefix(p4d_string text, size_t at, int *base)
{
	static const char letters[] = "bBoOxX";
	static const int bases[] = {2, 2, 8, 8, 16, 16};
	const char *letter = at + 2 < text.length && text.at[at] == '0' && text.at[at + 1]
				 ? strchr(letters, text.at[at + 1])
				 : NULL;
	const bool prefixed = letter && (*base == 0 || *base == bases[letter - letters]);

	if (prefixed) {
		*base = bases[letter - letters];
		return at + 2 + (text.at[at + 2] == '_');
	}
	if (*base != 0)
		return at;
	*base = 10;
	for (size_t i = at; at < text.length && text.at[at] == '0' && i < text.length; i++)
		if (text.at[i] != '0' && text.at[i] != '_')
			return text.length;
	return at;
}

p4d_parsed p4d_template__parse_integer(p4d_string text, int64_t given, int64_t *integer)
{
	char buf[LONGEST];
	int base = given > 36 || given < 0 ? 1 : (int)given;

	text = stripped(text);
	if (may_be_foreign(text))
		return P4D_UNKNOWN_NUMBER;
	const size_t sign = text.length && (*text.at == '-' || *text.at == '+');
	const size_t from = base == 1 ? text.length : behind_prefix(text, sign, &base);
	if (from >= text.length || digits(text, from, base) != text.length)
		return P4D_NO_NUMBER;
	if (!without_lines((p4d_string){text.at + from, text.length - from}, buf + 1, sizeof(buf) - 1))
		return P4D_UNKNOWN_NUMBER;
	errno = 0;
	*buf = sign && *text.at == '-' ? '-' : '+';
	*integer = strtoll(buf, NULL, base);
	return errno ? P4D_UNKNOWN_NUMBER : P4D_NUMBER;
}

/* Whether a text is inf, infinity or nan in any case. */
static bool is_special(p4d_string text)
{
	static const char *const words[] = {"inf", "infinity", "nan"};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (text.length == strlen(words[i]) && !strncasecmp(text.at, words[i], text.length))
			return true;
	return false;
}

/* Whether a text consists of digits with an optional point and exponent. */
static bool is_real(p4d_string text)
{
	size_t end = digits(text, 0, 10), count = end;

	if (end < text.length && text.at[end] == '.') {
		const size_t behind = digits(text, end + 1, 10);
		count += behind - end - 1;
		end = behind;
	}
	if (count && end < text.length && (text.at[end] | 32) == 'e') {
		size_t power = end + 1;
		power += power < text.length && (text.at[power] == '+' || text.at[power] == '-');
		end = digits(text, power, 10) > power ? digits(text, power, 10) : end;
	}
	return count && end == text.length;
}

p4d_parsed p4d_template__parse_real(p4d_string text, double *real)
{
	char buf[LONGEST];

	text = stripped(text);
	if (may_be_foreign(text))
		return P4D_UNKNOWN_NUMBER;
	const size_t sign = text.length && (*text.at == '-' || *text.at == '+');
	const p4d_string rest = {text.at + sign, text.length - sign};
	if (!is_special(rest) && !is_real(rest))
		return P4D_NO_NUMBER;
	if (!without_lines(text, buf, sizeof(buf)))
		return P4D_UNKNOWN_NUMBER;
	*real = strtod(buf, NULL);
	return P4D_NUMBER;
}
