/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "template/arena.h"
#include "template/value.h"

typedef enum p4d_token_kind {
	P4D_TOKEN_DATA,
	P4D_TOKEN_BLOCK, /* {% */
	P4D_TOKEN_BLOCK_END,
	P4D_TOKEN_PRINT, /* {{ */
	P4D_TOKEN_PRINT_END,
	P4D_TOKEN_NAME,
	P4D_TOKEN_STRING, /* the text is the string's value */
	P4D_TOKEN_INTEGER,
	P4D_TOKEN_REAL,
	P4D_TOKEN_SIGN, /* an operator or a parenthesis */
	P4D_TOKEN_END,
} p4d_token_kind;

typedef struct p4d_token {
	p4d_token_kind kind;
	unsigned line;
	p4d_string text;
	int64_t integer;
	double real;
} p4d_token;

/* Tokens of a template; the last is P4D_TOKEN_END. */
typedef struct p4d_token_list {
	p4d_token *at;
	size_t count, room;
} p4d_token_list;

/*
 * Splits a template into tokens. Treats white space like Jinja with trim_blocks and lstrip_blocks. The caller
 * frees list->at, also after an error. The texts of tokens are in the arena. Errors: VALUE (name:line: what),
 * NO_MEMORY.
 */
int p4d_template__tokens(p4d_token_list *list, p4d_arena *arena, const char *name, p4d_string source,
			 p4d_error *err);
