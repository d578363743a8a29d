/* SPDX-License-Identifier: Apache-2.0 */
/* [ ... ], [[ ... ]], and patterns. */
#include <ctype.h>
#include <string.h>

#include "shell/shell_internal.h"

/* Whether a character is in the class [:NAME:] at p[*at]; moves *at to its last character. */
static bool in_class(p4d_value pattern, uint32_t *at, char c)
{
	static const struct {
		const char *name;
		int (*has)(int c);
	} classes[] = {{"[:digit:]", isdigit}, {"[:alpha:]", isalpha}, {"[:alnum:]", isalnum},
		       {"[:space:]", isspace}, {"[:upper:]", isupper}, {"[:lower:]", islower},
		       {"[:punct:]", ispunct}, {"[:blank:]", isblank}, {"[:xdigit:]", isxdigit}};

	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
		const uint32_t length = (uint32_t)strlen(classes[i].name);
		if (*at + length <= pattern.length &&
		    p4d_value_is((p4d_value){pattern.at + *at, length}, classes[i].name)) {
			*at += length - 1;
			return classes[i].has((unsigned char)c);
		}
	}
	return pattern.at[*at].c == c;
}

/* Compares one character with the pattern at *at, and moves *at past it. */
static bool one(p4d_value pattern, uint32_t *at, char c)
{
	const p4d_cell *p = pattern.at;

	if (p[*at].quoted || (p[*at].c != '?' && p[*at].c != '['))
		return p[(*at)++].c == c;
	if (p[*at].c == '?') {
		(*at)++;
		return true;
	}
	uint32_t i = *at + 1;
	bool other = i < pattern.length && (p[i].c == '!' || p[i].c == '^'), found = false;
	i += other;
	for (bool first = true; i < pattern.length && (first || p[i].c != ']'); first = false, i++) {
		if (i + 2 < pattern.length && p[i + 1].c == '-' && p[i + 2].c != ']') {
			found |= c >= p[i].c && c <= p[i + 2].c;
			i += 2;
		} else {
			found |= in_class(pattern, &i, c);
		}
	}
	if (i == pattern.length) /* an opening bracket without a closing one */
		return p[(*at)++].c == c;
	*at = i + 1;
	return found != other;
}

static p4d_value behind(p4d_value value, uint32_t from)
{
	return p4d_shell__part(value, from, value.length - from);
}

/* The index of the ) of a group such as +(a|b) at this position; 0: there is no group. */
static uint32_t group_end(p4d_value pattern, uint32_t at)
{
	int depth = 0;

	if (at + 1 >= pattern.length || pattern.at[at].quoted || !memchr("?*+@!", pattern.at[at].c, 5) ||
	    pattern.at[at + 1].c != '(' || pattern.at[at + 1].quoted)
		return 0;
	for (uint32_t i = at + 1; i < pattern.length; i++)
		if (!pattern.at[i].quoted && (pattern.at[i].c == '(' || pattern.at[i].c == ')')) {
			depth += pattern.at[i].c == '(' ? 1 : -1;
			if (!depth)
				return i;
		}
	return 0;
}

static bool extended(p4d_shell *sh, p4d_value pattern, p4d_value text);

/* Whether one of the patterns a|b matches the text. */
static bool any_of(p4d_shell *sh, p4d_value patterns, p4d_value text)
{
	uint32_t from = 0;
	int depth = 0;

	for (uint32_t i = 0; i <= patterns.length; i++) {
		const p4d_cell cell = i < patterns.length ? patterns.at[i] : (p4d_cell){.c = '|'};
		depth += cell.quoted ? 0 : cell.c == '(' ? 1 : cell.c == ')' ? -1 : 0;
		if (depth || cell.quoted || cell.c != '|')
			continue;
		if (extended(sh, (p4d_value){patterns.at + from, i - from}, text))
			return true;
		from = i + 1;
	}
	return false;
}

/* Matches a text with a pattern that begins with a group of bash's extglob. end: the index of its ). */
static bool group_matches(p4d_shell *sh, p4d_value pattern, uint32_t end, p4d_value text)
{
	const char kind = pattern.at[0].c;
	const p4d_value inside = {pattern.at + 2, end - 2}, rest = behind(pattern, end + 1);

	if ((kind == '?' || kind == '*') && extended(sh, rest, text))
		return true;
	for (uint32_t n = 0; n <= text.length && p4d_shell__work(sh, 1); n++) {
		if (any_of(sh, inside, (p4d_value){text.at, n}) == (kind == '!'))
			continue;
		if (extended(sh, rest, behind(text, n)) ||
		    (n && (kind == '*' || kind == '+') && extended(sh, pattern, behind(text, n))))
			return true;
	}
	return false;
}

