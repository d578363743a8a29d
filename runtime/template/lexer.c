/* SPDX-License-Identifier: Apache-2.0 */
#include "template/lexer.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "template/literal.h"
#include "template/utf8.h"

enum { PARENTHESES = 256 };

typedef struct lexer {
	p4d_token_list *list;
	p4d_arena *arena;
	p4d_error *err;
	const char *name;
	const char *at, *end, *source;
	const char *counted; /* l->line is the number of the line that has this character */
	unsigned line;
	bool begins_line; /* the last token ended a line, or there was no token yet */
	unsigned depth;
	char closing[PARENTHESES];
} lexer;

static int fail(const lexer *l, const char *what, const char *at)
{
	const size_t length = strcspn(at, "\n");

	return p4d_fail(l->err, P4D_E_VALUE, "%.150s:%u: %s: %.*s", l->name, l->line, what,
			length < 40 ? (int)length : 40, at);
}

static void count_lines(lexer *l, const char *to)
{
	for (; l->counted < to; l->counted++)
		l->line += *l->counted == '\n';
}

static int add(lexer *l, p4d_token token)
{
	token.line = l->line;
	if (!p4d_grow(&l->list->at, &l->list->room, l->list->count + 1, sizeof(token)))
		return p4d_fail(l->err, P4D_E_NO_MEMORY, "no memory for the template %.200s", l->name);
	l->list->at[l->list->count++] = token;
	return 0;
}

static int add_text(lexer *l, p4d_token_kind kind, const char *from, const char *to)
{
	return add(l, (p4d_token){.kind = kind, .text = {from, (size_t)(to - from)}});
}

static bool begins(const lexer *l, const char *at, const char *word)
{
	const size_t length = strlen(word);

	return (size_t)(l->end - at) >= length && !memcmp(at, word, length);
}

/* Moves the position to `to`, and counts the lines up to there. */
static void go_to(lexer *l, const char *to)
{
	if (to > l->at)
		l->begins_line = to[-1] == '\n';
	l->at = to;
	count_lines(l, to);
}

static const char *behind_space(const lexer *l, const char *at)
{
	return at + p4d_template__leading_space((p4d_string){at, (size_t)(l->end - at)});
}

/*
 * Adds the text before a tag. The tag may remove white space at the end of this text. With the sign `-` it
 * removes all of it. Without a sign it removes the indentation of its own line, unless in_line is set (the
 * tag prints a value). With `+` it removes nothing.
 */
static int add_data(lexer *l, const char *to, char sign, bool in_line)
{
	p4d_string text = {l->at, (size_t)(to - l->at)};

	if (sign == '-') {
		text.length -= p4d_template__trailing_space(text);
	} else if (sign != '+' && !in_line) {
		const char *line = memrchr(text.at, '\n', text.length);
		const size_t begin = line ? (size_t)(line + 1 - text.at) : 0;
		const p4d_string rest = {text.at + begin, text.length - begin};
		if ((line || l->begins_line) && p4d_template__leading_space(rest) == rest.length)
			text.length = begin;
	}
	return text.length ? add(l, (p4d_token){.kind = P4D_TOKEN_DATA, .text = text}) : 0;
}

/*
 * If a block or comment ends at `at` ("%}", "#}"), returns the position after it; NULL: it does not end
 * there.
 */
static const char *behind_end(const lexer *l, const char *at, const char *end)
{
	if (begins(l, at, end))
		return at + 2 + begins(l, at + 2, "\n");
	if (begins(l, at, "+") && begins(l, at + 1, end))
		return at + 3;
	if (begins(l, at, "-") && begins(l, at + 1, end))
		return behind_space(l, at + 3);
	return NULL;
}

static char sign_at(const lexer *l, const char *at)
{
	return at < l->end && (*at == '-' || *at == '+') ? *at : '\0';
}

/*
 * If the tag {% WORD begins at `at`, returns the position after WORD and the white space that follows. NULL:
 * another tag is there. *sign: the sign after {%.
 */
