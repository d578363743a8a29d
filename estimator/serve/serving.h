/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "gpu/gpu.h"
#include "request/request.h"

/*
 * Predicts what an inference engine reports at startup: whether one sequence of the full length fits next to
 * the weights, and how many such sequences fit. The formulas come from vLLM's source (releases 0.11 to 0.33:
 * gpu_worker.py, kv_cache_utils.py, kv_cache_interface.py), not from measurements: unvalidated.
 *
 *   available = utilization x memory of the GPU - weights - activations of the profile run - buffers - graphs
 *
 * Buffers, graphs and defaults are those of vLLM 0.33 as p4d rehearse starts it (serving_rehearsed.csv).
 * Before 0.21, CUDA graphs were not part of the utilization. The CUDA context and NCCL are allocated before
 * the engine measures free memory, so they do not count. SGLang applies its fraction to the memory that
 * context and NCCL leave; the fraction holds weights and cache, but not activations.
 *
 * cpu-offload-gb: this part of the layers' weights is on the host and is read from there (vLLM's
 * maybe_offload_to_cpu, SGLang's OffloaderV1). data-parallel-size: engines that divide the experts, and
 * nothing else, over all their GPUs (FusedMoEParallelConfig). Each engine computes its experts for the tokens
 * of all engines. max-loras: memory for adapters of max-lora-rank on each matrix. A rank has all inputs and
 * its part of the outputs of an adapter, or the other way round (vllm/lora/layers). This includes embedding
 * and head, which not all models adapt.
 *
 * offload=weights: layers stay on the host and are streamed through a window of resident layers, as TPI-LLM
 * does (arXiv 2410.00531, section 3.4); tables, head and last norm stay on the GPU.
 */

/* Bytes on one GPU of the fullest pipeline stage. */
typedef struct p4d_serving {
	uint64_t capacity_bytes, budget_bytes; /* the GPU's memory, and the engine's share of it */
	uint64_t weights_bytes;
	uint64_t
	    loading_bytes; /* the weights in 16 bits, which some releases load before they quantize them */
	uint64_t outside_bytes; /* left after the engine's share, CUDA context and NCCL; some releases put
				 * CUDA graphs there */
	bool graphs;            /* the engine captures graphs for more than a few sequences */
	uint64_t host_bytes;    /* weights of this GPU's layers that are on the host; 0: none */
	uint64_t adapter_bytes; /* memory for adapters, part of weights_bytes */
	uint64_t profile_bytes; /* activations of max-num-batched-tokens tokens, and of sampling max-num-seqs
				 * sequences */
	uint64_t buffers_bytes; /* buffers of vLLM's runner, for max_num_seqs sequences */
	uint64_t graphs_bytes;  /* CUDA graphs: bytes in PyTorch's pool */
	uint64_t available_bytes; /* for keys and values; 0: weights alone exceed the budget */
	uint64_t
	    sequence_bytes; /* keys and values of one sequence of max-model-len, in blocks of 16 tokens */
	uint64_t token_bytes, windowed_bytes; /* keys and values of one token: in all layers with full
						 attention; in all layers with a window */
	uint64_t unread_bytes;     /* part of token_bytes: layers with a window that keep all tokens, although
				      queries read only the window (hybrid-cache=off) */
	uint64_t window;           /* tokens of the window; 0: no layer has a window */
	uint64_t all_stages_bytes; /* sequence_bytes of all stages together, which vLLM 0.14 and 0.15 compare
				    * with available_bytes; 0: one stage */
	uint64_t longest_in_all;   /* like `longest`, if all stages had to fit into available_bytes */
	uint64_t longest;   /* tokens of the longest single sequence that fits, at most max-model-len */
	uint64_t sequences; /* sequences of max-model-len that fit together; may be more than max-num-seqs */
	uint64_t tokens;    /* tokens in the cache, for such sequences: the engine's "GPU KV cache size" */
	uint64_t max_model_len, max_num_seqs, max_batched_tokens, tp, pp, dp, replicas;
	uint64_t resident_layers, stage_layers;
	uint64_t streamed_window; /* with offload=weights: layers on the GPU at a time; 0: no streaming */
} p4d_serving;

/* Sets the engine's defaults in a request whose model is known. gpu may be NULL. */
void p4d_serving_complete(p4d_request *request, const p4d_gpu *gpu);

/*
 * The prediction for a complete request on `world` GPUs. Errors: HEADS (tp does not divide them), WORLD
 * (fewer GPUs than tp*pp*data-parallel-size), UNMODELLED (layers with a state), VALUE (not a decoder; an
 * option without effect), OVERFLOW.
 */
int p4d_serving_estimate(const p4d_request *request, const p4d_gpu *gpu, uint64_t world, p4d_serving *serving,
			 p4d_error *err);

/* Fails if no sequence fits: DOES_NOT_FIT, "needs 20.5 GiB for one sequence of 131072 tokens, ...", with a
 * fix. */
int p4d_serving_check(const char *model, const p4d_gpu *gpu, const p4d_serving *serving, p4d_error *err);

/*
 * Fails (ABOVE_SAFE, with a fix) if the engine fits but may not start with some releases. They load weights
 * before they quantize them (quant=fp8), capture CUDA graphs outside of the engine's share (vLLM before
 * 0.21: 1 to 3 GiB, as its log says), or compare the KV cache of all stages with one GPU (vLLM 0.14 and 0.15,
 * before its pull request 33698).
 */
int p4d_serving_check_start(const p4d_request *request, const p4d_gpu *gpu, const p4d_serving *serving,
			    p4d_error *err);

/*
 * Replaces the fix of DOES_NOT_FIT by the smallest tp with which a sequence of full length fits on these
 * GPUs; a node has gpus_per_node of them. If there is no such tp, the text says how many GPUs the engine
 * needs; a fix that shortens the sequence then stays.
 */
void p4d_serving_fix_tp(const p4d_request *request, const p4d_gpu *gpu, uint64_t world,
			uint64_t gpus_per_node, p4d_error *err);

/* Fails (HOST_MEMORY, with a fix) if the weights that a node's GPUs keep on the host exceed host_bytes; 0:
 * unknown. */
int p4d_serving_check_host(const p4d_serving *serving, uint64_t gpus_per_node, uint64_t host_bytes,
			   p4d_error *err);
