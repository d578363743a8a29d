/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the periodic part of a step's graph. */
#include "timeline/timeline_graph.h"

static bool repeats(const p4d_timeline_node *node, uint32_t period)
{
	const p4d_timeline_node *earlier = node - period;

	return node->cost == earlier->cost && node->lag == earlier->lag &&
	       node->before == earlier->before + (node->before ? period : 0) &&
	       node->needs == earlier->needs + (node->needs ? period : 0);
}

/* Finds the longest range in which every node repeats the node one period earlier. */
void p4d_timeline_graph__find_periods(p4d_timeline_graph *graph, uint64_t each)
{
	uint32_t run = 0, longest = 0, end = 0;

	if (each * graph->micro_batches >= graph->nodes)
		return;
	graph->period = (uint32_t)(each * graph->micro_batches);
	for (uint32_t i = graph->period + 1; i < graph->nodes; i++) {
		run = repeats(&graph->node[i], graph->period) ? run + 1 : 0;
		if (run > longest) {
			longest = run;
			end = i + 1;
		}
	}
	graph->windows = longest / graph->period + 1;
	/* the range ends with these windows, before the end of the step */
	graph->body = end - graph->windows * graph->period;
	for (uint32_t i = end - graph->period; i < graph->nodes; i++) {
		const p4d_timeline_node *node = &graph->node[i];
		const uint32_t from = i < end ? i : end;
		uint32_t back = node->before && node->before < from ? from - node->before : 0;
		if (node->needs && node->needs < from && from - node->needs > back)
			back = from - node->needs;
		back = (back + graph->period - 1) / graph->period;
		graph->reach = back > graph->reach ? back : graph->reach;
	}
	if (graph->windows < graph->reach + 2 || graph->windows < 3)
		graph->windows = 0;
}

uint32_t p4d_timeline_graph__enough(const p4d_schedule *s)
{
	const p4d_schedule_kind *kind = p4d_schedule_kinds[s->kind];

	if (!kind->steady.quarters)
		return (6 * s->stages / 4 + 16) * p4d_schedule_slices(s);
	return kind->steady.quarters * s->stages / 4 + kind->steady.more;
}
