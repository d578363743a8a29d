/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "template/operate.h"

/* Operations on texts, for methods and filters. */
p4d_string p4d_template__strip(p4d_string text, const p4d_string *characters, bool left, bool right);
int p4d_template__replace(p4d_rendering *r, p4d_string text, p4d_string old, p4d_string new, int64_t most,
			  p4d_datum *result);
/* Escapes the characters that are special in HTML. The result is markup. */
int p4d_template__escape(p4d_rendering *r, p4d_string text, p4d_datum *result);
/*
 * Finds the first or the last occurrence of one text in another; NULL: there is none. The work counts as
 * steps. Errors: VALUE.
 */
int p4d_template__find(p4d_rendering *r, p4d_string text, p4d_string what, bool last, const char **found);
/* Splits into lines, without or with their line breaks. */
int p4d_template__lines(p4d_rendering *r, p4d_string text, bool with_ends, p4d_list **lines);

typedef enum p4d_case { P4D_UPPER, P4D_LOWER, P4D_CAPITAL, P4D_TITLE, P4D_TITLE_FILTER } p4d_case;
/* Changes the case of a text. Fails for a character whose other case is several characters. */
int p4d_template__change_case(p4d_rendering *r, p4d_string text, p4d_case to, p4d_datum *result);
