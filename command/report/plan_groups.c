/* SPDX-License-Identifier: Apache-2.0 */
#include "report/plan_groups.h"

#include "base/text.h"

void p4d_plan_groups(const p4d_candidate *found, size_t count, size_t *group)
{
	p4d_option differs[P4D_NEAR_OPTIONS];

	for (size_t i = 0; i < count; i++) {
		group[i] = i;
		for (size_t first = 0; first < i && group[i] == i; first++)
			if (group[first] == first && p4d_search_near(&found[first], &found[i], differs))
				group[i] = first;
	}
}

/* Adds options as "vpp=8 schedule=zb1p"; the value of an option that this layout does not set is "-". */
static void add_options(const p4d_request *request, const p4d_option *options, unsigned count, p4d_text *text)
{
	char value[64];

	for (unsigned i = 0; i < count; i++)
		p4d_text_print(text, "%s%s=%s", i ? " " : "", p4d_request_option_info(options[i])->name,
			       p4d_is_set(request, options[i])
				   ? p4d_request_value_text(request, options[i], value, sizeof(value))
				   : "-");
}

const char *p4d_plan_group_text(const p4d_candidate *found, size_t count, const size_t *group, size_t first,
				char *buf, size_t size)
{
	p4d_text text = p4d_text_in(buf, size);
	p4d_option differs[P4D_NEAR_OPTIONS];

	*buf = 0;
	for (size_t i = first + 1; i < count; i++) {
		if (group[i] != first)
			continue;
		const unsigned options = p4d_search_near(&found[first], &found[i], differs);
		p4d_text_print(&text, "%s", text.length ? ", " : "also: ");
		add_options(&found[i].request, differs, options, &text);
		p4d_text_print(&text, " (rank %zu)", i + 1);
	}
	return buf;
}
