/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "plan/byte_moments.h"
#include "plan/optimizer.h"
#include "plan/shared_sizes.h"
#include "request/framework.h"
#include "request/layers.h"
#include "request/model_size.h"
#include "schedule/schedule.h"

/* The number of parameters on a rank. For parts of the model see request/model_size.h. */

/*
 * Elements of a chunk on one rank: its layers, the embedding if the model begins there, final norm and head
 * if it ends there. With local losses, each stage has a head. With vocabulary parallelism, chunks do not
 * contain the tables: see p4d_parameters__of_vocabulary.
 */
p4d_wide p4d_parameters__of_chunk(const p4d_layout *layout, const p4d_schedule *schedule, uint32_t stage,
				  uint32_t chunk);

/* Elements of this rank's shard of the tables that vocabulary parallelism shards over tp*pp; otherwise 0. */
p4d_wide p4d_parameters__of_vocabulary(const p4d_layout *layout);

/* Number of layers with experts in a chunk. Takes as long as p4d_parameters_first_layer. */
uint32_t p4d_parameters_expert_layers(const p4d_layout *layout, uint32_t stage, uint32_t chunk);
/* Number of layers with experts in a stage. */
uint32_t p4d_parameters_expert_layers_of_stage(const p4d_layout *layout, uint32_t stage);

/*
 * Number of layers of each kind in a stage with all its chunks. Takes time linear in the number of layers if
 * the model has a pattern.
 */
p4d_layer_counts p4d_parameters_layers_of_stage(const p4d_layout *layout, uint32_t stage);

/* Index of a chunk's first layer in the model. Takes time linear in the stages or, if chunks differ, in
 * the chunks. */
uint64_t p4d_parameters_first_layer(const p4d_layout *layout, uint32_t stage, uint32_t chunk);

/* Elements of a stage's experts on one rank. Shared experts are not included; they belong to the stage. */
p4d_wide p4d_parameters_of_experts(const p4d_layout *layout, uint32_t stage);

/* Elements of all chunks and the tables of a stage, not counting experts. */
p4d_wide p4d_parameters_of_stage(const p4d_layout *layout, const p4d_schedule *schedule, uint32_t stage);

/* Ranks over which a parameter's optimizer state is sharded. */
static inline uint64_t p4d_optimizer_shards(const p4d_layout *layout)
{
	if (!layout->optimizer_sharding)
		return 1;
	return layout->shard_degree ? layout->shard_degree : layout->dp * layout->cp;
}

/* Ranks that shard the optimizer state of experts: those with the same experts. Without expert
 * parallelism, Megatron-LM keeps experts in the same buffers as all other parameters
 * (transformer_engine.py: allreduce). */
static inline uint64_t p4d_expert_shards(const p4d_layout *layout)
{
	if (!layout->optimizer_sharding || layout->ep == 1)
		return p4d_optimizer_shards(layout);
	/* shard_degree: number of ranks that together hold one copy of the model (FSDP) */
	return layout->shard_degree >= layout->ep ? layout->shard_degree / layout->ep
	       : layout->expert_dp                ? layout->expert_dp
						  : 1;
}

/*
 * p4d-train: whether a rank keeps only its shard of gradients; only its shard of parameters; and whether
 * parameters are on the host. In the last two cases the device has whole layers only in a window: see
 * p4d_parameters_windows.
 */
static inline bool p4d_shards_gradients(const p4d_layout *layout)
{
	return p4d_framework_of(layout->framework)->plans_transfers &&
	       layout->zero_stage >= P4D_SHARD_GRADIENTS && p4d_optimizer_shards(layout) > 1;
}

static inline bool p4d_shards_parameters(const p4d_layout *layout)
{
	return layout->zero_stage >= P4D_SHARD_PARAMETERS && p4d_shards_gradients(layout);
}

static inline bool p4d_streams_parameters(const p4d_layout *layout)
{
	return p4d_framework_of(layout->framework)->plans_transfers && layout->offload & P4D_OFFLOAD_PARAMS;
}

static inline bool p4d_windows_parameters(const p4d_layout *layout)
{
	return p4d_streams_parameters(layout) || p4d_shards_parameters(layout);
}

/*
 * Whether p4d-train quantizes the layers' matrices to FP8 once per step, in both directions that matmuls
 * need, and keeps these codes next to the parameters. It does so with recompute=keep if all parameters stay
 * on the device in their storage type.
 */
static inline bool p4d_fp8_keeps_weights(const p4d_layout *layout)
{
	return layout->precision == P4D_FP8 && layout->recompute == P4D_RECOMPUTE_KEEP &&
	       !layout->evaluates && !p4d_windows_parameters(layout) &&
	       !(layout->finetune == P4D_TUNE_QLORA && layout->quant == P4D_QUANT_NF4);
}