/* Matches a text with a pattern that may have groups. */
static bool extended(p4d_shell *sh, p4d_value pattern, p4d_value text)
{
	const uint32_t end = group_end(pattern, 0);
	uint32_t next = 0;
	bool found = false;

	if (!p4d_shell__work(sh, 1) || ++sh->depth > P4D_SHELL_DEPTH)
		p4d_shell__stop(sh, "a pattern is nested too deep to read");
	else if (!pattern.length)
		found = !text.length;
	else if (end)
		found = group_matches(sh, pattern, end, text);
	else if (pattern.at[0].c == '*' && !pattern.at[0].quoted)
		for (uint32_t n = 0; n <= text.length && !found && !sh->stopped; n++)
			found = extended(sh, behind(pattern, 1), behind(text, n));
	else
		found = text.length && one(pattern, &next, text.at[0].c) &&
			extended(sh, behind(pattern, next), behind(text, 1));
	sh->depth--;
	return found;
}

/* Matches a text with a pattern. On a mismatch it goes back only to the last star, which is enough. */
bool p4d_shell__matches(p4d_shell *sh, p4d_value pattern, p4d_value text)
{
	for (uint32_t i = 0; i < pattern.length; i++)
		if (group_end(pattern, i))
			return extended(sh, pattern, text);
	uint32_t p = 0, t = 0, star = UINT32_MAX, from = 0;

	while (t < text.length && p4d_shell__work(sh, 1)) {
		uint32_t next = p;
		if (p < pattern.length && pattern.at[p].c == '*' && !pattern.at[p].quoted) {
			star = p++;
			from = t;
		} else if (p < pattern.length && one(pattern, &next, text.at[t].c)) {
			p = next;
			t++;
		} else if (star != UINT32_MAX) {
			p = star + 1;
			t = ++from;
		} else {
			return false;
		}
	}
	while (p < pattern.length && pattern.at[p].c == '*' && !pattern.at[p].quoted)
		p++;
	return t == text.length && p == pattern.length;
}

static p4d_value lower_case(p4d_shell *sh, p4d_value text)
{
	p4d_shell_build b = {0};

	for (uint32_t i = 0; i < text.length; i++) {
		p4d_cell cell = text.at[i];
		cell.c = (char)(cell.unknown ? cell.c : tolower((unsigned char)cell.c));
		p4d_shell__add(sh, &b, cell);
	}
	return (p4d_value){b.at, b.length};
}

bool p4d_shell__fits(p4d_shell *sh, p4d_value pattern, p4d_value text)
{
	return sh->in.options & P4D_SHELL_NOCASEMATCH
		   ? p4d_shell__matches(sh, lower_case(sh, pattern), lower_case(sh, text))
		   : p4d_shell__matches(sh, pattern, text);
}

typedef struct words {
	p4d_shell *sh;
	const p4d_value *at;
	size_t count, next;
	bool patterns;
	int depth;
} words;

static p4d_shell_status truth(bool value)
{
	return value ? P4D_SHELL_TRUE : P4D_SHELL_FALSE;
}

static bool is(const words *w, size_t ahead, const char *text)
{
	return w->next + ahead < w->count && p4d_value_is(w->at[w->next + ahead], text);
}

static const char *const numeric[] = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"};

static bool is_unset(p4d_value value)
{
	return value.length == 1 && value.at[0].unknown && value.at[0].c == P4D_CELL_UNSET;
}

static p4d_shell_status compare(words *w, p4d_value a, p4d_value op, p4d_value b)
{
	for (int i = 0; i < 6; i++) {
		int64_t x, y;
		uint16_t unknown;
		if (!p4d_value_is(op, numeric[i]))
			continue;
		if (!p4d_shell__number(w->sh, a, &x, &unknown) || !p4d_shell__number(w->sh, b, &y, &unknown))
			return P4D_SHELL_OPEN;
		const bool result[] = {x == y, x != y, x<y, x <= y, x> y, x >= y};
		return truth(result[i]);
	}
	if (is_unset(a))
		a.length = 0;
	if (is_unset(b))
		b.length = 0;
	if (w->patterns && p4d_value_is(op, "=~"))
		return p4d_shell__regular(w->sh, a, b);
	const bool equal = p4d_value_is(op, "=") || p4d_value_is(op, "==");
	if ((!equal && !p4d_value_is(op, "!=")) || p4d_value_unknown(a) || p4d_value_unknown(b))
		return P4D_SHELL_OPEN;
	if (w->patterns)
		return truth(p4d_shell__fits(w->sh, b, a) == equal);
	bool same = a.length == b.length;
	for (uint32_t i = 0; same && i < a.length; i++)
		same = a.at[i].c == b.at[i].c;
	return truth(same == equal);
}

