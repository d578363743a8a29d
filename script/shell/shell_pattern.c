/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions of grep, awk and sed, without groups and alternatives. */
#include <ctype.h>
#include <string.h>

#include "shell/shell_internal.h"

static void add_to(p4d_shell_atom *a, unsigned char c)
{
	a->set[c / 8] |= (unsigned char)(1u << c % 8);
}

static bool has(const p4d_shell_atom *a, unsigned char c)
{
	return a->set[c / 8] >> c % 8 & 1;
}

static void add_class(p4d_shell_atom *a, bool (*of)(int c), bool other)
{
	for (int c = 1; c < 128; c++)
		if (of(c) != other)
			add_to(a, (unsigned char)c);
}

static bool is_blank(int c)
{
	return c == ' ' || c == '\t';
}

static bool is_word(int c)
{
	return isalnum(c) || c == '_';
}

static bool is_digit(int c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(int c)
{
	return is_word(c) && !is_digit(c) && c != '_';
}

static bool is_letter_or_digit(int c)
{
	return is_word(c) && c != '_';
}

struct named_set {
	const char *name;
	bool (*has)(int c);
};

/* The set of characters with a name such as [:digit:], at this position. NULL: p4d does not support it. */
static const struct named_set *set_at(const char *at)
{
	static const struct named_set sets[] = {{"[:space:]", is_blank},
						{"[:digit:]", is_digit},
						{"[:alpha:]", is_letter},
						{"[:alnum:]", is_letter_or_digit}};

	for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++)
		if (!strncmp(at, sets[i].name, strlen(sets[i].name)))
			return &sets[i];
	return NULL;
}

/* The position after the bracket that opens a set. NULL: p4d does not support it. */
static const char *read_set(p4d_shell_atom *a, const char *at)
{
	const bool other = *at == '^';
	p4d_shell_atom in = {.times = '1'};

	at += other;
	for (bool first = true; *at && (first || *at != ']'); first = false) {
		const struct named_set *set = set_at(at);
		if (set) {
			add_class(&in, set->has, false);
			at += strlen(set->name);
			continue;
		}
		if (*at == '[' || *at == '\\')
			return NULL;
		const unsigned char from = (unsigned char)*at;
		const bool range = at[1] == '-' && at[2] && at[2] != ']';
		for (unsigned c = from; c <= (range ? (unsigned char)at[2] : from); c++)
			add_to(&in, (unsigned char)c);
		at += range ? 3 : 1;
	}
	for (size_t i = 0; i < sizeof(in.set); i++)
		a->set[i] = other ? (unsigned char)~in.set[i] : in.set[i];
	return *at ? at + 1 : NULL;
}

bool p4d_shell__read_pattern(p4d_shell_pattern *p, const char *text, bool plain, bool extended)
{
	static const char *const classes = "sSwWd";

	while (*text) {
		p4d_shell_atom *a = &p->at[p->count];
		if (p->count == P4D_SHELL_ATOMS)
			return false;
		*a = (p4d_shell_atom){.times = '1'};
		if (plain) {
			add_to(a, (unsigned char)*text++);
		} else if (*text == '^' && !p->count && !p->start) {
			p->start = true;
			text++;
			continue;
		} else if (*text == '$' && !text[1]) {
			p->end = true;
			break;
		} else if (*text == '\\' && text[1] && strchr(classes, text[1])) {
			add_class(a,
				  strchr("sS", text[1]) ? is_blank
				  : text[1] == 'd'      ? is_digit
							: is_word,
				  isupper((unsigned char)text[1]));
			text += 2;
		} else if (*text == '\\' && ispunct((unsigned char)text[1])) {
			if (!extended && strchr("|(){}+?", text[1]))
				return false; /* in basic regular expressions, a backslash makes an operator
						 of these characters, which p4d does not support */
			add_to(a, (unsigned char)text[1]);
			text += 2;
		} else if (*text == '[') {
			text = read_set(a, text + 1);
			if (!text)
				return false;
		} else if (*text == '.') {
			memset(a->set, 0xff, sizeof(a->set));
			text++;
		} else if (strchr("\\*^$", *text) || (extended && strchr("|(){}+?", *text))) {
			return false;
		} else {
			add_to(a, (unsigned char)*text++);
		}
		if (!plain && *text && strchr(extended ? "*+?" : "*", *text))
			a->times = *text++;
		p->count++;
	}
	return true;
}

/* Whether an atom of the pattern accepts a character. An unknown part of a line may be any text. */
static bool takes(const p4d_shell_pattern *p, const p4d_shell_atom *a, p4d_cell cell)
{
	const unsigned char c = (unsigned char)cell.c;

	if (cell.unknown)
		return has(a, '\n');
	return has(a, c) ||
	       (p->any_case && (has(a, (unsigned char)tolower(c)) || has(a, (unsigned char)toupper(c))));
}

/* Whether the pattern from atom i matches the line at this position. *end: the position after the match. */
static bool matches_at(p4d_shell *sh, const p4d_shell_pattern *p, size_t i, p4d_value line, uint32_t at,
		       uint32_t *end)
{
	for (; i < p->count && p4d_shell__work(sh, 1); i++) {
		const p4d_shell_atom *a = &p->at[i];
		if (p->begins)
			p->begins[i] = at;
		uint32_t least = a->times == '1' || a->times == '+', n = 0;
		while (at + n < line.length && (n < 1 || strchr("*+", a->times)) && p4d_shell__work(sh, 1)) {
			if (!takes(p, a, line.at[at + n]))
				break;
			n++;
		}
		if (n < least)
			return false;
		if (a->times == '1') {
			at++;
			continue;
		}
		for (; n > least; n--)
			if (matches_at(sh, p, i + 1, line, at + n, end))
				return true;
		at += n;
	}
	*end = at;
	return !p->end || at == line.length;
}

bool p4d_shell__find_match(p4d_shell *sh, const p4d_shell_pattern *p, p4d_value line, uint32_t *at,
			   uint32_t *end)
{
	for (; *at <= line.length && !sh->stopped; ++*at) {
		if (matches_at(sh, p, 0, line, *at, end))
			return true;
		if (p->start)
			return false;
	}
	return false;
}

bool p4d_shell__has_match(p4d_shell *sh, const p4d_shell_pattern *p, p4d_value line)
{
	uint32_t at = 0, end;

	return p4d_shell__find_match(sh, p, line, &at, &end);
}
