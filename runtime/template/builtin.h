/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "template/run.h"

enum { P4D_CALL_SLOTS = 5 };

typedef struct p4d_named_value {
	const char *name;
	p4d_datum value;
} p4d_named_value;

/* A call of a built-in function. self: the object of a method, or the value that a filter or test gets. */
typedef struct p4d_invocation {
	p4d_datum self;
	const struct p4d_builtin *builtin;
	const p4d_datum *slot[P4D_CALL_SLOTS]; /* arguments by parameter; NULL: not given */
	const p4d_datum *at;
	size_t count;
	const p4d_named_value *named;
	size_t names;
} p4d_invocation;

/*
 * A filter, test, function or method. parameters: names of its parameters, separated by blanks. If this is
 * NULL, it takes any arguments, and reads them from `at` and `named`.
 */
typedef struct p4d_builtin {
	const char *name;
	int (*call)(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result);
	const char *parameters;
} p4d_builtin;

/* NULL: there is no function of that name. */
const p4d_builtin *p4d_template__find_filter(const char *name);
const p4d_builtin *p4d_template__find_test(const char *name);
const p4d_builtin *p4d_template__find_method(p4d_datum self, const char *name);
const p4d_method *p4d_template__find_function(const char *name);

/* Assigns the arguments of a call to parameters, and calls the function. */
int p4d_template__call(p4d_rendering *r, p4d_invocation *call, p4d_datum *result);
/* Evaluates the arguments of a node, and adds them to *call. */
int p4d_template__call_arguments(p4d_rendering *r, const p4d_node *list, p4d_invocation *call);
/* Calls a macro. */
int p4d_template__call_macro(p4d_rendering *r, const p4d_macro *macro, const p4d_invocation *call,
			     p4d_datum *result);

/* Tables that end with a row without a name. */
extern const p4d_builtin p4d_template__text_methods[], p4d_template__dict_methods[],
    p4d_template__list_methods[], p4d_template__loop_methods[], p4d_template__text_filters[],
    p4d_template__list_filters[], p4d_template__value_filters[], p4d_template__tests[];

/*
 * Read the argument of a parameter. If it was not given, the default that the caller has stored stays.
 * Errors: the argument is of another kind.
 */
int p4d_template__text_slot(p4d_rendering *r, const p4d_invocation *call, size_t slot, p4d_string *text);
int p4d_template__integer_slot(p4d_rendering *r, const p4d_invocation *call, size_t slot, int64_t *integer);
int p4d_template__truth_slot(p4d_rendering *r, const p4d_invocation *call, size_t slot, bool *truth);
/* Converts the filtered value to a text. */
int p4d_template__self_text(p4d_rendering *r, const p4d_invocation *call, p4d_string *text);
/* Reads a member by a path such as "function.name". */
int p4d_template__member(p4d_rendering *r, p4d_datum value, p4d_datum path, p4d_datum *result);

/* JSON as transformers' tojson writes it. */
int p4d_template__json(p4d_rendering *r, const p4d_invocation *call, p4d_datum *result);