static const char *behind_tag(const lexer *l, const char *at, const char *word, char *sign)
{
	if (!begins(l, at, "{%"))
		return NULL;
	*sign = sign_at(l, at + 2);
	at = behind_space(l, at + 2 + (*sign != '\0'));
	if (!begins(l, at, word))
		return NULL;
	return behind_space(l, at + strlen(word));
}

/* Adds the text up to {% endraw %} unchanged. */
static int read_raw(lexer *l, const char *tag)
{
	const char *end = begins(l, tag, "%}") ? tag + 2 : behind_space(l, tag + 3);

	go_to(l, end);
	for (const char *at = end; at < l->end; at++) {
		char sign;
		const char *word = behind_tag(l, at, "endraw", &sign), *behind;
		if (!word || !(behind = behind_end(l, word, "%}")))
			continue;
		if (add_data(l, at, sign, false) < 0)
			return -1;
		go_to(l, behind);
		return 0;
	}
	return fail(l, "{% raw %} without {% endraw %}", tag);
}

static int read_comment(lexer *l)
{
	const char *begin = l->at;

	for (const char *at = l->at + 2 + (sign_at(l, l->at + 2) != '\0'); at < l->end; at++) {
		const char *behind = behind_end(l, at, "#}");
		if (!behind)
			continue;
		go_to(l, behind);
		return 0;
	}
	return fail(l, "a comment without #}", begin);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c) ||
	       (unsigned char)c >= 0x80;
}

static int read_string(lexer *l)
{
	const char quote = *l->at, *from = l->at + 1, *to = from;
	p4d_token token = {.kind = P4D_TOKEN_STRING};

	while (to < l->end && *to != quote)
		to += 1 + (*to == '\\' && to + 1 < l->end);
	if (to >= l->end)
		return fail(l, "a string without its closing quote", from - 1);
	if (p4d_template__unescape((p4d_string){from, (size_t)(to - from)}, l->arena, &token.text) < 0)
		return fail(l, "a string with a bad escape, or no memory for the string", from - 1);
	if (add(l, token) < 0)
		return -1;
	go_to(l, to + 1);
	return 0;
}

static int read_number(lexer *l)
{
	p4d_token token = {.kind = P4D_TOKEN_INTEGER};
	const bool member = l->at > l->source && l->at[-1] == '.';
	size_t length = 0;
	const int what = p4d_template__number((p4d_string){l->at, (size_t)(l->end - l->at)}, !member,
					      &token.integer, &token.real, &length);

	if (what < 0)
		return fail(l, "a number that is too large", l->at);
	token.kind = what ? P4D_TOKEN_REAL : P4D_TOKEN_INTEGER;
	if (add(l, token) < 0)
		return -1;
	go_to(l, l->at + length);
	return 0;
}

static int read_sign(lexer *l)
{
	static const char *const two[] = {"//", "**", "==", "!=", ">=", "<="};
	static const char open[] = "([{", close[] = ")]}";
	const char c = *l->at, *is_open = strchr(open, c), *is_close = strchr(close, c);
	size_t length = 1;

	for (size_t i = 0; i < sizeof(two) / sizeof(*two); i++)
		if (begins(l, l->at, two[i]))
			length = 2;
	if (!c || (length == 1 && !strchr("+-/*%~[](){}><=.:|,;", c)))
		return fail(l, "an unexpected character", l->at);
	if (is_open && l->depth == PARENTHESES)
		return fail(l, "more than 256 nested parentheses", l->at);
	if (is_open)
		l->closing[l->depth++] = close[is_open - open];
	if (is_close && (!l->depth || l->closing[--l->depth] != c))
		return fail(l, "a closing parenthesis that does not match the open one", l->at);
	if (add_text(l, P4D_TOKEN_SIGN, l->at, l->at + length) < 0)
		return -1;
	go_to(l, l->at + length);
	return 0;
}

