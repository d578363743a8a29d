/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "line/line.h"
#include "search/search.h"

/*
 * Why no layout on the subject's GPUs fits, what was searched, and what would fit: P4D_E_NO_LAYOUT with a
 * fix. counts: of the search that found no layout. Always -1.
 */
int p4d_unfit_explain(const p4d_subject *subject, const p4d_search_space *space,
		      const p4d_search_counts *counts, p4d_error *err);

/*
 * What would let a request fit that does not on the subject's GPUs, nor on more of them (grown: it does): in
 * words after a semicolon, as p4d_guard_ways_out or that nothing does, and as a command, fix ("": none).
 */
const char *p4d_unfit_ways_out(const p4d_subject *subject, const p4d_request *asked,
			       const p4d_search_space *space, bool grown, char *words, size_t size, char *fix,
			       size_t room);
