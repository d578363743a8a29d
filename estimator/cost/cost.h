/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "gpu/gpu.h"
#include "request/layout.h"
#include "timeline/timeline.h"

/*
 * Step time of a layout, computed bottom up. Matmuls by shape, attention, memory-bound operations and
 * collectives give the time of one pass of one chunk. The timeline of the schedule then gives the step.
 * Constants belong to GPUs (etc/gpus.json), never to models or layouts.
 */

/*
 * Seconds of the passes of one chunk of a stage, and their components. backward_weight is the part that
 * schedules with a split backward pass defer. For p4d-train these are only the gradients of qkv and gate_up,
 * unless activations are recomputed.
 */
typedef struct p4d_cost_passes_of_chunk {
	double forward, backward_input, backward_weight;
	/* components of the sum of the three passes: */
	double gemm, attention, memory_bound, tensor_comm, context_comm, host, recompute;
	double data_comm; /* the exposed part, for frameworks that gather parameters for each pass */
} p4d_cost_passes_of_chunk;

/* Duration and throughput of a step. */
typedef struct p4d_step {
	double seconds;
	double tokens_per_second_per_gpu;
	double tflops_per_gpu; /* model FLOPs: 6 * matmul parameters + attention, causal at half, per token */
	double hardware_tflops_per_gpu; /* like the former, with recomputed FLOPs and full attention, as
					 * PTD-P counts */
	double mfu, hfu;                /* FLOP/s divided by the GPU's dense peak in the precision */
	double bubble_fraction;
} p4d_step;

/* Cost of the passes of a chunk of a stage for one micro-batch. The GPU must have rates (p4d_cost_known). */
void p4d_cost__pass(const p4d_layout *layout, const p4d_gpu *gpu, uint32_t stage, uint32_t chunk,
		    p4d_cost_passes_of_chunk *out);

/* True if gpus.json has all rates that the cost model needs. Otherwise p4d predicts no step time. */
bool p4d_cost_known(const p4d_layout *layout, const p4d_gpu *gpu);

/* The first key of gpus.json that the cost model needs for this layout and that the GPU lacks
 * ("multiprocessors"); NULL: none. */
const char *p4d_cost_missing(const p4d_layout *layout, const p4d_gpu *gpu);

/* Peak FLOP/s of one GPU in the precision of the layout. */
double p4d_cost_peak_flops(const p4d_layout *layout, const p4d_gpu *gpu);

/*
 * Whether cp-comm=all-gather is faster than p2p. all-gather pays fewer latencies, but only p2p overlaps with
 * attention. The layout must have cp > 1, and the GPU must have rates. Takes little time.
 */
bool p4d_cost_prefers_gather(const p4d_layout *layout, const p4d_gpu *gpu);

/*
 * Effects of document-len. share: attention time of packed sequences, divided by that of whole sequences.
 * excess: by how much the attention time of the slowest data-parallel rank in a step exceeds the mean
 * (document_excess); the other ranks wait for that rank. Context-parallel ranks share each document.
 */
typedef struct p4d_cost_of_documents {
	double share, excess;
} p4d_cost_of_documents;

p4d_cost_of_documents p4d_cost_documents(const p4d_layout *layout);

/*
 * If the request leaves the lengths of token slices open: sets the lengths with the fastest step, in the
 * request and in the layout that was built from it. Does nothing if the cost model does not cover the GPU, or
 * if no lengths are known. The run time of this function does not depend on micro-batches or stages.
 */
void p4d_cost_choose_slices(p4d_request *request, p4d_layout *layout, const p4d_gpu *gpu);

/*
 * The durations of a layout's instructions. The caller owns *storage (p4d_cost_storage doubles), which holds
 * the arrays.
 */
void p4d_cost_durations(const p4d_layout *layout, const p4d_gpu *gpu, double *storage, p4d_durations *out);
size_t p4d_cost_storage(const p4d_layout *layout); /* number of doubles */

/* Cached results that serve other layouts of the same request, world and GPU; see cost_internal.h. */
typedef struct p4d_cost_cache p4d_cost_cache;

