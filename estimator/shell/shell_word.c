/* SPDX-License-Identifier: Apache-2.0 */
/* Words, with their quotes and expansions. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "shell/shell_internal.h"

char p4d_shell__peek(const p4d_shell_source *s, size_t ahead)
{
	return ahead < s->length - s->at ? s->text[s->at + ahead] : '\0';
}

bool p4d_shell__over(const p4d_shell *sh)
{
	return sh->stopped || sh->exited || sh->returned || sh->left_loop;
}

void p4d_shell__advance(p4d_shell *sh, p4d_shell_source *s)
{
	if (s->at >= s->length || !p4d_shell__work(sh, 1)) {
		s->at = s->length;
		return;
	}
	if (s->text[s->at] != '\n') {
		s->at++;
		return;
	}
	s->line++;
	if (s->body_end && s->at >= s->body_at) { /* past the here-documents of this line */
		s->line += s->body_lines;
		s->at = s->body_end;
		s->body_end = 0;
		return;
	}
	s->at++;
}

p4d_cell p4d_shell__cell(const p4d_shell_source *s, bool quoted)
{
	if (s->origin && s->at < s->length) {
		p4d_cell cell = s->origin[s->at];
		cell.quoted = quoted;
		return cell;
	}
	return (p4d_cell){
	    .line = s->line, .file = s->file & 127u, .quoted = quoted, .c = p4d_shell__peek(s, 0)};
}

/* Takes the character as it is. */
static void take(p4d_shell *sh, p4d_shell_source *s, p4d_shell_build *b, bool quoted)
{
	if (b)
		p4d_shell__add(sh, b, p4d_shell__cell(s, quoted));
	p4d_shell__advance(sh, s);
}

bool p4d_shell__ends_word(char c)
{
	return c == '\0' || strchr(" \t\r\n;&|()<>", c);
}

/* A NUL byte within the text, which bash drops. */
static bool at_end(const p4d_shell_source *s)
{
	return s->at >= s->length;
}

void p4d_shell__blanks(p4d_shell *sh, p4d_shell_source *s)
{
	for (;;) {
		char c = p4d_shell__peek(s, 0);
		if (c == ' ' || c == '\t' || c == '\r' || (c == '\0' && !at_end(s))) {
			p4d_shell__advance(sh, s);
		} else if (c == '\\' && p4d_shell__peek(s, 1) == '\n') {
			p4d_shell__advance(sh, s);
			p4d_shell__advance(sh, s);
		} else if (c == '\\' && p4d_shell__peek(s, 1) == '\r' && p4d_shell__peek(s, 2) == '\n') {
			for (int i = 0; i < 3; i++)
				p4d_shell__advance(sh, s);
		} else if (c == '#') {
			while (!at_end(s) && p4d_shell__peek(s, 0) != '\n')
				p4d_shell__advance(sh, s);
		} else {
			return;
		}
	}
}

size_t p4d_shell__name_length(const p4d_shell_source *s, size_t from)
{
	size_t n = 0;

	if (isdigit((unsigned char)p4d_shell__peek(s, from)))
		return 0;
	for (char c = p4d_shell__peek(s, from); isalnum((unsigned char)c) || c == '_';
	     c = p4d_shell__peek(s, from + n))
		n++;
	return n;
}

static void skip_single(p4d_shell *sh, p4d_shell_source *s)
{
	p4d_shell__advance(sh, s);
	while (!at_end(s) && p4d_shell__peek(s, 0) != '\'')
		p4d_shell__advance(sh, s);
	p4d_shell__advance(sh, s);
}

/*
 * Quotes hide brackets, and within quotes $( and ${ open further ones. Comments hide both. The stack has what
 * closes what is open.
 */
