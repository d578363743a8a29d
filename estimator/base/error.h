/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The caller owns an error; errors never allocate memory. A function that can fail takes `p4d_error *err` as
 * its last argument and returns 0 on success, -1 on failure. On success *err is unchanged. On failure *err
 * holds the code, a text with the numbers and, if p4d knows one, a fix that the user can paste. A failed
 * function leaves its outputs unchanged.
 */
typedef enum p4d_code {
	P4D_OK = 0,
#define CODE(number, name, title, text) P4D_E_##name = number,
#include "base/codes.def"
#undef CODE
} p4d_code;

typedef struct p4d_error {
	p4d_code code;
	char text[480]; /* what went wrong, with the numbers; no trailing newline */
	char fix[480];  /* flags that the user can paste; "" if p4d knows none */
} p4d_error;

/* Fills *err (err may be NULL) and returns -1, so that callers can write `return p4d_fail(err, ...)`. */
int p4d_fail(p4d_error *err, p4d_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Adds the fix to an error that p4d_fail just filled; returns -1. */
int p4d_fix(p4d_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prefixes the error's text with its subject, such as a file or a model; returns -1. */
int p4d_error_in(p4d_error *err, const char *what);

const char *p4d_error_code_title(p4d_code code); /* NULL if there is no such code */
const char *p4d_error_code_text(p4d_code code);
