/* SPDX-License-Identifier: Apache-2.0 */
/* Tests, which are the names after `is`. */
#include "template/builtin.h"

#include <string.h>

#include "template/operate.h"

static int answer(p4d_datum *result, bool truth)
{
	*result = p4d_value_bool(truth);
	return 0;
}

#define TEST_KIND(name, condition) \
	static int name(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result) \
	{ \
		const p4d_datum v = call->self; \
		(void)r; \
		return answer(result, condition); \
	}
TEST_KIND(is_defined, v.kind != P4D_UNDEFINED)
TEST_KIND(is_undefined, v.kind == P4D_UNDEFINED)
TEST_KIND(is_none, v.kind == P4D_NONE)
TEST_KIND(is_boolean, v.kind == P4D_BOOL)
TEST_KIND(is_true, v.kind == P4D_BOOL && v.truth)
TEST_KIND(is_false, v.kind == P4D_BOOL && !v.truth)
TEST_KIND(is_integer, v.kind == P4D_INTEGER)
TEST_KIND(is_float, v.kind == P4D_REAL)
TEST_KIND(is_number, v.kind == P4D_BOOL || v.kind == P4D_INTEGER || v.kind == P4D_REAL)
TEST_KIND(is_string, v.kind == P4D_STRING)
TEST_KIND(is_mapping, v.kind == P4D_DICT)
TEST_KIND(is_callable, v.kind == P4D_MACRO || v.kind == P4D_FUNCTION || v.kind == P4D_UNDEFINED)
TEST_KIND(is_iterable, v.kind == P4D_STRING || v.kind == P4D_LIST || v.kind == P4D_DICT ||
			   v.kind == P4D_UNDEFINED || v.kind == P4D_LOOP)
TEST_KIND(is_sequence, v.kind == P4D_STRING || v.kind == P4D_DICT || v.kind == P4D_UNDEFINED ||
			   (v.kind == P4D_LIST && v.list->form <= P4D_RANGE))
TEST_KIND(is_escaped, v.kind == P4D_STRING && v.markup)
#undef TEST_KIND

static int other(p4d_rendering *r, const p4d_invocation *call, p4d_datum *value)
{
	if (!call->slot[0])
		return p4d_template__fail(r, "the test %s needs a value", call->builtin->name);
	*value = *call->slot[0];
	return 0;
}

static int is_in(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	p4d_datum all;
	bool truth = false;

	if (other(r, call, &all) < 0 || p4d_template__contains(r, all, call->self, &truth) < 0)
		return -1;
	return answer(result, truth);
}

static int equals(p4d_rendering *r, const p4d_invocation *call, bool *truth)
{
	p4d_datum value;

	return other(r, call, &value) < 0 ? -1 : p4d_template__equal(r, call->self, value, truth);
}

static int is_equal(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	bool truth = false;

	return equals(r, call, &truth) < 0 ? -1 : answer(result, truth);
}

static int is_unequal(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	bool truth = false;

	return equals(r, call, &truth) < 0 ? -1 : answer(result, !truth);
}

/*
 * The test sameas. It compares the identity of lists and mappings. Other values have no identity here, so it
 * compares their value and kind.
 */
static int is_same(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	const p4d_datum *that = call->slot[0];
	bool truth = false;

	if (equals(r, call, &truth) < 0)
		return -1;
	if (that->kind == P4D_LIST && call->self.kind == P4D_LIST)
		truth = that->list == call->self.list;
	if (that->kind == P4D_DICT && call->self.kind == P4D_DICT)
		truth = that->dict == call->self.dict;
	return answer(result, truth && that->kind == call->self.kind);
}

static int order(p4d_rendering *r, const p4d_invocation *call, int *how)
{
	p4d_datum value;

	return other(r, call, &value) < 0 ? -1 : p4d_template__compare(r, call->self, value, how);
}

#define TEST_ORDER(name, condition) \
	static int name(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result) \
	{ \
		int how = 0; \
		return order(r, call, &how) < 0 ? -1 : answer(result, condition); \
	}
TEST_ORDER(is_less, how < 0)
TEST_ORDER(is_less_equal, how <= 0)
TEST_ORDER(is_greater, how > 0)
TEST_ORDER(is_greater_equal, how >= 0)
#undef TEST_ORDER

static int is_divisible(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	p4d_datum by, rest;
	bool truth = false;

	if (other(r, call, &by) < 0 || p4d_template__math(r, P4D_OP_MODULO, call->self, by, &rest) < 0 ||
	    p4d_template__truth(r, rest, &truth) < 0)
		return -1;
	return answer(result, !truth);
}

static int is_odd(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	const p4d_datum wanted = p4d_value_integer(*call->builtin->name == 'o');
	p4d_datum rest;
	bool truth = false;

	if (p4d_template__math(r, P4D_OP_MODULO, call->self, p4d_value_integer(2), &rest) < 0 ||
	    p4d_template__equal(r, rest, wanted, &truth) < 0)
		return -1;
	return answer(result, truth);
}

/* The tests lower and upper: islower and isupper of the text. */
static int has_case(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result)
{
	p4d_invocation method = {.self = call->self};

	if (p4d_template__self_text(r, call, &method.self.text) < 0)
		return -1;
	method.self.kind = P4D_STRING;
	method.builtin =
	    p4d_template__find_method(method.self, *call->builtin->name == 'l' ? "islower" : "isupper");
	return p4d_template__call(r, &method, result);
}

const p4d_builtin p4d_template__tests[] = {
    {"defined", is_defined, ""},
    {"undefined", is_undefined, ""},
    {"none", is_none, ""},
    {"boolean", is_boolean, ""},
    {"true", is_true, ""},
    {"false", is_false, ""},
    {"integer", is_integer, ""},
    {"float", is_float, ""},
    {"number", is_number, ""},
    {"string", is_string, ""},
    {"mapping", is_mapping, ""},
    {"callable", is_callable, ""},
    {"iterable", is_iterable, ""},
    {"sequence", is_sequence, ""},
    {"escaped", is_escaped, ""},
    {"in", is_in, "seq"},
    {"equalto", is_equal, "other"},
    {"eq", is_equal, "other"},
    {"==", is_equal, "other"},
    {"ne", is_unequal, "other"},
    {"!=", is_unequal, "other"},
    {"sameas", is_same, "other"},
    {"lessthan", is_less, "other"},
    {"lt", is_less, "other"},
    {"<", is_less, "other"},
    {"le", is_less_equal, "other"},
    {"<=", is_less_equal, "other"},
    {"greaterthan", is_greater, "other"},
    {"gt", is_greater, "other"},
    {">", is_greater, "other"},
    {"ge", is_greater_equal, "other"},
    {">=", is_greater_equal, "other"},
    {"divisibleby", is_divisible, "num"},
    {"odd", is_odd, ""},
    {"even", is_odd, ""},
    {"lower", has_case, ""},
    {"upper", has_case, ""},
    {NULL, NULL, NULL},
};
