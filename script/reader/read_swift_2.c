/* SPDX-License-Identifier: Apache-2.0 */
/* ms-swift 2 (2.6.1), whose arguments differ from those of ms-swift 3 and 4 (swift/llm/utils/argument.py). */
#include <string.h>

#include "reader/read_finetune.h"

#define EXTRA(name) P4D_READ_EXTRA(P4D_FINETUNE_##name)

enum { MODEL_TYPE = P4D_FINETUNE_OWN };

static const char *const methods[] = {"lora", "lora", "full", "full", NULL};
static const char *const bits[] = {"0", "", "4", "nf4", "8", "int8", NULL};
static const char *const dtypes[] = {"bf16", "bf16", "fp16", "fp16", "fp32", "fp32", "AUTO", "", NULL};
static const char *const not_recomputed[] = {"none"};
static const char *const unfused[] = {"unfused"};
static const char *const backends[] = {"transformers", "", NULL};

static const p4d_read_argument arguments[] = {
    {"--model_type", P4D_READ_EXTRA(MODEL_TYPE), NULL, NULL},
    {"--model_id_or_path", P4D_MODEL, NULL, NULL},
    {"--sft_type", EXTRA(LORA), NULL, methods},
    {"--lora_rank", EXTRA(RANK), NULL, NULL},
    {"--lora_dropout", EXTRA(DROPOUT), NULL, NULL},
    {"--lora_dropout_p", EXTRA(DROPOUT), NULL, NULL},
    {"--target_modules", EXTRA(TARGETS), NULL, p4d_reader__list},
    {"--lora_target_modules", EXTRA(TARGETS), NULL, p4d_reader__list},
    {"--quantization_bit", EXTRA(QUANT), NULL, bits},
    {"--max_length", P4D_SEQ_LEN, NULL, NULL},
    {"--batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--per_device_train_batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--eval_batch_size", P4D_EVAL_MICRO_BATCH, NULL, NULL},
    {"--per_device_eval_batch_size", P4D_EVAL_MICRO_BATCH, NULL, NULL},
    {"--evaluation_strategy", EXTRA(EVALUATION), NULL, p4d_finetune__evaluation},
    {"--eval_strategy", EXTRA(EVALUATION), NULL, p4d_finetune__evaluation},
    {"--gradient_accumulation_steps", EXTRA(ACCUMULATION), NULL, NULL},
    {"--dtype", EXTRA(PARAM_DTYPE), NULL, dtypes},
    {"--gradient_checkpointing", P4D_RECOMPUTE, "full", not_recomputed},
    {"--use_flash_attn", P4D_ATTENTION, "flash", unfused},
    {"--packing", EXTRA(PACKING), "on", p4d_finetune__off},
    {"--use_liger", EXTRA(CHUNKED_LOSS), "on", p4d_finetune__off},
    {"--optim", EXTRA(OPTIMIZER), NULL, p4d_finetune__optimizers},
    {"--deepspeed", P4D_READ_FILE_IN(P4D_FINETUNE_DEEPSPEED_FILE), "deepspeed.", NULL},
    {"--deepspeed_config_path", P4D_READ_FILE_IN(P4D_FINETUNE_DEEPSPEED_FILE), "deepspeed.", NULL},
    {"--fsdp", EXTRA(FSDP), NULL, p4d_reader__list},
    {"--sequence_parallel_size", P4D_CP, NULL, NULL},
    {"--train_backend", P4D_READ_NOT_MODELLED, NULL, backends},
    {"--tuner_backend", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--modules_to_save", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--lora_modules_to_save", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--target_regex", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--use_galore", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--use_dora", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--lisa_activated_layers", P4D_READ_NOT_MODELLED, NULL, p4d_swift__none},
    {"--freeze_parameters", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--freeze_parameters_ratio", P4D_READ_NOT_MODELLED, NULL, p4d_swift__none},
    {"--additional_trainable_parameters", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--auto_find_batch_size", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--device_map_config", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--device_map_config_path", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--nodes", P4D_NODES, NULL, NULL},
    {"--gpus-per-node", P4D_GPUS_PER_NODE, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

static const p4d_read_default defaults[] = {
    {P4D_SEQ_LEN, "2048"},
    {P4D_MICRO_BATCH, "1"},
    {P4D_RECOMPUTE, "full"},
    {P4D_MODEL_CODE, "transformers"},
    {0, NULL},
};

static const char *const bounds[] = {"--max_length", "", NULL};
static const p4d_read_filling filling[] = {
    {EXTRA(PACKING), "on", true}, {EXTRA(PACKING), "off", false}, {0, NULL, false}};

static const p4d_read_shards shards[] = {
    {"deepspeed", 2, "--deepspeed", "--deepspeed default-zero2", false},
    {"deepspeed", 3, "--deepspeed", "--deepspeed default-zero3", false},
    {NULL, 0, NULL, NULL, false},
};

/* Reads configurations of DeepSpeed that ms-swift 2 ships (swift/llm/ds_config). */
static bool find_shipped(p4d_reading *r, const p4d_read_argument *a, const p4d_read_given *given)
{
	static const struct {
		const char *name;
		char stage;
		int offloads; /* tensors that move to the host; 0: none */
	} shipped[] = {{"default-zero2", '2', 0},
		       {"default-zero3", '3', 0},
		       {"zero2-offload", '2', P4D_FINETUNE_OFFLOAD_OPTIMIZER},
		       {"zero3-offload", '3', P4D_FINETUNE_OFFLOAD_PARAMS}};
	const p4d_read_value place = {.file = given->file, .line = given->line};

	(void)a;
	for (size_t i = 0; i < sizeof(shipped) / sizeof(shipped[0]); i++) {
		if (strcmp(given->value, shipped[i].name) != 0)
			continue;
		r->extra[P4D_FINETUNE_ZERO_STAGE] = place;
		r->extra[P4D_FINETUNE_ZERO_STAGE].text[0] = shipped[i].stage;
		if (shipped[i].offloads) {
			r->extra[shipped[i].offloads] = place;
			memcpy(r->extra[shipped[i].offloads].text, "cpu", sizeof("cpu"));
		}
		return true;
	}
	return false;
}

/* Sets the model from ms-swift 2's model type, "qwen2-7b-instruct", because a folder may have any name. */
static void finish_model(p4d_reading *r)
{
	const p4d_read_value *type = &r->extra[MODEL_TYPE], *model = &r->value[P4D_MODEL];
	const bool named = p4d_reader__set(model) && !strchr("/.", model->text[0]);

	if (p4d_reader__set(type) && !named)
		p4d_reader__put(r, P4D_MODEL, type, "%s", type->text);
}

/*
 * Sets types. ms-swift 2 computes in the type in which it loads the model. For full training in fp16 it loads
 * the model in fp32, which DeepSpeed casts to fp16.
 */
static void finish_types(p4d_reading *r)
{
	p4d_read_value *dtype = &r->extra[P4D_FINETUNE_PARAM_DTYPE];

	if (!p4d_reader__set(dtype))
		return;
	p4d_reader__put(r, P4D_PRECISION, dtype, "%s", dtype->text);
	if (p4d_reader__is(dtype, "fp16") && p4d_reader__is(&r->extra[P4D_FINETUNE_LORA], "full"))
		memcpy(dtype->text, "fp32", sizeof("fp32"));
}

static void finish(p4d_reading *r)
{
	const p4d_read_value *targets = &r->extra[P4D_FINETUNE_TARGETS];

	finish_model(r);
	finish_types(r);
	if (p4d_reader__is(targets, "ALL"))
		r->extra[P4D_FINETUNE_ALL_LINEAR] = *targets;
	else if (p4d_reader__is(targets, "DEFAULT") || p4d_reader__is(targets, "AUTO"))
		r->extra[P4D_FINETUNE_TARGETS] = (p4d_read_value){.file = NULL};
	p4d_finetune__adapts(r);
	p4d_finetune__finish(r);
	if (p4d_reader__is(&r->value[P4D_FRAMEWORK], "deepspeed") &&
	    p4d_reader__is(&r->value[P4D_PARAM_DTYPE], "fp32"))
		p4d_reader__leave_out(r, P4D_PARAM_DTYPE);
	if (!p4d_reader__set(&r->extra[P4D_FINETUNE_LORA]) && r->named)
		p4d_reader__put_default(r, P4D_FINETUNE,
					p4d_reader__set(&r->extra[P4D_FINETUNE_QUANT]) ? "qlora" : "lora");
	/* default adapters for models whose layers have Llama's names; the default dropout is 0.05 */
	p4d_finetune__adapter(r, "8", "q_proj,k_proj,v_proj", true);
}

#define OWN_WORDS \
	"--sft_type", "--model_id_or_path", "--batch_size", "--dtype", "--use_flash_attn", \
	    "--quantization_bit", "--lora_target_modules", "--eval_batch_size"

const p4d_reader p4d_reader__swift_2 = {
    .framework = "swift",
    .aliases = p4d_finetune__aliases,
    .release = "ms-swift 2",
    .shards = shards,
    .programs = {"swift sft", "swift pt"},
    .arguments_alone = {OWN_WORDS},
    .arguments = {arguments, p4d_finetune__deepspeed, p4d_finetune__accelerate},
    .defaults = defaults,
    .variables = p4d_swift__processes,
    .shipped = find_shipped,
    .bounds = bounds,
    .filling = filling,
    .finish = finish,
    .released = p4d_finetune__released,
};

/* ms-swift 2's preference training, whose arguments p4d does not read. */
const p4d_reader p4d_reader__swift_2_rlhf = {
    .framework = "swift-2-rlhf",
    .release = "ms-swift 2",
    .programs = {"swift rlhf"},
    .arguments_alone = {OWN_WORDS},
    .finish = p4d_finetune__unmodelled,
};
