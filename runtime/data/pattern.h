/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* A regular expression of a tokenizer.json. The file has Oniguruma's, in Ruby's syntax; PCRE2 matches them.
 */
typedef struct p4d_pattern {
	void *code, *match;
} p4d_pattern;

/* literal: the text itself. Errors: VALUE (what has another meaning in PCRE2, or none), NO_MEMORY. */
int p4d_pattern__open(p4d_pattern *pattern, const char *text, bool literal, p4d_error *err);
void p4d_pattern__close(p4d_pattern *pattern);

/* The next match from `from` on: 1 with *begin and *end, 0 without, -1 with VALUE. */
int p4d_pattern__next(const p4d_pattern *pattern, const char *text, size_t length, size_t from, size_t *begin,
		      size_t *end, p4d_error *err);
