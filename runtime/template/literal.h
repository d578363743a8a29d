/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "template/arena.h"
#include "template/value.h"

/* Reads a text in quotes, with Python's escapes. -1: it is malformed, or there is no memory. */
int p4d_template__unescape(p4d_string raw, p4d_arena *arena, p4d_string *text);

/*
 * Reads a number at the beginning of a text. Returns 0: it is *integer; 1: it is *real; -1: it is too large.
 * *length: its length in bytes.
 */
int p4d_template__number(p4d_string text, bool may_be_real, int64_t *integer, double *real, size_t *length);

/* Writes the UTF-8 of a character to buf; returns the number of bytes. */
size_t p4d_template__utf8(uint32_t code, char buf[4]);

/*
 * The result of reading a number: the text is no number in Python; it is a number that p4d reads; or it is a
 * number that p4d cannot read, because it has digits of another script or is too large.
 */
typedef enum p4d_parsed { P4D_NO_NUMBER, P4D_NUMBER, P4D_UNKNOWN_NUMBER } p4d_parsed;

/* Read a text as Python's int and float do. base 0: a prefix such as 0x gives the base. */
p4d_parsed p4d_template__parse_integer(p4d_string text, int64_t base, int64_t *integer);
p4d_parsed p4d_template__parse_real(p4d_string text, double *real);
