/* SPDX-License-Identifier: Apache-2.0 */
/* awk, as scripts use it to extract a field of a line. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "shell/shell_internal.h"

enum { TEXT = 128, VARIABLES = 8, FIELDS = 8, LAST = -1 };

/* NAME=VALUE of awk's option -v. */
typedef struct awk_variable {
	char name[32], value[TEXT];
} awk_variable;

/*
 * 'CONDITION { print $N, $M }'. Either part may be missing. The condition is /pattern/, NR==N or $N=="text".
 */
typedef struct awk_program {
	awk_variable variable[VARIABLES];
	size_t variables;
	p4d_shell_pattern pattern;
	bool by_pattern;
	uint64_t line; /* compared line number NR; 0: the program applies to all lines */
	int compared;  /* number of the field that is compared; 0: none */
	char value[TEXT];
	int field[FIELDS]; /* numbers of the fields to print; 0: the whole line */
	size_t fields;
	bool once; /* the program exits after the first line to which it applies */
} awk_program;

p4d_value p4d_shell__without_end(p4d_value line)
{
	line.length -= line.length && line.at[line.length - 1].c == '\n';
	return line;
}

static void skip_blanks(const char **at)
{
	*at += strspn(*at, " \t\n;");
}

static bool skip_text(const char **at, const char *text)
{
	const size_t length = strlen(text);

	skip_blanks(at);
	if (strncmp(*at, text, length) != 0)
		return false;
	*at += length;
	return true;
}

/* Reads an operand: "text", 3, or the name of a variable of -v. */
static bool read_operand(const awk_program *a, const char **at, char value[TEXT])
{
	skip_blanks(at);
	const bool quoted = **at == '"';
	const char *from = *at + quoted;
	const size_t length = quoted ? strcspn(from, "\"\\")
				     : strspn(from, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
						    "0123456789_.");

	if (length >= TEXT || (quoted ? from[length] != '"' : !length))
		return false;
	memcpy(value, from, length);
	value[length] = '\0';
	*at = from + length + quoted;
	if (quoted || isdigit((unsigned char)value[0]))
		return true;
	for (size_t i = 0; i < a->variables; i++)
		if (!strcmp(a->variable[i].name, value)) {
			memcpy(value, a->variable[i].value, TEXT);
			return true;
		}
	return false;
}

static bool read_whole(const char *text, int64_t *number)
{
	char *end;

	*number = strtoll(text, &end, 10);
	return end != text && !*end && *number > -(1LL << 40) && *number < 1LL << 40;
}

/* Reads a field: "$NF", "$2", "$column". */
static bool read_field(const awk_program *a, const char **at, int *field)
{
	char value[TEXT];
	int64_t number;

	if (skip_text(at, "$NF")) {
		*field = LAST;
		return true;
	}
	if (**at != '$')
		return false;
	++*at;
	if (isblank((unsigned char)**at) || !read_operand(a, at, value) || !read_whole(value, &number) ||
	    number < 0 || number > UINT16_MAX)
		return false;
	*field = (int)number;
	return true;
}

/* Reads a line number that is a sum of numbers and variables. */
static bool read_line_number(awk_program *a, const char **at)
{
	char value[TEXT];
	int64_t sum = 0, number;
	int sign = 1;

	do {
		if (!read_operand(a, at, value) || !read_whole(value, &number))
			return false;
		sum += sign * number;
		skip_blanks(at);
		sign = **at == '-' ? -1 : 1;
	} while ((**at == '+' || **at == '-') && (*at)++);
	a->line = sum > 0 ? (uint64_t)sum : UINT64_MAX; /* a line number that does not exist */
	return true;
}

static bool read_pattern(awk_program *a, const char **at)
{
	const char *end = strchr(*at, '/');
	char text[TEXT];
	const size_t length = end ? (size_t)(end - *at) : TEXT;

	if (length >= TEXT || (length && end[-1] == '\\'))
		return false;
	memcpy(text, *at, length);
	text[length] = '\0';
	*at = end + 1;
	a->by_pattern = true;
	return p4d_shell__read_pattern(&a->pattern, text, false, true);
}

/* Parses the condition. If there is none, *at stays where it is. False: p4d does not support it. */
static bool read_condition(awk_program *a, const char **at)
{
	if (skip_text(at, "/"))
		return read_pattern(a, at);
	if (skip_text(at, "NR") || skip_text(at, "FNR"))
		return skip_text(at, "==") && read_line_number(a, at);
	if (**at != '$')
		return true;
	return read_field(a, at, &a->compared) && a->compared && skip_text(at, "==") &&
	       read_operand(a, at, a->value);
}

