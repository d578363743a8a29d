/* SPDX-License-Identifier: Apache-2.0 */
/* Words, with their quotes and expansions. */
#include <ctype.h>
#include <string.h>

#include "shell/shell_internal.h"

bool p4d_shell__over(const p4d_shell *sh)
{
	return sh->stopped || sh->in.exited || sh->in.returned || sh->in.left_loop;
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
	if (s->body_end && s->at >= s->body_at) { /* after the here-documents of this line */
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
		cell.expanded = false;
		return cell;
	}
	return (p4d_cell){
	    .line = s->line, .file = s->file & 127u, .quoted = quoted, .c = p4d_shell__peek(s, 0)};
}

/* Takes the next character literally. */
static void take(p4d_shell *sh, p4d_shell_source *s, p4d_shell_build *b, bool quoted)
{
	if (b)
		p4d_shell__add(sh, b, p4d_shell__cell(s, quoted));
	p4d_shell__advance(sh, s);
}

bool p4d_shell__ends_word(char c)
{
	switch (c) {
	case '\0':
	case ' ':
	case '\t':
	case '\r':
	case '\n':
	case ';':
	case '&':
	case '|':
	case '(':
	case ')':
	case '<':
	case '>':
		return true;
	default:
		return false;
	}
}

/* Whether the text ends here. Otherwise a '\0' of p4d_shell__peek is a NUL byte in the text, which bash
 * drops. */
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
 * Quotes hide brackets, and within quotes $( and ${ open further ones. Comments hide both. The stack holds
 * the closing character of everything that is open.
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
			p4d_shell__stop(sh, "the script is nested too deep to read");
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
			/* nothing opens here */
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

static void arithmetic(p4d_shell *sh, p4d_shell_source inside, p4d_shell_build *b, bool quoted)
{
	p4d_cell where = p4d_shell__cell(&inside, quoted);
	p4d_shell_build expression = {0};
	int64_t number;
	uint16_t unknown;

	p4d_shell__quoted_until(sh, &inside, &expression, '\0', false);
	where.unknown = 0;
	if (p4d_shell__number(sh, p4d_shell__joined(sh, &expression), &number, &unknown)) {
		p4d_shell__add_value(sh, b, p4d_shell__digits(sh, number, where), quoted);
		return;
	}
	where.unknown = unknown & 0x7fffu;
	where.c = P4D_CELL_WORD; /* the parameter's number does not matter */
	p4d_shell__add(sh, b, where);
}

/* $(...) or `...`; `inside` is its text. */
static void substitute(p4d_shell *sh, p4d_shell_source inside, p4d_shell_build *b, bool quoted)
{
	p4d_shell__add_value(sh, b, p4d_shell__output(sh, inside), quoted);
}

/* The text up to the closing bracket, which is passed. open: position of the first character. */
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

/* The text between backticks, where a backslash before a backtick, a backslash or a dollar sign is dropped.
 */
static p4d_shell_source unescaped(p4d_shell *sh, p4d_shell_source inside, bool quoted)
{
	p4d_shell_build b = {0};

	if (!memchr(inside.text + inside.at, '\\', inside.length - inside.at))
		return inside;
	for (p4d_shell_source s = inside; s.at < s.length && !sh->stopped; p4d_shell__advance(sh, &s)) {
		const char next = p4d_shell__peek(&s, 1);
		if (p4d_shell__peek(&s, 0) == '\\' && next && strchr(quoted ? "`\\$\"" : "`\\$", next))
			p4d_shell__advance(sh, &s);
		p4d_shell__add(sh, &b, p4d_shell__cell(&s, false));
	}
	return p4d_shell__source_of(sh, (p4d_value){b.at, b.length}, &inside);
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
		substitute(sh, unescaped(sh, inside, quoted), b, quoted);
}

static void expand(p4d_shell *sh, p4d_shell_source *s, p4d_shell_build *b, bool quoted)
{
	char c = p4d_shell__peek(s, 1);
	size_t length = p4d_shell__name_length(s, 1);

	if (c == '(' && p4d_shell__peek(s, 2) == '(') {
		p4d_shell_source inside = nested(sh, s, 2, '(', ')');
		inside.at++;
		inside.length -= inside.length > inside.at; /* without the inner bracket */
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
			expand(sh, s, b, quoted);
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

/* Whether "$@", "${A[@]}" or "${A[@]:1}" is here, which expands to no word at all if the array is empty. */
static bool is_list(const p4d_shell_source *s)
{
	size_t n = 0;

	if (p4d_shell__peek(s, 0) != '$')
		return false;
	if (p4d_shell__peek(s, 1) == '@')
		return p4d_shell__peek(s, 2) == '"';
	if (p4d_shell__peek(s, 1) != '{')
		return false;
	n = 2 + p4d_shell__name_length(s, 2);
	if (n == 2 && p4d_shell__peek(s, 2) == '@')
		n++;
	else if (n > 2 && p4d_shell__peek(s, n) == '[' && p4d_shell__peek(s, n + 1) == '@' &&
		 p4d_shell__peek(s, n + 2) == ']')
		n += 3;
	else
		return false;
	if (p4d_shell__peek(s, n) == ':' && !memchr("-=+?", p4d_shell__peek(s, n + 1), 4))
		while (p4d_shell__peek(s, n) && !memchr("}\"$", p4d_shell__peek(s, n), 3))
			n++;
	return p4d_shell__peek(s, n) == '}' && p4d_shell__peek(s, n + 1) == '"';
}

static void double_quotes(p4d_shell *sh, p4d_shell_source *s, p4d_shell_build *b)
{
	p4d_shell__advance(sh, s);
	const bool list = is_list(s);
	const uint32_t before = b ? b->length : 0;
	p4d_shell__quoted_until(sh, s, b, '"', true);
	p4d_shell__advance(sh, s);
	if (b && (!list || b->length > before))
		p4d_shell__add(sh, b, P4D_CELL_HOLDER);
}

/* Expands braces of the word from `start` on, one word after the other. False: it is a single word. */
static bool several(p4d_shell *sh, p4d_shell_source *s, const p4d_shell_source *start, p4d_shell_build *b,
		    uint32_t from)
{
	p4d_shell_source end = *start;
	p4d_shell_words words = {0};

	p4d_shell__word(sh, &end, NULL);
	if (!p4d_shell__braces(sh, start, end.at, s->at, &words))
		return false;
	b->length = from;
	b->braces = false;
	for (uint32_t i = 0; i < words.count && !sh->stopped; i++) {
		p4d_shell_source word = p4d_shell__source_of(sh, words.at[i], start);
		if (i)
			p4d_shell__add(sh, b, P4D_CELL_BOUNDARY);
		p4d_shell__word(sh, &word, b);
	}
	b->braces = true;
	*s = end;
	return true;
}

void p4d_shell__word(p4d_shell *sh, p4d_shell_source *s, p4d_shell_build *b)
{
	const p4d_shell_source start = *s;
	const uint32_t from = b ? b->length : 0;

	if (++sh->depth > P4D_SHELL_DEPTH)
		p4d_shell__stop(sh, "the script is nested too deep to read");
	while (!at_end(s) && !sh->stopped) {
		char c = p4d_shell__peek(s, 0), next = p4d_shell__peek(s, 1);
		if (c == '{' && b && b->braces && several(sh, s, &start, b, from))
			break;
		if (s->origin && s->origin[s->at].unknown) {
			take(sh, s, b, false);
		} else if ((c == '<' || c == '>') && next == '(') { /* process substitution: the output of
								     * a command as a file */
			p4d_cell where = p4d_shell__cell(s, false);
			p4d_shell_source inside = nested(sh, s, 2, '(', ')');
			if (b && c == '<')
				p4d_shell__add_value(sh, b, p4d_shell__output_file(sh, inside), true);
			else
				not_known(sh, b, where,
					  b ? p4d_shell__reason(sh, "the input of a command") : 0, true);
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
		} else if (c == '$' && next == '[') { /* $[...], the old form of arithmetic */
			p4d_shell_source inside = nested(sh, s, 2, '[', ']');
			if (b)
				arithmetic(sh, inside, b, false);
		} else if (c == '$') {
			expand(sh, s, b, false);
		} else if (c == '`') {
			backticks(sh, s, b, false);
		} else {
			take(sh, s, b, false);
		}
	}
	sh->depth--;
}
