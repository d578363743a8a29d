/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of accelerate and DeepSpeed, and their meaning for the programs that use them. */
#include "reader/read_finetune.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXTRA(name) P4D_READ_EXTRA(P4D_FINETUNE_##name)

const p4d_read_alias p4d_finetune__aliases[] = {
    {P4D_FINETUNE, P4D_FINETUNE_LORA},
    {P4D_RECOMPUTE, P4D_FINETUNE_FSDP_CHECKPOINTING},
    {P4D_PARAM_DTYPE, P4D_FINETUNE_PARAM_DTYPE},
    {P4D_COMPILE, P4D_FINETUNE_COMPILE},
    {P4D_PACKING, P4D_FINETUNE_PACKING},
    {P4D_CHUNKED_LOSS, P4D_FINETUNE_CHUNKED_LOSS},
    {P4D_OPTIONS, 0},
};
const p4d_read_filling p4d_finetune__filling[] = {
    {EXTRA(PACKING), "on", true}, {EXTRA(PADDING), "max_length", true}, {0, NULL, false}};
static const p4d_read_alias *const alike = p4d_finetune__aliases + 1;

const char *const p4d_finetune__optimizers[] = {"adamw_torch",
						"foreach",
						"adamw_torch_fused",
						"adamw",
						"adamw_hf",
						"adamw",
						"adamw_apex_fused",
						"adamw",
						"adamw_bnb_8bit",
						"adamw-8bit",
						"adamw_8bit",
						"adamw-8bit",
						"adamw_torch_8bit",
						"adamw-8bit",
						"paged_adamw_8bit",
						"paged-adamw-8bit",
						"paged_adamw_32bit",
						"paged-adamw",
						"paged_adamw",
						"paged-adamw",
						"adamw_torch_4bit",
						"adamw-4bit",
						"adafactor",
						"adafactor",
						"sgd",
						"sgd",
						"muon",
						"muon",
						NULL};
const char *const p4d_finetune__dtypes[] = {
    "bfloat16", "bf16",          "torch.bfloat16", "bf16", "bf16", "bf16",    "float32",
    "fp32",     "torch.float32", "fp32",           "fp32", "fp32", "float16", "fp16",
    "fp16",     "fp16",          "torch.float16",  "fp16", "auto", "",        NULL};
const char *const p4d_finetune__attention[] = {"flash_attention_2",
					       "flash",
					       "flash_attention_3",
					       "flash",
					       "sdpa",
					       "flash",
					       "flash_attn",
					       "flash",
					       "fa2",
					       "flash",
					       "flex_attention",
					       "flash",
					       "xformers",
					       "flash",
					       "eager",
					       "unfused",
					       "kernels-community/flash-attn",
					       "flash",
					       "kernels-community/vllm-flash-attn3",
					       "flash",
					       "auto",
					       "",
					       NULL};
/* Words that mean that a switch is off. */
const char *const p4d_finetune__off[] = {"off"};
const char *const p4d_finetune__evaluation[] = {"no",  "off",   "off", "off",   "false", "off", "False",
						"off", "steps", "on",  "epoch", "on",    NULL};
static const char *const distributed[] = {"FSDP",  "fsdp", "DEEPSPEED", "deepspeed", "MULTI_GPU", "ddp",
					  "NO",    "ddp",  "\"NO\"",    "ddp",       "no",        "ddp",
					  "False", "ddp",  "false",     "ddp",       NULL};
const char *const p4d_finetune__strategies[] = {
    "FULL_SHARD", "full", "1",     "full",         "SHARD_GRAD_OP", "grad", "2",      "grad", "NO_SHARD",
    "none",       "3",    "none",  "HYBRID_SHARD", "hybrid",        "4",    "hybrid", "true", "full",
    "True",       "full", "false", "grad",         "False",         "grad", NULL};

const char *const p4d_finetune__wraps[] = {"TRANSFORMER_BASED_WRAP",
					   "layers",
					   "transformer_based_wrap",
					   "layers",
					   "SIZE_BASED_WRAP",
					   "size",
					   "NO_WRAP",
					   "none",
					   NULL};
/* Words for FSDP's prefetch. "on": FSDP gathers the next layer before it frees the current layer's
 * parameters. A prefetch after the backward pass is "off", because FSDP then frees these parameters first. */