static bool read_fields(awk_program *a, const char **at)
{
	a->fields = 0;
	do {
		skip_blanks(at);
		if (a->fields == FIELDS || !read_field(a, at, &a->field[a->fields++]))
			return false;
	} while (skip_text(at, ","));
	return true;
}

static bool read_program(awk_program *a, const char *at)
{
	if (!read_condition(a, &at))
		return false;
	skip_blanks(&at);
	a->fields = 1;
	if (!*at)
		return a->by_pattern || a->line ||
		       a->compared; /* the action is left out, so awk prints the line */
	if (!skip_text(&at, "{") || !skip_text(&at, "print"))
		return false;
	skip_blanks(&at);
	if (*at == '$' && !read_fields(a, &at))
		return false;
	a->once = skip_text(&at, "exit");
	if (!skip_text(&at, "}"))
		return false;
	skip_blanks(&at);
	return !*at;
}

/* Returns field N of a line. Fields are separated by `by`; '\0' means blanks. */
static p4d_value field_of(p4d_value line, char by, int field)
{
	p4d_value found = {0};
	uint32_t at = 0;

	if (!field)
		return line;
	for (int n = 1; at <= line.length; n++) {
		while (!by && at < line.length && isblank((unsigned char)line.at[at].c))
			at++;
		if (at == line.length && !by)
			break;
		const uint32_t from = at;
		while (at < line.length &&
		       (by ? line.at[at].c != by : !isblank((unsigned char)line.at[at].c)))
			at++;
		found = p4d_shell__part(line, from, at - from);
		if (n == field)
			return found;
		at++;
	}
	return field < 0 ? found : (p4d_value){0};
}

/* Compares as awk compares input: if both are numbers, by their value. */
static bool is_equal(p4d_value field, const char *text)
{
	char own[TEXT], *end, *own_end;

	if (field.length >= sizeof(own))
		return false;
	p4d_value_text(field, own, sizeof(own));
	const double a = strtod(own, &own_end), b = strtod(text, &end);
	if (*own && *text && !*end && !*own_end)
		return a <= b && a >= b;
	return !strcmp(own, text);
}

/*
 * Parses -F BY and -v NAME=VALUE. Returns the number of words they occupy; SIZE_MAX: p4d does not support the
 * option.
 */
static size_t read_options(const p4d_shell_call *w, awk_program *a, p4d_value *by)
{
	size_t i = 0;

	for (; i < w->count && w->at[i].length > 1 && w->at[i].at[0].c == '-'; i++) {
		const char letter = w->at[i].at[1].c;
		p4d_value value = p4d_shell__part(w->at[i], 2, w->at[i].length - 2);
		char text[TEXT];
		if ((letter != 'F' && letter != 'v') || w->at[i].at[1].unknown)
			return SIZE_MAX;
		if (!value.length) {
			if (++i >= w->count)
				return SIZE_MAX;
			value = w->at[i];
		}
		if (letter == 'F') {
			*by = value;
			continue;
		}
		if (p4d_value_unknown(value) || value.length >= sizeof(text) || a->variables == VARIABLES)
			return SIZE_MAX;
		p4d_value_text(value, text, sizeof(text));
		const size_t length = strcspn(text, "=");
		awk_variable *v = &a->variable[a->variables++];
		if (!text[length] || length >= sizeof(v->name) || strchr(text, '\\'))
			return SIZE_MAX;
		memcpy(v->name, text, length);
		memcpy(v->value, text + length + 1, strlen(text + length + 1) + 1);
	}
	return i;
}

static void print_fields(const p4d_shell_call *w, const awk_program *a, p4d_value line, char by)
{
	const p4d_cell end = {.c = '\n'}, blank = {.c = ' '};

	for (size_t i = 0; i < a->fields; i++) {
		if (i)
			p4d_shell__print(w, (p4d_value){&blank, 1});
		p4d_shell__print(w, field_of(line, by, a->field[i]));
	}
	p4d_shell__print(w, (p4d_value){&end, 1});
}

p4d_shell_status p4d_shell__run_awk(const p4d_shell_call *w)
{
	awk_program a = {.variables = 0};
	char text[256];
	p4d_value lines, by = {0};
	const size_t first = read_options(w, &a, &by);

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
	for (uint64_t number = 1; lines.length && p4d_shell__work(w->sh, 1); number++) {
		const p4d_value line = p4d_shell__without_end(p4d_shell__next_line(&lines));
		if ((a.line && number != a.line) ||
		    (a.by_pattern && !p4d_shell__has_match(w->sh, &a.pattern, line)) ||
		    (a.compared && !is_equal(field_of(line, separator, a.compared), a.value)))
			continue;
		print_fields(w, &a, line, separator);
		if (a.once)
			break;
	}
	return P4D_SHELL_TAKEN;
}
