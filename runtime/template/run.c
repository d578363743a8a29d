/* SPDX-License-Identifier: Apache-2.0 */
#include "template/run.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "template/builtin.h"

int p4d_template__fail(p4d_rendering *r, const char *format, ...)
{
	char what[320];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	r->failed = true;
	return p4d_fail(r->err, P4D_E_VALUE, "%.150s:%u: %s", r->template->name, r->line, what);
}

int p4d_template__no_memory(p4d_rendering *r)
{
	r->failed = true;
	if (r->arena->bytes < r->arena->most_bytes / 2)
		return p4d_fail(r->err, P4D_E_NO_MEMORY, "%.150s:%u: no memory", r->template->name, r->line);
	return p4d_template__fail(r, "this rendering takes more than %d MiB of memory, the limit",
				  P4D_TEMPLATE_MEMORY >> 20);
}

int p4d_template__spend(p4d_rendering *r, uint64_t steps)
{
	if (steps <= r->steps) {
		r->steps -= steps;
		return 0;
	}
	r->steps = 0;
	return p4d_template__fail(r, "this conversation takes more than %d million steps, the limit",
				  P4D_TEMPLATE_STEPS / 1000000);
}

int p4d_template__deeper(p4d_rendering *r)
{
	if (r->depth >= P4D_TEMPLATE_DEPTH)
		return p4d_template__fail(r, "more than %d nested calls, blocks and values",
					  P4D_TEMPLATE_DEPTH);
	r->depth++;
	return 0;
}

int p4d_template__grow(p4d_rendering *r, void *array, size_t *room, size_t needed, size_t bytes)
{
	const size_t wanted = needed > 2 * *room ? needed : 2 * *room, least = 4;
	const size_t now = wanted > least ? wanted : least;
	void *old;

	if (needed <= *room)
		return 0;
	memcpy(&old, array, sizeof(old));
	void *grown = p4d_template__take(r->arena, now, bytes);
	if (!grown)
		return p4d_template__no_memory(r);
	if (*room)
		memcpy(grown, old, *room * bytes);
	memcpy(array, &grown, sizeof(grown));
	*room = now;
	return 0;
}

int p4d_template__write(p4d_rendering *r, p4d_written *buffer, const char *text, size_t length)
{
	if (p4d_template__spend(r, length / 64) < 0 ||
	    p4d_template__grow(r, &buffer->at, &buffer->room, buffer->length + length + 1, 1) < 0)
		return -1;
	memcpy(buffer->at + buffer->length, text, length);
	buffer->length += length;
	return 0;
}

int p4d_template__write_text(p4d_rendering *r, p4d_written *buffer, const char *text)
{
	return p4d_template__write(r, buffer, text, strlen(text));
}

p4d_scope *p4d_template__scope(p4d_rendering *r, p4d_scope *outer)
{
	p4d_scope *made = p4d_template__take(r->arena, 1, sizeof(*made));

	if (made)
		made->outer = outer;
	else
		p4d_template__no_memory(r);
	return made;
}

int p4d_template__define(p4d_rendering *r, p4d_scope *scope, const char *name, p4d_datum value)
{
	if (p4d_template__spend(r, 1 + scope->count / 8) < 0)
		return -1;
	for (size_t i = 0; i < scope->count; i++)
		if (scope->at[i].name == name) {
			scope->at[i].value = value;
			return 0;
		}
	if (p4d_template__grow(r, &scope->at, &scope->room, scope->count + 1, sizeof(*scope->at)) < 0)
		return -1;
	scope->at[scope->count++] = (p4d_variable){name, value};
	return 0;
}

p4d_datum p4d_template__look_up(p4d_rendering *r, const char *name)
{
	for (const p4d_scope *scope = r->scope; scope; scope = scope->outer) {
		if (p4d_template__spend(r, scope->count / 8) < 0)
			break;
		for (size_t i = 0; i < scope->count; i++)
			if (scope->at[i].name == name)
				return scope->at[i].value;
	}
	for (size_t i = 0; i < r->values->count; i++)
		if (!strcmp(r->values->variable[i].name, name))
			return r->values->variable[i].value;
	const p4d_method *function = p4d_template__find_function(name);
	if (function)
		return (p4d_datum){.kind = P4D_FUNCTION, .function = function};
	return (p4d_datum){.kind = P4D_UNDEFINED, .name = name};
}
