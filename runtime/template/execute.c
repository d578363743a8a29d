/* SPDX-License-Identifier: Apache-2.0 */
/* Executes statements. */
#include "template/run.h"

#include "template/builtin.h"
#include "template/operate.h"

/*
 * How a statement ends: FAILED: with an error; ON: normally; BREAK: by leaving the loop; CONTINUE: by leaving
 * the iteration.
 */
enum { FAILED = -1, ON, BREAK, CONTINUE };

static int execute(p4d_rendering *r, const p4d_node *list);

static int assign_member(p4d_rendering *r, const p4d_node *target, p4d_datum value)
{
	p4d_datum space;

	if (p4d_template__evaluate(r, target->a, &space) < 0)
		return -1;
	if (space.kind != P4D_NAMESPACE)
		return p4d_template__fail(
		    r, "the template sets a member of a %s, but only members of a namespace can be set",
		    p4d_template__kind(space));
	if (*target->name == '_')
		return p4d_template__fail(r, "a member of a namespace begins with _: %.60s", target->name);
	size_t length = 0;
	while (target->name[length])
		length++;
	return p4d_template__put(r, space.dict, p4d_value_text(target->name, length), value);
}

static int assign_all(p4d_rendering *r, const p4d_node *target, p4d_datum value)
{
	const p4d_datum *at = NULL;
	size_t count = 0, wanted = 0;

	for (const p4d_node *one = target->a; one; one = one->next)
		wanted++;
	if (p4d_template__iterate(r, value, &at, &count) < 0)
		return -1;
	if (count != wanted)
		return p4d_template__fail(r, "%zu values for %zu names", count, wanted);
	for (const p4d_node *one = target->a; one; one = one->next)
		if (p4d_template__assign(r, one, *at++) < 0)
			return -1;
	return 0;
}

int p4d_template__assign(p4d_rendering *r, const p4d_node *target, p4d_datum value)
{
	if (target->kind == P4D_NODE_NAME)
		return p4d_template__define(r, r->scope, target->name, value);
	if (target->kind == P4D_NODE_ATTRIBUTE)
		return assign_member(r, target, value);
	if (p4d_template__deeper(r) < 0)
		return -1;
	const int rc = assign_all(r, target, value);
	r->depth--;
	return rc;
}

int p4d_template__capture(p4d_rendering *r, const p4d_node *list, p4d_datum *text)
{
	p4d_written buffer = {.at = NULL}, *const before = r->out;

	r->out = &buffer;
	const int rc = execute(r, list);
	r->out = before;
	*text = p4d_value_text(buffer.at ? buffer.at : "", buffer.length);
	return rc < 0 ? -1 : 0;
}

/* Executes a block and filters its output. Variables that the block sets are local to it. */
static int capture_filtered(p4d_rendering *r, const p4d_node *node, p4d_datum *text)
{
	p4d_scope *const before = r->scope;

	if (!(r->scope = p4d_template__scope(r, before)))
		return -1;
	const int rc = p4d_template__capture(r, node->c, text);
	r->scope = before;
	if (rc < 0 || !node->b)
		return rc;
	const p4d_datum captured = r->captured;
	r->captured = *text;
	const int filtered = p4d_template__evaluate(r, node->b, text);
	r->captured = captured;
	return filtered;
}

static int execute_print(p4d_rendering *r, const p4d_node *node)
{
	p4d_datum value;

	if (p4d_template__evaluate(r, node->a, &value) < 0)
		return FAILED;
	r->line = node->line;
	return p4d_template__write_value(r, r->out, value);
}

static int execute_if(p4d_rendering *r, const p4d_node *node)
{
	for (;;) {
		p4d_datum value;
		bool truth = false;
		if (p4d_template__evaluate(r, node->a, &value) < 0 ||
		    p4d_template__truth(r, value, &truth) < 0)
			return FAILED;
		if (truth)
			return execute(r, node->b);
		/* the parser stores elif as an `if` that is the only statement of the else part */
		if (!node->c || node->c->kind != P4D_NODE_IF || node->c->next)
			return execute(r, node->c);
		node = node->c;
	}
}

/*
 * Returns the scope for the next iteration. It is the previous iteration's, unless a macro still refers to
 * that one.
 */
static p4d_scope *next_scope(p4d_rendering *r, p4d_scope *last, p4d_scope *outer)
{
	if (!last || last->held)
		return p4d_template__scope(r, outer);
	last->count = 0;
	return last;
}

/*
 * A loop with a condition. at, count: the values for which the condition was not evaluated yet. kept: the
 * values for which it was true.
 */
