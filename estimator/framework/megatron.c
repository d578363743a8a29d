/* SPDX-License-Identifier: Apache-2.0 */
/* Megatron-LM with Transformer Engine: the models for which p4d has formulas, and the table entry. */
#include <inttypes.h>
#include <string.h>

#include "framework/megatron_arguments.h"
#include "framework/megatron_memory.h"
#include "request/architecture.h"
#include "request/framework.h"
#include "request/layers.h"

/* Options that p4d's formulas support with experts or latent attention. */
static const struct {
	p4d_option option;
	int64_t value;
} with_experts[] = {
    {P4D_NORM, P4D_RMSNORM},   {P4D_ACTIVATION, P4D_SWIGLU_ACTIVATION},
    {P4D_POSITIONS, P4D_ROPE}, {P4D_ATTENTION, 1},
    {P4D_SWIGLU, 1},           {P4D_DROPOUT, 0},
    {P4D_TE_WGRAD, 1},         {P4D_RECOMPUTE_METHOD, P4D_RECOMPUTE_UNIFORM},
    {P4D_CP_COMM, P4D_CP_P2P}, {P4D_CUDA_GRAPHS, P4D_GRAPHS_NONE},
};

static int check_experts(const p4d_request *r, p4d_error *err)
{
	static const char *const sparse = "in Megatron-LM with experts or latent attention";
	char value[32];

	if (p4d_is_set(r, P4D_CP_HEADS))
		return p4d_fail(err, P4D_E_UNMODELLED, "cp-heads: p4d does not model it %s", sparse);
	for (size_t i = 0; i < sizeof(with_experts) / sizeof(with_experts[0]); i++) {
		const p4d_option option = with_experts[i].option;
		/* hybrid models have formulas of their own for these two options */
		if ((option == P4D_ACTIVATION || option == P4D_POSITIONS) && p4d_is_set(r, P4D_LAYER_PATTERN))
			continue;
		if (p4d_is_set(r, option) && r->value[option] != with_experts[i].value)
			return p4d_fail(err, P4D_E_UNMODELLED, "%s=%s: p4d does not model it %s",
					p4d_request_option_info(option)->name,
					p4d_request_value_text(r, option, value, sizeof(value)), sparse);
	}
	if (r->value[P4D_BIAS] != P4D_BIAS_NONE && r->value[P4D_BIAS] != P4D_BIAS_QKV)
		return p4d_fail(err, P4D_E_UNMODELLED,
				"biases of all linear layers: p4d does not model them %s", sparse);
	if (p4d_is_set(r, P4D_RECOMPUTE) && r->value[P4D_RECOMPUTE] == P4D_RECOMPUTE_MLP)
		return p4d_fail(err, P4D_E_UNMODELLED, "recompute=mlp: p4d does not model it %s", sparse);
	if (p4d_is_set(r, P4D_SEQUENCE_PARALLEL) && !r->value[P4D_SEQUENCE_PARALLEL] &&
	    r->value[P4D_TP] > 1 && p4d_is_set(r, P4D_EXPERTS)) {
		p4d_fail(err, P4D_E_VALUE, "with experts and tp > 1 Megatron-LM needs sequence-parallel=on");
		return p4d_fix(err, "--p4d-sequence-parallel=on");
	}
	return 0;
}

enum { MOST_STATE_STAGES = 64 };

/*
 * Checks MambaModel, in which each layer is one block: the values of options that p4d's formulas support.
 * Options that are unset pass.
 */