void p4d_shell__skip_nested(p4d_shell *sh, p4d_shell_source *s, char open, char close)
{
	char stack[P4D_SHELL_DEPTH];
	size_t depth = 0;
	char before = ' ';

	stack[depth++] = close;
	while (!at_end(s) && !sh->stopped) {
		const char c = p4d_shell__peek(s, 0), next = p4d_shell__peek(s, 1),
			   closing = stack[depth - 1];
		if (depth == P4D_SHELL_DEPTH) {
			p4d_shell__stop(sh, "it is nested too deep to read");
			return;
		}
		if (c == '\\') {
			p4d_shell__advance(sh, s);
		} else if (c == closing) {
			if (--depth == 0) {
				p4d_shell__advance(sh, s);
				return;
			}
		} else if (c == '$' && (next == '(' || next == '{')) {
			stack[depth++] = next == '(' ? ')' : '}';
			p4d_shell__advance(sh, s);
		} else if (closing == '"') {
			/* nothing else opens here */
		} else if (c == '"') {
			stack[depth++] = '"';
		} else if (c == '\'') {
			skip_single(sh, s);
			before = c;
			continue;
		} else if (c == '#' && closing == ')' && strchr(" \t\n;", before)) {
			while (!at_end(s) && p4d_shell__peek(s, 0) != '\n')
				p4d_shell__advance(sh, s);
			continue;
		} else if ((c == open && open != '"') || (closing == ')' && c == '(')) {
			stack[depth++] = c == open ? close : ')';
		}
		before = c;
		p4d_shell__advance(sh, s);
	}
}

static void not_known(p4d_shell *sh, p4d_shell_build *b, p4d_cell where, uint16_t reason, bool quoted)
{
	if (!b)
		return;
	where.unknown = reason;
	where.quoted = quoted;
	where.c = '?';
	p4d_shell__add(sh, b, where);
}

p4d_shell_source p4d_shell__source_of(p4d_shell *sh, p4d_value value, const p4d_shell_source *like)
{
	return (p4d_shell_source){.text = p4d_shell__text_of(sh, value),
				  .length = sh->stopped ? 0 : value.length,
				  .line = like ? like->line : 1,
				  .file = like ? like->file : 0,
				  .origin = value.at};
}

/* Commands whose output can be told from their words. */
static bool output_of(p4d_shell *sh, p4d_shell_words words, p4d_shell_build *b, bool quoted)
{
	if (!words.count)
		return false;
	const p4d_value *w = words.at;
	if (p4d_value_is(w[0], "echo") || (p4d_value_is(w[0], "printf") && words.count == 2)) {
		for (uint32_t i = 1; i < words.count; i++)
			for (uint32_t j = 0; j < w[i].length; j++)
				if (w[i].at[j].c == '\\' || (w[i].at[j].c == '%' && w[0].at[0].c == 'p') ||
				    (w[i].at[0].c == '-' && i == 1 && !p4d_value_is(w[i], "-n")))
					return false;
		for (uint32_t i = words.count > 1 && p4d_value_is(w[1], "-n") ? 2 : 1; i < words.count; i++) {
			if (b->length && i > 1)
				p4d_shell__add(sh, b, (p4d_cell){.c = ' ', .quoted = quoted});
			p4d_shell__add_value(sh, b, w[i], quoted);
		}
		return true;
	}
	if (p4d_value_is(w[0], "pwd")) {
		p4d_value here;
		if (!p4d_shell_variable(sh, "PWD", &here))
			return false;
		p4d_shell__add_value(sh, b, here, quoted);
		return true;
	}
	const bool directory = p4d_value_is(w[0], "dirname"), last = p4d_value_is(w[0], "basename");
	if ((directory || last || p4d_value_is(w[0], "realpath") || p4d_value_is(w[0], "readlink")) &&
	    words.count >= 2 && !(last && words.count > 2) && !p4d_value_unknown(w[words.count - 1])) {
		p4d_value path = w[words.count - 1];
		uint32_t cut = path.length;
		while (cut && path.at[cut - 1].c != '/')
			cut--;
		if (directory && !cut)
			p4d_shell__add(sh, b, (p4d_cell){.c = '.', .quoted = quoted});
		else if (directory)
			p4d_shell__add_value(sh, b, (p4d_value){path.at, cut > 1 ? cut - 1 : 1}, quoted);
		else if (last)
			p4d_shell__add_value(sh, b, (p4d_value){path.at + cut, path.length - cut}, quoted);
		else
			p4d_shell__add_value(sh, b, path, quoted);
		return true;
	}
	if (p4d_value_is(w[0], "expr")) {
		p4d_shell_build expression = {0};
		int64_t number;
		uint16_t unknown;
		char digits[24];
		for (uint32_t i = 1; i < words.count; i++)
			p4d_shell__add_value(sh, &expression, w[i], false);
		if (!p4d_shell__number(sh, (p4d_value){expression.at, expression.length}, &number, &unknown))
			return false;
		snprintf(digits, sizeof(digits), "%lld", (long long)number);
		p4d_shell__add_text(
		    sh, b, digits,
		    (p4d_cell){.quoted = quoted,
			       .line = words.at[1].length ? words.at[1].at[0].line : 0,
			       .file = (words.at[1].length ? words.at[1].at[0].file : 0u) & 127u});
		return true;
	}
	return false;
}