typedef struct p4d_selection {
	const p4d_node *node;
	p4d_scope *outer, *scope;
	const p4d_datum *at;
	size_t count;
	p4d_list *kept;
} p4d_selection;

static int select_next(p4d_rendering *r, p4d_selection *s)
{
	p4d_datum value;
	bool truth = false;

	if (!(r->scope = s->scope = next_scope(r, s->scope, s->outer)) ||
	    p4d_template__assign(r, s->node->a, *s->at) < 0 ||
	    p4d_template__evaluate(r, s->node->d, &value) < 0 || p4d_template__truth(r, value, &truth) < 0 ||
	    (truth && p4d_template__append(r, s->kept, *s->at) < 0))
		return -1;
	s->at++;
	s->count--;
	return 0;
}

int p4d_template__reach(p4d_rendering *r, p4d_loop *loop, size_t wanted)
{
	p4d_scope *const before = r->scope;

	while (loop->rest && loop->count < wanted) {
		if (loop->rest->count == 0) {
			loop->rest = NULL;
			break;
		}
		if (select_next(r, loop->rest) < 0)
			return -1;
		loop->at = loop->rest->kept->at;
		loop->count = loop->rest->kept->count;
	}
	r->scope = before;
	return 0;
}

/*
 * Begins to select the values of a loop with a condition. They are selected one by one, because an iteration
 * may change what the condition gives for later values.
 */
static int begin_selection(p4d_rendering *r, const p4d_node *node, p4d_loop *loop)
{
	p4d_selection *made = p4d_template__take(r->arena, 1, sizeof(*made));

	if (!made)
		return p4d_template__no_memory(r);
	*made = (p4d_selection){.node = node, .outer = r->scope, .at = loop->at, .count = loop->count};
	*loop = (p4d_loop){.rest = made};
	return p4d_template__new_list(r, P4D_LIST_PLAIN, 0, &made->kept);
}

/* Runs the iterations of a loop. *whole: whether at least one iteration ran to its end. */
static int go_round(p4d_rendering *r, const p4d_node *node, p4d_scope *outer, p4d_loop *loop, bool *whole)
{
	p4d_scope *scope = NULL;
	int how = ON;

	for (loop->index = 0; how != BREAK; loop->index++) {
		const p4d_datum value = {.kind = P4D_LOOP, .loop = loop};
		r->scope = outer;
		if (p4d_template__reach(r, loop, loop->index + 1) < 0)
			return FAILED;
		if (loop->index >= loop->count)
			break;
		if (!(r->scope = scope = next_scope(r, scope, outer)) ||
		    p4d_template__define(r, r->scope, r->template->loop, value) < 0 ||
		    p4d_template__assign(r, node->a, loop->at[loop->index]) < 0 ||
		    (how = execute(r, node->c)) == FAILED)
			return FAILED;
		*whole |= how == ON;
	}
	return ON;
}

static int execute_for(p4d_rendering *r, const p4d_node *node)
{
	p4d_scope *const before = r->scope;
	p4d_loop *loop = p4d_template__take(r->arena, 1, sizeof(*loop));
	bool whole = false;
	p4d_datum over;

	if (!loop)
		return p4d_template__no_memory(r);
	if (p4d_template__evaluate(r, node->b, &over) < 0 ||
	    p4d_template__iterate(r, over, &loop->at, &loop->count) < 0 ||
	    (node->d && begin_selection(r, node, loop) < 0))
		return FAILED;
	int how = go_round(r, node, before, loop, &whole);
	if (how == ON && !whole) { /* As in Jinja, else runs if no iteration ran to its end: each one was left
				      by break or continue, or there were none. */
		if (!(r->scope = p4d_template__scope(r, before)))
			return FAILED;
		how = execute(r, node->e);
	}
	r->scope = before;
	return how;
}

static int execute_set(p4d_rendering *r, const p4d_node *node)
{
	p4d_datum value;

	if ((node->kind == P4D_NODE_SET ? p4d_template__evaluate(r, node->b, &value)
					: capture_filtered(r, node, &value)) < 0)
		return FAILED;
	r->line = node->line;
	return p4d_template__assign(r, node->a, value);
}

static int new_macro(p4d_rendering *r, const p4d_node *node, p4d_datum *value)
{
	p4d_macro *made = p4d_template__take(r->arena, 1, sizeof(*made));

	if (!made)
		return p4d_template__no_memory(r);
	*made = (p4d_macro){node, r->scope};
	for (p4d_scope *scope = r->scope; scope && !scope->held; scope = scope->outer)
		scope->held = true;
	*value = (p4d_datum){.kind = P4D_MACRO, .macro = made};
	return 0;
}

