/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "gpu/gpu.h"
#include "request/request.h"

/*
 * What an inference engine answers when it starts: whether one sequence of the full length fits beside the
 * weights, and how many do. From vLLM's source (releases 0.11 to 0.33: gpu_worker.py, kv_cache_utils.py,
 * kv_cache_interface.py), not from measurements: unvalidated.
 *
 *   available = utilization x memory of the GPU - weights - activations of the profile run - buffers - graphs
 *
 * Buffers, graphs and defaults are those of vLLM 0.33 as p4d rehearse starts it (serving_rehearsed.csv).
 * Before 0.21 CUDA graphs came on top of the utilization. The CUDA context and NCCL are there before the
 * engine looks, so they do not count. SGLang takes its fraction of what context and NCCL leave, for weights
 * and cache, and has activations outside of it.
 *
 * cpu-offload-gb: so much of the layers' weights is on the host and is read from there (vLLM's
 * maybe_offload_to_cpu, SGLang's OffloaderV1). data-parallel-size: engines that divide the experts, and
 * nothing else, over all their GPUs (FusedMoEParallelConfig); each has all tokens of the others in its
 * experts' layers. max-loras: room for adapters of max-lora-rank on each matrix, of which one rank has the
 * whole of what goes in and its part of what comes out, or the other way round (vllm/lora/layers); also on
 * table and head, which not all models adapt.
 *
 * offload=weights: layers stay on the host and are streamed through a window of resident layers, as TPI-LLM
 * does (arXiv 2410.00531, section 3.4); tables, head and last norm stay on the GPU.
 */

/* Bytes of one GPU, that of the fullest pipeline stage. */
typedef struct p4d_serving {
	uint64_t capacity_bytes, budget_bytes; /* of the GPU, and what the engine takes of it */
	uint64_t weights_bytes;
	uint64_t loading_bytes; /* the same in 16 bits, which some releases load before they quantize them */
	uint64_t
	    outside_bytes;   /* what the engine's share, CUDA context and NCCL leave; CUDA graphs are there */
	bool graphs;         /* more of them are captured than those of a few sequences */
	uint64_t host_bytes; /* weights of this GPU's layers that are on the host; 0: none */
	uint64_t adapter_bytes; /* room for them, part of weights_bytes */
	uint64_t profile_bytes; /* activations of max-num-batched-tokens, and sampling max-num-seqs of them */
	uint64_t buffers_bytes; /* of vLLM's runner for its max_num_seqs sequences */
	uint64_t graphs_bytes;  /* CUDA graphs: what PyTorch's pool holds of them */
	uint64_t available_bytes; /* for keys and values; 0: weights alone are more than the budget */
	uint64_t
	    sequence_bytes; /* keys and values of one sequence of max-model-len, in blocks of 16 tokens */
	uint64_t token_bytes, windowed_bytes; /* of one token in the stage's layers: those that attend to all,
						 those with a window */
	uint64_t window;                      /* tokens that these attend to; 0: there are none */
	uint64_t longest;   /* tokens of a sequence that fits alone, at most max-model-len */
	uint64_t sequences; /* of max-model-len at a time; may be more than max-num-seqs */
	uint64_t tokens;    /* in the cache, of such sequences: the engine's "GPU KV cache size" */
	uint64_t max_model_len, max_num_seqs, max_batched_tokens, tp, pp, dp, replicas;
	uint64_t resident_layers, stage_layers;
} p4d_serving;

/* Sets what the engine has as defaults, in a request whose model is known. gpu: may be NULL. */
void p4d_serving_complete(p4d_request *request, const p4d_gpu *gpu);

/*
 * Of a complete request, on so many GPUs (world) of a kind. Errors: HEADS (tp does not divide them), WORLD
 * (fewer GPUs than tp*pp*data-parallel-size), UNMODELLED (layers with a state), VALUE (not a decoder; an
 * option without effect), OVERFLOW.
 */
int p4d_serving_estimate(const p4d_request *request, const p4d_gpu *gpu, uint64_t world, p4d_serving *serving,
			 p4d_error *err);

/* "needs 20.5 GiB for one sequence of 131072 tokens, ..." where it does not fit; DOES_NOT_FIT with a fix. */
int p4d_serving_check(const char *model, const p4d_gpu *gpu, const p4d_serving *serving, p4d_error *err);

/*
 * What may fail where it fits, in some releases: weights that are quantized after they were loaded
 * (quant=fp8), and CUDA graphs, which vLLM before 0.21 captures outside of its share, in 1 to 3 GiB by its
 * own words. ABOVE_SAFE with a fix.
 */
int p4d_serving_check_start(const p4d_request *request, const p4d_gpu *gpu, const p4d_serving *serving,
			    p4d_error *err);

/*
 * Replaces the fix of DOES_NOT_FIT by the least tp with which a sequence of full length fits on these GPUs,
 * of which a node has gpus_per_node. If there is none the text says how many GPUs such an engine takes, and a
 * shorter sequence stays the fix, if one was.
 */
void p4d_serving_fix_tp(const p4d_request *request, const p4d_gpu *gpu, uint64_t world,
			uint64_t gpus_per_node, p4d_error *err);

/* Whether the weights that the GPUs of a node have on its host are within its memory; 0: that is not known.
 * HOST_MEMORY with a fix. */
int p4d_serving_check_host(const p4d_serving *serving, uint64_t gpus_per_node, uint64_t host_bytes,
			   p4d_error *err);