/*
 * A lower bound of the step time with any schedule: the slowest stage's work plus the communication that
 * cannot be hidden. Takes little time, and less with a cache (memory; may be NULL).
 */
double p4d_cost_bound(const p4d_layout *layout, const p4d_gpu *gpu, p4d_cost_cache *memory);

/*
 * A lower bound, in seconds per sequence, for all layouts with the same tp, cp, cp-comm and recompute, and
 * with this or a smaller micro-batch, whatever the pipeline. It assumes that all GPUs only compute layers
 * (with whole backward passes if the schedule has them), and that one of pp equal stages also computes the
 * head's matmuls. With pp = 1, all GPUs share the head, so the bound holds for all pipelines.
 */
typedef struct p4d_cost_least {
	double layers, head;
} p4d_cost_least;
p4d_cost_least p4d_cost_floor(const p4d_layout *layout, const p4d_gpu *gpu, p4d_cost_cache *memory);

/*
 * A lower bound, in seconds, of the time that a step takes in addition to p4d_cost_floor, if the layers are
 * split evenly. The last stage waits for the first micro-batch, and the step ends when the last micro-batch
 * has passed back through all stages. layers: the floor's seconds for the layers of a step. Needs the
 * layout's model, degrees, schedule and micro-batch.
 */
double p4d_cost_ramp(const p4d_layout *layout, double layers);

/*
 * The fastest grid of a layout's tensor-parallel ranks: its passes take the least time, with communication.
 * Considers the grids that the model, micro-batch and framework allow, and ignores memory. Costs as much as
 * timing a few layers for each way to write the number of ranks as a product of three. The GPU's rates must
 * be known.
 */
p4d_tp_grid p4d_cost_best_grid(const p4d_layout *layout, const p4d_gpu *gpu);

/* Completes the prediction of a step whose duration and bubble are known. */
p4d_step p4d_cost_step_of(const p4d_layout *layout, const p4d_gpu *gpu, double seconds,
			  double bubble_fraction);

/*
 * Predicts the step. work: see p4d_timeline_seconds. Errors: NO_MEMORY; P4D_E_NO_RATES when the GPU's rates
 * are not known.
 */
int p4d_cost_step(const p4d_layout *layout, const p4d_gpu *gpu, p4d_timeline_work *work, p4d_step *out,
		  p4d_error *err);

/* FLOPs of one step of the whole job that the model needs. */
double p4d_cost_model_flops(const p4d_layout *layout);
/*
 * FLOPs of one step of the whole job that the hardware executes. They depend on the number of layers that
 * p4d-train swaps instead of recomputing, which depends on the GPU. gpu NULL: half of the layers.
 */
double p4d_cost_hardware_flops(const p4d_layout *layout, const p4d_gpu *gpu);

/*
 * One pass of an inference engine over its sequences, on one GPU of the layout (cost_serving.c). The layout
 * must have a model, tp, pp, dp (engines that divide the experts), ep, precision, world and link_domain.
 */
typedef struct p4d_cost_served {
	double sequences;     /* sequences that get one more token in this pass */
	double prompt_tokens; /* tokens of prompts in the same pass */
	double prompt_pairs;  /* query-key pairs in the causal attention of those prompts, for one layer
			       * and head */
	double cached_bytes;  /* bytes of keys and values that this GPU reads */
	double weight_bytes;  /* bytes of an element of the layers' matrices */
	bool experts_only;    /* only matrices of experts have weight_bytes; the others have 16 bits */
	bool eager;           /* the host starts each kernel of this pass, instead of a CUDA graph */
	double host_bytes;    /* bytes of weights that this GPU reads from the host */
	double window;        /* layers on the GPU while later ones are copied; 0: kernels read from the
			       * host */
	double nano_batches;  /* parts of the pass that overlap (NanoFlow, arXiv 2408.12757); 0: no overlap */
} p4d_cost_served;

/*
 * Seconds of a pass (p4d_cost_served) through the fullest pipeline stage. The GPU's rates must be known
 * (p4d_cost_known). p4d assumes that matmuls run at the rates of training.
 */
double p4d_cost_serve(const p4d_layout *layout, const p4d_gpu *gpu, const p4d_cost_served *work);