/*
 * Whether layers keep the inputs of their matmuls as transposed FP8 codes, which the weights' gradients need,
 * instead of the outputs of norms and SwiGLU. With sequence parallelism the outputs of norms are kept
 * instead, because these are sharded.
 */
static inline bool p4d_fp8_keeps_inputs(const p4d_layout *layout)
{
	return layout->precision == P4D_FP8 && layout->recompute == P4D_RECOMPUTE_KEEP &&
	       layout->finetune == P4D_TUNE_FULL && !layout->evaluates;
}

static inline bool p4d_fp8_keeps_norms(const p4d_layout *layout)
{
	return p4d_fp8_keeps_inputs(layout) && !layout->sequence_parallel;
}

/*
 * Whether SwiGLU and its gradient are quantized while they are computed, and not stored. Adapters and the
 * gradient of a bias need them stored.
 */
static inline bool p4d_fp8_fuses_swiglu(const p4d_layout *layout)
{
	return layout->precision == P4D_FP8 && layout->activation == P4D_SWIGLU_ACTIVATION &&
	       layout->finetune == P4D_TUNE_FULL && !(layout->biased & P4D_BIASED_MLP);
}

/* Whether segments are layers on any device, and each table of the vocabulary is a segment. This is so if
 * segments pass through a window one at a time. */
static inline bool p4d_cuts_segments(const p4d_layout *layout)
{
	return p4d_streams_parameters(layout) || p4d_shards_gradients(layout);
}

/*
 * A segment is a set of parameters that p4d-train gathers, reduces and optimizes together. On GPUs, where
 * gathers and reductions overlap with passes, a segment is a layer (a chunk's first one with the start of the
 * model, its last one with the end); on CPUs it is the chunk. If p4d_cuts_segments, it is a layer everywhere,
 * and each table of the vocabulary is its own segment.
 */
static inline uint64_t p4d_chunk_segments(const p4d_layout *layout, uint32_t stage)
{
	const uint64_t layers = layout->stage_layers[stage] / layout->vpp;

	return (p4d_on_gpu(layout->device) || p4d_cuts_segments(layout)) && layers ? layers : 1;
}

/*
 * Segments are padded to a multiple of this, so that each can be reduced and gathered separately. It is large
 * enough that a block of 8-bit moments is never in more than two shards.
 */
static inline uint64_t p4d_segment_unit(const p4d_layout *layout)
{
	const uint64_t least =
	    p4d_optimizer_of(layout)->bits == 8 ? P4D_BYTE_BLOCK : (uint64_t)P4D_SHARD_MULTIPLE;

	return p4d_optimizer_shards(layout) * least;
}

/*
 * The trained parameters of a stage, as p4d-train stores them: each segment and the tables, padded. With
 * adapters, these are only the adapters.
 */
p4d_wide p4d_parameters_padded(const p4d_layout *layout, const p4d_schedule *schedule, uint32_t stage);
/*
 * The frozen parameters of a stage: padded if they pass through a window, otherwise without quantized
 * parameters (nf4.h).
 */
p4d_wide p4d_parameters_frozen(const p4d_layout *layout, const p4d_schedule *schedule, uint32_t stage);

/*
 * Elements of the largest layer and of the largest table of a stage, as segments: the size of a window's
 * places. all: of all parameters; otherwise of trained ones. By default a window has room for two layers: the
 * one in use, and one in transit.
 */
enum { P4D_WINDOW_LAYERS = 2 };
typedef struct p4d_windows {
	p4d_wide layer, table;
} p4d_windows;
p4d_windows p4d_parameters_windows(const p4d_layout *layout, const p4d_schedule *schedule, uint32_t stage,
				   bool all);

/* Elements of a layer's matrices on a rank, including the rows that it gathers. The layout has checked all
 * divisions. */
static inline p4d_wide p4d_layer_matrices(const p4d_rank_sizes *z)
{
	return (p4d_wide)z->h * (z->columns + z->q + z->up + z->f);
}

/* Elements of the largest segment of a stage. */
p4d_wide p4d_parameters__largest_segment(const p4d_layout *layout, const p4d_schedule *schedule,
					 uint32_t stage);

/*
 * With Muon: an upper bound of the elements in a rank's shards that AdamW updates. In the worst case, all
 * elements of a rank's shard of a segment are among these.
 */
p4d_wide p4d_parameters__of_adamw(const p4d_layout *layout, const p4d_schedule *schedule, uint32_t stage);
