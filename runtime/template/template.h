/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <json-c/json.h>

#include "base/error.h"

/*
 * Chat templates of released models, written in Jinja. p4d interprets the part of Jinja that such templates
 * use, with transformers' settings: trim_blocks, lstrip_blocks, a sandbox in which templates cannot change
 * their variables' values, loop controls and {% generation %}. Errors have the form NAME:LINE: what.
 *
 * Time, memory and depth of a rendering have limits. Time is counted in steps: one step is the evaluation of
 * a node of the template, or the work on a few values or bytes.
 */
enum {
	P4D_TEMPLATE_SOURCE = 1 << 20, /* maximum bytes of a template */
	P4D_TEMPLATE_NESTING = 100,    /* maximum depth of blocks and expressions */
	P4D_TEMPLATE_DEPTH =
	    600, /* maximum depth while a template runs, including calls of macros and nested values */
	P4D_TEMPLATE_MEMORY = 512 << 20,   /* maximum bytes of memory for a rendering */
	P4D_TEMPLATE_STEPS = 50 * 1000000, /* default of `steps` */
};

typedef struct p4d_template p4d_template;

/* The variables that a template reads, by name. */
typedef struct p4d_template_values p4d_template_values;

/* A part of a text that the template put between {% generation %} and {% endgeneration %}. */
typedef struct p4d_template_span {
	size_t from, to;
} p4d_template_span;

/* The result of a rendering, valid until the next rendering of these values. */
typedef struct p4d_template_text {
	const char *text;
	size_t length;
	const p4d_template_span *generated;
	size_t spans;
} p4d_template_text;

/* name: the template's name in messages; borrowed. Errors: VALUE, NO_MEMORY. */
int p4d_template_open(p4d_template **template, const char *name, const char *source, size_t length,
		      p4d_error *err);
void p4d_template_close(p4d_template *template);

/* Whether the template marks the text that the model wrote. */
int p4d_template_generates(const p4d_template *template);

/* Errors: NO_MEMORY. */
int p4d_template_values_open(p4d_template_values **values, p4d_error *err);
void p4d_template_values_close(p4d_template_values *values);
void p4d_template_values_clear(p4d_template_values *values);

/*
 * Sets the date that the function strftime_now formats. Without a date, a call of that function is an error.
 */
void p4d_template_values_date(p4d_template_values *values, const struct tm *date);

/*
 * Sets a variable to a copy of a JSON value; NULL: None in Python. name is borrowed. Errors: VALUE,
 * NO_MEMORY.
 */
int p4d_template_values_set(p4d_template_values *values, const char *name, struct json_object *value,
			    p4d_error *err);
/*
 * Limits a list variable to a part of the list that p4d_template_values_set stored: elements 0 .. head-1 and
 * from .. to-1, with head <= from. Elements beyond the list's end are left out. Errors: NO_MEMORY.
 */
int p4d_template_values_part(p4d_template_values *values, const char *name, size_t head, size_t from,
			     size_t to, p4d_error *err);

/*
 * Renders the template. *steps: the number of steps that the rendering may take; it subtracts those that it
 * took. steps NULL: it may take P4D_TEMPLATE_STEPS. Errors: VALUE (an error that the template raises; what is
 * wrong or not supported, with its line; a limit), NO_MEMORY.
 */
int p4d_template_render(const p4d_template *template, p4d_template_values *values, uint64_t *steps,
			p4d_template_text *text, p4d_error *err);
