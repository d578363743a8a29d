/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "template/run.h"

/*
 * Whether a value is a number in Python, where a bool is a number too. p4d_template__whole: the value of a
 * number that is not a float.
 */
static inline bool p4d_template__is_number(p4d_datum value)
{
	return value.kind == P4D_BOOL || value.kind == P4D_INTEGER || value.kind == P4D_REAL;
}

static inline int64_t p4d_template__whole(p4d_datum value)
{
	return value.kind == P4D_BOOL ? value.truth : value.integer;
}

/* Python's operations on values. If values are long, the work counts as steps. */
int p4d_template__truth(p4d_rendering *r, p4d_datum value, bool *truth);
int p4d_template__equal(p4d_rendering *r, p4d_datum a, p4d_datum b, bool *equal);
/* *order: below 0, 0 or above 0 if a is less than, equal to or greater than b. */
int p4d_template__compare(p4d_rendering *r, p4d_datum a, p4d_datum b, int *order);
int p4d_template__contains(p4d_rendering *r, p4d_datum all, p4d_datum one, bool *contains);
int p4d_template__math(p4d_rendering *r, p4d_operator op, p4d_datum a, p4d_datum b, p4d_datum *result);
int p4d_template__length(p4d_rendering *r, p4d_datum value, size_t *length);

/* Returns the values that a loop over `value` visits. If it is a generator, it is empty afterwards. */
int p4d_template__iterate(p4d_rendering *r, p4d_datum value, const p4d_datum **at, size_t *count);
/* Removes the first values of a generator. */
void p4d_template__pass(p4d_list *generator, size_t count);
/* Fails because a value is of the wrong kind. The message has the name of its kind. */
int p4d_template__not_a(p4d_rendering *r, p4d_datum value, const char *what);
const char *p4d_template__kind(p4d_datum value);

/* Python's str of a value, and its repr. */
int p4d_template__string(p4d_rendering *r, p4d_datum value, p4d_string *text);
int p4d_template__write_value(p4d_rendering *r, p4d_written *buffer, p4d_datum value);
int p4d_template__write_repr(p4d_rendering *r, p4d_written *buffer, p4d_datum value);

/* Read members, items and slices. If there is none, the result is undefined. */
int p4d_template__attribute(p4d_rendering *r, p4d_datum value, const char *name, p4d_datum *result);
int p4d_template__item(p4d_rendering *r, p4d_datum value, p4d_datum index, p4d_datum *result);
/* bound: start, stop and step; NULL: none. */
int p4d_template__slice(p4d_rendering *r, p4d_datum value, const p4d_datum *const bound[3],
			p4d_datum *result);

int p4d_template__new_list(p4d_rendering *r, p4d_list_form form, size_t room, p4d_list **list);
int p4d_template__append(p4d_rendering *r, p4d_list *list, p4d_datum value);
int p4d_template__new_dict(p4d_rendering *r, p4d_dict **dict);
int p4d_template__put(p4d_rendering *r, p4d_dict *dict, p4d_datum key, p4d_datum value);
/* NULL: there is no such key. */
const p4d_datum *p4d_template__get(p4d_rendering *r, const p4d_dict *dict, p4d_datum key);
const p4d_datum *p4d_template__get_text(const p4d_dict *dict, const char *key);
