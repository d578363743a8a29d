/* SPDX-License-Identifier: Apache-2.0 */
/* Python's arithmetic. */
#include "template/operate.h"

#include <math.h>
#include <string.h>

#include "template/strings.h"

static double real(p4d_datum value)
{
	return value.kind == P4D_REAL ? value.real : (double)p4d_template__whole(value);
}

/* Integer division with Python's signs: the remainder has the sign of b. */
static void divide(int64_t a, int64_t b, int64_t *quotient, int64_t *rest)
{
	*quotient = b == -1 ? -a : a / b;
	*rest = b == -1 ? 0 : a % b;
	if (*rest && (*rest < 0) != (b < 0)) {
		--*quotient;
		*rest += b;
	}
}

/* Computes a power. False: the result exceeds 64 bits. */
static bool power(int64_t base, int64_t exponent, int64_t *result)
{
	*result = 1;
	for (; exponent; exponent /= 2) {
		if (exponent % 2 && __builtin_mul_overflow(*result, base, result))
			return false;
		if (exponent > 1 && __builtin_mul_overflow(base, base, &base))
			return false;
	}
	return true;
}

static int too_large(p4d_rendering *r)
{
	return p4d_template__fail(r, "an integer exceeds 64 bits");
}

static int real_power(p4d_rendering *r, double a, double b, p4d_datum *result)
{
	const double to = pow(a, b);

	if (b < 0 && !(a < 0 || a > 0))
		return p4d_template__fail(r, "a division by zero");
	if (a < 0 && floor(b) < b)
		return p4d_template__fail(r, "p4d does not support complex numbers");
	if (isinf(to) && !isinf(a) && !isinf(b))
		return p4d_template__fail(r, "a power that is too large");
	*result = p4d_value_real(to);
	return 0;
}

/* Divides as Python's // and % do. The plain quotient a / b may be rounded up to the next integer. */
static void divide_real(double a, double b, double *quotient, double *rest)
{
	*rest = fmod(a, b);
	const double whole = (a - *rest) / b;
	const bool other_sign = (*rest < 0 || *rest > 0) && (*rest < 0) != (b < 0);

	*rest = other_sign ? *rest + b : *rest < 0 || *rest > 0 ? *rest : copysign(0, b);
	*quotient = floor(whole - other_sign + 0.5);
	if (!(*quotient < 0 || *quotient > 0))
		*quotient = copysign(0, a / b);
}

static int whole_math(p4d_rendering *r, p4d_operator op, int64_t a, int64_t b, p4d_datum *result)
{
	int64_t to = 0, rest = 0;
	bool right = true;

	if ((op == P4D_OP_FLOOR || op == P4D_OP_MODULO || op == P4D_OP_DIVIDE) && b == 0)
		return p4d_template__fail(r, "a division by zero");
	if (op == P4D_OP_DIVIDE) {
		*result = p4d_value_real((double)a / (double)b);
		return 0;
	}
	if (op == P4D_OP_POWER && b < 0)
		return real_power(r, (double)a, (double)b, result);
	if (op == P4D_OP_ADD)
		right = !__builtin_add_overflow(a, b, &to);
	else if (op == P4D_OP_SUBTRACT)
		right = !__builtin_sub_overflow(a, b, &to);
	else if (op == P4D_OP_MULTIPLY)
		right = !__builtin_mul_overflow(a, b, &to);
	else if (op == P4D_OP_POWER)
		right = power(a, b, &to);
	else if (a == INT64_MIN && b == -1)
		right = false;
	else
		divide(a, b, &to, &rest);
	*result = p4d_value_integer(op == P4D_OP_MODULO ? rest : to);
	return right ? 0 : too_large(r);
}

static int real_math(p4d_rendering *r, p4d_operator op, double a, double b, p4d_datum *result)
{
	double to = 0, rest = 0;

	if ((op == P4D_OP_FLOOR || op == P4D_OP_MODULO || op == P4D_OP_DIVIDE) && !(b < 0 || b > 0))
		return p4d_template__fail(r, "a division by zero");
	if (op == P4D_OP_ADD)
		to = a + b;
	else if (op == P4D_OP_SUBTRACT)
		to = a - b;
	else if (op == P4D_OP_MULTIPLY)
		to = a * b;
	else if (op == P4D_OP_DIVIDE)
		to = a / b;
	else if (op == P4D_OP_POWER)
		return real_power(r, a, b, result);
	else
		divide_real(a, b, &to, &rest);
	*result = p4d_value_real(op == P4D_OP_MODULO ? rest : to);
	return 0;
}