/* $(...) or `...`, of which `inside` is the text. */
static void substitute(p4d_shell *sh, p4d_shell_source inside, p4d_shell_build *b, bool quoted)
{
	p4d_cell where = p4d_shell__cell(&inside, quoted);
	p4d_shell_words words = {0};
	p4d_shell_source s = inside;
	bool simple = true;

	if (++sh->depth > P4D_SHELL_DEPTH)
		p4d_shell__stop(sh, "it is nested too deep to read");
	for (p4d_shell__blanks(sh, &s); !at_end(&s) && !p4d_shell__over(sh); p4d_shell__blanks(sh, &s)) {
		p4d_shell_build word = {0};
		if (p4d_shell__peek(&s, 0) == '&' && p4d_shell__peek(&s, 1) == '>')
			p4d_shell__advance(sh, &s);
		if (p4d_shell__peek(&s, 0) == '>') { /* where errors go */
			while (p4d_shell__peek(&s, 0) && strchr(">& \t", p4d_shell__peek(&s, 0)))
				p4d_shell__advance(sh, &s);
			p4d_shell__word(sh, &s, NULL);
			continue;
		}
		if (p4d_shell__ends_word(p4d_shell__peek(&s, 0))) {
			/* `cd DIR && pwd` is the directory */
			simple = words.count == 2 && p4d_value_is(words.at[0], "cd") &&
				 p4d_shell__peek(&s, 0) == '&';
			if (!simple)
				break;
			p4d_value directory = words.at[1];
			words = (p4d_shell_words){0};
			while (strchr("& \t", p4d_shell__peek(&s, 0)) && !at_end(&s))
				p4d_shell__advance(sh, &s);
			p4d_shell__word(sh, &s, &word);
			p4d_value pwd = p4d_shell__joined(sh, &word);
			if (p4d_value_is(pwd, "pwd")) {
				p4d_shell__add_word(sh, &words, p4d_shell__value_of(sh, "realpath", where));
				p4d_shell__add_word(sh, &words, directory);
			}
			continue;
		}
		p4d_shell__word(sh, &s, &word);
		p4d_shell__split(sh, &word, &words);
	}
	sh->depth--;
	if (simple && output_of(sh, words, b, quoted))
		return;
	char name[64] = "a command";
	if (words.count)
		p4d_value_text(words.at[0], name, sizeof(name));
	not_known(sh, b, where, p4d_shell__reason(sh, "output of %s", name), quoted);
}

static void arithmetic(p4d_shell *sh, p4d_shell_source inside, p4d_shell_build *b, bool quoted)
{
	p4d_cell where = p4d_shell__cell(&inside, quoted);
	p4d_shell_build expression = {0};
	int64_t number;
	uint16_t unknown;
	char digits[24];

	p4d_shell__quoted_until(sh, &inside, &expression, '\0', false);
	const p4d_value text = p4d_shell__joined(sh, &expression);
	if (!p4d_shell__number(sh, text, &number, &unknown)) {
		p4d_shell__forget_assigned(sh, text, where.line);
		not_known(sh, b, where, unknown, quoted);
		return;
	}
	snprintf(digits, sizeof(digits), "%lld", (long long)number);
	p4d_shell__add_text(sh, b, digits, where);
}

