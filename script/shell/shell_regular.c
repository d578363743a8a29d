/* SPDX-License-Identifier: Apache-2.0 */
/* [[ text =~ pattern ]], grep and sed: patterns with alternatives, and groups that are not repeated. */
#include <ctype.h>
#include <string.h>

#include "shell/shell_internal.h"

enum { PATTERN = 256 };

/*
 * A pattern without alternatives, in the form that shell_pattern.c supports: "v([0-9]+)" is "v[0-9]+" and one
 * group.
 */
typedef struct regular {
	char text[PATTERN]; /* without the brackets of groups; quoted characters are escaped */
	size_t length;
	p4d_shell_groups groups;
	size_t open[P4D_SHELL_GROUPS], opened; /* numbers of the groups that have no end so far */
	bool supported;
} regular;

static bool is_special(p4d_cell c, const char *which)
{
	return !c.quoted && !c.unknown && c.c && strchr(which, c.c);
}

/* The position after a bracket expression (a set of characters) that begins here. */
static uint32_t set_end(p4d_value p, uint32_t at)
{
	uint32_t i = at + 1;

	i += i < p.length && p.at[i].c == '^';
	i += i < p.length && p.at[i].c == ']';
	for (; i < p.length && p.at[i].c != ']'; i++)
		if (p.at[i].c == '[' && i + 1 < p.length && p.at[i + 1].c == ':')
			for (i += 2; i < p.length && p.at[i].c != ']';) /* a class such as [:digit:] */
				i++;
	return i < p.length ? i + 1 : p.length;
}

static void add(regular *r, p4d_cell c, bool in_set)
{
	const bool escaped = c.quoted && !in_set && ispunct((unsigned char)c.c);

	if (c.unknown || !c.c || (c.quoted && in_set && ispunct((unsigned char)c.c)) ||
	    r->length + 2 >= sizeof(r->text)) {
		r->supported = false;
		return;
	}
	if (escaped)
		r->text[r->length++] = '\\';
	r->text[r->length++] = c.c;
	r->text[r->length] = '\0';
}

/* Number of atoms in the text so far. */
static size_t atoms(const regular *r)
{
	p4d_shell_pattern p = {.start = false};

	return p4d_shell__read_pattern(&p, r->text, false, true) ? p.count : 0;
}

static void open_group(regular *r)
{
	if (r->groups.count == P4D_SHELL_GROUPS) {
		r->supported = false;
		return;
	}
	r->groups.from[r->groups.count] = atoms(r);
	r->open[r->opened++] = r->groups.count++;
}

/* Whether a repetition follows the group that ends here. */
static bool repeated(p4d_value p, uint32_t at)
{
	return at + 1 < p.length && is_special(p.at[at + 1], "*+?{");
}

static void close_group(regular *r, p4d_value p, uint32_t at)
{
	if (!r->opened || repeated(p, at)) {
		r->supported = false;
		return;
	}
	r->groups.to[r->open[--r->opened]] = atoms(r);
}

/* Adds a part of the pattern that has no alternatives. */
static void add_part(regular *r, p4d_value p)
{
	for (uint32_t i = 0; i < p.length && r->supported; i++) {
		if (is_special(p.at[i], "[")) {
			for (const uint32_t end = set_end(p, i); i + 1 < end; i++)
				add(r, p.at[i], true);
			add(r, p.at[i], true);
		} else if (is_special(p.at[i], "(")) {
			open_group(r);
		} else if (is_special(p.at[i], ")")) {
			close_group(r, p, i);
		} else if (is_special(p.at[i], "\\") &&
			   i + 1 < p.length) { /* a backslash that is from a variable */
			add(r, p.at[i++], true);
			add(r, p.at[i], true);
		} else {
			add(r, p.at[i], false);
		}
	}
}

/* The last position of the set or the escaped character that begins here; else, this position. */
static uint32_t last_of(p4d_value p, uint32_t at)
{
	if (is_special(p.at[at], "["))
		return set_end(p, at) - 1;
	return is_special(p.at[at], "\\") && at + 1 < p.length ? at + 1 : at;
}

/* Position of the next bar outside of sets and groups; the length of p: there is none. */
static uint32_t bar(p4d_value p, uint32_t at)
{
	int depth = 0;

	for (; at < p.length && !(is_special(p.at[at], "|") && !depth); at++) {
		depth += is_special(p.at[at], "(") - is_special(p.at[at], ")");
		at = last_of(p, at);
	}
	return at;
}

static p4d_value part(p4d_value p, uint32_t from, uint32_t to)
{
	return p4d_shell__part(p, from, to - from);
}

/* Finds the first group with alternatives, which are between *from and *to. False: there is none. */
static bool find_group(p4d_value p, uint32_t *from, uint32_t *to)
{
	for (uint32_t i = 0; i < p.length; i = last_of(p, i) + 1)
		if (is_special(p.at[i], "(")) {
			int depth = 1;
			for (*from = i + 1, *to = *from; *to < p.length; *to = last_of(p, *to) + 1) {
				depth += is_special(p.at[*to], "(") - is_special(p.at[*to], ")");
				if (!depth)
					break;
			}
			if (*to < p.length && bar(part(p, *from, *to), 0) < *to - *from)
				return true;
		}
	return false;
}

p4d_value p4d_shell__group(const p4d_shell_groups *g, size_t i, p4d_value text, const uint32_t *begins)
{
	return part(text, begins[g->from[i]], begins[g->to[i]]);
}

