/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

/*
 * Writes JSON without blanks; inserts commas itself. Only the text allocates memory. key: name of a member;
 * NULL in lists and at the top. Bytes that are not UTF-8 are copied unchanged.
 */
void p4d_json_text_open(p4d_text *text, const char *key, char bracket); /* '{' or '[' */
void p4d_json_text_close(p4d_text *text, char bracket);

void p4d_json_text_string(p4d_text *text, const char *key, const char *string);
void p4d_json_text_whole(p4d_text *text, const char *key, uint64_t number);
void p4d_json_text_real(p4d_text *text, const char *key, double number); /* nine digits; null for infinity
									  * and NaN */
void p4d_json_text_bool(p4d_text *text, const char *key, bool value);
void p4d_json_text_null(p4d_text *text, const char *key);

/* A quoted and escaped string, for callers that write the rest of the JSON themselves. */
void p4d_json_text_quote(p4d_text *text, const char *string);
