/* SPDX-License-Identifier: Apache-2.0 */
/* grep and awk, as scripts use them to take a value out of a file: known text and plain patterns only. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "shell/shell_internal.h"

/* A pattern: characters, each with how often. What is not among these is not followed. */
enum { ATOMS = 64 };
typedef struct atom {
	unsigned char set[32]; /* one bit a character */
	char times;            /* '1', '*', '+', '?' */
} atom;
typedef struct pattern {
	atom at[ATOMS];
	size_t count;
	bool start, end; /* ^ $ */
	bool any_case;
} pattern;

static void add_to(atom *a, unsigned char c)
{
	a->set[c / 8] |= (unsigned char)(1u << c % 8);
}

static bool has(const atom *a, unsigned char c)
{
	return a->set[c / 8] >> c % 8 & 1;
}

static void add_class(atom *a, bool (*of)(int c), bool other)
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

/* Behind the bracket that opens a set. NULL: not followed. */
static const char *read_set(atom *a, const char *at)
{
	const bool other = *at == '^';
	atom in = {.times = '1'};

	at += other;
	for (bool first = true; *at && (first || *at != ']'); first = false) {
		if (!strncmp(at, "[:space:]", 9)) {
			add_class(&in, is_blank, false);
			at += 9;
			continue;
		}
		if (!strncmp(at, "[:digit:]", 9)) {
			add_class(&in, is_digit, false);
			at += 9;
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

/* False: p4d does not follow it. plain: no character means anything else. extended: as in grep -E and awk. */
static bool read_pattern(pattern *p, const char *text, bool plain, bool extended)
{
	static const char *const classes = "sSwWd";

	while (*text) {
		atom *a = &p->at[p->count];
		if (p->count == ATOMS)
			return false;
		*a = (atom){.times = '1'};
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
				return false; /* means more than itself */
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

static bool matches_at(p4d_shell *sh, const pattern *p, size_t i, p4d_value line, uint32_t at)
{
	for (; i < p->count && p4d_shell__work(sh, 1); i++) {
		const atom *a = &p->at[i];
		uint32_t least = a->times == '1' || a->times == '+', n = 0;
		while (at + n < line.length && (n < 1 || strchr("*+", a->times)) && p4d_shell__work(sh, 1)) {
			const unsigned char c = (unsigned char)line.at[at + n].c;
			if (!has(a, c) && !(p->any_case && (has(a, (unsigned char)tolower(c)) ||
							    has(a, (unsigned char)toupper(c)))))
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
			if (matches_at(sh, p, i + 1, line, at + n))
				return true;
		at += n;
	}
	return !p->end || at == line.length;
}

static bool matches(p4d_shell *sh, const pattern *p, p4d_value line)
{
	for (uint32_t i = 0; i <= line.length && !sh->stopped; i++) {
		if (matches_at(sh, p, 0, line, i))
			return true;
		if (p->start)
			return false;
	}
	return false;
}

static p4d_value without_end(p4d_value line)
{
	line.length -= line.length && line.at[line.length - 1].c == '\n';
	return line;
}

/* grep of one pattern: its lines, or whether there are any. */
static p4d_shell_status run_grep(const p4d_shell_call *w)
{
	p4d_shell_options o = {.switches = "EFqvish", .valued = "me"};
	const size_t first = p4d_shell__filter_options(w, &o);
	const size_t file = first + !o.is['e'];
	pattern p = {.any_case = o.is['i']};
	char text[128];
	p4d_value lines;
	bool any = false;

	if (first == SIZE_MAX || file > w->count || w->count > file + 1 ||
	    (o.is['m'] && !p4d_value_is(o.value['m'], "1")))
		return p4d_shell__print_unknown(w);
	const p4d_value wanted = o.is['e'] ? o.value['e'] : w->at[first];
	p4d_value_text(wanted, text, sizeof(text));
	if (p4d_value_unknown(wanted) || wanted.length >= sizeof(text) ||
	    !read_pattern(&p, text, o.is['F'], o.is['E']))
		return o.is['q'] ? P4D_SHELL_OPEN : p4d_shell__print_unknown(w);
	if (!p4d_shell__filter_text(w, file < w->count ? &w->at[file] : NULL, &lines))
		return o.is['q'] ? P4D_SHELL_OPEN : P4D_SHELL_TAKEN;
	while (lines.length && !w->sh->stopped && !(any && (o.is['q'] || o.is['m']))) {
		const p4d_value line = p4d_shell__next_line(&lines);
		if (matches(w->sh, &p, without_end(line)) == o.is['v'])
			continue;
		any = true;
		if (!o.is['q'])
			p4d_shell__print(w, line);
	}
	return any ? P4D_SHELL_TRUE : P4D_SHELL_FALSE;
}

/* '/pattern/ { print $N }' or 'NR==N { print $N }', of which either part may be missing. */
typedef struct awk_program {
	pattern pattern;
	bool by_pattern;
	unsigned line; /* 0: all */
	int field;     /* -1: the last */
} awk_program;

static const char *skip_blanks(const char *at)
{
	return at + strspn(at, " \t\n;");
}

static bool read_program(awk_program *a, char *text)
{
	char *at = text + strspn(text, " \t\n");

	if (*at == '/') {
		char *end = strchr(at + 1, '/');
		if (!end || end[-1] == '\\')
			return false;
		*end = '\0';
		a->by_pattern = true;
		if (!read_pattern(&a->pattern, at + 1, false, true))
			return false;
		at = end + 1;
	} else if (!strncmp(at, "NR", 2)) {
		at += 2 + strspn(at + 2, " ");
		if (strncmp(at, "==", 2) != 0 || (a->line = (unsigned)strtoul(at + 2, &at, 10)) == 0)
			return false;
	}
	const char *rest = skip_blanks(at);
	if (!*rest && (a->by_pattern || a->line))
		return true; /* the line */
	if (*rest != '{')
		return false;
	rest = skip_blanks(rest + 1);
	if (strncmp(rest, "print", 5) != 0)
		return false;
	rest = skip_blanks(rest + 5);
	if (!strncmp(rest, "$NF", 3)) {
		a->field = -1;
		rest += 3;
	} else if (*rest == '$' && rest[1] >= '0' && rest[1] <= '9' && !is_digit(rest[2])) {
		a->field = rest[1] - '0';
		rest += 2;
	}
	rest = skip_blanks(rest);
	if (!strncmp(rest, "exit", 4)) { /* after the first */
		if (a->line)
			rest += 4;
		else
			return false;
	}
	rest = skip_blanks(rest);
	return *rest == '}' && !*skip_blanks(rest + 1);
}

/* Field N of a line, of those that are cut at `by`, '\0' at blanks. */
static p4d_value field_of(p4d_value line, char by, int field)
{
	p4d_value found = {0};
	uint32_t at = 0;

	if (!field)
		return line;
	for (int n = 1; at <= line.length; n++) {
		while (!by && at < line.length && is_blank(line.at[at].c))
			at++;
		if (at == line.length && !by)
			break;
		const uint32_t from = at;
		while (at < line.length && (by ? line.at[at].c != by : !is_blank(line.at[at].c)))
			at++;
		found = p4d_shell__part(line, from, at - from);
		if (n == field)
			return found;
		at++;
	}
	return field < 0 ? found : (p4d_value){0};
}

static p4d_shell_status run_awk(const p4d_shell_call *w)
{
	p4d_shell_options o = {.switches = "", .valued = "F"};
	const size_t first = p4d_shell__filter_options(w, &o);
	awk_program a = {.field = 0};
	char text[256];
	p4d_value lines;
	unsigned number = 0;
	const p4d_value by = o.value['F'];

	if (first == SIZE_MAX || first >= w->count || w->count > first + 2 ||
	    p4d_value_unknown(w->at[first]) || w->at[first].length >= sizeof(text) || by.length > 1 ||
	    (by.length && !strchr(":=,/ ;\"'-_", by.at[0].c)))
		return p4d_shell__print_unknown(w);
	p4d_value_text(w->at[first], text, sizeof(text));
	if (!read_program(&a, text))
		return p4d_shell__print_unknown(w);
	if (!p4d_shell__filter_text(w, first + 1 < w->count ? &w->at[first + 1] : NULL, &lines))
		return P4D_SHELL_TAKEN;
	const char separator = by.length && by.at[0].c != ' ' ? by.at[0].c : '\0';
	while (lines.length && !w->sh->stopped) {
		const p4d_value line = without_end(p4d_shell__next_line(&lines));
		const p4d_cell end = {.c = '\n'};
		number++;
		if ((a.line && number != a.line) || (a.by_pattern && !matches(w->sh, &a.pattern, line)))
			continue;
		p4d_shell__print(w, field_of(line, separator, a.field));
		p4d_shell__print(w, (p4d_value){&end, 1});
	}
	return P4D_SHELL_TAKEN;
}

const p4d_shell_builtin p4d_shell__searches[] = {
    {"awk", run_awk, false},
    {"gawk", run_awk, false},
    {"grep", run_grep, false},
    {NULL, NULL, false},
};
