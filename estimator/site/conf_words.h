/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "site/conf.h"

/* Splits the text of p4d.conf into tokens, for conf_parse.c. */

enum { P4D_CONF_WORD = 1024 };

typedef enum p4d_conf_token {
	P4D_TOKEN_END,
	P4D_TOKEN_WORD,
	P4D_TOKEN_STRING,
	P4D_TOKEN_OPEN = '{',
	P4D_TOKEN_CLOSE = '}',
	P4D_TOKEN_EQUALS = '=',
	P4D_TOKEN_COMMA = ','
} p4d_conf_token;

typedef struct p4d_conf_words {
	const p4d_conf *conf; /* for messages */
	p4d_error *err;
	const char *at, *end;
	unsigned line;
	p4d_conf_token token; /* the current token, its line, and the text of a WORD or STRING */
	unsigned token_line;
	char word[P4D_CONF_WORD];
} p4d_conf_words;

/*
 * Advances to the next token, past blanks and comments (# to the end of the line). Words consist of letters,
 * digits and _-.:/@%. Other text needs quotes; within quotes there are no escapes and no variables, so every
 * text has one meaning. Errors: CONF_SYNTAX, CONF_RANGE (longer than P4D_CONF_WORD), CONF_TRUNCATED.
 */
int p4d_conf_words__next(p4d_conf_words *words);

/* Fails with a text that names the current token and what is `wanted` instead. */
int p4d_conf_words__unexpected(p4d_conf_words *words, const char *wanted);