static int check_states(const p4d_request *r, p4d_error *err)
{
	static const char *const hybrid = "in Megatron-LM with state-space layers or delta nets";
	static const struct {
		p4d_option option;
		int64_t value;
	} with_states[] = {{P4D_CP, 1},
			   {P4D_VPP, 1},
			   {P4D_NORM, P4D_RMSNORM},
			   {P4D_BIAS, P4D_BIAS_NONE},
			   {P4D_ATTENTION, 1},
			   {P4D_DROPOUT, 0},
			   {P4D_RECOMPUTE_METHOD, P4D_RECOMPUTE_UNIFORM},
			   {P4D_RECOMPUTE_LAYERS, 1},
			   {P4D_CUDA_GRAPHS, P4D_GRAPHS_NONE}};
	char value[32];

	const p4d_architecture *arch = p4d_architecture_of(r);
	if (!arch->megatron_pattern ||
	    strspn(r->layer_pattern, arch->megatron_pattern) < strlen(r->layer_pattern))
		return p4d_fail(err, P4D_E_UNMODELLED,
				"%.80s has %s, which p4d models in Megatron-LM only for Nemotron-H and "
				"Qwen3-Next",
				r->model, p4d_layers_state(r->layer_pattern));
	for (size_t i = 0; i < sizeof(with_states) / sizeof(with_states[0]); i++) {
		const p4d_option option = with_states[i].option;
		if (p4d_is_set(r, option) && r->value[option] != with_states[i].value)
			return p4d_fail(err, P4D_E_UNMODELLED, "%s=%s: p4d does not model it %s",
					p4d_request_option_info(option)->name,
					p4d_request_value_text(r, option, value, sizeof(value)), hybrid);
	}
	if (r->value[P4D_PRECISION] == P4D_FP8)
		return p4d_fail(err, P4D_E_UNMODELLED, "precision=fp8: p4d does not model it %s", hybrid);
	/* the stages of a hybrid model differ, and slurmctld must not spend time on more stages */
	if (p4d_is_set(r, P4D_PP) && r->value[P4D_PP] > MOST_STATE_STAGES)
		return p4d_fail(err, P4D_E_UNMODELLED,
				"pp=%" PRId64 ": p4d models at most %d pipeline stages %s", r->value[P4D_PP],
				MOST_STATE_STAGES, hybrid);
	if (!p4d_is_set(r, P4D_RECOMPUTE) ||
	    (r->value[P4D_RECOMPUTE] != P4D_RECOMPUTE_FULL && r->value[P4D_RECOMPUTE] != P4D_RECOMPUTE_MLP))
		return p4d_is_set(r, P4D_EXPERTS) ? check_experts(r, err) : 0;
	if (!arch->single_blocks || r->value[P4D_QK_NORM] != P4D_QK_NORM_OFF)
		return p4d_fail(err, P4D_E_UNMODELLED, "recompute=%s: p4d does not model it %s",
				p4d_request_value_text(r, P4D_RECOMPUTE, value, sizeof(value)), hybrid);
	/* MambaModel (ssm/mamba_block.py) never recomputes, but accepts the option without an error */
	p4d_fail(err, P4D_E_UNMODELLED,
		 "recompute=%s has no effect in Megatron-LM's MambaModel (Megatron-Core 0.16.1): "
		 "its layers store the same activations",
		 p4d_request_value_text(r, P4D_RECOMPUTE, value, sizeof(value)));
	return p4d_fix(err, "--p4d-recompute=none");
}

/* Checks FP8: whether Megatron-LM has the recipe, and whether Transformer Engine can quantize the shapes. */
static int check_fp8(const p4d_request *r, p4d_error *err)
{
	const int64_t recipe = p4d_is_set(r, P4D_FP8_RECIPE) ? r->value[P4D_FP8_RECIPE] : P4D_FP8_DELAYED;

	if (r->value[P4D_PRECISION] != P4D_FP8)
		return 0;
	if (recipe == P4D_FP8_NVFP4 && p4d_is_set(r, P4D_FP8_PARAM_GATHER) &&
	    r->value[P4D_FP8_PARAM_GATHER]) {
		p4d_fail(err, P4D_E_UNMODELLED,
			 "fp8-param-gather=on: p4d does not model it with fp8-recipe=nvfp4");
		return p4d_fix(err, "--p4d-fp8-param-gather=off");
	}
	if (recipe == P4D_FP8_ROWWISE) {
		p4d_fail(err, P4D_E_VALUE,
			 "fp8-recipe=rowwise exists only in torchtitan, not in Megatron-LM");
		return p4d_fix(err, "--p4d-fp8-recipe=current");
	}
	return 0;
}

/* Megatron-LM (transformer_config.py) refuses CUDA graphs of layers that are recomputed. */
static int check_graphs(const p4d_request *r, p4d_error *err)
{
	if (!p4d_is_set(r, P4D_CUDA_GRAPHS) || !r->value[P4D_CUDA_GRAPHS] ||
	    r->value[P4D_RECOMPUTE] != P4D_RECOMPUTE_FULL)
		return 0;
	p4d_fail(err, P4D_E_VALUE,
		 "Megatron-LM cannot recompute whole layers that are captured in CUDA graphs");
	return p4d_fix(err, "--p4d-cuda-graphs=none");
}

static int check_attention(const p4d_request *r, p4d_error *err)
{
	if (!p4d_is_set(r, P4D_ATTENTION) || r->value[P4D_ATTENTION] != P4D_FLASH_TRITON)
		return 0;
	p4d_fail(err, P4D_E_VALUE, "Megatron-LM has no attention=triton");
	return p4d_fix(err, "--p4d-attention=flash");
}

/*
 * Whether Megatron-Core itself cannot express the layers. A layer of release 0.16 (transformer_layer.py) has
 * a norm before attention and one before the feed-forward layer, one after the other, and caps nothing.
 */
static bool core_lacks(const p4d_architecture *a)
{
	return a->kind == P4D_DECODER && !a->single_blocks &&
	       (a->parallel || a->place != P4D_NORMS_BEFORE || a->attention_cap > 0 || a->logit_cap > 0);
}

