/* SPDX-License-Identifier: Apache-2.0 */
/* torchtitan: release 0.2 has TOML files with overrides, release 0.3 shipped configurations with
 * overrides. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "reader/reader_internal.h"

enum {
	MODULE,
	NAME,
	FLAVOR,
	LOCAL_BATCH,
	PIPELINE_BATCH,
	SHARD,
	REPLICATE,
	SCHEDULE,
	CHECKPOINTING,
	SELECTIVE,
	SHIPPED, /* a configuration that release 0.3 ships */
	CONVERTER,
	FLOAT8_RECIPE,
	FLOAT8_GATHER,
};

static const char *const schedules[] = {"1F1B",  "1f1b", "Interleaved1F1B", "interleaved", "GPipe",
					"gpipe", NULL};
static const char *const none[] = {NULL};
static const char *const modes[] = {"none", "none", "full", "full", "selective", "selective", NULL};
static const char *const dtypes[] = {"float32", "fp32", "bfloat16", "bf16", NULL};
static const char *const optimizers[] = {"AdamW", "adamw", "Adam", "adamw", "Muon", "muon", NULL};
static const char *const off[] = {"off"};
static const char *const converters[] = {
    "float8", "float8", "['float8']", "float8", "[\"float8\"]", "float8", "quantize.linear.float8",
    "float8", NULL};
static const char *const recipes[] = {"tensorwise", "current", "rowwise", "rowwise", NULL};
static const char *const counts[] = {"0", "off", "1", "on", NULL};

#define X(i) P4D_READ_EXTRA(i)
static const p4d_read_argument arguments[] = {
    {"--job.config_file", P4D_READ_FILE, "", NULL},
    {"--config_file", P4D_READ_FILE, "", NULL},
    {"--config", P4D_READ_FILE, "", NULL},
    {"--module", X(MODULE), NULL, NULL},
    {"--model.name", X(NAME), NULL, NULL},
    {"--model.flavor", X(FLAVOR), NULL, NULL},
    {"--model.converters", X(CONVERTER), NULL, converters},
    {"--float8.recipe_name", X(FLOAT8_RECIPE), NULL, recipes},
    {"--float8.enable_fsdp_float8_all_gather", X(FLOAT8_GATHER), "on", NULL},
    {"--quantize.linear.float8.recipe_name", X(FLOAT8_RECIPE), NULL, recipes},
    {"--quantize.linear.float8.enable_fsdp_float8_all_gather", X(FLOAT8_GATHER), "on", NULL},
    {"--training.local_batch_size", X(LOCAL_BATCH), NULL, NULL},
    {"--training.batch_size", X(LOCAL_BATCH), NULL, NULL},
    {"--training.global_batch_size", P4D_GLOBAL_BATCH, NULL, NULL},
    {"--training.seq_len", P4D_SEQ_LEN, NULL, NULL},
    {"--training.dtype", P4D_PARAM_DTYPE, NULL, dtypes},
    {"--training.mixed_precision_param", P4D_PRECISION, NULL, dtypes},
    {"--training.enable_cpu_offload", P4D_OFFLOAD, "params", NULL},
    {"--training.compile", P4D_COMPILE, "on", off},
    {"--training.data_parallel_shard_degree", X(SHARD), NULL, NULL},
    {"--training.data_parallel_replicate_degree", X(REPLICATE), NULL, NULL},
    {"--training.tensor_parallel_degree", P4D_TP, NULL, NULL},
    {"--experimental.pipeline_parallel_degree", P4D_PP, NULL, NULL},
    {"--experimental.context_parallel_degree", P4D_CP, NULL, NULL},
    {"--experimental.pipeline_parallel_schedule", X(SCHEDULE), NULL, schedules},
    {"--parallelism.data_parallel_shard_degree", X(SHARD), NULL, NULL},
    {"--parallelism.data_parallel_replicate_degree", X(REPLICATE), NULL, NULL},
    {"--parallelism.tensor_parallel_degree", P4D_TP, NULL, NULL},
    {"--parallelism.context_parallel_degree", P4D_CP, NULL, NULL},
    {"--parallelism.pipeline_parallel_degree", P4D_PP, NULL, NULL},
    {"--parallelism.expert_parallel_degree", P4D_EP, NULL, NULL},
    {"--parallelism.expert_tensor_parallel_degree", P4D_ETP, NULL, NULL},
    {"--parallelism.pipeline_parallel_schedule", X(SCHEDULE), NULL, schedules},
    {"--parallelism.pipeline_parallel_layers_per_stage", P4D_VPP, NULL, none},
    {"--parallelism.pipeline_parallel_microbatch_size", X(PIPELINE_BATCH), NULL, NULL},
    {"--parallelism.pipeline_parallel_first_stage_less_layers", P4D_ACCOUNT_FOR_EMBEDDING, NULL, counts},
    {"--parallelism.pipeline_parallel_last_stage_less_layers", P4D_ACCOUNT_FOR_LOSS, NULL, counts},
    {"--parallelism.enable_sequence_parallel", P4D_SEQUENCE_PARALLEL, "on", off},
    {"--parallelism.no_enable_sequence_parallel", P4D_SEQUENCE_PARALLEL, "off", NULL},
    {"--activation_checkpoint.mode", X(CHECKPOINTING), NULL, modes},
    {"--activation_checkpoint.selective_ac_option", X(SELECTIVE), NULL, NULL},
    {"activation_checkpoint:none", P4D_RECOMPUTE, "none", NULL},
    {"activation_checkpoint:full", P4D_RECOMPUTE, "full", NULL},
    {"activation_checkpoint:selective", P4D_RECOMPUTE, "selective", NULL},
    {"--compile.enable", P4D_COMPILE, "on", off},
    {"--gpus-per-node", P4D_GPUS_PER_NODE, NULL, NULL},
    {"--optimizer.name", P4D_OPTIMIZER, NULL, optimizers},
    {NULL, 0, NULL, NULL},
};
#undef X

