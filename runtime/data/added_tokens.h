/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* An added token: wherever its text occurs, the text becomes this token. */
typedef struct p4d_added_token {
	int32_t token;
	bool strips_left, strips_right; /* adjacent white space belongs to the token */
} p4d_added_token;

/* A prefix tree of the texts, byte by byte. A zeroed tree is empty. */
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
 * Finds the first added token from `from` on. If several begin at the same place, it finds the longest.
 * *begin and *end include white space that belongs to the token, but nothing before `from`. NULL: there is
 * none.
 */
const p4d_added_token *p4d_added_tokens__next(const p4d_added_tokens *tokens, const char *text, size_t length,
					      size_t from, size_t *begin, size_t *end);

/* Returns the added token that equals the whole text; NULL: none does. */
const p4d_added_token *p4d_added_tokens__find(const p4d_added_tokens *tokens, const char *text,
					      size_t length);

/* Writes the text of an added token to buf. Returns its length; 0: the token is not an added token. */
size_t p4d_added_tokens__text(const p4d_added_tokens *tokens, int32_t token, char *buf, size_t size);
