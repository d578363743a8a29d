/* SPDX-License-Identifier: Apache-2.0 */
#include "template/parser.h"

#include <string.h>

#include "template/builtin.h"

static bool sign(p4d_parser *p, const char *text)
{
	return p4d_template__skip(p, P4D_TOKEN_SIGN, text);
}

static bool word(p4d_parser *p, const char *text)
{
	return p4d_template__skip(p, P4D_TOKEN_NAME, text);
}

static bool is_sign(const p4d_parser *p, const char *text)
{
	return p4d_template__is(p4d_template__now(p), P4D_TOKEN_SIGN, text);
}

static p4d_node *node_of(p4d_parser *p, p4d_syntax_kind kind, p4d_node *a, p4d_node *b)
{
	p4d_node *made = p4d_template__node(p, kind);

	if (!made || !a)
		return NULL;
	made->line = a->line;
	made->a = a;
	made->b = b;
	return made;
}

static p4d_node *constant(p4d_parser *p, p4d_datum value)
{
	p4d_node *made = p4d_template__node(p, P4D_NODE_CONSTANT);

	if (made)
		made->constant = value;
	return made;
}

static p4d_node *read_name(p4d_parser *p)
{
	const p4d_token *token = p4d_template__now(p);
	static const struct {
		const char *name;
		p4d_datum value;
	} constants[] = {
	    {"true", {.kind = P4D_BOOL, .truth = true}},
	    {"True", {.kind = P4D_BOOL, .truth = true}},
	    {"false", {.kind = P4D_BOOL, .truth = false}},
	    {"False", {.kind = P4D_BOOL, .truth = false}},
	    {"none", {.kind = P4D_NONE}},
	    {"None", {.kind = P4D_NONE}},
	};

	for (size_t i = 0; i < sizeof(constants) / sizeof(*constants); i++)
		if (p4d_template__is(token, P4D_TOKEN_NAME, constants[i].name)) {
			p4d_node *made = constant(p, constants[i].value);
			p->at++;
			return made;
		}
	p4d_node *made = p4d_template__node(p, P4D_NODE_NAME);
	if (!made || !(made->name = p4d_template__expect_name(p)))
		return NULL;
	return made;
}

/* Reads a text; adjacent text literals form one. */
static p4d_node *read_text(p4d_parser *p)
{
	const size_t first = p->at;
	size_t length = 0;

	for (; p4d_template__now(p)->kind == P4D_TOKEN_STRING; p->at++)
		length += p4d_template__now(p)->text.length;
	char *text = p4d_template__take(&p->template->arena, length + 1, 1);
	if (!text) {
		p4d_template__wrong(p, "no memory for a text");
		return NULL;
	}
	length = 0;
	for (size_t i = first; i < p->at; i++) {
		const p4d_string part = p->tokens.at[i].text;
		memcpy(text + length, part.at, part.length);
		length += part.length;
	}
	return constant(p, p4d_value_text(text, length));
}

/* Reads expressions with commas up to `close`, and appends them to *list. */
static int read_list(p4d_parser *p, const char *close, p4d_node **list)
{
	while (!is_sign(p, close)) {
		if (!(*list = p4d_template__expression(p, true)))
			return -1;
		list = &(*list)->next;
		if (!sign(p, ","))
			break;
	}
	return p4d_template__expect(p, P4D_TOKEN_SIGN, close);
}

static p4d_node *read_dict(p4d_parser *p)
{
	p4d_node *made = p4d_template__node(p, P4D_NODE_DICT), **list = made ? &made->a : NULL;

	while (made && !is_sign(p, "}")) {
		if (!(*list = p4d_template__expression(p, true)) ||
		    p4d_template__expect(p, P4D_TOKEN_SIGN, ":") < 0 ||
		    !((*list)->next = p4d_template__expression(p, true)))
			return NULL;
		list = &(*list)->next->next;
		if (!sign(p, ","))
			break;
	}
	return made && p4d_template__expect(p, P4D_TOKEN_SIGN, "}") == 0 ? made : NULL;
}

static p4d_node *read_number(p4d_parser *p)
{
	const p4d_token *token = p4d_template__now(p);

	p->at++;
	return constant(p, token->kind == P4D_TOKEN_REAL ? p4d_value_real(token->real)
							 : p4d_value_integer(token->integer));
}

static p4d_node *read_parentheses(p4d_parser *p)
{
	if (sign(p, ")"))
		return p4d_template__node(p, P4D_NODE_TUPLE);
	p4d_node *made = p4d_template__expressions(p, true, NULL);
	return made && p4d_template__expect(p, P4D_TOKEN_SIGN, ")") == 0 ? made : NULL;
}

