/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic: $((...)) with its assignments, and the comparisons of tests. */
#include <ctype.h>
#include <string.h>

#include "shell/shell_internal.h"

enum { INNER = 8 }; /* expressions in the values of variables, and in subscripts, inside each other */

typedef struct expression {
	p4d_shell *sh;
	p4d_value text;
	uint32_t at;
	uint16_t unknown; /* reason why the value is unknown, or the expression is wrong */
	int depth;
	bool dry; /* skips an operand that bash does not evaluate, because another operand of &&, || or ?:
		     decides */
} expression;

static void blanks(expression *e)
{
	while (e->at < e->text.length && !e->text.at[e->at].unknown &&
	       (isspace((unsigned char)e->text.at[e->at].c) || !e->text.at[e->at].c))
		e->at++;
}

static char look(const expression *e, uint32_t ahead)
{
	return ahead < e->text.length - e->at ? e->text.at[e->at + ahead].c : '\0';
}

static int64_t wrong(expression *e)
{
	if (!e->unknown)
		e->unknown = p4d_shell__reason(e->sh, "an arithmetic expression that p4d cannot read");
	return 0;
}

static int64_t ternary(expression *e);

/* A variable, or an element of an array. */
typedef struct assignable {
	char name[64];
	p4d_value subscript; /* number or key of the element, if it is one */
	bool element;
	p4d_cell where;
} assignable;

/* Finds an element. False: p4d does not know it, and e->unknown says why. An absent element has no text. */
static bool find_element(expression *e, const assignable *of, p4d_value *value)
{
	const p4d_shell_name name = p4d_shell__name(e->sh, of->name, strlen(of->name));
	const p4d_shell_var *v = p4d_shell__lookup(e->sh, name);
	int64_t index = 0;

	e->unknown = p4d_shell__may_be_set(e->sh, name);
	if (!e->unknown && !v)
		e->unknown = p4d_shell__reason(e->sh, "$%s is not set", of->name);
	if (e->unknown || !p4d_shell__index(e->sh, v, of->subscript, &index, &e->unknown))
		return false;
	*value = index >= 0 && index < (int64_t)v->value.count ? v->value.at[index] : (p4d_value){0};
	return true;
}

/*
 * Value of a variable, which is a number or another expression. For bash an unset variable is 0, but p4d
 * treats it as unknown if the job may set it.
 */
static int64_t value_of(expression *e, const assignable *of)
{
	p4d_value value;

	if (e->dry)
		return 0;
	if (of->element ? !find_element(e, of, &value) : !p4d_shell_variable(e->sh, of->name, &value)) {
		if (!of->element)
			e->unknown = p4d_shell__reason(e->sh, "$%s is not set", of->name);
		return 0;
	}
	if (of->element && !value.length) /* for bash, an empty or absent element is 0 */
		return 0;
	if (e->depth > INNER)
		return wrong(e);
	expression inner = {e->sh, value, 0, 0, e->depth + 1, false};
	int64_t number = ternary(&inner);
	blanks(&inner);
	if (!inner.unknown && inner.at < inner.text.length)
		wrong(&inner);
	if (inner.unknown)
		e->unknown = inner.unknown;
	return number;
}

static void assign(expression *e, const assignable *to, int64_t number)
{
	if (e->dry || e->unknown)
		return;
	const p4d_shell_name name = p4d_shell__name(e->sh, to->name, strlen(to->name));
	const p4d_value digits = p4d_shell__digits(e->sh, number, to->where);
	if (to->element)
		p4d_shell__assign_element(e->sh, e->sh->mode, name, to->subscript, digits, false,
					  to->where.line);
	else
		p4d_shell__assign(e->sh, e->sh->mode, name, digits, false, to->where.line);
}

/* The position after the subscript that begins here; the end of the text: it has no closing bracket. */
static uint32_t subscript_end(p4d_value text, uint32_t at)
{
	int depth = 0;

	for (; at < text.length; at++) {
		depth += (text.at[at].c == '[') - (text.at[at].c == ']');
		if (!depth)
			return at + 1;
	}
	return at;
}

