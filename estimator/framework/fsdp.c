/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's FSDP2 as torchtitan runs it: the arguments for a layout, and the table entry. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "framework/torch.h"
#include "framework/torchtitan.h"
#include "request/framework.h"

/* ---- arguments of torchtitan 0.3 for a layout ---- */

/* Appends an argument. An argument that does not fit into the buffer is left out as a whole. */
#define add(a, ...) p4d_text_entry(a, " ", __VA_ARGS__)

static void add_parallelism(p4d_text *a, const p4d_layout *l)
{
	const uint64_t ranks = l->dp * l->cp, shards = l->shard_degree ? l->shard_degree : ranks;
	/* torchtitan shards parameters over context-parallel ranks as well, so its shard degree excludes
	 * cp */
	const uint64_t degree = shards % l->cp ? shards : shards / l->cp;

	add(a, "--parallelism.tensor_parallel_degree=%" PRIu64, l->tp);
	add(a, "--parallelism.context_parallel_degree=%" PRIu64, l->cp);
	add(a, "--parallelism.pipeline_parallel_degree=%" PRIu64, l->pp);
	add(a, "--parallelism.data_parallel_shard_degree=%" PRIu64, degree);
	add(a, "--parallelism.data_parallel_replicate_degree=%" PRIu64, l->dp / degree);
	if (l->experts)
		add(a, "--parallelism.expert_parallel_degree=%" PRIu64, l->ep);
	if (l->tp > 1 && !l->sequence_parallel)
		add(a, "--parallelism.no_enable_sequence_parallel");
	if (l->pp == 1)
		return;
	add(a, "--parallelism.pipeline_parallel_schedule=%s",
	    l->schedule == P4D_GPIPE         ? "GPipe"
	    : l->schedule == P4D_INTERLEAVED ? "Interleaved1F1B"
					     : "1F1B");
	add(a, "--parallelism.pipeline_parallel_first_stage_less_layers=%d", l->embedding_counts);
	add(a, "--parallelism.pipeline_parallel_last_stage_less_layers=%d", l->loss_counts);
	const uint64_t counted = l->layers + l->embedding_counts + l->loss_counts, chunks = l->pp * l->vpp;
	const uint64_t most = (counted + chunks - 1) / chunks,
		       by_default = l->schedule == P4D_INTERLEAVED ? 2 : 1;
	if (l->vpp != by_default && (counted + most - 1) / most == chunks)
		add(a, "--parallelism.pipeline_parallel_layers_per_stage=%" PRIu64, most);
	add(a, "--parallelism.pipeline_parallel_microbatch_size=%" PRIu64, l->micro_batch);
	add(a, "--training.disable_cuda_graphs");
}

static void write_arguments(const p4d_request *request, const p4d_layout *l, char *buf, size_t size)
{
	/* in torchtitan, a pipeline cuts the local batch into micro-batches; without a pipeline, the local
	 * batch is one micro-batch */
	const uint64_t local = l->pp > 1 ? l->global_batch / l->dp : l->micro_batch;
	p4d_text a = p4d_text_in(buf, size);

	(void)request;
	add_parallelism(&a, l);
	add(&a, "--training.local_batch_size=%" PRIu64, local);
	add(&a, "--training.global_batch_size=%" PRIu64, l->global_batch);
	add(&a, "--training.seq_len=%" PRIu64, l->seq_len);
	if (l->torch.param_dtype == P4D_PARAM_BF16)
		add(&a, "--training.dtype=bfloat16");
	if (l->offload & P4D_OFFLOAD_PARAMS)
		add(&a, "--training.enable_cpu_offload");
	if (l->torch.compile)
		add(&a, "--compile.enable");
	if (l->precision == P4D_FP8)
		add(&a, "--model.converters float8%s%s",
		    l->fp8_recipe == P4D_FP8_ROWWISE ? " --float8.recipe_name rowwise" : "",
		    l->fp8_params ? " --float8.enable_fsdp_float8_all_gather" : "");
	/* a subcommand of torchtitan, which must be the last argument */
	add(&a, "activation_checkpoint:%s",
	    l->recompute == P4D_RECOMPUTE_FULL        ? "full"
	    : l->recompute == P4D_RECOMPUTE_SELECTIVE ? "selective"
						      : "none");
}

static size_t flags_of(const p4d_layout *l, p4d_framework_flag flags[P4D_FRAMEWORK_FLAGS])
{
	const p4d_framework_flag all[] = {
	    {"--parallelism.tensor_parallel_degree", l->tp},
	    {"--parallelism.context_parallel_degree", l->cp},
	    {"--parallelism.pipeline_parallel_degree", l->pp},
	    {"--parallelism.pipeline_parallel_microbatch_size", l->micro_batch},
	    {"--training.local_batch_size", l->pp > 1 ? l->global_batch / l->dp : l->micro_batch},
	    {"--training.global_batch_size", l->global_batch},
	    {"--training.seq_len", l->seq_len},
	};

	memcpy(flags, all, sizeof(all));
	_Static_assert(sizeof(all) <= P4D_FRAMEWORK_FLAGS * sizeof(*all), "room for all flags");
	return sizeof(all) / sizeof(*all);
}

