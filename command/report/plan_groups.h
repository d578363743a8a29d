/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "search/search.h"

/*
 * Layouts of p4d plan that it prints as one row, because p4d cannot tell them apart (p4d_search_near).
 * group[i]: the index of the first layout of the group of found[i]; i if it begins a group.
 */
void p4d_plan_groups(const p4d_candidate *found, size_t count, size_t *group);

/*
 * The layouts in the group of found[first], without found[first]: "also: vpp=8 (rank 5)". Returns buf; it is
 * empty if there are none.
 */
const char *p4d_plan_group_text(const p4d_candidate *found, size_t count, const size_t *group, size_t first,
				char *buf, size_t size);
