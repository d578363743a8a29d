/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Numbers in text, whatever the locale. A number is all of the text: no blanks, no sign where nothing below 0
 * is possible. False leaves *number.
 */
bool p4d_number_whole(const char *text, uint64_t least, uint64_t most, uint64_t *number);
bool p4d_number_real(const char *text, double least, double most, double *number);
bool p4d_number_hex(const char *text, uint64_t *number); /* sixteen small digits */

/* The whole number that a text begins with; what follows it, NULL where there is none that fits 64 bits. */
const char *p4d_number_digits(const char *text, uint64_t *number);

enum { P4D_NUMBER_TEXT = 32 };

/* Like "%.*g"; and with no more digits than it takes to read the same number again. */
const char *p4d_number_text(double number, int digits, char buf[P4D_NUMBER_TEXT]);
const char *p4d_number_exact(double number, char buf[P4D_NUMBER_TEXT]);