static p4d_node *read_primary(p4d_parser *p)
{
	const p4d_token *token = p4d_template__now(p);

	if (token->kind == P4D_TOKEN_NAME)
		return read_name(p);
	if (token->kind == P4D_TOKEN_STRING)
		return read_text(p);
	if (token->kind == P4D_TOKEN_INTEGER || token->kind == P4D_TOKEN_REAL)
		return read_number(p);
	if (sign(p, "("))
		return read_parentheses(p);
	if (sign(p, "{"))
		return read_dict(p);
	if (sign(p, "[")) {
		p4d_node *made = p4d_template__node(p, P4D_NODE_LIST);
		return made && read_list(p, "]", &made->a) == 0 ? made : NULL;
	}
	p4d_template__wrong(p, "an expression is missing before");
	return NULL;
}

/* Reads one bound of a slice. *part stays NULL if the bound is missing. */
static int read_bound(p4d_parser *p, p4d_node **part)
{
	if (is_sign(p, ":") || is_sign(p, "]"))
		return 0;
	*part = p4d_template__expression(p, true);
	return *part ? 0 : -1;
}

/* Reads the rest of an item after "a[". */
static p4d_node *read_item(p4d_parser *p, p4d_node *a)
{
	p4d_node *made = node_of(p, P4D_NODE_ITEM, a, NULL);

	if (!made || read_bound(p, &made->b) < 0)
		return NULL;
	if (sign(p, ":")) {
		made->kind = P4D_NODE_SLICE;
		if (read_bound(p, &made->c) < 0 || (sign(p, ":") && read_bound(p, &made->d) < 0))
			return NULL;
	} else if (!made->b) {
		p4d_template__wrong(p, "an index is missing before");
		return NULL;
	}
	return p4d_template__expect(p, P4D_TOKEN_SIGN, "]") == 0 ? made : NULL;
}

static p4d_node *read_attribute(p4d_parser *p, p4d_node *a)
{
	if (p4d_template__now(p)->kind == P4D_TOKEN_INTEGER) {
		p4d_node *index = read_number(p);
		return index ? node_of(p, P4D_NODE_ITEM, a, index) : NULL;
	}
	p4d_node *made = node_of(p, P4D_NODE_ATTRIBUTE, a, NULL);
	return made && (made->name = p4d_template__expect_name(p)) ? made : NULL;
}

static int read_argument(p4d_parser *p, p4d_node **list)
{
	p4d_node *made = p4d_template__node(p, P4D_NODE_ARGUMENT);

	if (!made)
		return -1;
	const bool list_of = sign(p, "*"), mapping_of = !list_of && sign(p, "**");
	made->op = list_of ? P4D_OP_MULTIPLY : mapping_of ? P4D_OP_POWER : P4D_OP_EQUAL;
	if (!list_of && !mapping_of && p4d_template__now(p)->kind == P4D_TOKEN_NAME &&
	    p4d_template__is(p4d_template__now(p) + 1, P4D_TOKEN_SIGN, "=")) {
		made->name = p4d_template__expect_name(p);
		p->at++;
	}
	*list = made;
	made->a = p4d_template__expression(p, true);
	return made->a ? 0 : -1;
}

/* Reads arguments after the opening parenthesis, and the closing one. */
static int read_arguments(p4d_parser *p, p4d_node **list)
{
	bool named = false;

	while (!is_sign(p, ")")) {
		if (read_argument(p, list) < 0)
			return -1;
		const bool single = !(*list)->name && (*list)->op == P4D_OP_EQUAL;
		if (named && single)
			return p4d_template__wrong(p, "an argument without a name behind one with a name");
		named |= !single;
		list = &(*list)->next;
		if (!sign(p, ","))
			break;
	}
	return p4d_template__expect(p, P4D_TOKEN_SIGN, ")");
}

static p4d_node *read_call(p4d_parser *p, p4d_node *a)
{
	p4d_node *made = node_of(p, P4D_NODE_CALL, a, NULL);

	return made && read_arguments(p, &made->b) == 0 ? made : NULL;
}

static p4d_node *read_postfix(p4d_parser *p, p4d_node *a)
{
	while (a) {
		if (sign(p, "."))
			a = read_attribute(p, a);
		else if (sign(p, "["))
			a = read_item(p, a);
		else if (sign(p, "("))
			a = read_call(p, a);
		else
			break;
	}
	return a;
}

p4d_node *p4d_template__filters(p4d_parser *p, p4d_node *a, bool bare)
{
	while (a && (bare || sign(p, "|"))) {
		p4d_node *made = node_of(p, P4D_NODE_FILTER, a, NULL);
		if (!made || !(made->name = p4d_template__expect_name(p)))
			return NULL;
		made->line = p->tokens.at[p->at - 1].line;
		made->builtin = p4d_template__find_filter(made->name);
		if (sign(p, "(") && read_arguments(p, &made->b) < 0)
			return NULL;
		a = made;
		bare = false;
	}
	return a;
}