/*
 * Whether a text is empty. An unset variable counts as empty, because a script that tests it has a default
 * for it.
 */
static p4d_shell_status empty(p4d_value value)
{
	if (!value.length)
		return P4D_SHELL_TRUE;
	if (is_unset(value))
		return P4D_SHELL_TRUE;
	for (uint32_t i = 0; i < value.length; i++)
		if (!value.at[i].unknown)
			return P4D_SHELL_FALSE;
	return P4D_SHELL_OPEN;
}

static p4d_shell_status opposite(p4d_shell_status status)
{
	return status == P4D_SHELL_TRUE    ? P4D_SHELL_FALSE
	       : status == P4D_SHELL_FALSE ? P4D_SHELL_TRUE
					   : status;
}

/* Whether a file exists: true if p4d can read it; otherwise unknown, because it may exist when the job
 * runs. */
static p4d_shell_status exists(words *w, p4d_value op, p4d_value path)
{
	p4d_value written;
	const char *text;
	size_t length;

	if (op.length != 2 || op.at[1].unknown || !strchr("efrs", op.at[1].c) || p4d_value_unknown(path) ||
	    !p4d_shell_file(w->sh, path, &written, &text, &length))
		return P4D_SHELL_OPEN;
	return P4D_SHELL_TRUE;
}

static p4d_shell_status either(words *w);

static p4d_shell_status term(words *w)
{
	if (++w->depth > P4D_SHELL_DEPTH || w->next >= w->count) {
		w->next = w->count;
		return P4D_SHELL_OPEN;
	}
	p4d_shell_status status = P4D_SHELL_OPEN;
	if (is(w, 0, "!")) {
		w->next++;
		status = opposite(term(w));
	} else if (is(w, 0, "(")) {
		w->next++;
		status = either(w);
		w->next += is(w, 0, ")");
	} else if (w->next + 2 < w->count && !is(w, 1, "&&") && !is(w, 1, "||") && !is(w, 1, "-a") &&
		   !is(w, 1, "-o") && !is(w, 1, ")")) {
		if (w->at[w->next].length == 2 && w->at[w->next].at[0].c == '-' &&
		    (is(w, 2, "&&") || is(w, 2, "||") || is(w, 2, ")") || is(w, 2, "-a") || is(w, 2, "-o"))) {
			status = is(w, 0, "-z")   ? empty(w->at[w->next + 1])
				 : is(w, 0, "-n") ? opposite(empty(w->at[w->next + 1]))
						  : exists(w, w->at[w->next], w->at[w->next + 1]);
			w->next += 2;
		} else {
			status = compare(w, w->at[w->next], w->at[w->next + 1], w->at[w->next + 2]);
			w->next += 3;
		}
	} else if (w->next + 1 < w->count && (is(w, 0, "-z") || is(w, 0, "-n"))) {
		status = empty(w->at[w->next + 1]);
		status = is(w, 0, "-z") ? status : opposite(status);
		w->next += 2;
	} else if (w->at[w->next].length == 2 && w->at[w->next].at[0].c == '-') { /* tests of files */
		if (w->next + 1 < w->count)
			status = exists(w, w->at[w->next], w->at[w->next + 1]);
		w->next += w->next + 1 < w->count ? 2 : 1;
	} else {
		status = opposite(empty(w->at[w->next]));
		w->next++;
	}
	w->depth--;
	return status;
}

/* Evaluates conditions joined by && or ||. The first condition with the result `decisive` decides. */
static p4d_shell_status joined(words *w, const char *sign, const char *letter, p4d_shell_status decisive,
			       p4d_shell_status (*part)(words *w))
{
	p4d_shell_status status = part(w);

	while (is(w, 0, sign) || is(w, 0, letter)) {
		w->next++;
		p4d_shell_status next = part(w);
		status = status == decisive || next == decisive ? decisive
			 : status == opposite(decisive)         ? next
								: P4D_SHELL_OPEN;
	}
	return status;
}

static p4d_shell_status both(words *w)
{
	return joined(w, "&&", "-a", P4D_SHELL_FALSE, term);
}

static p4d_shell_status either(words *w)
{
	return joined(w, "||", "-o", P4D_SHELL_TRUE, both);
}

p4d_shell_status p4d_shell__test(p4d_shell *sh, const p4d_value *at, size_t count, bool patterns)
{
	words w = {.sh = sh, .at = at, .count = count, .patterns = patterns};

	if (!count)
		return P4D_SHELL_FALSE;
	p4d_shell_status status = either(&w);
	return w.next == w.count ? status : P4D_SHELL_OPEN;
}