static void take_matches(p4d_shell *sh, const p4d_shell_groups *g, p4d_value text, const uint32_t *begins,
			 uint32_t from, uint32_t to)
{
	p4d_shell_words found = {0};

	p4d_shell__add_word(sh, &found, p4d_shell__copied(sh, part(text, from, to)));
	for (size_t i = 0; i < g->count; i++)
		p4d_shell__add_word(sh, &found, p4d_shell__copied(sh, p4d_shell__group(g, i, text, begins)));
	p4d_shell__assign_array(sh, sh->mode, (p4d_shell_name){"BASH_REMATCH", 12}, found, false, 0);
}

/* How to match. */
typedef struct text_search {
	p4d_shell *sh;
	p4d_value text;
	bool any_case;
	bool takes; /* sets BASH_REMATCH */
} text_search;

/* Reads a pattern without alternatives, which consists of parts. False: p4d does not support it. */
static bool read_parts(p4d_shell_pattern *p, p4d_shell_groups *g, const p4d_value *parts, size_t count)
{
	regular r = {.supported = true};

	for (size_t i = 0; i < count; i++)
		add_part(&r, parts[i]);
	*g = r.groups;
	return r.supported && !r.opened && p4d_shell__read_pattern(p, r.text, false, true);
}

/* Matches the text with a pattern without alternatives. alone: it is the whole pattern. */
static p4d_shell_status match(const text_search *s, const p4d_value *parts, size_t count, bool alone)
{
	uint32_t begins[P4D_SHELL_ATOMS + 1], from = 0, to = 0;
	p4d_shell_pattern p = {.begins = begins, .any_case = s->any_case};
	p4d_shell_groups groups;

	if (!read_parts(&p, &groups, parts, count))
		return P4D_SHELL_OPEN;
	if (!p4d_shell__find_match(s->sh, &p, s->text, &from, &to))
		return P4D_SHELL_FALSE;
	begins[p.count] = to;
	if (alone && s->takes)
		take_matches(s->sh, &groups, s->text, begins, from, to);
	return P4D_SHELL_TRUE;
}

bool p4d_shell__read_grouped(p4d_shell_pattern *p, p4d_shell_groups *groups, p4d_value pattern)
{
	return read_parts(p, groups, &pattern, 1);
}

p4d_value p4d_shell__as_extended(p4d_shell *sh, p4d_value pattern)
{
	p4d_shell_build b = {0};

	for (uint32_t i = 0; i < pattern.length && !sh->stopped; i++) {
		p4d_cell cell = pattern.at[i];
		cell.quoted = is_special(cell, "(){}+?|");
		if (is_special(cell, "[")) {
			for (const uint32_t end = set_end(pattern, i); i + 1 < end; i++)
				p4d_shell__add(sh, &b, pattern.at[i]);
			cell = pattern.at[i];
		} else if (is_special(cell, "\\") && i + 1 < pattern.length) {
			cell = pattern.at[++i];
			if (!is_special(cell,
					"(){}+?|")) /* a backslash makes operators of these characters */
				p4d_shell__add(sh, &b, pattern.at[i - 1]);
		}
		p4d_shell__add(sh, &b, cell);
	}
	return (p4d_value){b.at, b.length};
}

/* Matches the text with each alternative in turn, together with the parts before and after it. */
static p4d_shell_status any_of(const text_search *s, p4d_value before, p4d_value alternatives,
			       p4d_value after)
{
	p4d_shell_status status = P4D_SHELL_FALSE;

	for (uint32_t at = 0; at <= alternatives.length;) {
		const uint32_t end = bar(alternatives, at);
		const p4d_value parts[] = {before, part(alternatives, at, end), after};
		const p4d_shell_status next = match(s, parts, 3, false);
		if (next == P4D_SHELL_TRUE)
			return next;
		status = next == P4D_SHELL_OPEN ? next : status;
		at = end + 1;
	}
	return status;
}

static p4d_shell_status matched(const text_search *s, p4d_value pattern)
{
	uint32_t from = 0, to = 0;

	if (bar(pattern, 0) < pattern.length)
		return any_of(s, (p4d_value){0}, pattern, (p4d_value){0});
	if (!find_group(pattern, &from, &to))
		return match(s, &pattern, 1, true);
	return repeated(pattern, to) ? P4D_SHELL_OPEN
				     : any_of(s, part(pattern, 0, from - 1), part(pattern, from, to),
					      part(pattern, to + 1, pattern.length));
}

p4d_shell_status p4d_shell__line_matches(p4d_shell *sh, p4d_value line, p4d_value pattern, bool any_case)
{
	const text_search s = {sh, line, any_case, false};
	const p4d_shell_status status = matched(&s, pattern);

	return sh->stopped ? P4D_SHELL_OPEN : status;
}

p4d_shell_status p4d_shell__regular(p4d_shell *sh, p4d_value text, p4d_value pattern)
{
	const text_search s = {sh, text, sh->in.options & P4D_SHELL_NOCASEMATCH, true};
	p4d_shell_words none = {0};

	/* a placeholder until the group's text is known */
	p4d_shell__add_word(
	    sh, &none,
	    p4d_shell__not_known(sh, p4d_shell__reason(sh, "p4d does not know what a pattern matches")));
	p4d_shell__assign_array(sh, sh->mode, (p4d_shell_name){"BASH_REMATCH", 12}, none, false, 0);
	if (p4d_value_unknown(text) || p4d_value_unknown(pattern))
		return P4D_SHELL_OPEN;
	const p4d_shell_status status = matched(&s, pattern);
	return sh->stopped ? P4D_SHELL_OPEN : status;
}