static int execute_macro(p4d_rendering *r, const p4d_node *node)
{
	p4d_datum value;

	return new_macro(r, node, &value) < 0 ? FAILED : p4d_template__define(r, r->scope, node->name, value);
}

/* Calls a macro, and passes the content of the block to it as `caller`. */
static int execute_call_block(p4d_rendering *r, const p4d_node *node)
{
	p4d_invocation call = {.count = 0};
	p4d_datum what, caller, text;

	if (p4d_template__evaluate(r, node->b->a, &what) < 0 ||
	    p4d_template__call_arguments(r, node->b->b, &call) < 0 || new_macro(r, node, &caller) < 0)
		return FAILED;
	if (what.kind != P4D_MACRO)
		return p4d_template__not_a(r, what, "is not a macro, but a call block needs a macro");
	p4d_named_value *named = p4d_template__take(r->arena, call.names + 1, sizeof(*named));
	if (!named)
		return p4d_template__no_memory(r);
	for (size_t i = 0; i < call.names; i++)
		named[i] = call.named[i];
	named[call.names++] = (p4d_named_value){node->name, caller};
	call.named = named;
	if (p4d_template__call_macro(r, what.macro, &call, &text) < 0)
		return FAILED;
	return p4d_template__write_value(r, r->out, text);
}

static int execute_filter_block(p4d_rendering *r, const p4d_node *node)
{
	p4d_datum text;

	return capture_filtered(r, node, &text) < 0 ? FAILED : p4d_template__write_value(r, r->out, text);
}

static int execute_with(p4d_rendering *r, const p4d_node *node)
{
	p4d_scope *const before = r->scope, *made = p4d_template__scope(r, before);
	p4d_datum value;

	if (!made)
		return FAILED;
	for (const p4d_node *one = node->a; one; one = one->next) {
		r->scope = before;
		if (p4d_template__evaluate(r, one->b, &value) < 0)
			return FAILED;
		r->scope = made;
		if (p4d_template__assign(r, one->a, value) < 0)
			return FAILED;
	}
	r->scope = made;
	const int how = execute(r, node->c);
	r->scope = before;
	return how;
}

static int execute_generation(p4d_rendering *r, const p4d_node *node)
{
	p4d_scope *const before = r->scope;
	const size_t from = r->out->length;

	if (!(r->scope = p4d_template__scope(r, before)))
		return FAILED;
	const int how = execute(r, node->c);
	r->scope = before;
	if (how == FAILED ||
	    p4d_template__grow(r, &r->span, &r->spans_room, r->spans + 1, sizeof(*r->span)) < 0)
		return FAILED;
	r->span[r->spans++] = (p4d_template_span){from, r->out->length};
	return how;
}

static int execute_one(p4d_rendering *r, const p4d_node *node)
{
	switch (node->kind) {
	case P4D_NODE_DATA:
		return p4d_template__write(r, r->out, node->constant.text.at, node->constant.text.length);
	case P4D_NODE_PRINT:
		return execute_print(r, node);
	case P4D_NODE_IF:
		return execute_if(r, node);
	case P4D_NODE_FOR:
		return execute_for(r, node);
	case P4D_NODE_SET:
	case P4D_NODE_SET_BLOCK:
		return execute_set(r, node);
	case P4D_NODE_MACRO:
		return execute_macro(r, node);
	case P4D_NODE_CALL_BLOCK:
		return execute_call_block(r, node);
	case P4D_NODE_FILTER_BLOCK:
		return execute_filter_block(r, node);
	case P4D_NODE_WITH:
		return execute_with(r, node);
	case P4D_NODE_GENERATION:
		return execute_generation(r, node);
	case P4D_NODE_BREAK:
		return BREAK;
	case P4D_NODE_CONTINUE:
		return CONTINUE;
	default: /* an expression; the parser never stores one as a statement */
		return p4d_template__fail(r, "found an expression, expected a statement");
	}
}

static int execute(p4d_rendering *r, const p4d_node *list)
{
	int how = ON;

	if (p4d_template__deeper(r) < 0)
		return FAILED;
	for (; how == ON && list; list = list->next) {
		r->line = list->line;
		how = p4d_template__spend(r, 1) < 0 ? FAILED : execute_one(r, list);
	}
	r->depth--;
	return how;
}

int p4d_template__execute(p4d_rendering *r, const p4d_node *list)
{
	return execute(r, list) == FAILED ? -1 : 0;
}
