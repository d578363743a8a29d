/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "plan/parameters.h"
#include "plan/plan_rows.h"
#include "request/framework.h"

/*
 * Frameworks built on PyTorch's own parallelism: FSDP2, DeepSpeed's ZeRO, DDP. Their entries are in fsdp.c,
 * deepspeed.c and ddp.c. A rank's memory depends on the library that implements the model (--model-code).
 */

/* Bytes of one element of each kind of tensor. */
typedef struct p4d_torch_types {
	unsigned element; /* activation */
	unsigned param;   /* stored parameter */
	unsigned reduced; /* gradient while it is reduced */
} p4d_torch_types;

p4d_torch_types p4d_torch__types(const p4d_layout *layout);

/* All rows of the plan except those of libraries. */
void p4d_torchtitan__write(p4d_rows *rows);
void p4d_transformers__write(p4d_rows *rows);

/* Bytes of one quantized moment for this many parameters. */
static inline p4d_wide p4d_torch_quantized_moment(const p4d_optimizer *optimizer, p4d_wide parameters)
{
	return parameters * optimizer->bits / 8 + p4d_div_up(parameters, optimizer->block) * 4;
}

/* Adds a row of `bytes` bytes at live points (mask of 1 << point); adds none if bytes is 0. */
static inline void p4d_torch_held(p4d_rows *rows, unsigned points, const char *name, const char *shard,
				  p4d_memory_class part, p4d_wide bytes)
{
	rows->overflow = rows->overflow || bytes >> 62;
	if (bytes && !rows->overflow)
		p4d_row_at(rows, points, name, shard, part, P4D_DT_BYTES, (uint64_t)bytes, 0, 0);
}

/* check_model and write_rows of all these frameworks. */
int p4d_torch__check_model(const p4d_request *request, p4d_error *err);
void p4d_torch__rows(p4d_rows *rows);

/* The part of a layout with transformers' modules that was not compared with real code; see p4d_framework. */
const char *p4d_torch__trainer_unvalidated(const p4d_layout *l);

/* transformers_reserved.c; see p4d_framework */
uint64_t p4d_torch__reserved(const p4d_layout *layout, uint32_t stage, const p4d_plan *plan, bool is_short);

/* Common to deepspeed and ddp: both run transformers' models with the HF Trainer or a similar program. */
extern const p4d_framework_arguments p4d_torch__trainer_arguments;
#define P4D_TORCH_TRAINER \
	.check_model = p4d_torch__check_model, .schedules = 1u << P4D_1F1B, \
	.no_schedule = "needs a pipeline, which p4d does not model with it", \
	.no_vocab_parallel = "needs p4d-train", \
	.recomputes = 1u << P4D_RECOMPUTE_NONE | 1u << P4D_RECOMPUTE_FULL, \
	.no_recompute = "needs Megatron-LM or p4d-train; transformers has only none and full", \
	.rank_batch = 8, .vocab_multiple = 1, .write_rows = p4d_torch__rows, .plays_layers = true, \
	.groups_bytes = p4d_memory_usual_groups_bytes, .alignment = 1, .frees_gradients = true, \
	.evaluation = 1u << P4D_AT_EVALUATION_LAYER | 1u << P4D_AT_EVALUATION_HEAD, \
	.fragmentation = {53, 10}, .reserved = p4d_torch__reserved, \
	.above_safe_fix = "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", \
	.unvalidated = p4d_torch__trainer_unvalidated, .arguments = &p4d_torch__trainer_arguments, \
	.cost = {.error = "never compared with published steps", \
		 .step_seconds = 10e-3, \
		 .host_layer_seconds = 1.2e-3, \
		 .saves_norms_and_products = true, \
		 .eager_modules = true, \
		 .sdpa = true}
