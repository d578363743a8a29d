/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates expressions. */
#include "template/run.h"

#include "template/builtin.h"
#include "template/operate.h"

static int evaluate_list(p4d_rendering *r, const p4d_node *node, p4d_datum *result)
{
	p4d_list *list;
	p4d_datum value;

	if (p4d_template__new_list(r, node->kind == P4D_NODE_TUPLE ? P4D_TUPLE : P4D_LIST_PLAIN, 0, &list) <
	    0)
		return -1;
	for (const p4d_node *one = node->a; one; one = one->next)
		if (p4d_template__evaluate(r, one, &value) < 0 || p4d_template__append(r, list, value) < 0)
			return -1;
	*result = p4d_value_list(list);
	return 0;
}

static int evaluate_dict(p4d_rendering *r, const p4d_node *node, p4d_datum *result)
{
	p4d_dict *dict;
	p4d_datum key, value;

	if (p4d_template__new_dict(r, &dict) < 0)
		return -1;
	for (const p4d_node *one = node->a; one; one = one->next->next)
		if (p4d_template__evaluate(r, one, &key) < 0 ||
		    p4d_template__evaluate(r, one->next, &value) < 0 ||
		    p4d_template__put(r, dict, key, value) < 0)
			return -1;
	*result = (p4d_datum){.kind = P4D_DICT, .dict = dict};
	return 0;
}

static int evaluate_attribute(p4d_rendering *r, const p4d_node *node, p4d_datum *result)
{
	p4d_datum of;

	return p4d_template__evaluate(r, node->a, &of) < 0
		   ? -1
		   : p4d_template__attribute(r, of, node->name, result);
}

static int evaluate_item(p4d_rendering *r, const p4d_node *node, p4d_datum *result)
{
	p4d_datum of, index;

	if (p4d_template__evaluate(r, node->a, &of) < 0 || p4d_template__evaluate(r, node->b, &index) < 0)
		return -1;
	return p4d_template__item(r, of, index, result);
}

static int evaluate_slice(p4d_rendering *r, const p4d_node *node, p4d_datum *result)
{
	const p4d_node *const nodes[3] = {node->b, node->c, node->d};
	const p4d_datum *bound[3] = {NULL};
	p4d_datum of, value[3];

	if (p4d_template__evaluate(r, node->a, &of) < 0)
		return -1;
	for (int i = 0; i < 3; i++)
		if (nodes[i]) {
			if (p4d_template__evaluate(r, nodes[i], &value[i]) < 0)
				return -1;
			bound[i] = &value[i];
		}
	return p4d_template__slice(r, of, bound, result);
}

static int call_value(p4d_rendering *r, p4d_datum what, p4d_invocation *call, p4d_datum *result)
{
	if (what.kind == P4D_MACRO)
		return p4d_template__call_macro(r, what.macro, call, result);
	if (what.kind != P4D_FUNCTION)
		return p4d_template__not_a(r, what, "cannot be called");
	call->self = what.function->self;
	call->builtin = what.function->builtin;
	return p4d_template__call(r, call, result);
}

static int evaluate_call(p4d_rendering *r, const p4d_node *node, p4d_datum *result)
{
	p4d_invocation call = {.count = 0};
	p4d_datum what;

	if (p4d_template__evaluate(r, node->a, &what) < 0 ||
	    p4d_template__call_arguments(r, node->b, &call) < 0)
		return -1;
	r->line = node->line;
	return call_value(r, what, &call, result);
}

static int evaluate_filter(p4d_rendering *r, const p4d_node *node, p4d_datum *result)
{
	p4d_invocation call = {.builtin = node->builtin};

	if (p4d_template__evaluate(r, node->a, &call.self) < 0)
		return -1;
	r->line = node->line;
	if (!node->builtin)
		return p4d_template__fail(r, "p4d does not support the %s %.60s",
					  node->kind == P4D_NODE_TEST ? "test" : "filter", node->name);
	if (p4d_template__call_arguments(r, node->b, &call) < 0)
		return -1;
	return p4d_template__call(r, &call, result);
}

static int evaluate_not(p4d_rendering *r, const p4d_node *node, p4d_datum *result)
{
	bool truth = false;

	if (p4d_template__evaluate(r, node->a, result) < 0 || p4d_template__truth(r, *result, &truth) < 0)
		return -1;
	*result = p4d_value_bool(!truth);
	return 0;
}

static int evaluate_logic(p4d_rendering *r, const p4d_node *node, p4d_datum *result)
{
	bool truth = false;

	if (p4d_template__evaluate(r, node->a, result) < 0 || p4d_template__truth(r, *result, &truth) < 0)
		return -1;
	return truth == (node->kind == P4D_NODE_AND) ? p4d_template__evaluate(r, node->b, result) : 0;
}

static int compare(p4d_rendering *r, p4d_operator op, p4d_datum a, p4d_datum b, bool *truth)
{
	int order = 0;

	if (op == P4D_OP_EQUAL || op == P4D_OP_UNEQUAL) {
		if (p4d_template__equal(r, a, b, truth) < 0)
			return -1;
		*truth ^= op == P4D_OP_UNEQUAL;
		return 0;
	}
	if (op == P4D_OP_IN || op == P4D_OP_NOT_IN) {
		if (p4d_template__contains(r, b, a, truth) < 0)
			return -1;
		*truth ^= op == P4D_OP_NOT_IN;
		return 0;
	}
	if (p4d_template__compare(r, a, b, &order) < 0)
		return -1;
	*truth = op == P4D_OP_LESS         ? order < 0
		 : op == P4D_OP_LESS_EQUAL ? order <= 0
		 : op == P4D_OP_GREATER    ? order > 0
					   : order >= 0;
	return 0;
}