/* Reads a name and its subscript. False: p4d cannot read the subscript. */
static bool read_place(expression *e, assignable *to)
{
	size_t n = 0;

	*to = (assignable){.where = e->text.at[e->at]};
	for (char c = look(e, 0); isalnum((unsigned char)c) || c == '_'; c = look(e, 0)) {
		if (n < sizeof(to->name) - 1)
			to->name[n++] = c;
		e->at++;
	}
	to->element = look(e, 0) == '[';
	if (!to->element)
		return true;
	const uint32_t from = e->at, end = subscript_end(e->text, from);
	if (e->text.at[end - 1].c != ']' || end < from + 3 || !p4d_shell__work(e->sh, end - from))
		return false;
	e->at = end;
	uint32_t first = from + 1, last = end - 1; /* a key may have quotes */
	if (last - first > 2 && e->text.at[first].c == e->text.at[last - 1].c &&
	    memchr("'\"", e->text.at[first].c, 2))
		first++, last--;
	to->subscript = p4d_shell__part(e->text, first, last - first);
	return true;
}

static int64_t apply(expression *e, const char *op, int64_t a, int64_t b);

/*
 * Evaluates a variable with its assignment: = and similar operators, ++ and --. step: from a ++ or -- before
 * the variable.
 */
static int64_t variable(expression *e, int step)
{
	assignable to;

	if (!read_place(e, &to))
		return wrong(e);
	blanks(e);
	const char c = look(e, 0), next = look(e, 1);
	if (step || ((c == '+' || c == '-') && next == c)) {
		const int64_t before = value_of(e, &to), after = step ? step : c == '+' ? 1 : -1;
		e->at += step ? 0 : 2;
		assign(e, &to, apply(e, "+", before, after));
		return step ? before + step : before;
	}
	if (c == '=' && next != '=') {
		e->at++;
		int64_t number = ternary(e);
		assign(e, &to, number);
		return number;
	}
	if (c && memchr("+-*/%", c, 5) && next == '=') {
		const char op[2] = {c, '\0'};
		e->at += 2;
		const int64_t before = value_of(e, &to), by = ternary(e);
		const int64_t number = e->dry || e->unknown ? 0 : apply(e, op, before, by);
		assign(e, &to, number);
		return number;
	}
	return value_of(e, &to);
}

static int64_t digits(expression *e, int base)
{
	int64_t number = 0;

	for (char c = look(e, 0); isxdigit((unsigned char)c); c = look(e, 0)) {
		int digit = isdigit((unsigned char)c) ? c - '0' : (c | 32) - 'a' + 10;
		if (digit >= base || __builtin_mul_overflow(number, (int64_t)base, &number) ||
		    __builtin_add_overflow(number, (int64_t)digit, &number))
			return wrong(e);
		e->at++;
	}
	return number;
}

/* Reads a literal: 12, 0x1f, 017, 10#08. */
static int64_t literal(expression *e)
{
	if (look(e, 0) == '0' && (look(e, 1) | 32) == 'x') {
		e->at += 2;
		return digits(e, 16);
	}
	const bool octal = look(e, 0) == '0' && look(e, 1) != '#';
	const int64_t number = digits(e, octal ? 8 : 10);
	if (octal || look(e, 0) != '#')
		return number;
	e->at++;
	return number < 2 || number > 16 || !isxdigit((unsigned char)look(e, 0)) ? wrong(e)
										 : digits(e, (int)number);
}