/* Whether the next token begins a value, which is then the argument of a test without parentheses. */
static bool begins_value(const p4d_parser *p)
{
	static const char *const ends[] = {"else", "or", "and", "if", "is"};
	const p4d_token *token = p4d_template__now(p);

	if (token->kind == P4D_TOKEN_NAME) {
		for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
			if (p4d_template__is(token, P4D_TOKEN_NAME, ends[i]))
				return false;
		return true;
	}
	return token->kind == P4D_TOKEN_STRING || token->kind == P4D_TOKEN_INTEGER ||
	       token->kind == P4D_TOKEN_REAL || is_sign(p, "[") || is_sign(p, "{");
}

/* Reads a test after "a is". */
static p4d_node *read_test(p4d_parser *p, p4d_node *a)
{
	const bool negated = word(p, "not");
	p4d_node *made = node_of(p, P4D_NODE_TEST, a, NULL);

	if (!made || !(made->name = p4d_template__expect_name(p)))
		return NULL;
	made->builtin = p4d_template__find_test(made->name);
	if (sign(p, "(")) {
		if (read_arguments(p, &made->b) < 0)
			return NULL;
	} else if (begins_value(p)) {
		if (!(made->b = p4d_template__node(p, P4D_NODE_ARGUMENT)) ||
		    !(made->b->a = read_postfix(p, read_primary(p))))
			return NULL;
		made->b->op = P4D_OP_EQUAL;
	}
	return negated ? node_of(p, P4D_NODE_NOT, made, NULL) : made;
}

static p4d_node *read_filters(p4d_parser *p, p4d_node *a)
{
	while (a) {
		if (is_sign(p, "|"))
			a = p4d_template__filters(p, a, false);
		else if (word(p, "is"))
			a = read_test(p, a);
		else if (sign(p, "("))
			a = read_call(p, a);
		else
			break;
	}
	return a;
}

static p4d_node *read_unary(p4d_parser *p, bool with_filters)
{
	const bool minus = sign(p, "-"), plus = !minus && sign(p, "+");
	p4d_node *made = NULL;

	if (p4d_template__enter(p) < 0)
		return NULL;
	if (minus || plus) {
		made = node_of(p, P4D_NODE_SIGN, read_unary(p, false), NULL);
		if (made)
			made->op = minus ? P4D_OP_SUBTRACT : P4D_OP_ADD;
	} else {
		made = read_primary(p);
	}
	made = read_postfix(p, made);
	p->depth--;
	return with_filters ? read_filters(p, made) : made;
}

typedef struct operation {
	const char *sign;
	p4d_operator op;
} operation;

/*
 * Reads an operator of `list` if one is next. The list ends with an entry without a sign. NULL: none is next.
 */
static const operation *read_operation(p4d_parser *p, const operation *list)
{
	for (; list->sign; list++)
		if (sign(p, list->sign))
			return list;
	return NULL;
}

static p4d_node *read_math(p4d_parser *p, int level);

static p4d_node *read_concat(p4d_parser *p)
{
	p4d_node *first = read_math(p, 1);

	if (!first || !is_sign(p, "~"))
		return first;
	p4d_node *made = node_of(p, P4D_NODE_CONCAT, first, NULL), **list = &first->next;
	while (made && sign(p, "~")) {
		if (!(*list = read_math(p, 1)))
			return NULL;
		list = &(*list)->next;
	}
	return made;
}

/* Reads arithmetic. Level 0: sums, whose terms may be joined by ~; 1: products; 2: powers. */
static p4d_node *read_math(p4d_parser *p, int level)
{
	static const operation operations[][5] = {
	    {{"+", P4D_OP_ADD}, {"-", P4D_OP_SUBTRACT}},
	    {{"*", P4D_OP_MULTIPLY}, {"/", P4D_OP_DIVIDE}, {"//", P4D_OP_FLOOR}, {"%", P4D_OP_MODULO}},
	    {{"**", P4D_OP_POWER}},
	};
	p4d_node *left = NULL;
	const operation *found = NULL;

	do {
		p4d_node *right = level == 0   ? read_concat(p)
				  : level == 1 ? read_math(p, 2)
					       : read_unary(p, true);
		left = !found || !right ? right : node_of(p, P4D_NODE_MATH, left, right);
		if (left && found)
			left->op = found->op;
	} while (left && (found = read_operation(p, operations[level])) != NULL);
	return left;
}