/* Defaults of ParallelismConfig and TrainingConfig. */
static const p4d_read_default defaults[] = {
    {P4D_FRAMEWORK, "fsdp"},
    {P4D_MODEL_CODE, "torchtitan"},
    {P4D_TP, "1"},
    {P4D_PP, "1"},
    {P4D_CP, "1"},
    {P4D_PARAM_DTYPE, "fp32"},
    {P4D_PRECISION, "bf16"},
    {P4D_COMPILE, "off"},
    {P4D_OPTIMIZER, "adamw"},
    {0, NULL},
};

static const struct {
	const char *module, *name, *model, *batch, *seq_len, *tp, *ep, *schedule, *recompute, *compile,
	    *float8;
	p4d_option unmodelled; /* option of a feature that p4d does not model; P4D_OPTIONS: none */
	const char *why;
} configs[] = {
#define CONFIG(...) {__VA_ARGS__},
#include "reader/torchtitan_configs.def"
#undef CONFIG
};

enum { CONFIGS = sizeof(configs) / sizeof(configs[0]) };

/* The preset for `flavor` of the model `name`; NULL: p4d has none. */
static const char *model_of(const char *name, const char *flavor)
{
	static const char *const models[][3] = {
	    {"llama3", "1B", "llama-3.2-1b"},
	    {"llama3", "3B", "llama-3.2-3b"},
	    {"llama3", "8B", "llama-3.1-8b"},
	    {"llama3", "70B", "llama-3.1-70b"},
	    {"llama3", "405B", "llama-3.1-405b"},
	    {"llama4", "17bx16e", "llama-4-scout"},
	    {"qwen3", "0.6B", "qwen3-0.6b"},
	    {"qwen3", "1.7B", "qwen3-1.7b"},
	    {"qwen3", "4B", "qwen3-4b"},
	    {"qwen3", "8B", "qwen3-8b"},
	    {"qwen3", "14B", "qwen3-14b"},
	    {"qwen3", "32B", "qwen3-32b"},
	    {"qwen3", "30B-A3B", "qwen3-30b-a3b"},
	    {"qwen3", "235B-A22B", "qwen3-235b-a22b"},
	    {"deepseek_v3", "16B", "deepseek-v2-lite"},
	    {"deepseek_v3", "236B", "deepseek-v2"},
	    {"deepseek_v3", "671B", "deepseek-v3"},
	    {"gpt_oss", "20b", "gpt-oss-20b"},
	    {"gpt_oss", "120b", "gpt-oss-120b"},
	};

	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
		if (!strcmp(models[i][0], name) && !strcmp(models[i][1], flavor))
			return models[i][2];
	return NULL;
}

static void put_extra(p4d_reading *r, int extra, const p4d_read_value *place, const char *text)
{
	r->extra[extra] = *place;
	snprintf(r->extra[extra].text, sizeof(place->text), "%s", text);
}

