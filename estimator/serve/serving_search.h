/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "request/layout.h"
#include "serve/serving_speed.h"

/* Layouts of an inference engine on a number of GPUs, lowest cost per token first. */
typedef struct p4d_serving_space {
	const p4d_gpu *gpu;
	uint64_t nodes, gpus_per_node;
	double first_token_s, between_tokens_s; /* the user's upper bounds; 0: none */
} p4d_serving_space;

/* The load of the request, with the upper bounds that the request states. */
p4d_serving_space p4d_serving_space_of(const p4d_request *request, const p4d_gpu *gpu, uint64_t nodes,
				       uint64_t gpus_per_node);

typedef struct p4d_serving_found {
	p4d_request request;
	p4d_serving serving;
	p4d_serving_speed speed;
	uint64_t gpus; /* GPUs that serve the load: for a rate, the fewest replicas that can; otherwise
			* all GPUs that form whole replicas */
} p4d_serving_found;

/*
 * too_large: layouts with which the engine does not start. too_slow: layouts that are too slow under any
 * load, or answer fewer requests than arrive.
 */
typedef struct p4d_serving_counts {
	uint64_t considered, too_large, too_slow;
} p4d_serving_counts;

/*
 * Tries tp, pp and, for models with experts, data-parallel-size and expert-parallel, unless the request sets
 * them. With a rate, layouts with the fewest GPUs come first. Otherwise the most tokens per second and GPU
 * come first, at the largest number of requests in flight that stays within the bounds (or at the request's
 * concurrency). found: array of `room` entries, filled in this order. Returns the number of entries. Errors
 * (SIZE_MAX): those of p4d_serving_estimate for degrees that no layout has; VALUE of the load, NO_RATES of
 * the GPU; the last layout's error, if p4d can judge no layout.
 */
size_t p4d_serving_search(const p4d_request *request, const p4d_serving_space *space,
			  p4d_serving_found *found, size_t room, p4d_serving_counts *counts, p4d_error *err);

/* -1 if tp does not split the model's heads; *err then has the nearest smaller tp that splits them. */
int p4d_serving__check_heads(const p4d_layout *layout, p4d_error *err);
