/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Values of templates, with Python's types. Arenas own all that they point to; texts are UTF-8. */
typedef enum p4d_value_kind {
	P4D_UNDEFINED,
	P4D_NONE,
	P4D_BOOL,
	P4D_INTEGER,
	P4D_REAL,
	P4D_STRING,
	P4D_LIST,
	P4D_DICT,
	P4D_NAMESPACE,
	P4D_LOOP,
	P4D_MACRO,
	P4D_FUNCTION,
} p4d_value_kind;

typedef struct p4d_string {
	const char *at;
	size_t length;
} p4d_string;

typedef struct p4d_datum {
	p4d_value_kind kind;
	bool markup; /* a text that the filters escape or safe made; + escapes a text that is joined to it */
	union {
		const char *name; /* name of an undefined value; may be NULL */
		bool truth;
		int64_t integer;
		double real;
		p4d_string text;
		struct p4d_list *list;
		struct p4d_dict *dict; /* also the members of a namespace */
		struct p4d_loop *loop;
		const struct p4d_macro *macro;
		const struct p4d_method *function;
	};
} p4d_datum;

/* Which of Python's types a list has, if that makes a difference. A generator gives each value only once. */
typedef enum p4d_list_form { P4D_LIST_PLAIN, P4D_TUPLE, P4D_RANGE, P4D_GENERATOR, P4D_VIEW } p4d_list_form;

typedef struct p4d_list {
	p4d_list_form form;
	size_t count, room;
	p4d_datum *at;
} p4d_list;

typedef struct p4d_pair {
	p4d_datum key, value;
} p4d_pair;

/* Entries are in order of insertion. */
typedef struct p4d_dict {
	size_t count, room;
	p4d_pair *at;
} p4d_dict;

/* A built-in function. self: the object, if it is a method. */
typedef struct p4d_method {
	const struct p4d_builtin *builtin;
	p4d_datum self;
} p4d_method;

/*
 * State of a loop. at, count: the values that it iterates over. If the loop has a condition, these are only
 * the values for which it was true so far.
 */
typedef struct p4d_loop {
	const p4d_datum *at;
	size_t index, count;
	/* values for which the condition was not evaluated yet; NULL: there are none */
	struct p4d_selection *rest;
} p4d_loop;

#define P4D_TEXT(literal) ((p4d_datum){.kind = P4D_STRING, .text = {literal, sizeof(literal) - 1}})

static inline p4d_datum p4d_value_text(const char *at, size_t length)
{
	return (p4d_datum){.kind = P4D_STRING, .text = {at, length}};
}

static inline p4d_datum p4d_value_bool(bool truth)
{
	return (p4d_datum){.kind = P4D_BOOL, .truth = truth};
}

static inline p4d_datum p4d_value_integer(int64_t integer)
{
	return (p4d_datum){.kind = P4D_INTEGER, .integer = integer};
}

static inline p4d_datum p4d_value_real(double real)
{
	return (p4d_datum){.kind = P4D_REAL, .real = real};
}

static inline p4d_datum p4d_value_list(p4d_list *list)
{
	return (p4d_datum){.kind = P4D_LIST, .list = list};
}
