/* SPDX-License-Identifier: Apache-2.0 */
#include "template/strings.h"

#include <locale.h>
#include <string.h>
#include <wctype.h>

#include "template/literal.h"
#include "template/utf8.h"

static bool is_one_of(p4d_string characters, const char *at, size_t bytes)
{
	uint32_t code;

	for (size_t i = 0, one; i < characters.length; i += one) {
		one = p4d_template__character(characters.at + i, characters.length - i, &code);
		if (one == bytes && !memcmp(characters.at + i, at, bytes))
			return true;
	}
	return false;
}

static size_t leading(p4d_string text, p4d_string characters)
{
	size_t at = 0, bytes;
	uint32_t code;

	while ((bytes = p4d_template__character(text.at + at, text.length - at, &code)) != 0 &&
	       is_one_of(characters, text.at + at, bytes))
		at += bytes;
	return at;
}

static size_t trailing(p4d_string text, p4d_string characters)
{
	size_t end = text.length;

	while (end) {
		size_t before = end - 1;
		while (before && end - before < 4 && ((unsigned char)text.at[before] & 0xc0) == 0x80)
			before--;
		if (!is_one_of(characters, text.at + before, end - before))
			break;
		end = before;
	}
	return text.length - end;
}

p4d_string p4d_template__strip(p4d_string text, const p4d_string *characters, bool left, bool right)
{
	if (left) {
		const size_t bytes =
		    characters ? leading(text, *characters) : p4d_template__leading_space(text);
		text = (p4d_string){text.at + bytes, text.length - bytes};
	}
	if (right)
		text.length -= characters ? trailing(text, *characters) : p4d_template__trailing_space(text);
	return text;
}

/* Replaces an empty text by `new`: inserts `new` before each character and at the end. */
static int spread(p4d_rendering *r, p4d_string text, p4d_string new, int64_t most, p4d_written *buffer)
{
	uint32_t code;

	for (size_t at = 0, bytes; at <= text.length; at += bytes, most--) {
		bytes = p4d_template__character(text.at + at, text.length - at, &code);
		if ((most != 0 && p4d_template__write(r, buffer, new.at, new.length) < 0) ||
		    p4d_template__write(r, buffer, text.at + at, bytes) < 0)
			return -1;
		if (!bytes)
			break;
		most += most == 0;
	}
	return 0;
}

int p4d_template__replace(p4d_rendering *r, p4d_string text, p4d_string old, p4d_string new, int64_t most,
			  p4d_datum *result)
{
	p4d_written buffer = {.at = NULL};
	const char *found;

	if (!old.length) {
		if (spread(r, text, new, most, &buffer) < 0)
			return -1;
		*result = p4d_value_text(buffer.at ? buffer.at : "", buffer.length);
		return 0;
	}
	for (; most != 0; most--) {
		if (p4d_template__find(r, text, old, false, &found) < 0)
			return -1;
		if (!found)
			break;
		const size_t before = (size_t)(found - text.at);
		if (p4d_template__spend(r, 1) < 0 || p4d_template__write(r, &buffer, text.at, before) < 0 ||
		    p4d_template__write(r, &buffer, new.at, new.length) < 0)
			return -1;
		text = (p4d_string){found + old.length, text.length - before - old.length};
	}
	if (p4d_template__write(r, &buffer, text.at, text.length) < 0)
		return -1;
	*result = p4d_value_text(buffer.at ? buffer.at : "", buffer.length);
	return 0;
}

int p4d_template__escape(p4d_rendering *r, p4d_string text, p4d_datum *result)
{
	static const char from[] = "&<>'\"";
	static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
	p4d_written buffer = {.at = NULL};

	if (p4d_template__spend(r, text.length / 8) < 0)
		return -1;
	for (size_t i = 0; i < text.length; i++) {
		const char *found = text.at[i] ? strchr(from, text.at[i]) : NULL;
		if ((found ? p4d_template__write_text(r, &buffer, to[found - from])
			   : p4d_template__write(r, &buffer, text.at + i, 1)) < 0)
			return -1;
	}
	*result = p4d_value_text(buffer.at ? buffer.at : "", buffer.length);
	result->markup = true;
	return 0;
}

static int find_last(p4d_rendering *r, p4d_string text, p4d_string what, const char **found)
{
	if (p4d_template__spend(r, text.length / 16) < 0)
		return -1;
	for (size_t at = text.length - what.length + 1; at-- > 0;) {
		if (text.at[at] != *what.at)
			continue;
		if (p4d_template__spend(r, what.length / 32) < 0)
			return -1;
		if (!memcmp(text.at + at, what.at, what.length)) {
			*found = text.at + at;
			return 0;
		}
	}
	return 0;
}

