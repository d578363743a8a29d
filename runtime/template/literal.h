/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "template/arena.h"
#include "template/value.h"

/* A text between quotes, with Python's escapes. -1: a bad one, or no memory. */
int p4d_template__unescape(p4d_string raw, p4d_arena *arena, p4d_string *text);

/* A number at the beginning of a text: 0 and *integer, 1 and *real, -1: too large. *length: its bytes. */
int p4d_template__number(p4d_string text, bool may_be_real, int64_t *integer, double *real, size_t *length);

/* The UTF-8 of a character, in buf; returns its bytes. */
size_t p4d_template__utf8(uint32_t code, char buf[4]);

/* Text that Python's int or float accepts. False: another. */
bool p4d_template__parse_integer(p4d_string text, int base, int64_t *integer);
bool p4d_template__parse_real(p4d_string text, double *real);