static int read_name(lexer *l)
{
	const char *to = l->at;

	while (to < l->end && is_name(*to))
		to++;
	if (add_text(l, P4D_TOKEN_NAME, l->at, to) < 0)
		return -1;
	go_to(l, to);
	return 0;
}

static int read_part(lexer *l)
{
	const char *behind = behind_space(l, l->at);

	if (behind > l->at) {
		go_to(l, behind);
		return 0;
	}
	if (is_digit(*l->at))
		return read_number(l);
	if (is_name(*l->at))
		return read_name(l);
	return *l->at == '"' || *l->at == '\'' ? read_string(l) : read_sign(l);
}

/* If the tag ends at the current position, returns the position after its end; NULL: the tag continues. */
static const char *behind_here(const lexer *l, bool prints)
{
	if (l->depth)
		return NULL;
	if (!prints)
		return behind_end(l, l->at, "%}");
	if (begins(l, l->at, "-}}"))
		return behind_space(l, l->at + 3);
	return begins(l, l->at, "}}") ? l->at + 2 : NULL;
}

/* {{ ... }} or {% ... %} */
static int read_tag(lexer *l, bool prints)
{
	const char *begin = l->at;

	if (add_text(l, prints ? P4D_TOKEN_PRINT : P4D_TOKEN_BLOCK, begin, begin + 2) < 0)
		return -1;
	go_to(l, begin + 2 + (sign_at(l, begin + 2) != '\0'));
	l->depth = 0;
	while (l->at < l->end) {
		const char *behind = behind_here(l, prints);
		if (!behind && read_part(l) < 0)
			return -1;
		if (!behind)
			continue;
		if (add_text(l, prints ? P4D_TOKEN_PRINT_END : P4D_TOKEN_BLOCK_END, l->at, l->at) < 0)
			return -1;
		go_to(l, behind);
		return 0;
	}
	return fail(l, "a tag without its end", begin);
}

/* Reads the text up to the next tag, and then that tag. */
static int read_next(lexer *l)
{
	const char *at = l->at, *raw;
	char sign;

	while (at < l->end && !begins(l, at, "{%") && !begins(l, at, "{{") && !begins(l, at, "{#"))
		at++;
	if (at == l->end) {
		if (add_text(l, P4D_TOKEN_DATA, l->at, at) < 0)
			return -1;
		go_to(l, at);
		return 0;
	}
	if (add_data(l, at, sign_at(l, at + 2), at[1] == '{') < 0)
		return -1;
	go_to(l, at);
	if (at[1] == '#')
		return read_comment(l);
	raw = behind_tag(l, at, "raw", &sign);
	if (raw && (begins(l, raw, "%}") || begins(l, raw, "-%}")))
		return read_raw(l, raw);
	return read_tag(l, at[1] == '{');
}

/*
 * Copies the template. In the copy, each line break is one newline, the newline at the end is removed, and a
 * NUL follows.
 */
static char *normalize(p4d_string source, p4d_arena *arena, size_t *length)
{
	char *text = p4d_template__take(arena, source.length + 1, 1);
	size_t count = 0;

	for (size_t i = 0; text && i < source.length; i++) {
		const bool carriage = source.at[i] == '\r';
		text[count++] = carriage ? '\n' : source.at[i];
		i += carriage && i + 1 < source.length && source.at[i + 1] == '\n';
	}
	*length = count - (count && text[count - 1] == '\n');
	if (text)
		text[*length] = '\0';
	return text;
}

int p4d_template__tokens(p4d_token_list *list, p4d_arena *arena, const char *name, p4d_string source,
			 p4d_error *err)
{
	size_t length = 0;
	const char *text = normalize(source, arena, &length);
	lexer l = {.list = list, .arena = arena, .err = err, .name = name, .line = 1, .begins_line = true};

	if (!text)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the template %.200s", name);
	l.source = l.at = l.counted = text;
	l.end = text + length;
	while (l.at < l.end)
		if (read_next(&l) < 0)
			return -1;
	return add_text(&l, P4D_TOKEN_END, l.end, l.end);
}
