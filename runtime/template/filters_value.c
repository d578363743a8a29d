/* SPDX-License-Identifier: Apache-2.0 */
/* Filters of any value, and of numbers. */
#include "template/builtin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "template/literal.h"
#include "template/operate.h"

static int filter_default(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	bool by_truth = false, truth = true;

	if (p4d_template__truth_slot(r, call, 1, &by_truth) < 0 ||
	    (by_truth && p4d_template__truth(r, call->self, &truth) < 0))
		return -1;
	if (call->self.kind != P4D_UNDEFINED && truth)
		*result = call->self;
	else
		*result = call->slot[0] ? *call->slot[0] : P4D_TEXT("");
	return 0;
}

static int filter_length(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	size_t length = 0;

	if (p4d_template__length(r, call->self, &length) < 0)
		return -1;
	*result = p4d_value_integer((int64_t)length);
	return 0;
}

static int filter_abs(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	if (call->self.kind == P4D_REAL) {
		*result = p4d_value_real(fabs(call->self.real));
		return 0;
	}
	if (call->self.kind != P4D_INTEGER && call->self.kind != P4D_BOOL)
		return p4d_template__not_a(r, call->self, "has no absolute value");
	const int64_t whole = call->self.kind == P4D_BOOL ? call->self.truth : call->self.integer;
	return whole < 0 ? p4d_template__math(r, P4D_OP_SUBTRACT, p4d_value_integer(0), call->self, result)
			 : (*result = p4d_value_integer(whole), 0);
}

/* Converts a real number to an integer, as Python's int does. */
static p4d_parsed truncate(double real, int64_t *integer)
{
	if (isnan(real) || isinf(real))
		return P4D_NO_NUMBER;
	if (!(real > -9.2e18 && real < 9.2e18))
		return P4D_UNKNOWN_NUMBER;
	*integer = (int64_t)real;
	return P4D_NUMBER;
}

static p4d_parsed read_integer(p4d_string text, int64_t base, int64_t *integer)
{
	double real = 0;
	p4d_parsed what = p4d_template__parse_integer(text, base, integer);

	if (what == P4D_NO_NUMBER && (what = p4d_template__parse_real(text, &real)) == P4D_NUMBER)
		what = truncate(real, integer);
	return what;
}

/*
 * Returns the number that was read. If the value is no number, returns the default that the template gives
 * or, without one, `none`. Fails if p4d cannot read the number.
 */
static int number_or(p4d_rendering *r, const p4d_invocation *call, p4d_parsed what, p4d_datum number,
		     p4d_datum none, p4d_datum *result)
{
	if (what == P4D_UNKNOWN_NUMBER)
		return p4d_template__fail(r, "%s: p4d does not support numbers beyond 64 bits or ASCII",
					  call->builtin->name);
	*result = what == P4D_NUMBER ? number : call->slot[0] ? *call->slot[0] : none;
	return 0;
}

static int filter_int(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	const p4d_datum v = call->self;
	int64_t base = 10, integer = 0;
	p4d_parsed what = P4D_NO_NUMBER;

	if (p4d_template__integer_slot(r, call, 1, &base) < 0)
		return -1;
	if (v.kind == P4D_STRING && p4d_template__spend(r, v.text.length / 8) < 0)
		return -1;
	if (v.kind == P4D_STRING)
		what = read_integer(v.text, base, &integer);
	else if (v.kind == P4D_REAL && isinf(v.real))
		return p4d_template__fail(r, "int: infinity is not an integer");
	else if (v.kind == P4D_REAL)
		what = truncate(v.real, &integer);
	else if (v.kind == P4D_INTEGER || v.kind == P4D_BOOL)
		what = P4D_NUMBER;
	else if (v.kind == P4D_UNDEFINED)
		return p4d_template__not_a(r, v, "");
	if (v.kind == P4D_INTEGER || v.kind == P4D_BOOL)
		integer = v.kind == P4D_BOOL ? v.truth : v.integer;
	return number_or(r, call, what, p4d_value_integer(integer), p4d_value_integer(0), result);
}

