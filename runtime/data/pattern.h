/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* A regular expression of a tokenizer.json. The file has Oniguruma's syntax (Ruby's); PCRE2 matches. */
typedef struct p4d_pattern {
	void *code, *match;
} p4d_pattern;

/*
 * literal: matches the text itself. Errors: VALUE (a construct with another meaning, or none, in PCRE2),
 * NO_MEMORY.
 */
int p4d_pattern__open(p4d_pattern *pattern, const char *text, bool literal, p4d_error *err);
void p4d_pattern__close(p4d_pattern *pattern);

/* Finds the next match from `from` on. 1: found, with *begin and *end; 0: none; -1 with VALUE. */
int p4d_pattern__next(const p4d_pattern *pattern, const char *text, size_t length, size_t from, size_t *begin,
		      size_t *end, p4d_error *err);
