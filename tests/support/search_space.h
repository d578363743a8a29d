/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* GPUs for a search, as load_gpus (a group setup) finds them. */
#include "support/support.h"

#include "search/search.h"
#include "support/cost_gpus.h"

static inline const p4d_gpu *gpu_of(const char *name)
{
	const p4d_gpu *gpu = p4d_gpu_find(&gpus, name, NULL);

	assert_non_null(gpu);
	return gpu;
}

static inline p4d_search_space space_of(uint64_t nodes, uint64_t gpus_per_node, const char *gpu)
{
	p4d_search_space space = {.nodes = nodes,
				  .gpus_per_node = gpus_per_node,
				  .published_batch = 1024,
				  .capacity = {gpu_of(gpu), 0, 0},
				  .safe = 0.80,
				  .limit = 0.95};
	return space;
}
