/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "serve/serving_speed.h"

/* Layouts of an inference engine on a number of GPUs, the least cost per token first. */
typedef struct p4d_serving_space {
	const p4d_gpu *gpu;
	uint64_t nodes, gpus_per_node;
	double first_token_s, between_tokens_s; /* the longest that is wanted; 0: any */
} p4d_serving_space;

/* With the bounds that the request states. */
p4d_serving_space p4d_serving_space_of(const p4d_request *request, const p4d_gpu *gpu, uint64_t nodes,
				       uint64_t gpus_per_node);

typedef struct p4d_serving_found {
	p4d_request request;
	p4d_serving serving;
	p4d_serving_speed speed;
	uint64_t gpus; /* GPUs that answer the load: for a rate, the fewest replicas that do; otherwise all
			  GPUs that make whole replicas */
} p4d_serving_found;

/* Counts of layouts: those that do not start; those whose every load is slower than wanted, or that answer
 * fewer requests than arrive. */
typedef struct p4d_serving_counts {
	uint64_t considered, too_large, too_slow;
} p4d_serving_counts;

/*
 * Tries tp, pp, and for models with experts data-parallel-size and expert-parallel, unless the request sets
 * them. With a rate the fewest GPUs come first, otherwise the most tokens per second and GPU, at the largest
 * number of requests in flight that stays within the bounds (or at the request's concurrency). found: room
 * entries, written in that order. Returns their number; fewer than room if there are no more. Errors
 * (SIZE_MAX): those of p4d_serving_estimate for degrees that no layout has; VALUE of the load, NO_RATES of
 * the GPU; those of the last layout, if none can be judged.
 */
size_t p4d_serving_search(const p4d_request *request, const p4d_serving_space *space,
			  p4d_serving_found *found, size_t room, p4d_serving_counts *counts, p4d_error *err);
