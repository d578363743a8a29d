/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Numbers in text, whatever the locale. A number is all of the text: no blanks, no sign where nothing below 0
 * is possible. On false *number is unchanged.
 */
bool p4d_number_whole(const char *text, uint64_t least, uint64_t most, uint64_t *number);
bool p4d_number_real(const char *text, double least, double most, double *number);
bool p4d_number_hex(const char *text, uint64_t *number); /* sixteen small digits */

/* Parses the leading whole number of a text; returns what follows, NULL where none fits 64 bits. */
const char *p4d_number_digits(const char *text, uint64_t *number);

enum { P4D_NUMBER_TEXT = 32 };

/* A whole number in decimals: in the buffer, not always at its start. */
const char *p4d_number_integer(int64_t number, char buf[P4D_NUMBER_TEXT]);

/* Like "%.*g"; and the shortest text that reads back as the same number. */
const char *p4d_number_text(double number, int digits, char buf[P4D_NUMBER_TEXT]);
const char *p4d_number_exact(double number, char buf[P4D_NUMBER_TEXT]);