static const p4d_framework_arguments arguments_of_torchtitan = {
    .variable = "P4D_TORCHTITAN_ARGS",
    .program = "torchtitan",
    .write = write_arguments,
    .flags = flags_of,
};

/* The Trainer's arguments, if the layout trains modules of another library than torchtitan. */
static const p4d_framework_arguments *arguments_of(const p4d_layout *l)
{
	return l->torch.model_code == P4D_MODEL_CODE_TORCHTITAN ? &arguments_of_torchtitan
								: &p4d_torch__trainer_arguments;
}

/* ---- the entry ---- */

static uint64_t reserved(const p4d_layout *l, uint32_t stage, const p4d_plan *plan, bool is_short)
{
	return l->torch.model_code == P4D_MODEL_CODE_TORCHTITAN
		   ? p4d_torchtitan__reserved(l, stage, plan, is_short)
		   : p4d_torch__reserved(l, stage, plan, is_short);
}

static const char *unvalidated(const p4d_layout *l)
{
	if (l->torch.model_code != P4D_MODEL_CODE_TORCHTITAN)
		return p4d_torch__trainer_unvalidated(l);

	const bool ring = l->cp > 1 && l->recompute == P4D_RECOMPUTE_FULL;
	const bool sparse = l->experts || l->kv_rank;

	return l->memory.keys                   ? "memory layers"
	       : l->torch.compile && l->pp > 1  ? "compiled pipelines"
	       : l->torch.compile && ring       ? "torch.compile with context parallelism and recomputation"
	       : l->torch.compile && l->experts ? "compiled experts"
	       : sparse && l->tp > 1 && l->cp > 1 && l->pp > 1
		   ? "experts with tensor, context and pipeline parallelism together"
	       : l->vpp > P4D_TORCHTITAN_ACTIVE_CHUNKS
		   ? "more than three chunks of layers on a pipeline stage"
	       : l->torch.packing                      ? "packed sequences"
	       : l->offload                            ? "offloading"
	       : l->optimizer != P4D_ADAMW             ? "an optimizer other than AdamW"
	       : l->precision == P4D_FP8               ? "FP8"
	       : l->precision != P4D_BF16              ? "a precision other than bf16"
	       : l->pp > 1 && l->schedule == P4D_GPIPE ? "the pipeline schedule gpipe"
						       : NULL;
}

static const p4d_framework_choice defaults[] = {{P4D_PARAM_DTYPE, P4D_PARAM_FP32},
						{P4D_MODEL_CODE, P4D_MODEL_CODE_TORCHTITAN},
						{P4D_CHUNKED_LOSS, 1},
						{P4D_COMPILE, 0},
						{P4D_OPTIMIZER, P4D_ADAMW},
						{P4D_FINETUNE, P4D_TUNE_FULL},
						{P4D_AUTOCAST, 1},
						{P4D_FP8_RECIPE, P4D_FP8_CURRENT},
						{P4D_OPTIONS, 0}};

static const char *const script_words[] = {"P4D_TORCHTITAN_ARGS", NULL};

const p4d_framework p4d_framework__fsdp = {
    .name = "fsdp",
    .program = "FSDP",
    .title = "PyTorch's FSDP2 (torchtitan)",
    .sharing = P4D_SHARES_UNITS,
    .check_model = p4d_torch__check_model,
    .schedules = 1u << P4D_GPIPE | 1u << P4D_1F1B | 1u << P4D_INTERLEAVED,
    .no_schedule = "needs p4d-train; with torchtitan p4d models gpipe, 1f1b and interleaved",
    .no_vocab_parallel = "needs p4d-train; torchtitan shards the vocabulary by tp only",
    .trains_other_modules = true,
    .recomputes_of_others = 1u << P4D_RECOMPUTE_NONE | 1u << P4D_RECOMPUTE_FULL,
    .defaults = defaults,
    .recomputes = 1u << P4D_RECOMPUTE_NONE | 1u << P4D_RECOMPUTE_SELECTIVE | 1u << P4D_RECOMPUTE_FULL,
    .no_recompute = "needs Megatron-LM or p4d-train; torchtitan has only none, selective and full",
    .selects_operations = true,
    .uneven_chunks = true,
    .spreads_remainders = true,
    .vocab_multiple = 1,
    .plays_layers = true,
    .write_rows = p4d_torch__rows,
    .groups_bytes = p4d_memory_usual_groups_bytes,
    .alignment = 1,
    .unvalidated = unvalidated,
    .frees_gradients = true,
    .evaluation = 1u << P4D_AT_EVALUATION_LAYER | 1u << P4D_AT_EVALUATION_HEAD,
    .fragmentation = {100, 10},
    .pipeline_fragmentation =
	{160, 30}, /* 12 to 16 % (default) and 3 % (expandable) in rehearsals (test_rehearsed_memory.c) */
    .reserved = reserved,
    .above_safe_fix = "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    .script_words = script_words,
    .arguments = &arguments_of_torchtitan,
    .arguments_of = arguments_of,
    .cost = {.error = "published steps differ by 10 % on average, with cp by up to 40 %",
	     .step_seconds = 10e-3,
	     .host_layer_seconds = 1.2e-3,
	     .saves_norms_and_products = true,
	     .eager_modules = true,
	     .sdpa = true,
	     .gathers_for_ring = true},
};
