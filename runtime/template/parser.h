/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "template/lexer.h"
#include "template/syntax.h"

/* The parser of a template, and its position in the tokens. */
typedef struct p4d_parser {
	p4d_template *template;
	p4d_token_list tokens;
	size_t at;
	unsigned depth; /* depth of blocks and expressions */
	/*
	 * number of loops, and of captured blocks, that surround the current token within its macro or
	 * template
	 */
	unsigned loops, captures;
	struct p4d_name **names;
	p4d_error *err;
} p4d_parser;

/* All functions return -1 or NULL with *err on failure. */
int p4d_template__wrong(p4d_parser *p, const char *what);
p4d_node *p4d_template__node(p4d_parser *p, p4d_syntax_kind kind);
int p4d_template__enter(p4d_parser *p);

static inline const p4d_token *p4d_template__now(const p4d_parser *p)
{
	return &p->tokens.at[p->at];
}

bool p4d_template__is(const p4d_token *token, p4d_token_kind kind, const char *text);
bool p4d_template__skip(p4d_parser *p, p4d_token_kind kind, const char *text);
int p4d_template__expect(p4d_parser *p, p4d_token_kind kind, const char *text);
/* Reads a name, which must be the next token. */
const char *p4d_template__expect_name(p4d_parser *p);

p4d_node *p4d_template__expression(p4d_parser *p, bool with_condition);
/*
 * Reads one expression, or several with commas, which form a tuple. until: a name that ends the list; may be
 * NULL.
 */
p4d_node *p4d_template__expressions(p4d_parser *p, bool with_condition, const char *until);
/* Reads the targets of an assignment. until: as above. members: a member of a namespace may be a target. */
p4d_node *p4d_template__target(p4d_parser *p, const char *until, bool members);
/* Reads filters that apply to `a`. bare: the first one has no bar before it. */
p4d_node *p4d_template__filters(p4d_parser *p, p4d_node *a, bool bare);