static int filter_float(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	const p4d_datum v = call->self;
	double real = 0;
	p4d_parsed what = P4D_NUMBER;

	if (v.kind == P4D_STRING && p4d_template__spend(r, v.text.length / 8) < 0)
		return -1;
	if (v.kind == P4D_STRING)
		what = p4d_template__parse_real(v.text, &real);
	else if (v.kind == P4D_REAL)
		real = v.real;
	else if (v.kind == P4D_INTEGER || v.kind == P4D_BOOL)
		real = v.kind == P4D_BOOL ? v.truth : (double)v.integer;
	else if (v.kind == P4D_UNDEFINED)
		return p4d_template__not_a(r, v, "");
	else
		what = P4D_NO_NUMBER;
	return number_or(r, call, what, p4d_value_real(real), p4d_value_real(0), result);
}

/*
 * Rounds to a number of decimals as Python does. If a number is halfway between two candidates, the even one
 * is chosen.
 */
static int round_common(p4d_rendering *r, p4d_datum value, int64_t precision, p4d_datum *result)
{
	char text[400];

	if (value.kind != P4D_REAL) {
		if (precision < 0)
			return p4d_template__fail(r, "p4d does not round integers to tens");
		*result = value.kind == P4D_BOOL ? p4d_value_integer(value.truth) : value;
		return 0;
	}
	if (precision >= 0 && !(fabs(value.real) < 0x1p53)) { /* a number of this size has no decimals */
		*result = value;
		return 0;
	}
	if (precision < 0 || precision > 50)
		return p4d_template__fail(r, "p4d does not round to %lld places", (long long)precision);
	snprintf(text, sizeof(text), "%.*f", (int)precision, value.real);
	*result = p4d_value_real(strtod(text, NULL));
	return 0;
}

static int filter_round(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	int64_t precision = 0;
	p4d_string method = {"common", 6};
	const p4d_datum v = call->self;

	if (p4d_template__integer_slot(r, call, 0, &precision) < 0 ||
	    p4d_template__text_slot(r, call, 1, &method) < 0)
		return -1;
	if (v.kind != P4D_REAL && v.kind != P4D_INTEGER && v.kind != P4D_BOOL)
		return p4d_template__not_a(r, v, "cannot be rounded");
	const char how = method.length ? *method.at : '\0';
	if (how != 'f' && how != 'c')
		return p4d_template__fail(r, "round: the method is common, ceil or floor");
	if (method.length == 6)
		return round_common(r, v, precision, result);
	const double real = v.kind == P4D_REAL ? v.real : v.kind == P4D_BOOL ? v.truth : (double)v.integer;
	const double scale = pow(10, (double)precision), scaled = real * scale;
	*result = p4d_value_real((how == 'f' ? floor(scaled) : ceil(scaled)) / scale);
	return 0;
}

static int filter_attr(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	if (!call->slot[0] || call->slot[0]->kind != P4D_STRING)
		return p4d_template__fail(r, "attr: the name of a member is expected");
	/* for namespaces and loops, an item and a member of the same name are the same */
	if (call->self.kind == P4D_NAMESPACE || call->self.kind == P4D_LOOP)
		return p4d_template__item(r, call->self, *call->slot[0], result);
	*result = (p4d_datum){.kind = P4D_UNDEFINED};
	return 0;
}

const p4d_builtin p4d_template__value_filters[] = {
    {"default", filter_default, "default_value boolean"},
    {"d", filter_default, "default_value boolean"},
    {"length", filter_length, ""},
    {"count", filter_length, ""},
    {"abs", filter_abs, ""},
    {"int", filter_int, "default base"},
    {"float", filter_float, "default"},
    {"round", filter_round, "precision method"},
    {"attr", filter_attr, "name"},
    {"tojson", p4d_template__json, "ensure_ascii indent separators sort_keys"},
    {NULL, NULL, NULL},
};
