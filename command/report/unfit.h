/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "line/line.h"
#include "search/search.h"

/*
 * Explains why no layout on the subject's GPUs fits, what was searched, and what would fit. *err is
 * P4D_E_NO_LAYOUT with a fix. counts: from the search that found no layout. Always returns -1.
 */
int p4d_unfit_explain(const p4d_subject *subject, const p4d_search_space *space,
		      const p4d_search_counts *counts, p4d_error *err);

/*
 * Finds how to make a request fit that fits neither on the subject's GPUs nor on more of them (grown: it fits
 * on more). Returns this in words after a semicolon, as p4d_guard_ways_out does, or that nothing would help;
 * `fix` receives a command ("": none).
 */
const char *p4d_unfit_ways_out(const p4d_subject *subject, const p4d_request *asked,
			       const p4d_search_space *space, bool grown, char *words, size_t size, char *fix,
			       size_t room);
