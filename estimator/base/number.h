/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Converts texts to numbers, in any locale. The number must be the whole text: no blanks, and no sign if the
 * number cannot be negative. If this returns false, *number is unchanged.
 */
bool p4d_number_whole(const char *text, uint64_t least, uint64_t most, uint64_t *number);
bool p4d_number_real(const char *text, double least, double most, double *number);
bool p4d_number_hex(const char *text, uint64_t *number); /* sixteen hexadecimal digits in lower case */

/*
 * Parses the whole number at the start of a text. Returns the rest of the text; NULL if there is no number or
 * it does not fit 64 bits.
 */
const char *p4d_number_digits(const char *text, uint64_t *number);

enum { P4D_NUMBER_TEXT = 32 };

/* A whole number in decimal digits. The result is inside the buffer, but not always at its start. */
const char *p4d_number_integer(int64_t number, char buf[P4D_NUMBER_TEXT]);

/* Formats like "%.*g". */
const char *p4d_number_text(double number, int digits, char buf[P4D_NUMBER_TEXT]);
/* The shortest text that reads back as the same number. */
const char *p4d_number_exact(double number, char buf[P4D_NUMBER_TEXT]);

/* Compares two doubles, for qsort. */
int p4d_number_order(const void *a, const void *b);
