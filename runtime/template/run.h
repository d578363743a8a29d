/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "template/syntax.h"

typedef struct p4d_variable {
	const char *name; /* of the template's names: the same pointer for the same name */
	p4d_datum value;
} p4d_variable;

/* Variables of a part of the template: all of it, one turn of a loop, a call of a macro. */
typedef struct p4d_scope {
	struct p4d_scope *outer;
	p4d_variable *at;
	size_t count, room;
	bool held; /* by a macro, which sees the variables later, too */
} p4d_scope;

/* Text that is written. */
typedef struct p4d_written {
	char *at;
	size_t length, room;
} p4d_written;

struct p4d_template_values {
	p4d_arena input, work; /* copies of JSON values; what a rendering takes */
	struct p4d_input {
		const char *name;
		p4d_datum value;
	} * variable;
	size_t count, room;
	struct tm date;
	bool has_date;
};

/* A macro, and the variables around its definition. */
typedef struct p4d_macro {
	const p4d_node *node; /* P4D_NODE_MACRO or P4D_NODE_CALL_BLOCK */
	p4d_scope *scope;
} p4d_macro;

typedef struct p4d_rendering {
	const p4d_template *template;
	p4d_template_values *values;
	p4d_arena *arena;
	p4d_error *err;
	uint64_t steps; /* left */
	unsigned depth, line;
	bool failed; /* *err has why */
	p4d_scope *scope;
	p4d_written *out;
	p4d_datum captured;
	p4d_template_span *span;
	size_t spans, spans_room;
} p4d_rendering;

/* Fails with VALUE: name:line: what. */
int p4d_template__fail(p4d_rendering *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
int p4d_template__no_memory(p4d_rendering *r);
/* Fails where the work of a rendering exceeds its bound. */
int p4d_template__spend(p4d_rendering *r, uint64_t steps);
/* One level deeper, which the caller leaves by r->depth--. */
int p4d_template__deeper(p4d_rendering *r);

/* Room for one more element of an array in the arena. array: the address of the pointer. */
int p4d_template__grow(p4d_rendering *r, void *array, size_t *room, size_t needed, size_t bytes);
int p4d_template__write(p4d_rendering *r, p4d_written *buffer, const char *text, size_t length);
int p4d_template__write_text(p4d_rendering *r, p4d_written *buffer, const char *text);

p4d_scope *p4d_template__scope(p4d_rendering *r, p4d_scope *outer);
int p4d_template__define(p4d_rendering *r, p4d_scope *scope, const char *name, p4d_datum value);
/* Fails where the work exceeds its bound. */
p4d_datum p4d_template__look_up(p4d_rendering *r, const char *name);

int p4d_template__evaluate(p4d_rendering *r, const p4d_node *node, p4d_datum *result);
/* Assigns to a target of names or a member of a namespace, in the innermost scope. */
int p4d_template__assign(p4d_rendering *r, const p4d_node *target, p4d_datum value);
int p4d_template__execute(p4d_rendering *r, const p4d_node *list);
/* Asks the condition of a loop until it held for `wanted` values. */
int p4d_template__reach(p4d_rendering *r, p4d_loop *loop, size_t wanted);
/* Executes into a text. */
int p4d_template__capture(p4d_rendering *r, const p4d_node *list, p4d_datum *text);