/* The text up to the bracket, which is passed; open: number of characters before it. */
static p4d_shell_source nested(p4d_shell *sh, p4d_shell_source *s, size_t open, char opening, char closing)
{
	for (size_t i = 0; i < open; i++)
		p4d_shell__advance(sh, s);
	p4d_shell_source inside = *s;
	p4d_shell__skip_nested(sh, s, opening, closing);
	inside.length = s->at > inside.at ? s->at - 1 : s->at;
	inside.body_end = 0;
	return inside;
}

static void backticks(p4d_shell *sh, p4d_shell_source *s, p4d_shell_build *b, bool quoted)
{
	p4d_shell__advance(sh, s);
	p4d_shell_source inside = *s;
	while (!at_end(s) && p4d_shell__peek(s, 0) != '`') {
		if (p4d_shell__peek(s, 0) == '\\')
			p4d_shell__advance(sh, s);
		p4d_shell__advance(sh, s);
	}
	inside.length = s->at;
	inside.body_end = 0;
	p4d_shell__advance(sh, s);
	if (b)
		substitute(sh, inside, b, quoted);
}

void p4d_shell__expand(p4d_shell *sh, p4d_shell_source *s, p4d_shell_build *b, bool quoted)
{
	char c = p4d_shell__peek(s, 1);
	size_t length = p4d_shell__name_length(s, 1);

	if (c == '(' && p4d_shell__peek(s, 2) == '(') {
		p4d_shell_source inside = nested(sh, s, 2, '(', ')');
		inside.at++;
		inside.length -= inside.length > inside.at; /* the inner bracket */
		if (b)
			arithmetic(sh, inside, b, quoted);
	} else if (c == '(') {
		p4d_shell_source inside = nested(sh, s, 2, '(', ')');
		if (b)
			substitute(sh, inside, b, quoted);
	} else if (c == '{') {
		p4d_shell__advance(sh, s);
		p4d_shell__advance(sh, s);
		if (b)
			p4d_shell__parameter(sh, s, b, quoted);
		else
			p4d_shell__skip_nested(sh, s, '{', '}');
	} else if (length || (c && strchr("0123456789@*#?$!-", c))) {
		if (!length)
			length = 1;
		p4d_shell_name name = {s->text + s->at + 1, length};
		p4d_shell__advance(sh, s);
		if (b)
			p4d_shell__emit(sh, s, b, name, quoted);
		for (size_t i = 0; i < length; i++)
			p4d_shell__advance(sh, s);
	} else {
		take(sh, s, b, quoted);
	}
}

void p4d_shell__quoted_until(p4d_shell *sh, p4d_shell_source *s, p4d_shell_build *b, char end, bool quoted)
{
	while (!at_end(s) && !sh->stopped) {
		char c = p4d_shell__peek(s, 0), next = p4d_shell__peek(s, 1);
		if (end && c == end)
			return;
		if (c == '\\' && next == '\n') {
			p4d_shell__advance(sh, s);
			p4d_shell__advance(sh, s);
		} else if (c == '\\' && next && strchr("$`\"\\", next)) {
			p4d_shell__advance(sh, s);
			take(sh, s, b, quoted);
		} else if (c == '$') {
			p4d_shell__expand(sh, s, b, quoted);
		} else if (c == '`') {
			backticks(sh, s, b, quoted);
		} else {
			take(sh, s, b, quoted);
		}
	}
}

/* $'...' */
static void escaped(p4d_shell *sh, p4d_shell_source *s, p4d_shell_build *b)
{
	p4d_shell__advance(sh, s);
	p4d_shell__advance(sh, s);
	while (!at_end(s) && p4d_shell__peek(s, 0) != '\'') {
		p4d_cell cell = p4d_shell__cell(s, true);
		if (cell.c == '\\') {
			p4d_shell__advance(sh, s);
			cell = p4d_shell__cell(s, true);
			if (cell.c == 'n' || cell.c == 't')
				cell.c = cell.c == 'n' ? '\n' : '\t';
		}
		if (b)
			p4d_shell__add(sh, b, cell);
		p4d_shell__advance(sh, s);
	}
	p4d_shell__advance(sh, s);
}

