/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LLaMA-Factory (0.9) and ms-swift (3): they have the arguments of Hugging Face's Trainer, and some of their
 * own.
 */
#include <string.h>

#include "reader/read_reinforcement.h"

#define EXTRA(name) P4D_READ_EXTRA(P4D_FINETUNE_##name)

enum { STAGE = P4D_FINETUNE_OWN, PREFERENCE_LOSS };

static const char *const methods[] = {"lora", "lora", "full", "full", NULL};
static const char *const bits[] = {"4", "nf4", "8", "int8", NULL};
static const char *const checkpointing[] = {"none"};
const char *const p4d_swift__tasks[] = {"causal_lm", "", NULL};
const char *const p4d_swift__none[] = {"0", "", "0.0", "", "0.", "", NULL};

static const p4d_read_argument factory_arguments[] = {
    {"", P4D_READ_FILE, "", p4d_reader__first},
    {"--model_name_or_path", P4D_MODEL, NULL, NULL},
    {"--stage", P4D_READ_EXTRA(STAGE), NULL, NULL},
    {"--pref_loss", P4D_READ_EXTRA(PREFERENCE_LOSS), NULL, NULL},
    {"--finetuning_type", EXTRA(LORA), NULL, methods},
    {"--lora_rank", EXTRA(RANK), NULL, NULL},
    {"--lora_dropout", EXTRA(DROPOUT), NULL, NULL},
    {"--lora_target", EXTRA(TARGETS), NULL, p4d_reader__list},
    {"--quantization_bit", EXTRA(QUANT), NULL, bits},
    {"--cutoff_len", P4D_SEQ_LEN, NULL, NULL},
    {"--per_device_train_batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--per_device_eval_batch_size", P4D_EVAL_MICRO_BATCH, NULL, NULL},
    {"--eval_strategy", EXTRA(EVALUATION), NULL, p4d_finetune__evaluation},
    {"--evaluation_strategy", EXTRA(EVALUATION), NULL, p4d_finetune__evaluation},
    {"--do_eval", EXTRA(EVALUATION), "on", NULL},
    {"--do_train", EXTRA(TRAIN), "on", p4d_finetune__off},
    {"--do_predict", EXTRA(PREDICT), "on", NULL},
    {"--gradient_accumulation_steps", EXTRA(ACCUMULATION), NULL, NULL},
    {"--bf16", P4D_PRECISION, "bf16", NULL},
    {"--fp16", P4D_PRECISION, "fp16", NULL},
    {"--pure_bf16", EXTRA(PARAM_DTYPE), "bf16", NULL},
    {"--disable_gradient_checkpointing", P4D_RECOMPUTE, "none", NULL},
    {"--flash_attn", P4D_ATTENTION, NULL, p4d_finetune__attention},
    {"--enable_liger_kernel", EXTRA(CHUNKED_LOSS), "on", p4d_finetune__off},
    {"--packing", EXTRA(PACKING), "on", p4d_finetune__off},
    {"--neat_packing", EXTRA(PACKING), "on", p4d_finetune__off},
    {"--optim", EXTRA(OPTIMIZER), NULL, p4d_finetune__optimizers},
    {"--use_galore", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--upcast_lmhead_output", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--fp8", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--use_unsloth_gc", P4D_READ_SAVES, "on", NULL},
    {"--use_kt", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--use_mca", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--use_megatron_bridge", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--use_hyper_parallel", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--use_badam", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--use_unsloth", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--use_dora", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--use_apollo", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--use_adam_mini", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--use_muon", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--use_llama_pro", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--mixture_of_depths", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--additional_target", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--auto_find_batch_size", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--torch_compile", EXTRA(COMPILE), "on", p4d_finetune__off},
    {"--deepspeed", P4D_READ_FILE_IN(P4D_FINETUNE_DEEPSPEED_FILE), "deepspeed.", NULL},
    {"--fsdp", EXTRA(FSDP), NULL, p4d_reader__list},
    {"--fsdp_config", P4D_READ_FILE, "accelerate.fsdp_config.", NULL},
    {"--nodes", P4D_NODES, NULL, NULL},
    {"--gpus-per-node", P4D_GPUS_PER_NODE, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

/* Defaults in its documentation: a LoRA of rank 8 on all linear layers, with recomputed layers. */
static const p4d_read_default factory_defaults[] = {
    {P4D_SEQ_LEN, "2048"},
    {P4D_MICRO_BATCH, "8"},
    {P4D_RECOMPUTE, "full"},
    {P4D_MODEL_CODE, "transformers"},
    {0, NULL},
};

/* LLaMA-Factory and ms-swift start torchrun themselves, with the values of these variables. */
const p4d_read_variable p4d_swift__processes[] = {
    {"NNODES", "--nodes", P4D_SET_ANYWHERE},
    {"NPROC_PER_NODE", "--gpus-per-node", P4D_SET_ANYWHERE},
    P4D_FINETUNE_ACCELERATE_VARIABLES,
    {NULL, NULL, P4D_SET_ANYWHERE},
};

static const char *const factory_bounds[] = {"--cutoff_len", "", NULL};
/* Pretraining packs sequences by default. */
static const p4d_read_filling factory_filling[] = {{EXTRA(PACKING), "on", true},
						   {EXTRA(PACKING), "off", false},
						   {P4D_READ_EXTRA(STAGE), "pt", true},
						   {0, NULL, false}};

/*
 * Types of parameters (LLaMA-Factory's loader and init_adapter). Parameters are loaded in the type of the
 * computation, with any release of transformers. Trained ones are then cast to fp32, unless pure_bf16 is set
 * or ZeRO-3 or FSDP shards them. (DeepSpeed casts them to its own precision.)
 */
static void put_factory_types(p4d_reading *r)
{
	const p4d_read_value *precision = &r->value[P4D_PRECISION], *method = &r->value[P4D_FINETUNE];
	const bool half = p4d_reader__is(precision, "bf16") || p4d_reader__is(precision, "fp16");

	if (!half || !p4d_reader__is(&r->value[P4D_FRAMEWORK], "ddp") ||
	    r->extra[P4D_FINETUNE_PARAM_DTYPE].unknown || p4d_reader__set(&r->value[P4D_PARAM_DTYPE]))
		return;
	if (p4d_reader__is(method, "full"))
		p4d_reader__put_default(r, P4D_PARAM_DTYPE, "fp32");
	else if (p4d_reader__is(method, "lora"))
		p4d_reader__put_default(r, P4D_PARAM_DTYPE,
					"bf16"); /* bf16 stands for two bytes per parameter */
}

/* Stages of LLaMA-Factory that p4d does not model, with the reason; forks have others. */
static const char *why_not(const char *stage)
{
	if (!strcmp(stage, "rm"))
		return p4d_finetune__reward;
	return !strcmp(stage, "ppo") || !strcmp(stage, "dpo")
		   ? "this stage also needs memory for other models"
		   : "LLaMA-Factory 0.9 has no such stage";
}

static void finish_factory(p4d_reading *r)
{
	const p4d_read_value *target = &r->extra[P4D_FINETUNE_TARGETS], *stage = &r->extra[STAGE];

	if (p4d_reader__is(target, "all"))
		r->extra[P4D_FINETUNE_ALL_LINEAR] = *target;
	p4d_finetune__adapts(r);
	p4d_finetune__finish(r);
	if (!p4d_reader__set(&r->extra[P4D_FINETUNE_LORA]) && r->named)
		p4d_reader__put_default(r, P4D_FINETUNE,
					p4d_reader__set(&r->extra[P4D_FINETUNE_QUANT]) ? "qlora" : "lora");
	p4d_finetune__adapter(r, "8", "all-linear", false);
	put_factory_types(r);
	p4d_finetune__find_training(r);
	/* two of its losses need no frozen copy (finetuning_args.py) */
	const p4d_read_value *loss = &r->extra[PREFERENCE_LOSS];
	const bool alone = p4d_reader__is(loss, "orpo") || p4d_reader__is(loss, "simpo");
	if (!p4d_reader__set(stage) || !strcmp(stage->text, "sft") || !strcmp(stage->text, "pt"))
		return;
	if (loss->unknown ||
	    !p4d_finetune__preference(r, alone && !strcmp(stage->text, "dpo") ? loss->text : stage->text))
		p4d_reader__unknown(r, "stage", "%.60s is not modelled: %s", stage->text,
				    why_not(stage->text));
}

/* Arguments of LLaMA-Factory that few other programs have. */
static const char *const factory_typical[] = {"--finetuning_type", "--cutoff_len", "--template", "--stage",
					      NULL};

const p4d_reader p4d_reader__llamafactory = {
    .framework = "llamafactory",
    .aliases = p4d_finetune__aliases,
    .release = "LLaMA-Factory 0.9",
    .programs = {"llamafactory-cli train", "llamafactory.cli train", "lmf train", "llamafactory.launcher",
		 "~train_bash.py", "llamafactory/launcher.py", "~src/train.py *.yaml", "~src/train.py *.yml",
		 "~src/train.py *.json", "~src/train.py"},
    .typical = factory_typical,
    .arguments_alone = {"--finetuning_type"},
    .arguments = {factory_arguments, p4d_finetune__deepspeed, p4d_finetune__accelerate},
    .defaults = factory_defaults,
    .every_gpu = true,
    .assignments = true, /* NAME=VALUE after the configuration file */
    .variables = p4d_swift__processes,
    .bounds = factory_bounds,
    .filling = factory_filling,
    .finish = finish_factory,
    .released = p4d_finetune__released,
};

static const p4d_read_argument swift_arguments[] = {
    {"--config", P4D_READ_FILE, "", NULL},
    {"--model", P4D_MODEL, NULL, NULL},
    {"--train_type", EXTRA(LORA), NULL, methods},
    {"--tuner_type", EXTRA(LORA), NULL, methods},
    {"--lora_rank", EXTRA(RANK), NULL, NULL},
    {"--lora_dropout", EXTRA(DROPOUT), NULL, NULL},
    {"--target_modules", EXTRA(TARGETS), NULL, p4d_reader__list},
    {"--quant_bits", EXTRA(QUANT), NULL, bits},
    {"--max_length", P4D_SEQ_LEN, NULL, NULL},
    {"--per_device_train_batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--per_device_eval_batch_size", P4D_EVAL_MICRO_BATCH, NULL, NULL},
    {"--gradient_accumulation_steps", EXTRA(ACCUMULATION), NULL, NULL},
    {"--torch_dtype", EXTRA(PARAM_DTYPE), NULL, p4d_finetune__dtypes},
    {"--bf16", P4D_PRECISION, "bf16", NULL},
    {"--fp16", P4D_PRECISION, "fp16", NULL},
    {"--gradient_checkpointing", P4D_RECOMPUTE, "full", checkpointing},
    {"--attn_impl", P4D_ATTENTION, NULL, p4d_finetune__attention},
    {"--packing", EXTRA(PACKING), "on", p4d_finetune__off},
    {"--use_liger_kernel", EXTRA(CHUNKED_LOSS), "on", p4d_finetune__off},
    {"--optim", EXTRA(OPTIMIZER), NULL, p4d_finetune__optimizers},
    {"--deepspeed", P4D_READ_FILE_IN(P4D_FINETUNE_DEEPSPEED_FILE), "deepspeed.", NULL},
    {"--fsdp", P4D_READ_FILE_IN(P4D_FINETUNE_FSDP_FILE), "accelerate.", NULL},
    {"--accelerate.fsdp", EXTRA(FSDP), NULL, p4d_reader__list},
    {"--accelerate.fsdp_config.activation_cpu_offload", P4D_READ_SAVES, "on", NULL},
    {"--modules_to_save", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--task_type", P4D_READ_NOT_MODELLED, NULL, p4d_swift__tasks},
    {"--use_galore", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--use_dora", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--lisa_activated_layers", P4D_READ_NOT_MODELLED, NULL, p4d_swift__none},
    {"--freeze_parameters", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--freeze_parameters_ratio", P4D_READ_NOT_MODELLED, NULL, p4d_swift__none},
    {"--trainable_parameters", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--target_parameters", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--sequence_parallel_size", P4D_CP, NULL, NULL},
    {"--torch_compile", EXTRA(COMPILE), "on", p4d_finetune__off},
    {"--nodes", P4D_NODES, NULL, NULL},
    {"--gpus-per-node", P4D_GPUS_PER_NODE, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

/* Defaults in swift's documentation. */
static const p4d_read_default swift_defaults[] = {
    {P4D_MICRO_BATCH, "1"},
    {P4D_RECOMPUTE, "full"},
    {P4D_MODEL_CODE, "transformers"},
    {0, NULL},
};

static const char *const swift_bounds[] = {"--max_length", NULL};
static const p4d_read_filling swift_filling[] = {{EXTRA(PACKING), "on", true},
						 {EXTRA(PACKING), "off", false},
						 {P4D_READ_PROGRAM, "pt", true},
						 {0, NULL, false}};

/* Reads a configuration of DeepSpeed that swift ships, such as --deepspeed zero2_offload. */
static bool find_zero(p4d_reading *r, const p4d_read_given *given)
{
	p4d_read_value *stage = &r->extra[P4D_FINETUNE_ZERO_STAGE],
		       *optimizer = &r->extra[P4D_FINETUNE_OFFLOAD_OPTIMIZER],
		       *params = &r->extra[P4D_FINETUNE_OFFLOAD_PARAMS];
	const char *name = given->value;

	if (strncmp(name, "zero", 4) != 0 || name[4] < '0' || name[4] > '3' ||
	    (name[5] && strcmp(name + 5, "_offload") != 0))
		return false;
	*stage = (p4d_read_value){.file = given->file, .line = given->line};
	stage->text[0] = name[4];
	if (name[5]) {
		*optimizer = *stage;
		memcpy(optimizer->text, "cpu", 4);
		if (name[4] == '3')
			*params = *optimizer;
	}
	return true;
}

/* Reads swift's only shipped configuration of FSDP (swift/config/fsdp2.json). */
static bool find_fsdp(p4d_reading *r, const p4d_read_given *given)
{
	const p4d_read_value place = {.file = given->file, .line = given->line};

	if (strcmp(given->value, "fsdp2") != 0)
		return false;
	r->extra[P4D_FINETUNE_FSDP_CHECKPOINTING] = r->extra[P4D_FINETUNE_FSDP_FILE] = place;
	memcpy(r->extra[P4D_FINETUNE_FSDP_CHECKPOINTING].text, "full", sizeof("full"));
	return true;
}

static bool find_shipped(p4d_reading *r, const p4d_read_argument *a, const p4d_read_given *given)
{
	return p4d_reader__same_name(a->name, "--fsdp") ? find_fsdp(r, given) : find_zero(r, given);
}

/* Arguments that select swift's shipped configurations. */
static const p4d_read_shards swift_shards[] = {
    {"deepspeed", 2, "--deepspeed", "--deepspeed zero2", false},
    {"deepspeed", 3, "--deepspeed", "--deepspeed zero3", false},
    {NULL, 0, NULL, NULL, false},
};

/* Sets values that swift adds to a configuration of FSDP without them (sft_args.py). */
static void finish_swift_fsdp(p4d_reading *r)
{
	p4d_read_value *file = &r->extra[P4D_FINETUNE_FSDP_FILE], *fsdp = &r->extra[P4D_FINETUNE_FSDP],
		       *version = &r->extra[P4D_FINETUNE_FSDP_VERSION];

	if (!p4d_reader__set(file))
		return;
	if (!p4d_reader__set(fsdp) && !fsdp->unknown) {
		*fsdp = *file;
		memcpy(fsdp->text, "full_shard auto_wrap", sizeof("full_shard auto_wrap"));
	}
	if (!p4d_reader__set(version) && !version->unknown) {
		*version = *file;
		memcpy(version->text, "2", sizeof("2"));
	}
}

static void finish_swift(p4d_reading *r)
{
	const p4d_read_value *target = &r->extra[P4D_FINETUNE_TARGETS];

	const p4d_read_value *dtype = &r->extra[P4D_FINETUNE_PARAM_DTYPE];

	if (p4d_reader__is(target, "all-linear"))
		r->extra[P4D_FINETUNE_ALL_LINEAR] = *target;
	/* swift computes in the type in which it loads the model (train_args.py), except that it computes in
	 * fp16 for fp32 */
	if (p4d_reader__set(dtype) && !p4d_reader__set(&r->value[P4D_PRECISION]) &&
	    !r->value[P4D_PRECISION].unknown && !p4d_reader__is(dtype, "fp32"))
		p4d_reader__put(r, P4D_PRECISION, dtype, "%s", dtype->text);
	finish_swift_fsdp(r);
	p4d_finetune__adapts(r);
	p4d_finetune__finish(r);
	if (!p4d_reader__set(&r->extra[P4D_FINETUNE_LORA]) && r->named)
		p4d_reader__put_default(r, P4D_FINETUNE,
					p4d_reader__set(&r->extra[P4D_FINETUNE_QUANT]) ? "qlora" : "lora");
	p4d_finetune__adapter(r, "8", "all-linear", true); /* swift's dropout is 0.05 */
}

static void finish_swift_rl(p4d_reading *r)
{
	static const p4d_reinforcement_defaults defaults = {
	    .utilization = "0.9", .completion = 512, .refers = true};

	finish_swift(r);
	p4d_reinforcement__finish(r, &defaults);
}

const p4d_reader p4d_reader__swift_rl = {
    .framework = "swift",
    .aliases = p4d_finetune__aliases,
    .release = "swift 4",
    .earlier = &p4d_reader__swift_2_rlhf,
    .programs = {"swift rlhf", "swift.cli.rlhf", "swift/cli/rlhf.py"},
    .arguments = {swift_arguments, p4d_finetune__deepspeed, p4d_reinforcement__engine,
		  p4d_finetune__accelerate},
    .defaults = swift_defaults,
    .variables = p4d_swift__processes,
    .shipped = find_shipped,
    .finish = finish_swift_rl,
    .released = p4d_finetune__released,
};

const p4d_reader p4d_reader__swift = {
    .framework = "swift",
    .aliases = p4d_finetune__aliases,
    .release = "swift 4",
    .earlier = &p4d_reader__swift_2,
    .shards = swift_shards,
    .programs = {"swift sft", "swift pt", "swift.cli.sft", "swift/cli/sft.py"},
    .arguments = {swift_arguments, p4d_finetune__deepspeed, p4d_finetune__accelerate},
    .defaults = swift_defaults,
    .variables = p4d_swift__processes,
    .shipped = find_shipped,
    .bounds = swift_bounds,
    .filling = swift_filling,
    .finish = finish_swift,
    .released = p4d_finetune__released,
};
