/* SPDX-License-Identifier: Apache-2.0 */
/* The output of `python -c "print(EXPRESSION)"` with whole numbers: 64 // (8 * 2), int(64 / 8). */
#include <ctype.h>
#include <string.h>

#include "shell/shell_internal.h"

/* Whether a program is python, python3 or python3.11, perhaps with its path. */
static bool is_python(p4d_value program)
{
	char text[128];
	const char *name = strrchr(p4d_value_text(program, text, sizeof(text)), '/');

	name = name ? name + 1 : text;
	return !strncmp(name, "python", 6) && strspn(name + 6, "0123456789.") == strlen(name + 6);
}

/* Whether text[at] is followed by this word. Unknown characters are part of no word. */
static bool has(p4d_value text, uint32_t at, const char *word)
{
	const uint32_t length = (uint32_t)strlen(word);

	return at + length <= text.length && p4d_value_is((p4d_value){text.at + at, length}, word);
}

/* The index behind the blanks at `at`. */
static uint32_t behind_blanks(p4d_value text, uint32_t at)
{
	while (at < text.length && !text.at[at].unknown && isspace((unsigned char)text.at[at].c))
		at++;
	return at;
}

/* Whether one number, or one expression in parentheses, is all that remains before the ) that closes int(. */
static bool is_last_operand(p4d_value text, uint32_t at)
{
	int depth = 0;

	at = behind_blanks(text, at);
	while (at < text.length) {
		const p4d_cell cell = text.at[at];
		if (!cell.unknown && cell.c == ')' && depth-- == 0)
			return true;
		depth += !cell.unknown && cell.c == '(';
		if (!depth && !cell.unknown && strchr("+-*/%", cell.c))
			return false;
		at++;
	}
	return false;
}

/*
 * Copies the expression in the syntax of the shell, whose division drops the fraction: / for //, and for / as
 * the last operation of int(). False: it has other parts, or a difference, which may be negative, in a
 * division.
 */
static bool copy_expression(p4d_shell *sh, p4d_value text, p4d_shell_build *to)
{
	bool divides = false, subtracts = false;
	int whole = 0; /* number of int( so far */

	for (uint32_t i = 0; i < text.length && p4d_shell__work(sh, 1); i++) {
		const p4d_cell cell = text.at[i];
		if (has(text, i, "int(")) {
			whole++;
			i += 2;
			continue;
		}
		if (!cell.unknown && !isspace((unsigned char)cell.c) && !strchr("0123456789+-*/%()", cell.c))
			return false;
		const bool floors = has(text, i, "//");
		if (!cell.unknown && cell.c == '/' && !floors && !(whole && is_last_operand(text, i + 1)))
			return false;
		divides = divides || (!cell.unknown && (cell.c == '/' || cell.c == '%'));
		subtracts = subtracts || (!cell.unknown && cell.c == '-');
		p4d_shell__add(sh, to, cell);
		i += floors;
	}
	return !(divides && subtracts);
}

bool p4d_shell__print_python(const p4d_shell_call *w, p4d_value program)
{
	p4d_shell_build expression = {0};
	uint16_t unknown;
	int64_t number;

	if (w->count != 2 || !p4d_value_is(w->at[0], "-c") || !is_python(program))
		return false;
	p4d_value text = w->at[1];
	const uint32_t start = behind_blanks(text, 0);
	while (text.length && !text.at[text.length - 1].unknown &&
	       isspace((unsigned char)text.at[text.length - 1].c))
		text.length--;
	if (!has(text, start, "print(") || !has(text, text.length - 1, ")"))
		return false;
	text = (p4d_value){text.at + start + 6, text.length - start - 7};
	if (!text.length || !copy_expression(w->sh, text, &expression) ||
	    !p4d_shell__number(w->sh, (p4d_value){expression.at, expression.length}, &number, &unknown))
		return false;
	p4d_cell like = text.at[0];
	like.unknown = 0;
	p4d_shell__print(w, p4d_shell__digits(w->sh, number, like));
	return true;
}
