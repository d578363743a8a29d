/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/*
 * A regular expression of a tokenizer.json. It has the syntax of Oniguruma (Ruby's library), and PCRE2
 * matches it.
 */
typedef struct p4d_pattern {
	void *code, *match;
} p4d_pattern;

/*
 * literal: `text` is not a pattern but the text to match. Errors: VALUE (a construct that PCRE2 does not
 * have, or to which it gives another meaning), NO_MEMORY.
 */
int p4d_pattern__open(p4d_pattern *pattern, const char *text, bool literal, p4d_error *err);
void p4d_pattern__close(p4d_pattern *pattern);

/* Finds the next match from `from` on. 1: found, with *begin and *end; 0: none; -1 with VALUE. */
int p4d_pattern__next(const p4d_pattern *pattern, const char *text, size_t length, size_t from, size_t *begin,
		      size_t *end, p4d_error *err);