static int check_model(const p4d_request *r, p4d_error *err)
{
	const char *difference = p4d_architecture_block_difference(r);

	if (p4d_is_set(r, P4D_LAYER_PATTERN))
		return check_states(r, err);
	if (difference)
		return p4d_fail(err, P4D_E_UNMODELLED, "%.80s has %s, which %s", r->model, difference,
				core_lacks(p4d_architecture_of(r))
				    ? "layers of Megatron-Core 0.16 cannot have"
				    : "p4d does not model in Megatron-LM");
	if (check_attention(r, err) < 0 || check_fp8(r, err) < 0 || check_graphs(r, err) < 0)
		return -1;
	if (p4d_is_set(r, P4D_EXPERTS) || p4d_is_set(r, P4D_KV_LORA_RANK))
		return check_experts(r, err);
	return 0;
}

/*
 * Three of 28 published runs with delayed scales succeeded, although p4d predicts that they do not fit
 * (recipes_measured.csv).
 */
static const char *unvalidated(const p4d_layout *l)
{
	const bool fp8 = l->precision == P4D_FP8;

	return l->megatron.graphs == P4D_GRAPHS_ATTENTION || l->megatron.graphs == P4D_GRAPHS_LAYERS
		   ? "attention in CUDA graphs"
	       : fp8 && l->fp8_recipe == P4D_FP8_NVFP4                     ? "NVFP4"
	       : fp8 && l->fp8_recipe == P4D_FP8_DELAYED && !l->fp8_params ? "FP8 with delayed scales"
	       : p4d_is_v_shaped(l->schedule)                              ? "DualPipeV"
	       : l->megatron.cp_heads > 1                           ? "hierarchical context parallelism"
	       : l->experts && l->megatron.expert_overlap           ? "overlapped experts"
	       : l->experts && l->megatron.dispatcher == P4D_DEEPEP ? "DeepEP"
								    : NULL;
}

static const p4d_framework_choice defaults[] = {{P4D_FP8_RECIPE, P4D_FP8_DELAYED}, {P4D_OPTIONS, 0}};

static const char *const script_words[] = {"pretrain_gpt", "--tensor-model-parallel-size",
					   "--pipeline-model-parallel-size", "P4D_MEGATRON_ARGS", NULL};

const p4d_framework p4d_framework__megatron = {
    .name = "megatron",
    .program = "Megatron-LM",
    .check_model = check_model,
    /* DualPipeV: with MindSpeed (--schedules-method dualpipev) */
    .schedules = 1u << P4D_GPIPE | 1u << P4D_1F1B | 1u << P4D_INTERLEAVED | 1u << P4D_DUALPIPE_V,
    .no_schedule = "needs p4d-train; Megatron-LM supports 1f1b and interleaved",
    .no_vocab_parallel = "needs p4d-train; Megatron-LM shards the vocabulary by tp only",
    .defaults = defaults,
    .recomputes = ~(1u << P4D_RECOMPUTE_KEEP),
    .states_only = "exists only in p4d-train; Megatron-LM's distributed optimizer shards states",
    .no_recompute = "exists only in p4d-train; Megatron-LM stores the same with none",
    .copies_kv_heads = true,
    .uneven_chunks = true,
    .vocab_multiple = 128, /* default of Megatron-LM's --make-vocab-size-divisible-by */
    .write_rows = p4d_framework__megatron_rows,
    .groups_bytes = p4d_memory_usual_groups_bytes,
    .alignment = 1,
    .unvalidated = unvalidated,
    .evaluation =
	1u << P4D_AT_EVALUATION_LAYER | 1u << P4D_AT_EVALUATION_HEAD | 1u << P4D_AT_EVALUATION_BATCH,
    /* reserved memory divided by allocated memory: the mean of 19 runs on B200 is 1.053 (1.028 to 1.093).
     * Expandable segments waste little except unused ends. */
    .fragmentation = {53, 10},
    .share_is_mean = true,
    .reserved = p4d_megatron__reserved,
    .above_safe_fix = "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    .script_words = script_words,
    .arguments = &p4d_megatron__arguments,
    .cost = {.step_seconds = 5e-3,
	     .host_layer_seconds = 650e-6, /* about 65 kernel launches of 10 us */
	     /* from Megatron Bridge's runs: Qwen3 30B-A3B with micro-batches of one sequence takes 9 ms
	      * per layer on B200, Moonlight takes 15 ms on H100 */
	     .host_experts_seconds = 8.5e-3,
	     .host_latent_seconds = 5.5e-3,
	     .unfused_attention = true,
	     .slow_row_scales = true,
	     .overlaps_sequence_parallel = true,
	     .scatters_sends = true,
	     .defers_weight_gradients = true,
	     .saves_norms_and_products = true,
	     .recomputes_attention = true,
	     .rotates_apart = true,
	     .reduces_maxima = true,
	     .recomputes_whole_mlp = true,
	     .reorders_gathered_keys = true},
};