static int64_t primary(expression *e)
{
	int64_t number;

	if (++e->depth > 32 || !p4d_shell__work(e->sh, 1))
		return wrong(e);
	blanks(e);
	if (e->at < e->text.length && e->text.at[e->at].unknown) {
		e->unknown = e->text.at[e->at].unknown;
		return 0;
	}
	char c = look(e, 0);
	if (c == '(') {
		e->at++;
		number = ternary(e);
		blanks(e);
		if (look(e, 0) != ')')
			return wrong(e);
		e->at++;
	} else if ((c == '-' || c == '+') && look(e, 1) == c) {
		e->at += 2;
		blanks(e);
		if (!isalpha((unsigned char)look(e, 0)) && look(e, 0) != '_')
			return wrong(e);
		number = variable(e, c == '+' ? 1 : -1);
	} else if (c == '-' || c == '+' || c == '!') {
		e->at++;
		number = primary(e);
		if (c == '-' && __builtin_sub_overflow((int64_t)0, number, &number))
			return wrong(e);
		if (c == '!')
			number = !number;
	} else if (isdigit((unsigned char)c)) {
		number = literal(e);
	} else if (isalpha((unsigned char)c) || c == '_' || c == '$') {
		e->at += c == '$';
		number = variable(e, 0);
	} else {
		return wrong(e);
	}
	e->depth--;
	return number;
}

static const struct operator_row {
	char text[3];
	int level;
} operators[] = {{"**", 11}, {"*", 10}, {"/", 10}, {"%", 10}, {"+", 9}, {"-", 9},  {"<<", 8},
		 {">>", 8},  {"<=", 7}, {">=", 7}, {"<", 7},  {">", 7}, {"==", 6}, {"!=", 6},
		 {"&&", 2},  {"&", 5},  {"^", 4},  {"||", 1}, {"|", 3}};

static const struct operator_row *operator_at(expression *e)
{
	blanks(e);
	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
		size_t n = strlen(operators[i].text);
		if (look(e, 0) == operators[i].text[0] && (n == 1 || look(e, 1) == operators[i].text[1]))
			return &operators[i];
	}
	return NULL;
}

static int64_t power(expression *e, int64_t base, int64_t exponent)
{
	int64_t product = 1;

	if (exponent < 0 || exponent > 64)
		return wrong(e);
	while (exponent--)
		if (__builtin_mul_overflow(product, base, &product))
			return wrong(e);
	return product;
}

/* Shifts, if the result is a whole number that fits 64 bits. */
static int64_t shifted(expression *e, bool left, int64_t number, int64_t places)
{
	if (number < 0 || places < 0 || places > 62 || (left && number > INT64_MAX >> places))
		return wrong(e);
	return left ? number << places : number >> places;
}

static int64_t apply(expression *e, const char *op, int64_t a, int64_t b)
{
	int64_t result = 0;
	bool overflow = false;

	switch (op[0]) {
	case '*':
		if (op[1])
			return power(e, a, b);
		overflow = __builtin_mul_overflow(a, b, &result);
		break;
	case '/':
	case '%':
		if (b == 0 || (a == INT64_MIN && b == -1))
			return wrong(e);
		return op[0] == '/' ? a / b : a % b;
	case '+':
		overflow = __builtin_add_overflow(a, b, &result);
		break;
	case '-':
		overflow = __builtin_sub_overflow(a, b, &result);
		break;
	case '<':
		return op[1] == '<' ? shifted(e, true, a, b) : op[1] ? a <= b : a < b;
	case '>':
		return op[1] == '>' ? shifted(e, false, a, b) : op[1] ? a >= b : a > b;
	case '=':
		return a == b;
	case '!':
		return a != b;
	case '&':
		return op[1] ? a && b : a & b;
	case '^':
		return a ^ b;
	default:
		return op[1] ? a || b : a | b;
	}
	return overflow ? wrong(e) : result;
}

static int64_t binary(expression *e, int level)
{
	int64_t left = primary(e);

	for (const struct operator_row *op = operator_at(e); op && op->level >= level && !e->unknown;
	     op = operator_at(e)) {
		e->at += (uint32_t)strlen(op->text);
		if (++e->depth > 32)
			return wrong(e);
		const bool dry = e->dry;
		e->dry = dry || (!strcmp(op->text, "&&") && !left) || (!strcmp(op->text, "||") && left);
		int64_t right = binary(e, op->level + 1);
		e->depth--;
		left = e->dry && !dry ? left != 0 : e->dry ? 0 : apply(e, op->text, left, right);
		e->dry = dry;
	}
	return left;
}

