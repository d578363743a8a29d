/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "template/syntax.h"

typedef struct p4d_variable {
	const char *name; /* a name of the template; equal names are the same pointer */
	p4d_datum value;
} p4d_variable;

/*
 * The variables of one part of a template: of the whole template, of one iteration of a loop, or of one call
 * of a macro.
 */
typedef struct p4d_scope {
	struct p4d_scope *outer;
	p4d_variable *at;
	size_t count, room;
	bool held; /* a macro refers to this scope, and must also see values that are assigned later */
} p4d_scope;

/* Output text. */
typedef struct p4d_written {
	char *at;
	size_t length, room;
} p4d_written;

struct p4d_template_values {
	p4d_arena input, work; /* input: memory for copies of JSON values. work: memory for a rendering */
	struct p4d_input {
		const char *name;
		p4d_datum value;
		p4d_list *whole; /* the whole stored list if `value` is only a part of it; else NULL */
	} * variable;
	size_t count, room;
	struct tm date;
	bool has_date;
};

/* A macro, and the scope in which it was defined. */
typedef struct p4d_macro {
	const p4d_node *node; /* P4D_NODE_MACRO or P4D_NODE_CALL_BLOCK */
	p4d_scope *scope;
} p4d_macro;

typedef struct p4d_rendering {
	const p4d_template *template;
	p4d_template_values *values;
	p4d_arena *arena;
	p4d_error *err;
	uint64_t steps; /* steps left */
	unsigned depth, line;
	bool failed; /* *err has the reason */
	p4d_scope *scope;
	p4d_written *out;
	p4d_datum captured;
	p4d_template_span *span;
	size_t spans, spans_room;
} p4d_rendering;

/* Fails with code VALUE and the text NAME:LINE: what. */
int p4d_template__fail(p4d_rendering *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
int p4d_template__no_memory(p4d_rendering *r);
/* Subtracts steps from the rendering's limit. Fails if the limit is exceeded. */
int p4d_template__spend(p4d_rendering *r, uint64_t steps);
/* Enters a deeper level of nesting, or fails at the limit. The caller leaves the level with r->depth--. */
int p4d_template__deeper(p4d_rendering *r);

/*
 * Makes room for `needed` elements in an array in the arena. array: the address of the pointer to the array.
 */
int p4d_template__grow(p4d_rendering *r, void *array, size_t *room, size_t needed, size_t bytes);
int p4d_template__write(p4d_rendering *r, p4d_written *buffer, const char *text, size_t length);
int p4d_template__write_text(p4d_rendering *r, p4d_written *buffer, const char *text);

p4d_scope *p4d_template__scope(p4d_rendering *r, p4d_scope *outer);
int p4d_template__define(p4d_rendering *r, p4d_scope *scope, const char *name, p4d_datum value);
/* Fails if the work exceeds the limit. */
p4d_datum p4d_template__look_up(p4d_rendering *r, const char *name);

int p4d_template__evaluate(p4d_rendering *r, const p4d_node *node, p4d_datum *result);
/*
 * Assigns to the names of a target, or to a member of a namespace. New variables go to the innermost scope.
 */
int p4d_template__assign(p4d_rendering *r, const p4d_node *target, p4d_datum value);
int p4d_template__execute(p4d_rendering *r, const p4d_node *list);
/* Evaluates the condition of a loop for further values, until it was true for `wanted` values in all. */
int p4d_template__reach(p4d_rendering *r, p4d_loop *loop, size_t wanted);
/* Executes statements; returns their output as a text. */
int p4d_template__capture(p4d_rendering *r, const p4d_node *list, p4d_datum *text);
