/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* A text that is a token wherever it occurs. */
typedef struct p4d_added_token {
	int32_t token;
	bool strips_left, strips_right; /* adjacent white space belongs to the token */
} p4d_added_token;

/* A tree of these texts, byte by byte. A zeroed tree is empty. */
typedef struct p4d_added_tokens {
	struct p4d_added_node *nodes; /* 0: none */
	size_t count, room;
	uint32_t first[256]; /* nodes of the tree for each first byte */
} p4d_added_tokens;

/* Adds a text. If the text is already there, its token changes. Errors: NO_MEMORY. */
int p4d_added_tokens__add(p4d_added_tokens *tokens, const char *text, size_t length, p4d_added_token token,
			  p4d_error *err);
void p4d_added_tokens__close(p4d_added_tokens *tokens);

/*
 * Finds the first token from `from` on; if several begin at one place, the longest. NULL: none; else *begin
 * and *end, including the white space that belongs to it, but nothing before `from`.
 */
const p4d_added_token *p4d_added_tokens__next(const p4d_added_tokens *tokens, const char *text, size_t length,
					      size_t from, size_t *begin, size_t *end);

/* The token that equals the whole text; NULL: none. */
const p4d_added_token *p4d_added_tokens__find(const p4d_added_tokens *tokens, const char *text,
					      size_t length);

/* Writes the text of a token to buf; returns its length, 0: it is no added token. */
size_t p4d_added_tokens__text(const p4d_added_tokens *tokens, int32_t token, char *buf, size_t size);