static bool find_shipped(p4d_reading *r, const p4d_read_argument *a, const p4d_read_given *given)
{
	const p4d_read_value place = {.file = given->file, .line = given->line};
	size_t i = 0;

	(void)a;
	for (; i < CONFIGS && strcmp(configs[i].name, given->value) != 0;)
		i++;
	if (i == CONFIGS)
		return false;
	p4d_reader__put(r, P4D_MODEL, &place, "%s", configs[i].model);
	p4d_reader__put(r, P4D_SEQ_LEN, &place, "%s", configs[i].seq_len);
	p4d_reader__put(r, P4D_TP, &place, "%s", configs[i].tp);
	if (strcmp(configs[i].ep, "1") != 0)
		p4d_reader__put(r, P4D_EP, &place, "%s", configs[i].ep);
	p4d_reader__put(r, P4D_RECOMPUTE, &place, "%s", configs[i].recompute);
	p4d_reader__put(r, P4D_COMPILE, &place, "%s", configs[i].compile);
	p4d_reader__put(r, P4D_CHUNKED_LOSS, &place, "on");
	put_extra(r, LOCAL_BATCH, &place, configs[i].batch);
	put_extra(r, SCHEDULE, &place, configs[i].schedule);
	put_extra(r, SHIPPED, &place, configs[i].name);
	if (*configs[i].float8) {
		put_extra(r, CONVERTER, &place, "float8");
		put_extra(r, FLOAT8_RECIPE, &place, configs[i].float8);
	}
	if (configs[i].unmodelled != P4D_OPTIONS) {
		p4d_reader__forget(r, configs[i].unmodelled);
		p4d_reader__unknown(r, p4d_request_option_info(configs[i].unmodelled)->name,
				    "%s (%s) is not modelled", configs[i].why, configs[i].name);
	}
	return true;
}

static void finish_model(p4d_reading *r)
{
	const p4d_read_value *name = &r->extra[NAME], *flavor = &r->extra[FLAVOR];
	const char *model =
	    p4d_reader__set(name) && p4d_reader__set(flavor) ? model_of(name->text, flavor->text) : NULL;

	if (p4d_reader__set(flavor) && !p4d_reader__set(&r->extra[SHIPPED]))
		p4d_reader__put_default(r, P4D_CHUNKED_LOSS,
					"off"); /* torchtitan 0.2 has no argument for this */
	if (model)
		p4d_reader__put(r, P4D_MODEL, flavor, "%s", model);
	else if (p4d_reader__set(name) && p4d_reader__set(flavor))
		p4d_reader__unknown(r, "model", "p4d does not know torchtitan's %.60s %.60s", name->text,
				    flavor->text);
}

static void finish_checkpointing(p4d_reading *r)
{
	const p4d_read_value *mode = &r->extra[CHECKPOINTING], *selective = &r->extra[SELECTIVE];

	if (mode->unknown)
		p4d_reader__forget(r, P4D_RECOMPUTE);
	if (!p4d_reader__set(mode))
		return;
	p4d_reader__put(r, P4D_RECOMPUTE, mode, "%s", mode->text);
	/* the value may be a number N (recompute every Nth layer); the default of torchtitan 0.2 is 2 */
	if (p4d_reader__is(mode, "selective") && !p4d_reader__is(selective, "op")) {
		p4d_reader__unknown(r, "recompute", "selective_ac_option %.60s is not modelled",
				    p4d_reader__set(selective) ? selective->text : "2, the default,");
		p4d_reader__forget(r, P4D_RECOMPUTE);
	}
}

static const p4d_read_beside selective = {"--activation_checkpoint.mode", "selective",
					  "--activation_checkpoint.selective_ac_option", "op"};

static uint64_t value_or(const p4d_read_value *value, uint64_t otherwise)
{
	return p4d_reader__set(value) ? p4d_reader__number(value) : otherwise;
}

/* Number of ranks; 0: unknown. */
static uint64_t count_ranks(const p4d_reading *r)
{
	const p4d_read_value *nodes = &r->value[P4D_NODES];

	return nodes->unknown ? 0 : p4d_reader__number(&r->value[P4D_GPUS_PER_NODE]) * value_or(nodes, 1);
}

/* Sets FP8, which is torchao's Float8Linear; all other modules compute in bf16. */
static void finish_float8(p4d_reading *r)
{
	const p4d_read_value *converter = &r->extra[CONVERTER], *recipe = &r->extra[FLOAT8_RECIPE],
			     *gather = &r->extra[FLOAT8_GATHER];

	if (converter->unknown)
		p4d_reader__forget(r, P4D_PRECISION);
	if (!p4d_reader__set(converter))
		return;
	p4d_reader__put(r, P4D_PRECISION, converter, "fp8");
	if (p4d_reader__set(recipe))
		p4d_reader__put(r, P4D_FP8_RECIPE, recipe, "%s", recipe->text);
	else if (recipe->unknown)
		p4d_reader__forget(r, P4D_FP8_RECIPE);
	if (p4d_reader__set(gather))
		p4d_reader__put(r, P4D_FP8_PARAM_GATHER, gather, "on");
}