static int evaluate_compare(p4d_rendering *r, const p4d_node *node, p4d_datum *result)
{
	p4d_datum left, right;
	bool truth = true;

	if (p4d_template__evaluate(r, node->a, &left) < 0)
		return -1;
	for (const p4d_node *one = node->b; truth && one; one = one->next, left = right)
		if (p4d_template__evaluate(r, one->a, &right) < 0 ||
		    compare(r, one->op, left, right, &truth) < 0)
			return -1;
	*result = p4d_value_bool(truth);
	return 0;
}

static int evaluate_math(p4d_rendering *r, const p4d_node *node, p4d_datum *result)
{
	p4d_datum a = p4d_value_integer(0), b;
	const bool minus = !node->b && node->op == P4D_OP_SUBTRACT;

	if ((node->b && p4d_template__evaluate(r, node->a, &a) < 0) ||
	    p4d_template__evaluate(r, node->b ? node->b : node->a, &b) < 0)
		return -1;
	r->line = node->line;
	if (minus &&
	    b.kind == P4D_REAL) { /* negated directly, because 0 - 0.0 would be 0.0 instead of -0.0 */
		*result = p4d_value_real(-b.real);
		return 0;
	}
	return p4d_template__math(r, node->op, a, b, result);
}

static int evaluate_concat(p4d_rendering *r, const p4d_node *node, p4d_datum *result)
{
	p4d_written buffer = {.at = NULL};
	p4d_datum value;

	for (const p4d_node *one = node->a; one; one = one->next)
		if (p4d_template__evaluate(r, one, &value) < 0 ||
		    p4d_template__write_value(r, &buffer, value) < 0)
			return -1;
	*result = p4d_value_text(buffer.at ? buffer.at : "", buffer.length);
	return 0;
}

static int evaluate_condition(p4d_rendering *r, const p4d_node *node, p4d_datum *result)
{
	bool truth = false;

	if (p4d_template__evaluate(r, node->a, result) < 0 || p4d_template__truth(r, *result, &truth) < 0)
		return -1;
	if (truth || node->c)
		return p4d_template__evaluate(r, truth ? node->b : node->c, result);
	*result = (p4d_datum){.kind = P4D_UNDEFINED};
	return 0;
}

static int evaluate(p4d_rendering *r, const p4d_node *node, p4d_datum *result)
{
	switch (node->kind) {
	case P4D_NODE_CONSTANT:
		*result = node->constant;
		return 0;
	case P4D_NODE_NAME:
		*result = p4d_template__look_up(r, node->name);
		return 0;
	case P4D_NODE_CAPTURED:
		*result = r->captured;
		return 0;
	case P4D_NODE_LIST:
	case P4D_NODE_TUPLE:
		return evaluate_list(r, node, result);
	case P4D_NODE_DICT:
		return evaluate_dict(r, node, result);
	case P4D_NODE_ATTRIBUTE:
		return evaluate_attribute(r, node, result);
	case P4D_NODE_ITEM:
		return evaluate_item(r, node, result);
	case P4D_NODE_SLICE:
		return evaluate_slice(r, node, result);
	case P4D_NODE_CALL:
		return evaluate_call(r, node, result);
	case P4D_NODE_FILTER:
	case P4D_NODE_TEST:
		return evaluate_filter(r, node, result);
	case P4D_NODE_NOT:
		return evaluate_not(r, node, result);
	case P4D_NODE_AND:
	case P4D_NODE_OR:
		return evaluate_logic(r, node, result);
	case P4D_NODE_COMPARE:
		return evaluate_compare(r, node, result);
	case P4D_NODE_SIGN:
	case P4D_NODE_MATH:
		return evaluate_math(r, node, result);
	case P4D_NODE_CONCAT:
		return evaluate_concat(r, node, result);
	case P4D_NODE_CONDITION:
		return evaluate_condition(r, node, result);
	case P4D_NODE_OPERAND:
	case P4D_NODE_ARGUMENT:
	case P4D_NODE_DATA:
	case P4D_NODE_PRINT:
	case P4D_NODE_IF:
	case P4D_NODE_FOR:
	case P4D_NODE_SET:
	case P4D_NODE_SET_BLOCK:
	case P4D_NODE_MACRO:
	case P4D_NODE_CALL_BLOCK:
	case P4D_NODE_FILTER_BLOCK:
	case P4D_NODE_WITH:
	case P4D_NODE_GENERATION:
	case P4D_NODE_BREAK:
	case P4D_NODE_CONTINUE:
		break;
	}
	return p4d_template__fail(r, "found a statement, expected an expression");
}

int p4d_template__evaluate(p4d_rendering *r, const p4d_node *node, p4d_datum *result)
{
	r->line = node->line;
	if (p4d_template__spend(r, 1) < 0 || p4d_template__deeper(r) < 0)
		return -1;
	const int rc = evaluate(r, node, result);
	r->depth--;
	return r->failed ? -1 : rc;
}