/* Reads a comparison operator, if one is next. */
static bool read_comparison(p4d_parser *p, p4d_operator *op)
{
	static const operation operations[] = {{"==", P4D_OP_EQUAL},  {"!=", P4D_OP_UNEQUAL},
					       {"<", P4D_OP_LESS},    {"<=", P4D_OP_LESS_EQUAL},
					       {">", P4D_OP_GREATER}, {">=", P4D_OP_GREATER_EQUAL},
					       {NULL, P4D_OP_IN}};
	const operation *found = read_operation(p, operations);

	if (found) {
		*op = found->op;
		return true;
	}
	const bool negated = p4d_template__is(p4d_template__now(p), P4D_TOKEN_NAME, "not") &&
			     p4d_template__is(p4d_template__now(p) + 1, P4D_TOKEN_NAME, "in");
	p->at += negated;
	*op = negated ? P4D_OP_NOT_IN : P4D_OP_IN;
	return word(p, "in");
}

static p4d_node *read_compare(p4d_parser *p)
{
	p4d_node *first = read_math(p, 0), *made = NULL, **list = NULL;
	p4d_operator op = P4D_OP_EQUAL;

	while (first && read_comparison(p, &op)) {
		if (!made && !(made = node_of(p, P4D_NODE_COMPARE, first, NULL)))
			return NULL;
		list = list ? &(*list)->next : &made->b;
		if (!(*list = node_of(p, P4D_NODE_OPERAND, read_math(p, 0), NULL)))
			return NULL;
		(*list)->op = op;
	}
	return made ? made : first;
}

static p4d_node *read_not(p4d_parser *p)
{
	if (!word(p, "not"))
		return read_compare(p);
	if (p4d_template__enter(p) < 0)
		return NULL;
	p4d_node *made = node_of(p, P4D_NODE_NOT, read_not(p), NULL);
	p->depth--;
	return made;
}

static p4d_node *read_logic(p4d_parser *p, bool is_or)
{
	p4d_node *left = is_or ? read_logic(p, false) : read_not(p);

	while (left && word(p, is_or ? "or" : "and")) {
		p4d_node *right = is_or ? read_logic(p, false) : read_not(p);
		left = right ? node_of(p, is_or ? P4D_NODE_OR : P4D_NODE_AND, left, right) : NULL;
	}
	return left;
}

p4d_node *p4d_template__expression(p4d_parser *p, bool with_condition)
{
	if (p4d_template__enter(p) < 0)
		return NULL;
	p4d_node *made = read_logic(p, true);
	while (made && with_condition && word(p, "if")) {
		p4d_node *condition = read_logic(p, true);
		made = condition ? node_of(p, P4D_NODE_CONDITION, condition, made) : NULL;
		if (made && word(p, "else") && !(made->c = p4d_template__expression(p, true)))
			return NULL;
	}
	p->depth--;
	return made;
}

/* Whether a list ends here, so that the comma before was its last token. */
static bool ends_list(const p4d_parser *p, const char *until)
{
	const p4d_token *token = p4d_template__now(p);

	return token->kind == P4D_TOKEN_BLOCK_END || token->kind == P4D_TOKEN_PRINT_END ||
	       token->kind == P4D_TOKEN_END || is_sign(p, ")") ||
	       (until && p4d_template__is(token, P4D_TOKEN_NAME, until));
}

p4d_node *p4d_template__expressions(p4d_parser *p, bool with_condition, const char *until)
{
	p4d_node *first = p4d_template__expression(p, with_condition);

	if (!first || !is_sign(p, ","))
		return first;
	p4d_node *made = node_of(p, P4D_NODE_TUPLE, first, NULL), **list = &first->next;
	while (made && sign(p, ",") && !ends_list(p, until)) {
		if (!(*list = p4d_template__expression(p, with_condition)))
			return NULL;
		list = &(*list)->next;
	}
	return made;
}

/* Reads a target: a name, a member of a namespace, or names in parentheses. */
static p4d_node *read_target(p4d_parser *p, bool members)
{
	if (sign(p, "(")) {
		p4d_node *made = p4d_template__target(p, NULL, false);
		return made && p4d_template__expect(p, P4D_TOKEN_SIGN, ")") == 0 ? made : NULL;
	}
	p4d_node *name = read_name(p);
	if (name && name->kind != P4D_NODE_NAME) {
		p4d_template__wrong(p, "true, false and none cannot be assigned to, before");
		return NULL;
	}
	return name && members && sign(p, ".") ? read_attribute(p, name) : name;
}

p4d_node *p4d_template__target(p4d_parser *p, const char *until, bool members)
{
	if (p4d_template__enter(p) < 0)
		return NULL;
	p4d_node *first = read_target(p, members), *made = first;
	if (first && is_sign(p, ",")) {
		p4d_node **list = &first->next;
		made = node_of(p, P4D_NODE_TUPLE, first, NULL);
		while (made && sign(p, ",") && !ends_list(p, until) && !is_sign(p, "=")) {
			if (!(*list = read_target(p, members)))
				return NULL;
			list = &(*list)->next;
		}
	}
	p->depth--;
	return made;
}