static void double_quotes(p4d_shell *sh, p4d_shell_source *s, p4d_shell_build *b)
{
	p4d_shell__advance(sh, s);
	/* "${A[@]}" of an empty array is no word at all */
	const char *text = s->text + s->at;
	const size_t left = s->at < s->length ? s->length - s->at : 0;
	size_t n = left > 2 && text[0] == '$' && text[1] == '{' ? 2 + p4d_shell__name_length(s, 2) : 0;
	const bool list = (left > 2 && !memcmp(text, "$@\"", 3)) ||
			  (left > 4 && !memcmp(text, "${@}\"", 5)) ||
			  (n > 2 && left > n + 4 && !memcmp(text + n, "[@]}\"", 5));
	const uint32_t before = b ? b->length : 0;
	p4d_shell__quoted_until(sh, s, b, '"', true);
	p4d_shell__advance(sh, s);
	if (b && (!list || b->length > before))
		p4d_shell__add(sh, b, P4D_CELL_HOLDER);
}

/* Whether {a,b} or {1..4} stands here, which are several words. */
static bool braces(p4d_shell *sh, const p4d_shell_source *s)
{
	bool several = false;

	for (size_t i = 1; i < 256 && p4d_shell__work(sh, 1); i++) {
		char c = p4d_shell__peek(s, i);
		if (p4d_shell__ends_word(c) || memchr("\"'`", c, 3))
			return false;
		if (c == '}')
			return several;
		several = several || c == ',' || (c == '.' && p4d_shell__peek(s, i + 1) == '.');
	}
	return false;
}

void p4d_shell__word(p4d_shell *sh, p4d_shell_source *s, p4d_shell_build *b)
{
	if (++sh->depth > P4D_SHELL_DEPTH)
		p4d_shell__stop(sh, "it is nested too deep to read");
	while (!at_end(s) && !sh->stopped) {
		char c = p4d_shell__peek(s, 0), next = p4d_shell__peek(s, 1);
		if (s->origin && s->origin[s->at].unknown) {
			take(sh, s, b, false);
		} else if ((c == '<' || c == '>') && next == '(') { /* the output of a command as a file */
			p4d_cell where = p4d_shell__cell(s, false);
			nested(sh, s, 2, '(', ')');
			not_known(sh, b, where, b ? p4d_shell__reason(sh, "output of a command") : 0, true);
		} else if (c == '\0') {
			p4d_shell__advance(sh, s);
		} else if (p4d_shell__ends_word(c)) {
			break;
		} else if (c == '\\' && next == '\n') {
			p4d_shell__advance(sh, s);
			p4d_shell__advance(sh, s);
		} else if (c == '\\' && next == '\r' && p4d_shell__peek(s, 2) == '\n') {
			for (int i = 0; i < 3; i++)
				p4d_shell__advance(sh, s);
		} else if (c == '\\') {
			p4d_shell__advance(sh, s);
			take(sh, s, b, true);
		} else if (c == '\'') {
			p4d_shell__advance(sh, s);
			while (!at_end(s) && p4d_shell__peek(s, 0) != '\'')
				take(sh, s, b, true);
			p4d_shell__advance(sh, s);
			if (b)
				p4d_shell__add(sh, b, P4D_CELL_HOLDER);
		} else if (c == '"') {
			double_quotes(sh, s, b);
		} else if (c == '$' && next == '\'') {
			escaped(sh, s, b);
		} else if (c == '$' && next == '"') {
			p4d_shell__advance(sh, s);
			double_quotes(sh, s, b);
		} else if (c == '$' && next == '[') { /* arithmetic of old */
			p4d_cell where = p4d_shell__cell(s, false);
			nested(sh, s, 2, '[', ']');
			not_known(sh, b, where, b ? p4d_shell__reason(sh, "$[...] (line %u)", where.line) : 0,
				  false);
		} else if (c == '$') {
			p4d_shell__expand(sh, s, b, false);
		} else if (c == '`') {
			backticks(sh, s, b, false);
		} else if (c == '{' && braces(sh, s)) {
			p4d_cell where = p4d_shell__cell(s, false);
			nested(sh, s, 1, '{', '}');
			not_known(sh, b, where, b ? p4d_shell__reason(sh, "braces (line %u)", where.line) : 0,
				  false);
		} else {
			take(sh, s, b, false);
		}
	}
	sh->depth--;
}
