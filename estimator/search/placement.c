/* SPDX-License-Identifier: Apache-2.0 */
#include "search/placement.h"

#include <stdlib.h>

static bool try_place(const p4d_request *request, const p4d_search_space *space, const p4d_node_kind *kind,
		      uint64_t nodes, p4d_placement *out)
{
	p4d_search_space there = *space;
	p4d_request asked = *request;

	there.nodes = nodes;
	there.gpus_per_node = kind->gpus_per_node;
	there.capacity = kind->capacity;
	there.safe = kind->safe;
	there.limit = kind->limit;
	p4d_gpu_set_domain(kind->capacity.gpu, &asked);
	asked.network = kind->network;
	if (!p4d_search_preferred(&asked, &there, &out->best, NULL) || out->best.step.seconds <= 0)
		return false;
	const double gpus = (double)(nodes * kind->gpus_per_node);
	out->kind = kind;
	out->nodes = nodes;
	out->tokens_per_second = out->best.step.tokens_per_second_per_gpu * gpus;
	out->gpu_seconds_per_token = 1 / out->best.step.tokens_per_second_per_gpu;
	out->dominated = false;
	return true;
}

/* Order of placements: by speed; among equally fast ones, the cheaper first. */
static int compare(const void *left, const void *right)
{
	const p4d_placement *a = left, *b = right;

	if (a->tokens_per_second != b->tokens_per_second)
		return a->tokens_per_second > b->tokens_per_second ? -1 : 1;
	return (a->gpu_seconds_per_token > b->gpu_seconds_per_token) -
	       (a->gpu_seconds_per_token < b->gpu_seconds_per_token);
}

size_t p4d_placement_search(const p4d_request *request, const p4d_search_space *space,
			    const p4d_node_kind *kind, size_t kinds, uint64_t nodes, p4d_placement *found,
			    size_t room)
{
	size_t count = 0;

	for (size_t i = 0; i < kinds; i++) {
		const uint64_t most = kind[i].most_nodes ? kind[i].most_nodes : P4D_PLACEMENT_NODES;
		if (nodes) {
			if (nodes <= most && count < room)
				count += try_place(request, space, &kind[i], nodes, &found[count]);
			continue;
		}
		for (uint64_t n = 1; n <= most && count < room; n = n == most      ? most + 1
								    : 2 * n < most ? 2 * n
										   : most)
			count += try_place(request, space, &kind[i], n, &found[count]);
	}
	if (count)
		qsort(found, count, sizeof(*found), compare);
	double cheapest = count ? found[0].gpu_seconds_per_token : 0;
	for (size_t i = 1; i < count; i++) {
		found[i].dominated = found[i].gpu_seconds_per_token >= cheapest;
		if (!found[i].dominated)
			cheapest = found[i].gpu_seconds_per_token;
	}
	return count;
}

const p4d_placement *p4d_placement_instead(const p4d_placement *found, size_t count, double tokens_per_second,
					   uint64_t gpus)
{
	const p4d_placement *best = NULL;
	double cheapest = (double)gpus / tokens_per_second;

	for (size_t i = 0; i < count && found[i].tokens_per_second >= tokens_per_second; i++)
		if (found[i].gpu_seconds_per_token < cheapest) {
			best = &found[i];
			cheapest = best->gpu_seconds_per_token;
		}
	return best;
}