int p4d_template__find(p4d_rendering *r, p4d_string text, p4d_string what, bool last, const char **found)
{
	/* up to this length, a search by memmem is cheap even if it compares the texts at every position */
	enum { SHORT = 256 };

	*found = NULL;
	if (what.length > text.length)
		return 0;
	if (!what.length) {
		*found = text.at + (last ? text.length : 0);
		return 0;
	}
	if (last)
		return find_last(r, text, what, found);
	const size_t compared = what.length <= SHORT ? 1 + what.length / 16 : 1;
	*found = memmem(text.at, text.length, what.at, what.length);
	return p4d_template__spend(r, (*found ? (size_t)(*found - text.at) : text.length) / 64 * compared);
}

static bool ends_line(uint32_t code)
{
	return (code >= '\n' && code <= '\r') || (code >= 0x1c && code <= 0x1e) || code == 0x85 ||
	       code == 0x2028 || code == 0x2029;
}

int p4d_template__lines(p4d_rendering *r, p4d_string text, bool with_ends, p4d_list **lines)
{
	size_t from = 0;
	uint32_t code;

	if (p4d_template__new_list(r, P4D_LIST_PLAIN, 0, lines) < 0 ||
	    p4d_template__spend(r, text.length / 8) < 0)
		return -1;
	for (size_t at = 0, bytes; at < text.length; at += bytes) {
		bytes = p4d_template__character(text.at + at, text.length - at, &code);
		if (!ends_line(code))
			continue;
		bytes += code == '\r' && at + 1 < text.length && text.at[at + 1] == '\n';
		if (p4d_template__append(
			r, *lines, p4d_value_text(text.at + from, at - from + (with_ends ? bytes : 0))) < 0)
			return -1;
		from = at + bytes;
	}
	return from < text.length
		   ? p4d_template__append(r, *lines, p4d_value_text(text.at + from, text.length - from))
		   : 0;
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/*
 * Whether p4d cannot change the case of a character alone: Python maps it to several characters or to title
 * case, or the result depends on its neighbours.
 */
static bool is_special(uint32_t code, bool up)
{
	static const uint32_t ranges[][2] = {
	    {0xdf, 0xdf},     {0x149, 0x149},   {0x1c4, 0x1cc},   {0x1f0, 0x1f3},   {0x345, 0x345},
	    {0x390, 0x390},   {0x3b0, 0x3b0},   {0x587, 0x587},   {0x10d0, 0x10ff}, {0x1e96, 0x1e9e},
	    {0x1f50, 0x1f57}, {0x1f80, 0x1fff}, {0xfb00, 0xfb17},
	};

	if (!up)
		return code == 0x130 || code == 0x3a3;
	for (size_t i = 0; i < sizeof(ranges) / sizeof(*ranges); i++)
		if (code >= ranges[i][0] && code <= ranges[i][1])
			return true;
	return false;
}

/* Returns the character in upper or lower case; 0: p4d cannot say. */
static uint32_t in_case(uint32_t code, bool up)
{
	static locale_t locale;

	if (code < 0x80)
		return !is_letter((char)code) ? code : up ? code & ~32U : code | 32U;
	if (!locale)
		locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", NULL);
	if (!locale || is_special(code, up))
		return 0;
	return (uint32_t)(up ? towupper_l((wint_t)code, locale) : towlower_l((wint_t)code, locale));
}

/* Whether a character begins a word. before: the character before it; 0 at the beginning of the text. */
static bool begins_word(uint32_t before, p4d_case to)
{
	if (!before || to == P4D_CAPITAL)
		return !before;
	if (to == P4D_TITLE)
		return !(before < 0x80 && is_letter((char)before));
	return p4d_template__is_space(before) || (before < 0x80 && strchr("-({[<", (int)before) != NULL);
}

static int unknown_case(p4d_rendering *r, p4d_string text)
{
	return p4d_template__fail(r, "p4d does not know upper and lower case of all characters in: %.*s",
				  text.length < 60 ? (int)text.length : 60, text.at);
}

int p4d_template__change_case(p4d_rendering *r, p4d_string text, p4d_case to, p4d_datum *result)
{
	p4d_written buffer = {.at = NULL};
	uint32_t code, before = 0;
	char changed[4];

	/* str.title finds words by a table of Unicode that p4d does not have, so only ASCII is supported */
	if (to == P4D_TITLE && !p4d_template__is_ascii(text))
		return unknown_case(r, text);
	if (p4d_template__spend(r, text.length / 4) < 0)
		return -1;
	for (size_t at = 0, bytes; at < text.length; at += bytes, before = code) {
		bytes = p4d_template__character(text.at + at, text.length - at, &code);
		const bool up = to == P4D_UPPER || (to != P4D_LOWER && begins_word(before, to));
		const uint32_t other = in_case(code, up);
		if (!other && code)
			return unknown_case(r, text);
		if (p4d_template__write(r, &buffer, changed, p4d_template__utf8(other, changed)) < 0)
			return -1;
	}
	*result = p4d_value_text(buffer.at ? buffer.at : "", buffer.length);
	return 0;
}