static int join_texts(p4d_rendering *r, p4d_datum a, p4d_datum b, p4d_datum *result)
{
	p4d_written buffer = {.at = NULL};

	if (p4d_template__grow(r, &buffer.at, &buffer.room, a.text.length + b.text.length + 1, 1) < 0 ||
	    p4d_template__write(r, &buffer, a.text.at, a.text.length) < 0 ||
	    p4d_template__write(r, &buffer, b.text.at, b.text.length) < 0)
		return -1;
	*result = p4d_value_text(buffer.at, buffer.length);
	result->markup = a.markup;
	return 0;
}

/* Joins two texts. One of them is markup, so the other one is escaped first. */
static int join_escaped(p4d_rendering *r, p4d_datum a, p4d_datum b, p4d_datum *result)
{
	p4d_datum *other = a.markup ? &b : &a;

	return p4d_template__escape(r, other->text, other) < 0 ? -1 : join_texts(r, a, b, result);
}

static int add_all(p4d_rendering *r, p4d_list *to, const p4d_list *from)
{
	for (size_t i = 0; i < from->count; i++)
		if (p4d_template__append(r, to, from->at[i]) < 0)
			return -1;
	return 0;
}

static int join_lists(p4d_rendering *r, const p4d_list *a, const p4d_list *b, p4d_datum *result)
{
	p4d_list *made;

	if (p4d_template__new_list(r, a->form, a->count + b->count, &made) < 0 || add_all(r, made, a) < 0 ||
	    add_all(r, made, b) < 0)
		return -1;
	*result = p4d_value_list(made);
	return 0;
}

/* Repeats a text or a list. */
static int repeat(p4d_rendering *r, p4d_datum value, int64_t times, p4d_datum *result)
{
	p4d_written buffer = {.at = NULL};
	p4d_list *made;

	if (p4d_template__spend(r, times > 0 ? (uint64_t)times : 0) < 0)
		return -1;
	if (value.kind == P4D_STRING) {
		for (int64_t i = 0; i < times; i++)
			if (p4d_template__write(r, &buffer, value.text.at, value.text.length) < 0)
				return -1;
		*result = p4d_value_text(buffer.at ? buffer.at : "", buffer.length);
		result->markup = value.markup;
		return 0;
	}
	if (p4d_template__new_list(r, value.list->form, 0, &made) < 0)
		return -1;
	for (int64_t i = 0; i < times; i++)
		if (add_all(r, made, value.list) < 0)
			return -1;
	*result = p4d_value_list(made);
	return 0;
}

static bool is_sequence(p4d_datum value)
{
	return value.kind == P4D_STRING || (value.kind == P4D_LIST && (value.list->form == P4D_LIST_PLAIN ||
								       value.list->form == P4D_TUPLE));
}

static int refuse(p4d_rendering *r, p4d_operator op, p4d_datum a, p4d_datum b)
{
	static const char *const signs[] = {"+", "-", "*", "/", "//", "%", "**"};

	if (a.kind == P4D_UNDEFINED || b.kind == P4D_UNDEFINED)
		return p4d_template__not_a(r, a.kind == P4D_UNDEFINED ? a : b, "");
	if (op == P4D_OP_MODULO && a.kind == P4D_STRING)
		return p4d_template__fail(r, "p4d does not support %% with a string");
	return p4d_template__fail(r, "a %s and a %s cannot be combined by %s", p4d_template__kind(a),
				  p4d_template__kind(b), signs[op]);
}

int p4d_template__math(p4d_rendering *r, p4d_operator op, p4d_datum a, p4d_datum b, p4d_datum *result)
{
	if (p4d_template__is_number(a) && p4d_template__is_number(b))
		return a.kind == P4D_REAL || b.kind == P4D_REAL
			   ? real_math(r, op, real(a), real(b), result)
			   : whole_math(r, op, p4d_template__whole(a), p4d_template__whole(b), result);
	if (op == P4D_OP_ADD && a.kind == P4D_STRING && b.kind == P4D_STRING)
		return a.markup == b.markup ? join_texts(r, a, b, result) : join_escaped(r, a, b, result);
	if (op == P4D_OP_ADD && a.kind == P4D_LIST && b.kind == P4D_LIST && is_sequence(a) &&
	    a.list->form == b.list->form)
		return join_lists(r, a.list, b.list, result);
	if (op == P4D_OP_MULTIPLY && is_sequence(a) && p4d_template__is_number(b) && b.kind != P4D_REAL)
		return repeat(r, a, p4d_template__whole(b), result);
	if (op == P4D_OP_MULTIPLY && is_sequence(b) && p4d_template__is_number(a) && a.kind != P4D_REAL)
		return repeat(r, b, p4d_template__whole(a), result);
	return refuse(r, op, a, b);
}