static int64_t ternary(expression *e)
{
	int64_t condition = binary(e, 1);

	blanks(e);
	if (e->unknown || look(e, 0) != '?')
		return condition;
	if (++e->depth > 32)
		return wrong(e);
	e->at++;
	const bool dry = e->dry;
	e->dry = dry || !condition;
	int64_t yes = ternary(e);
	blanks(e);
	if (e->unknown || look(e, 0) != ':')
		return wrong(e);
	e->at++;
	e->dry = dry || condition;
	int64_t no = ternary(e);
	e->dry = dry;
	e->depth--;
	return condition ? yes : no;
}

/* Whether an expression assigns to the name from `start` to `end`, with = or a similar operator, ++ or --. */
static bool is_assigned(p4d_value text, uint32_t start, uint32_t end)
{
	char c[3] = {0};

	while (start && text.at[start - 1].c == ' ')
		start--;
	if (start > 1 && text.at[start - 1].c == text.at[start - 2].c &&
	    memchr("+-", text.at[start - 1].c, 2))
		return true;
	while (end < text.length && text.at[end].c == ' ')
		end++;
	for (uint32_t i = 0; i < 3 && end + i < text.length; i++)
		c[i] = text.at[end + i].c;
	return (c[0] == '=' && c[1] != '=') || (c[0] && memchr("+-*/%&|^", c[0], 8) && c[1] == '=') ||
	       (c[0] == c[1] && (c[0] == '+' || c[0] == '-')) ||
	       (c[0] == c[1] && (c[0] == '<' || c[0] == '>') && c[2] == '=');
}

/* Marks a variable or an array as unknown. */
static void forget(p4d_shell *sh, p4d_shell_name name, bool array, uint32_t line)
{
	const p4d_value unknown =
	    p4d_shell__not_known(sh, p4d_shell__reason(sh, "arithmetic in line %u", line));

	if (array) /* any element may have changed */
		p4d_shell__assign_element(sh, sh->mode, name, unknown, unknown, false, line);
	else
		p4d_shell__assign(sh, sh->mode, name, unknown, false, line);
}

/* Marks variables as unknown to which an expression with an unknown value assigns. */
static void forget_assigned(p4d_shell *sh, p4d_value text)
{
	const uint32_t line = text.length ? text.at[0].line : 0;

	for (uint32_t i = 0; i < text.length && p4d_shell__work(sh, 1);) {
		const uint32_t start = i;
		while (i < text.length && (isalnum((unsigned char)text.at[i].c) || text.at[i].c == '_'))
			i++;
		p4d_value word = {text.at + start, i - start};
		const bool element = i > start && i < text.length && text.at[i].c == '[';
		if (i == start)
			i++;
		else if (!isdigit((unsigned char)word.at[0].c) &&
			 is_assigned(text, start, element ? subscript_end(text, i) : i))
			forget(sh, p4d_shell__name_of(sh, word), element, line);
	}
}

bool p4d_shell__number(p4d_shell *sh, p4d_value text, int64_t *number, uint16_t *unknown)
{
	expression e = {sh, text, 0, 0, 0, false};

	if (sh->arithmetic == INNER) { /* I='A[I]' has no end: bash stops, too */
		*number = 0;
		*unknown = p4d_shell__reason(sh, "arithmetic whose variables refer to each other");
		return false;
	}
	sh->arithmetic++;
	*number = ternary(&e);
	for (blanks(&e); !e.unknown && look(&e, 0) == ','; blanks(&e)) {
		e.at++;
		*number = ternary(&e);
	}
	if (!e.unknown && e.at < e.text.length)
		wrong(&e);
	sh->arithmetic--;
	if (e.unknown)
		forget_assigned(sh, text);
	*unknown = e.unknown;
	return !e.unknown;
}
