/* SPDX-License-Identifier: Apache-2.0 */
#include "site/conf_words.h"

#include <ctype.h>
#include <string.h>

#define fail(w, line, code, ...) p4d_conf__fail((w)->conf, line, (w)->err, P4D_E_CONF_##code, __VA_ARGS__)

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || (c && strchr("_-.:/@%", c));
}

/*
 * Skips blanks and comments. Comments may contain any bytes except control characters, because people write
 * names in them that are not ASCII. Tabs are blanks.
 */
static int skip_blanks(p4d_conf_words *w)
{
	bool comment = false;

	for (; w->at < w->end; w->at++) {
		unsigned char c = (unsigned char)*w->at;
		if (c == '\n') {
			w->line++;
			comment = false;
		} else if (c != '\t' && (c < ' ' || c == 0x7f)) {
			return fail(w, w->line, SYNTAX, "control character 0x%02x", c);
		} else if (c == '#' || comment) {
			comment = true;
		} else if (c != ' ' && c != '\t') {
			break;
		}
	}
	return 0;
}

static int read_string(p4d_conf_words *w)
{
	char quote = *w->at++;
	const char *start = w->at;

	for (; w->at < w->end && *w->at != quote; w->at++) {
		unsigned char c = (unsigned char)*w->at;
		if (c == '$' || c == '\\')
			return fail(w, w->line, SYNTAX,
				    "`%c` in a string: variables and escapes are not supported", c);
		if (c == '\n')
			return fail(w, w->line, SYNTAX, "unterminated string");
		if (c < ' ' || c == 0x7f)
			return fail(w, w->line, SYNTAX, "control character 0x%02x", c);
	}
	if (w->at == w->end)
		return fail(w, w->line, TRUNCATED, "the file ends inside a string");
	size_t length = (size_t)(w->at++ - start);
	if (!length || length >= P4D_CONF_WORD)
		return fail(w, w->line, RANGE, "a string of %zu characters: 1 to %d are accepted", length,
			    P4D_CONF_WORD - 1);
	memcpy(w->word, start, length);
	w->word[length] = '\0';
	w->token = P4D_TOKEN_STRING;
	return 0;
}

static int read_word(p4d_conf_words *w)
{
	const char *start = w->at;

	while (w->at < w->end && is_word(*w->at))
		w->at++;
	size_t length = (size_t)(w->at - start);
	if (length >= P4D_CONF_WORD)
		return fail(w, w->line, RANGE, "a word of %zu characters: at most %d are accepted", length,
			    P4D_CONF_WORD - 1);
	memcpy(w->word, start, length);
	w->word[length] = '\0';
	if (strstr(w->word, "//")) /* // begins a comment in other formats, so users may expect it here */
		return fail(w, w->line, SYNTAX, "`//`: comments start with #");
	w->token = P4D_TOKEN_WORD;
	return 0;
}

int p4d_conf_words__next(p4d_conf_words *w)
{
	if (skip_blanks(w) < 0)
		return -1;
	w->token_line = w->line;
	if (w->at == w->end) {
		w->token = P4D_TOKEN_END;
		return 0;
	}
	char c = *w->at;
	if (c == '"' || c == '\'')
		return read_string(w);
	if (is_word(c))
		return read_word(w);
	if (!strchr("{}=,", c)) {
		if (isgraph((unsigned char)c))
			return fail(w, w->line, SYNTAX,
				    "unexpected `%c`: text other than names and numbers needs quotes", c);
		return fail(w, w->line, SYNTAX, "unexpected byte 0x%02x: names are ASCII", (unsigned char)c);
	}
	w->token = (p4d_conf_token)c;
	w->at++;
	return 0;
}

int p4d_conf_words__unexpected(p4d_conf_words *w, const char *wanted)
{
	if (w->token == P4D_TOKEN_END)
		return fail(w, w->token_line, TRUNCATED, "the file ends, expected %s", wanted);
	if (w->token == P4D_TOKEN_WORD || w->token == P4D_TOKEN_STRING)
		return fail(w, w->token_line, SYNTAX, "found `%.64s`, expected %s", w->word, wanted);
	return fail(w, w->token_line, SYNTAX, "found `%c`, expected %s", (char)w->token, wanted);
}