static void finish_sharding(p4d_reading *r)
{
	const p4d_read_value *shard = &r->extra[SHARD], *copies = &r->extra[REPLICATE];
	const uint64_t cp = p4d_reader__number(&r->value[P4D_CP]),
		       others = p4d_reader__number(&r->value[P4D_TP]) * p4d_reader__number(&r->value[P4D_PP]),
		       ranks = count_ranks(r), replicas = p4d_reader__number(copies);

	if (shard->unknown || copies->unknown)
		p4d_reader__forget(r, P4D_SHARD_DEGREE);
	else if (p4d_reader__number(shard) && cp &&
		 cp <= UINT16_MAX) /* context-parallel ranks also shard parameters */
		p4d_reader__put(r, P4D_SHARD_DEGREE, shard, "%" PRIu64, p4d_reader__number(shard) * cp);
	else if (replicas > 1 && ranks && others && ranks % others == 0 && ranks / others % replicas == 0)
		p4d_reader__put(r, P4D_SHARD_DEGREE, copies, "%" PRIu64, ranks / others / replicas);
	else if (replicas > 1)
		p4d_reader__unknown(r, "shard-degree", "%s replicas, but the number of GPUs is not known",
				    copies->text);
}

/*
 * Sets the batches. A pipeline cuts the local batch into micro-batches. Without a pipeline the local batch is
 * one micro-batch.
 */
static void finish_batches(p4d_reading *r)
{
	const p4d_read_value *local = &r->extra[LOCAL_BATCH], *part = &r->extra[PIPELINE_BATCH];
	const uint64_t tp = p4d_reader__number(&r->value[P4D_TP]), pp = p4d_reader__number(&r->value[P4D_PP]),
		       cp = p4d_reader__number(&r->value[P4D_CP]), ranks = count_ranks(r),
		       others = tp * pp * cp, each = p4d_reader__number(local);

	if (p4d_reader__is(&r->value[P4D_GLOBAL_BATCH], "-1"))
		r->value[P4D_GLOBAL_BATCH] = (p4d_read_value){.file = NULL};
	if (r->value[P4D_PP].unknown || local->unknown) {
		p4d_reader__forget(r, P4D_MICRO_BATCH);
		return;
	}
	if (pp <= 1) {
		if (each)
			p4d_reader__put(r, P4D_MICRO_BATCH, local, "%s", local->text);
		if (each && each <= UINT16_MAX && ranks && others && ranks % others == 0 &&
		    !p4d_reader__set(&r->value[P4D_GLOBAL_BATCH]))
			p4d_reader__put_default(r, P4D_GLOBAL_BATCH, "%" PRIu64, each * (ranks / others));
		return;
	}
	if (p4d_reader__set(part))
		p4d_reader__put(r, P4D_MICRO_BATCH, part, "%s", part->text);
	else if (!part->unknown)
		p4d_reader__put_default(r, P4D_MICRO_BATCH, "1");
	if (p4d_reader__set(&r->extra[SCHEDULE]))
		p4d_reader__put(r, P4D_SCHEDULE, &r->extra[SCHEDULE], "%s", r->extra[SCHEDULE].text);
	else if (!r->extra[SCHEDULE].unknown)
		p4d_reader__put_default(r, P4D_SCHEDULE, "1f1b");
	if (p4d_reader__is(&r->value[P4D_SCHEDULE], "interleaved"))
		p4d_reader__put_default(r, P4D_VPP, "2"); /* default number of chunks per rank */
	p4d_reader__put_default(r, P4D_ACCOUNT_FOR_EMBEDDING, "on");
	p4d_reader__put_default(r, P4D_ACCOUNT_FOR_LOSS, "on");
	if (p4d_reader__set(&r->value[P4D_GLOBAL_BATCH]) || !each)
		return;
	if (ranks && others && ranks % others == 0 && each <= UINT16_MAX)
		p4d_reader__put(r, P4D_GLOBAL_BATCH, local, "%" PRIu64, each * (ranks / others));
	else
		p4d_reader__unknown(r, "global-batch",
				    "%s sequences per rank, but the number of GPUs is not known",
				    local->text);
}

static void finish(p4d_reading *r)
{
	finish_float8(r);
	finish_model(r);
	finish_checkpointing(r);
	finish_sharding(r);
	finish_batches(r);
}

static const p4d_read_variable variables[] = {
    {"CONFIG_FILE", "--job.config_file", P4D_SET_IN_SCRIPT},
    {"CONFIG", "--config", P4D_SET_IN_SCRIPT},
    {"MODULE", "--module", P4D_SET_IN_SCRIPT},
    {"NGPU", "--gpus-per-node", P4D_SET_IN_SCRIPT},
    {NULL, NULL, P4D_SET_ANYWHERE},
};

const p4d_reader p4d_reader__torchtitan = {
    .framework = "torchtitan",
    .programs = {"torchtitan.train", "torchtitan/train.py", "~run_train.sh"},
    .arguments_alone = {"--job.config_file"},
    .arguments = {arguments},
    .defaults = defaults,
    .beside = &selective,
    .variables = variables,
    .shipped = find_shipped,
    .finish = finish,
};
