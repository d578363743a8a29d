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

/* What is left to do where no number of GPUs is enough, in the words of the request's framework. Static. */
const char *p4d_unfit_last_fix(const p4d_request *request);
