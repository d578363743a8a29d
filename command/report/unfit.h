/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "line/line.h"
#include "search/search.h"

/*
 * Why no layout of the subject's GPUs fits, what was searched, and what would fit: P4D_E_NO_LAYOUT with a
 * fix. counts: of the search that found none. Always -1.
 */
int p4d_unfit_explain(const p4d_subject *subject, const p4d_search_space *space,
		      const p4d_search_counts *counts, p4d_error *err);

/*
 * What else than more GPUs would let the request fit, as p4d_guard_ways_out, and the fix where no number of
 * them is enough: the command with the first of these, else what is left to do in the framework's words.
 */
const char *p4d_unfit_ways_out(const p4d_subject *subject, const p4d_request *asked,
			       const p4d_search_space *space, char *ways, size_t size, char *fix,
			       size_t room);
