/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out whether p4d can tell two layouts apart. */
#include <math.h>
#include <string.h>

#include "search/search_internal.h"

/* Options that a search decides in addition to p4d_layout_options, and texts that follow from these
 * options. */
static const p4d_option others[] = {P4D_OPTIMIZER_SHARDING, P4D_SHARD_DEGREE,   P4D_ACCOUNT_FOR_EMBEDDING,
				    P4D_ACCOUNT_FOR_LOSS,   P4D_PIPELINE_SPLIT, P4D_TP_GRID,
				    P4D_SLICE_LENGTHS};
enum { OTHERS = sizeof(others) / sizeof(others[0]) };

static bool differ_in(const p4d_request *a, const p4d_request *b, p4d_option option)
{
	char of_a[1024], of_b[1024];

	if (p4d_is_set(a, option) != p4d_is_set(b, option))
		return true;
	if (!p4d_is_set(a, option))
		return false;
	if (p4d_request_option_info(option)->kind != P4D_TEXT_KIND)
		return a->value[option] != b->value[option];
	return strcmp(p4d_request_value_text(a, option, of_a, sizeof(of_a)),
		      p4d_request_value_text(b, option, of_b, sizeof(of_b))) != 0;
}

static bool ties(const p4d_candidate *a, const p4d_candidate *b)
{
	const double ratio = a->step.seconds / b->step.seconds;

	return a->step.seconds > 0 && b->step.seconds > 0 && ratio <= P4D_SEARCH_TIE &&
	       1 / ratio <= P4D_SEARCH_TIE &&
	       fabs(a->fraction - b->fraction) <= 1.0 / P4D_SEARCH_MEMORY_STEPS;
}

unsigned p4d_search_near(const p4d_candidate *a, const p4d_candidate *b, p4d_option differs[P4D_NEAR_OPTIONS])
{
	unsigned count = 0;

	if (!ties(a, b))
		return 0;
	for (size_t i = 0; i < P4D_LAYOUT_OPTIONS + OTHERS; i++) {
		const p4d_option option =
		    i < P4D_LAYOUT_OPTIONS ? p4d_layout_options[i] : others[i - P4D_LAYOUT_OPTIONS];
		if (!differ_in(&a->request, &b->request, option))
			continue;
		if (count == P4D_NEAR_OPTIONS)
			return 0;
		differs[count++] = option;
	}
	return count;
}
