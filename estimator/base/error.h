/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Errors are owned by the caller and never allocate. A fallible function takes `p4d_error *err` last, returns
 * 0 on success and -1 on failure; on success *err is untouched, on failure it holds the code, what went wrong
 * with the numbers, and (where one is known) a fix that can be pasted. Outputs are left as they were on
 * failure.
 */
typedef enum p4d_code {
	P4D_OK = 0,
#define CODE(number, name, title, text) P4D_E_##name = number,
#include "base/codes.def"
#undef CODE
} p4d_code;

typedef struct p4d_error {
	p4d_code code;
	char text[480]; /* with the numbers, no trailing newline */
	char fix[480];  /* flags that can be pasted; "" when none is known */
} p4d_error;

/* Fills *err (which may be NULL) and returns -1, so that callers can write `return p4d_fail(err, ...)`. */
int p4d_fail(p4d_error *err, p4d_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Adds the fix to an error that p4d_fail just filled; returns -1. */
int p4d_fix(p4d_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prefixes the text with what it is about, a file or a model; returns -1. */
int p4d_error_in(p4d_error *err, const char *what);

const char *p4d_error_code_title(p4d_code code); /* NULL when there is no such code */
const char *p4d_error_code_text(p4d_code code);
