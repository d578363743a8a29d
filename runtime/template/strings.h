/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "template/operate.h"

/* What methods and filters do with texts. */
p4d_string p4d_template__strip(p4d_string text, const p4d_string *characters, bool left, bool right);
int p4d_template__replace(p4d_rendering *r, p4d_string text, p4d_string old, p4d_string new, int64_t most,
			  p4d_datum *result);
/* Markup with HTML's characters escaped. */
int p4d_template__escape(p4d_rendering *r, p4d_string text, p4d_datum *result);
/*
 * The first or last place of a text in another; NULL: it is not there. Work is bounded by what is spent.
 * Errors: VALUE.
 */
int p4d_template__find(p4d_rendering *r, p4d_string text, p4d_string what, bool last, const char **found);
/* Lines, without their ends, or with them. */
int p4d_template__lines(p4d_rendering *r, p4d_string text, bool with_ends, p4d_list **lines);

typedef enum p4d_case { P4D_UPPER, P4D_LOWER, P4D_CAPITAL, P4D_TITLE, P4D_TITLE_FILTER } p4d_case;
/* A character whose other case is several characters is an error. */
int p4d_template__change_case(p4d_rendering *r, p4d_string text, p4d_case to, p4d_datum *result);
