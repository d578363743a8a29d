/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "serve/serving.h"

/*
 * How fast an inference engine answers, from its cache (p4d_serving_estimate) and the cost of one pass
 * (p4d_cost_serve). Every sequence in flight gets one token per pass. A sequence that has ended makes room
 * for the next prompt. vLLM computes that prompt in passes together with the other sequences, in chunks of
 * max-num-batched-tokens. SGLang computes prompts in passes of their own, which have no CUDA graph.
 * tests/data/serving_measured.csv has measurements of others. Requests that are all sent at once run in waves
 * of as many as fit; fewer are in the last wave, whose passes take nearly as long.
 */

/* The load: averages over all requests, on all replicas. */
typedef struct p4d_serving_load {
	double prompt, answer; /* mean tokens */
	double concurrency;    /* requests in flight at a time; 0: as many as fit the cache */
	double rate;           /* requests that arrive per second; 0: concurrency decides */
	double requests;       /* total number of requests, all sent at the start; 0: requests never end */
} p4d_serving_load;

/* Throughput counts tokens of answers, on all replicas. */
typedef struct p4d_serving_speed {
	double at_a_time; /* sequences in flight, on all replicas */
	double tokens_per_s, requests_per_s;
	double first_token_s; /* mean; 0: the wait grows without bound, because more requests arrive than are
			       * answered */
	double between_tokens_s; /* mean */
	double most;             /* sequences that fit the cache at a time, on all replicas */
	double most_tokens_per_s;
} p4d_serving_speed;

/* The load that the request states, completed with p4d's defaults. */
p4d_serving_load p4d_serving_load_of(const p4d_request *request);

/*
 * Speed for a request that p4d_serving_estimate accepted. Errors: NO_RATES if the GPU's rates are unknown;
 * VALUE if prompt and answer are longer than seq-len; DOES_NOT_FIT if not even one such sequence fits.
 */
int p4d_serving_speed_of(const p4d_request *request, const p4d_gpu *gpu, uint64_t gpus_per_node,
			 const p4d_serving *serving, const p4d_serving_load *load, p4d_serving_speed *speed,
			 p4d_error *err);