const char *const p4d_finetune__prefetches[] = {"BACKWARD_PRE",  "on",  "backward_pre",  "on",  "1", "on",
						"BACKWARD_POST", "off", "backward_post", "off", "2", "off",
						"NO_PREFETCH",   "off", "no_prefetch",   "off", "3", "off",
						"None",          "off", "null",          "off", NULL};

static const char *const backends[] = {"no", "", "NO", "", "inductor", "on", "INDUCTOR", "on", NULL};

const p4d_read_argument p4d_finetune__accelerate[] = {
    {"--accelerate.config_file", P4D_READ_FILE, "accelerate.", NULL},
    {"--accelerate.config-file", P4D_READ_FILE, "accelerate.", NULL},
    {"--accelerate.num_processes", EXTRA(PROCESSES), NULL, NULL},
    {"--accelerate.num_machines", EXTRA(MACHINES), NULL, NULL},
    {"--accelerate.gpu_ids", EXTRA(GPU_IDS), NULL, NULL},
    {"--accelerate.distributed_type", EXTRA(DISTRIBUTED), NULL, distributed},
    {"--accelerate.mixed_precision", EXTRA(MIXED), NULL, NULL},
    {"--accelerate.multi_gpu", EXTRA(DISTRIBUTED), "ddp", NULL},
    {"--accelerate.use_fsdp", EXTRA(DISTRIBUTED), "fsdp", NULL},
    {"--accelerate.use_deepspeed", EXTRA(DISTRIBUTED), "deepspeed", NULL},
    {"--accelerate.deepspeed_config_file", P4D_READ_FILE_IN(P4D_FINETUNE_DEEPSPEED_FILE), "deepspeed.", NULL},
    {"--accelerate.deepspeed_config.deepspeed_config_file", P4D_READ_FILE_IN(P4D_FINETUNE_DEEPSPEED_FILE),
     "deepspeed.", NULL},
    {"--accelerate.zero_stage", EXTRA(ZERO_STAGE), NULL, NULL},
    {"--accelerate.deepspeed_config.zero_stage", EXTRA(ZERO_STAGE), NULL, NULL},
    {"--accelerate.offload_optimizer_device", EXTRA(OFFLOAD_OPTIMIZER), NULL, NULL},
    {"--accelerate.deepspeed_config.offload_optimizer_device", EXTRA(OFFLOAD_OPTIMIZER), NULL, NULL},
    {"--accelerate.offload_param_device", EXTRA(OFFLOAD_PARAMS), NULL, NULL},
    {"--accelerate.deepspeed_config.offload_param_device", EXTRA(OFFLOAD_PARAMS), NULL, NULL},
    {"--accelerate.fsdp_offload_params", EXTRA(FSDP_OFFLOAD), "on", NULL},
    {"--accelerate.fsdp_config.fsdp_offload_params", EXTRA(FSDP_OFFLOAD), "on", NULL},
    {"--accelerate.fsdp_sharding_strategy", EXTRA(FSDP_STRATEGY), NULL, p4d_finetune__strategies},
    {"--accelerate.fsdp_config.fsdp_sharding_strategy", EXTRA(FSDP_STRATEGY), NULL, p4d_finetune__strategies},
    {"--accelerate.fsdp_reshard_after_forward", EXTRA(FSDP_STRATEGY), NULL, p4d_finetune__strategies},
    {"--accelerate.fsdp_config.fsdp_reshard_after_forward", EXTRA(FSDP_STRATEGY), NULL,
     p4d_finetune__strategies},
    {"--accelerate.fsdp_activation_checkpointing", EXTRA(FSDP_CHECKPOINTING), "full", NULL},
    {"--accelerate.fsdp_config.fsdp_activation_checkpointing", EXTRA(FSDP_CHECKPOINTING), "full", NULL},
    {"--accelerate.fsdp_config.sharding_strategy", EXTRA(FSDP_STRATEGY), NULL, p4d_finetune__strategies},
    {"--accelerate.fsdp_config.reshard_after_forward", EXTRA(FSDP_STRATEGY), NULL, p4d_finetune__strategies},
    {"--accelerate.fsdp_config.offload_params", EXTRA(FSDP_OFFLOAD), "on", NULL},
    {"--accelerate.fsdp_config.activation_checkpointing", EXTRA(FSDP_CHECKPOINTING), "full", NULL},
    P4D_FINETUNE_FSDP_UNITS("--accelerate.fsdp_"),
    P4D_FINETUNE_FSDP_UNITS("--accelerate.fsdp_config."),
    P4D_FINETUNE_FSDP_UNITS("--accelerate.fsdp_config.fsdp_"),
    {"--accelerate.dynamo_backend", EXTRA(COMPILE), NULL, backends},
    {"--accelerate.dynamo_config.dynamo_backend", EXTRA(COMPILE), NULL, backends},
    {"--accelerate.parallelism_config_tp_size", P4D_TP, NULL, NULL},
    {"--accelerate.parallelism_config.parallelism_config_tp_size", P4D_TP, NULL, NULL},
    {"--accelerate.parallelism_config_cp_size", P4D_CP, NULL, NULL},
    {"--accelerate.parallelism_config.parallelism_config_cp_size", P4D_CP, NULL, NULL},
    {"--accelerate.parallelism_config_dp_shard_size", P4D_SHARD_DEGREE, NULL, NULL},
    {"--accelerate.parallelism_config.parallelism_config_dp_shard_size", P4D_SHARD_DEGREE, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

/* Words with which DeepSpeed copies gradients to buckets, as p4d's formulas assume. */
static const char *const contiguous[] = {"true", "", "auto", "", NULL};
/* Numbers of ranks with which zero_hpz_partition_size and mics_shard_size have no effect. They include
 * DeepSpeed's defaults. */
static const char *const one_or_none[] = {"0", "", "1", "", NULL};
static const char *const below_one[] = {"-1", "", "0", "", NULL};

/* DeepSpeed's configuration (docs/_pages/config-json.md of DeepSpeed 0.17). */
const p4d_read_argument p4d_finetune__deepspeed[] = {
    {"--deepspeed.zero_optimization.stage", EXTRA(ZERO_STAGE), NULL, NULL},
    {"--deepspeed.zero_optimization.reduce_bucket_size", EXTRA(ZERO_BUCKET), NULL, NULL},
    {"--deepspeed.zero_optimization.overlap_comm", EXTRA(ZERO_OVERLAP), "on", p4d_finetune__off},
    {"--deepspeed.zero_optimization.stage3_gather_16bit_weights_on_model_save", EXTRA(ZERO_GATHER), "on",
     p4d_finetune__off},
    {"--deepspeed.zero_optimization.stage3_gather_fp16_weights_on_model_save", EXTRA(ZERO_GATHER), "on",
     p4d_finetune__off}, /* the name before DeepSpeed 0.5.9 */
    {"--deepspeed.zero_optimization.contiguous_gradients", P4D_READ_NOT_MODELLED, NULL, contiguous},
    /* stores a second copy of the parameters in each node, and shards over groups of ranks */
    {"--deepspeed.zero_optimization.zero_hpz_partition_size", P4D_READ_NOT_MODELLED, NULL, one_or_none},
    {"--deepspeed.zero_optimization.mics_shard_size", P4D_READ_NOT_MODELLED, NULL, below_one},
    {"--deepspeed.zero_optimization.offload_optimizer.device", EXTRA(OFFLOAD_OPTIMIZER), NULL, NULL},
    {"--deepspeed.zero_optimization.offload_param.device", EXTRA(OFFLOAD_PARAMS), NULL, NULL},
    {"--deepspeed.zero_optimization.cpu_offload", EXTRA(OFFLOAD_OPTIMIZER), "cpu", NULL},
    {"--deepspeed.bf16.enabled", EXTRA(DEEPSPEED_BF16), NULL, NULL},
    {"--deepspeed.bfloat16.enabled", EXTRA(DEEPSPEED_BF16), NULL, NULL},
    {"--deepspeed.fp16.enabled", EXTRA(DEEPSPEED_FP16), NULL, NULL},
    {"--deepspeed.train_micro_batch_size_per_gpu", EXTRA(DEEPSPEED_MICRO), NULL, NULL},
    {"--deepspeed.gradient_accumulation_steps", EXTRA(DEEPSPEED_ACCUMULATION), NULL, NULL},
    {"--deepspeed.train_batch_size", EXTRA(DEEPSPEED_GLOBAL), NULL, NULL},
    {"--deepspeed.optimizer.type", EXTRA(DEEPSPEED_OPTIMIZER), NULL, NULL},
    {"--deepspeed.optimizer.params.torch_adam", EXTRA(DEEPSPEED_TORCH), "on", p4d_finetune__off},
    {"--deepspeed.optimizer.params.fused", EXTRA(DEEPSPEED_FUSED), "on", p4d_finetune__off},
    {"--deepspeed.optimizer.params.foreach", EXTRA(DEEPSPEED_FOREACH), "on", p4d_finetune__off},
    {"--deepspeed.tensor_parallel.autotp_size", P4D_TP, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

p4d_read_value *p4d_finetune__extra(p4d_reading *r, int extra)
{
	return &r->extra[extra];
}

#define AT(name) p4d_finetune__extra(r, P4D_FINETUNE_##name)

static bool is_set(const p4d_reading *r, p4d_option option)
{
	return p4d_reader__set(&r->value[option]) && !r->by_default[option];
}

/* Sets the precision: from the program's arguments, otherwise from the configuration. */
static void finish_precision(p4d_reading *r)
{
	const p4d_read_value *mixed = AT(MIXED);

	if (is_set(r, P4D_PRECISION) || r->value[P4D_PRECISION].unknown)
		return;
	if (p4d_reader__is(AT(DEEPSPEED_BF16), "true"))
		p4d_reader__put(r, P4D_PRECISION, AT(DEEPSPEED_BF16), "bf16");
	else if (p4d_reader__is(AT(DEEPSPEED_FP16), "true"))
		p4d_reader__put(r, P4D_PRECISION, AT(DEEPSPEED_FP16), "fp16");
	else if (p4d_reader__is(mixed, "bf16") || p4d_reader__is(mixed, "fp16"))
		p4d_reader__put(r, P4D_PRECISION, mixed, "%s", mixed->text);
	else if (p4d_reader__set(mixed) && strcmp(mixed->text, "no") != 0)
		p4d_reader__unknown(r, "precision", "mixed_precision %.60s is not modelled", mixed->text);
	else if (mixed->unknown || AT(DEEPSPEED_BF16)->unknown || AT(DEEPSPEED_FP16)->unknown)
		p4d_reader__forget(r, P4D_PRECISION);
}

/* Sets the processes per node. accelerate's number counts the processes of all machines. */
static void finish_processes(p4d_reading *r)
{
	const p4d_read_value *processes = AT(PROCESSES), *machines = AT(MACHINES), *ids = AT(GPU_IDS);
	const uint64_t all = p4d_reader__number(processes),
		       nodes = p4d_reader__set(machines) ? p4d_reader__number(machines)
			       : p4d_reader__set(&r->value[P4D_NODES])
				   ? p4d_reader__number(&r->value[P4D_NODES])
				   : 1;

	if (p4d_reader__number(machines) && !is_set(r, P4D_NODES))
		p4d_reader__put(r, P4D_NODES, machines, "%s", machines->text);
	/* the number in accelerate's options wins over the node's number of GPUs */
	const p4d_read_value *gpus = &r->value[P4D_GPUS_PER_NODE];
	if (all && nodes && !machines->unknown && all % nodes == 0 &&
	    (!p4d_reader__set(gpus) || gpus->file[0] == '$')) {
		p4d_reader__put(r, P4D_GPUS_PER_NODE, processes, "%" PRIu64, all / nodes);
		r->processes_of_all = true;
		r->names_gpus = r->names_gpus || (ids->file && !p4d_reader__is(ids, "all"));
		snprintf(r->processes, sizeof(r->processes), "--num_processes");
	}
}

/* Number of ranks; 0: unknown. */
static uint64_t count_ranks(const p4d_reading *r)
{
	const p4d_read_value *nodes = &r->value[P4D_NODES];
	const uint64_t gpus = p4d_reader__number(&r->value[P4D_GPUS_PER_NODE]);

	if (nodes->unknown)
		return 0;
	return gpus * (p4d_reader__set(nodes) ? p4d_reader__number(nodes) : 1);
}

/* Number of ranks with different sequences; 0: unknown. */
static uint64_t count_replicas(const p4d_reading *r)
{
	static const p4d_option shared[] = {P4D_TP, P4D_CP};
	uint64_t ranks = count_ranks(r), each = 1;

	for (size_t i = 0; i < sizeof(shared) / sizeof(*shared); i++) {
		const uint64_t of = p4d_reader__number(&r->value[shared[i]]);
		if (r->value[shared[i]].unknown || of > UINT16_MAX)
			return 0;
		each *= of ? of : 1;
	}
	return ranks % each ? 0 : ranks / each;
}

/* Sets the sequences of a micro-batch and a step. "auto" for DeepSpeed means the program's arguments. */
static void finish_batches(p4d_reading *r)
{
	const p4d_read_value *micro = AT(DEEPSPEED_MICRO), *global = AT(DEEPSPEED_GLOBAL),
			     *steps = AT(ACCUMULATION);
	const uint64_t ranks = count_replicas(r);

	if (p4d_reader__number(micro) && !is_set(r, P4D_MICRO_BATCH))
		p4d_reader__put(r, P4D_MICRO_BATCH, micro, "%s", micro->text);
	if (!p4d_reader__set(steps))
		steps = AT(DEEPSPEED_ACCUMULATION);
	const uint64_t accumulated =
	    p4d_reader__set(steps) && !p4d_finetune__is_auto(steps) ? p4d_reader__number(steps) : 1;
	const uint64_t each = p4d_reader__number(&r->value[P4D_MICRO_BATCH]);
	if (is_set(r, P4D_GLOBAL_BATCH))
		return;
	if (p4d_reader__number(global)) {
		p4d_reader__put(r, P4D_GLOBAL_BATCH, global, "%s", global->text);
		const uint64_t part = accumulated * ranks, all = p4d_reader__number(global);
		if (part && all % part == 0 && !is_set(r, P4D_MICRO_BATCH))
			p4d_reader__put(r, P4D_MICRO_BATCH, global, "%" PRIu64, all / part);
	} else if (steps->unknown || accumulated == 0) {
		p4d_reader__forget(r, P4D_GLOBAL_BATCH);
	} else if (accumulated > 1 && ranks && each && ranks <= UINT32_MAX && accumulated <= UINT16_MAX &&
		   each <= UINT16_MAX) {
		p4d_reader__put(r, P4D_GLOBAL_BATCH, steps, "%" PRIu64, accumulated * each * ranks);
	} else if (accumulated == 1 && ranks && each && ranks <= UINT32_MAX && each <= UINT16_MAX) {
		p4d_reader__put_default(r, P4D_GLOBAL_BATCH, "%" PRIu64, each * ranks);
	} else if (accumulated > 1) {
		p4d_reader__unknown(r, "global-batch",
				    "%s micro-batches per step (%.60s:%u), but %s is not known", steps->text,
				    steps->file, steps->line,
				    each ? "the number of GPUs" : "the number of sequences in each");
	}
}

/*
 * Notes a doubt about an adapter's rank without the switch for adapters: TRL ignores the rank, but a user's
 * own program may always train adapters.
 */
static void doubt_adapter(p4d_reading *r, const p4d_read_value *rank)
{
	if (!r->named)
		p4d_reader__forget(r, P4D_FINETUNE);
	p4d_read_unknown *u = p4d_reader__unknown(
	    r, "finetune", "%s (%.60s:%u) does not say whether the program trains adapters",
	    rank->argument ? rank->argument : "a rank of LoRA", rank->file, rank->line);
	if (u)
		u->doubt = r->named;
}

/* Sets rank, dropout and targets of adapters. */
static void put_shape(p4d_reading *r)
{
	p4d_finetune__put_if_set(r, P4D_LORA_RANK, AT(RANK));
	if (p4d_reader__set(AT(DROPOUT)))
		p4d_reader__put(r, P4D_LORA_DROPOUT, AT(DROPOUT), "%.4g", strtod(AT(DROPOUT)->text, NULL));
	if (p4d_reader__set(AT(ALL_LINEAR)))
		p4d_reader__put(r, P4D_LORA_TARGETS, AT(ALL_LINEAR), "all-linear");
	else
		p4d_finetune__put_if_set(r, P4D_LORA_TARGETS, AT(TARGETS));
}

/* Sets whether adapters are trained, and the storage type of the frozen weights. */
static void finish_adapter(p4d_reading *r)
{
	const p4d_read_value *lora = AT(LORA), *quant = AT(QUANT), *rank = AT(RANK);
	const bool adapted = p4d_reader__is(lora, "lora") || p4d_reader__is(lora, "qlora");

	if (lora->unknown) {
		p4d_reader__forget(r, P4D_FINETUNE);
		return;
	}
	if (adapted) {
		p4d_reader__put(r, P4D_FINETUNE, lora, "%s", p4d_reader__set(quant) ? "qlora" : lora->text);
		put_shape(r);
	} else if (p4d_reader__is(lora, "full")) {
		p4d_reader__put(r, P4D_FINETUNE, lora, "full");
	} else if (p4d_reader__set(rank) && r->adapts && r->named) {
		p4d_reader__put_default(r, P4D_FINETUNE, p4d_reader__set(quant) ? "qlora" : "lora");
		put_shape(r);
	} else if (p4d_reader__set(rank)) {
		doubt_adapter(r, rank);
	}
	p4d_finetune__put_if_set(r, P4D_QUANT, quant);
}

/* Modules that PEFT (0.18) adapts by default, by a part of the model's name; the first match wins. */
static const char *peft_targets(const char *model)
{
	static const char *const names[] = {"phi-3",     "",
					    "phi-4",     "",
					    "phi3",      "",
					    "gpt2",      "",
					    "starcoder", "",
					    "falcon",    "query_key_value",
					    "bloom",     "query_key_value",
					    "pythia",    "query_key_value",
					    "neox",      "query_key_value",
					    "llama",     "q_proj,v_proj",
					    "mistral",   "q_proj,v_proj",
					    "mixtral",   "q_proj,v_proj",
					    "qwen",      "q_proj,v_proj",
					    "gemma",     "q_proj,v_proj",
					    "smollm2",   "q_proj,v_proj",
					    "opt-",      "q_proj,v_proj",
					    NULL};

	for (int i = 0; names[i]; i += 2)
		if (strcasestr(model, names[i]))
			return *names[i + 1] ? names[i + 1] : NULL;
	return NULL;
}

static bool is_adapted(const p4d_reading *r)
{
	const p4d_read_value *method = &r->value[P4D_FINETUNE];

	return p4d_reader__is(method, "lora") || p4d_reader__is(method, "qlora");
}

void p4d_finetune__adapter(p4d_reading *r, const char *rank, const char *targets, bool dropout)
{
	const p4d_read_value *model = &r->value[P4D_MODEL];
	const bool plain = AT(TARGETS)->unknown || AT(ALL_LINEAR)->unknown;

	if (!is_adapted(r))
		return;
	if (!p4d_reader__set(&r->value[P4D_LORA_RANK]) && !AT(RANK)->unknown)
		p4d_reader__put_default(r, P4D_LORA_RANK, "%s", rank);
	if (dropout && !p4d_reader__set(&r->value[P4D_LORA_DROPOUT]) && !AT(DROPOUT)->unknown)
		p4d_reader__put_default(r, P4D_LORA_DROPOUT, "0.05");
	if (!targets && p4d_reader__set(model))
		targets = peft_targets(model->text);
	if (!p4d_reader__set(&r->value[P4D_LORA_TARGETS]) && !plain && targets)
		p4d_reader__put_default(r, P4D_LORA_TARGETS, "%s", targets);
}

/* Sets autocast. Without autocast in half precision, parameters have that type, and nothing is cast. */
static void finish_autocast(p4d_reading *r)
{
	const p4d_read_value *dtype = AT(PARAM_DTYPE), *precision = &r->value[P4D_PRECISION];
	const bool half = p4d_reader__is(dtype, "bf16") || p4d_reader__is(dtype, "fp16"),
		   full = r->by_default[P4D_PRECISION] && p4d_reader__is(precision, "fp32");

	if (!half || !full || p4d_reader__is(&r->value[P4D_FRAMEWORK], "deepspeed") ||
	    !p4d_reader__is(&r->value[P4D_MODEL_CODE], "transformers"))
		return;
	p4d_reader__put(r, P4D_PRECISION, dtype, "%s", dtype->text);
	p4d_reader__put_default(r, P4D_AUTOCAST, "off");
}

/* p4d's name of the optimizer in DeepSpeed's configuration. DeepSpeed ignores the case. */
static const char *deepspeed_optimizer(const p4d_read_value *type)
{
	static const char *const names[] = {"Adam",      "adamw",     "AdamW",
					    "adamw",     "FusedAdam", "adamw",
					    "CPUAdam",   "adamw",     "DeepSpeedCPUAdam",
					    "adamw",     "SGD",       "sgd",
					    "Muon",      "muon",      "Adafactor",
					    "adafactor", NULL};

	for (int i = 0; names[i]; i += 2)
		if (p4d_reader__set(type) && !strcasecmp(type->text, names[i]))
			return names[i + 1];
	return NULL;
}

/*
 * Sets the AdamW of the Trainer. adamw_torch is fused only if its name says so (trainer_optimizer.py).
 * DeepSpeed also runs it, unless its own configuration has an optimizer or its states are on the host.
 */
static void put_own_optimizer(p4d_reading *r, p4d_read_value *own)
{
	const bool foreach = p4d_reader__is(own, "foreach");

	if (foreach)
		memcpy(own->text, "adamw", sizeof("adamw"));
	p4d_finetune__put_if_set(r, P4D_OPTIMIZER, own);
	const bool zero = p4d_reader__is(&r->value[P4D_FRAMEWORK], "deepspeed"),
		   on_host = strstr(r->value[P4D_OFFLOAD].text, "optimizer");
	if (foreach && ((zero && !on_host) || p4d_reader__is(&r->value[P4D_FRAMEWORK], "fsdp") ||
			p4d_reader__is(&r->value[P4D_FRAMEWORK], "ddp")))
		p4d_reader__put(r, P4D_OPTIMIZER_FOREACH, own, "on");
}

/*
 * Sets whether DeepSpeed's Adam is unfused. Its own Adam is one kernel. If the configuration asks for torch's
 * AdamW (torch_adam), that updates all parameters at once, with temporary copies, unless the configuration
 * sets "fused" (engine.py of DeepSpeed 0.19, get_optimizer_configuration).
 */
static void finish_torch_adam(p4d_reading *r)
{
	const p4d_read_value *type = AT(DEEPSPEED_OPTIMIZER), *torch = AT(DEEPSPEED_TORCH),
			     *fused = AT(DEEPSPEED_FUSED), *foreach = AT(DEEPSPEED_FOREACH);
	const bool adam = !strcasecmp(type->text, "adam") || !strcasecmp(type->text, "adamw");

	if (!adam || p4d_reader__is(fused, "on") || strstr(r->value[P4D_OFFLOAD].text, "optimizer") ||
	    !(torch->unknown || p4d_reader__is(torch, "on")))
		return;
	if (torch->unknown || fused->unknown || foreach->unknown)
		p4d_reader__forget(r, P4D_OPTIMIZER_FOREACH);
	else if (p4d_reader__is(foreach, "off"))
		p4d_reader__unknown(r, "optimizer",
				    "torch_adam with foreach=false (%.60s:%u) is not modelled", foreach->file,
				    foreach->line);
	else
		p4d_reader__put(r, P4D_OPTIMIZER_FOREACH, torch, "on");
}

static void finish_optimizer(p4d_reading *r)
{
	p4d_read_value *own = AT(OPTIMIZER);
	const p4d_read_value *type = AT(DEEPSPEED_OPTIMIZER);
	const char *name = deepspeed_optimizer(type);

	/* an optimizer in DeepSpeed's configuration wins */
	if (name) {
		p4d_reader__put(r, P4D_OPTIMIZER, type, "%s", name);
		finish_torch_adam(r);
	} else if (p4d_reader__set(type) && !p4d_finetune__is_auto(type)) {
		p4d_reader__unknown(r, "optimizer", "%.60s (%.60s:%u) is not modelled", type->text,
				    type->file, type->line);
	} else if (type->unknown) {
		p4d_reader__forget(r, P4D_OPTIMIZER);
	} else {
		put_own_optimizer(r, own);
	}
}

const char p4d_finetune__reward[] = "reward models, which train on pairs of sequences";

void p4d_finetune__reinforcement(p4d_reading *r)
{
	p4d_reader__forget(r, P4D_FRAMEWORK);
	p4d_reader__unknown(
	    r, "framework",
	    "%s also needs memory for other models (reference, reward, engine), which p4d does "
	    "not model",
	    r->reader->framework);
}

bool p4d_finetune__preference(p4d_reading *r, const char *method)
{
	static const struct {
		const char *method, *workload, *reference;
	} methods[] = {{"dpo", "preference", "on"},   {"ipo", "preference", "on"},
		       {"orpo", "preference", "off"}, {"simpo", "preference", "off"},
		       {"cpo", "preference", "off"},  {"kto", "rl", "on"}};

	for (size_t i = 0; i < sizeof(methods) / sizeof(*methods); i++) {
		if (strcmp(method, methods[i].method) != 0)
			continue;
		p4d_reader__put_default(r, P4D_WORKLOAD, "%s", methods[i].workload);
		if (!strcmp(methods[i].workload,
			    "rl")) /* preference methods have no engine that generates text */
			p4d_reader__put_default(r, P4D_COLOCATE, "off");
		if (!p4d_reader__set(&r->value[P4D_REFERENCE]))
			p4d_reader__put_default(r, P4D_REFERENCE, "%s", methods[i].reference);
		return true;
	}
	return false;
}

/* Sets the micro-batch of evaluation, if there is evaluation. transformers' default is 8. */
static void finish_evaluation(p4d_reading *r)
{
	const p4d_read_value *told = AT(EVALUATION);
	const bool strategy = p4d_reader__find(r->reader, "--eval_strategy") != NULL;

	if (!strategy || told->unknown)
		return;
	if (p4d_reader__is(told, "on") && r->named && !p4d_reader__set(&r->value[P4D_EVAL_MICRO_BATCH]))
		p4d_reader__put_default(r, P4D_EVAL_MICRO_BATCH, "8");
	else if (p4d_reader__is(told, "off") || (!p4d_reader__set(told) && r->named))
		r->value[P4D_EVAL_MICRO_BATCH] = (p4d_read_value){.file = NULL};
}

void p4d_finetune__adapts(p4d_reading *r)
{
	p4d_read_value *method = AT(LORA);
	const p4d_read_value *place = p4d_reader__set(AT(RANK)) ? AT(RANK) : AT(TARGETS);

	if (!r->named || p4d_reader__set(method) || method->unknown || !p4d_reader__set(place))
		return;
	*method = (p4d_read_value){.file = place->file, .line = place->line};
	memcpy(method->text, "lora", sizeof("lora"));
}

void p4d_finetune__unmodelled(p4d_reading *r)
{
	p4d_reader__forget(r, P4D_FRAMEWORK);
	p4d_reader__unknown(r, "framework", "p4d does not model the memory of %s", r->reader->framework);
}

/* Whether the Trainer's or accelerate's options ask for FSDP. */
static bool is_sharded(p4d_reading *r)
{
	return p4d_reader__is(&r->value[P4D_FRAMEWORK], "fsdp") &&
	       (p4d_reader__set(AT(FSDP)) || p4d_reader__is(AT(DISTRIBUTED), "fsdp"));
}

void p4d_finetune__finish(p4d_reading *r)
{
	finish_processes(r);
	finish_precision(r);
	p4d_finetune__distribution(r);
	finish_batches(r);
	finish_evaluation(r);
	finish_adapter(r);
	finish_optimizer(r);
	finish_autocast(r);
	for (const p4d_read_alias *a = alike; a->option != P4D_OPTIONS; a++)
		p4d_finetune__put_if_set(r, a->option, &r->extra[a->extra]);
	/* In whatever type weights are loaded, DeepSpeed keeps parameters in the precision of the
	 * computation. With mixed precision and FSDP, accelerate keeps trained parameters in fp32. */
	if (p4d_reader__is(&r->value[P4D_FRAMEWORK], "deepspeed") && r->by_default[P4D_PARAM_DTYPE]) {
		r->value[P4D_PARAM_DTYPE] = (p4d_read_value){.file = NULL};
		r->by_default[P4D_PARAM_DTYPE] = false;
	}
	if (is_sharded(r) && p4d_reader__set(&r->value[P4D_PARAM_DTYPE]) && !is_adapted(r) &&
	    !r->value[P4D_FINETUNE].unknown && !p4d_reader__is(&r->value[P4D_AUTOCAST], "off"))
		p4d_reader__put_default(r, P4D_PARAM_DTYPE, "fp32");
}
