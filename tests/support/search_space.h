/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The GPUs of p4d's table, for a search. The group setup load_gpus loads them. */
#include "support/support.h"

#include "search/search.h"
#include "support/cost_gpus.h"

static inline const p4d_gpu *gpu_of(const char *name)
{
	const p4d_gpu *gpu = p4d_gpu_find(&gpus, name, NULL);

	assert_non_null(gpu);
	return gpu;
}

/* Expects that a request for the candidate's layout alone gives the same figures on H100s. Returns its
 * layout. */
static inline p4d_layout layout_that_holds(const p4d_candidate *c, uint64_t nodes, uint64_t gpus_per_node)
{
	const p4d_gpu *gpu = gpu_of("h100-80gb");
	const p4d_capacity capacity = {gpu, 0, 0};
	p4d_timeline_work work = {0};
	p4d_estimate e;
	p4d_step step;
	p4d_layout l;
	p4d_error err;

	if (p4d_layout_build(&c->request, nodes, gpus_per_node, &l, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(p4d_memory_estimate(&l, P4D_METHOD_PLAN, &capacity, &e, NULL), 0);
	assert_int_equal(e.peak.device_bytes, c->device_bytes);
	assert_int_equal(p4d_cost_step(&l, gpu, &work, &step, NULL), 0);
	assert_true(step.seconds == c->step.seconds);
	p4d_timeline_work_free(&work);
	return l;
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
