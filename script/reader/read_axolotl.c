/* SPDX-License-Identifier: Apache-2.0 */
/* Axolotl's YAML (0.18; src/axolotl/utils/schemas), also with overrides on the command line. */
#include <string.h>

#include "reader/read_finetune.h"

#define EXTRA(name) P4D_READ_EXTRA(P4D_FINETUNE_##name)

static const char *const adapters[] = {"lora", "lora", "qlora", "qlora", "", "", NULL};
static const char *const halves[] = {"true", "bf16",  "True", "bf16",  "auto", "bf16", "full",
				     "bf16", "false", "",     "False", "",     NULL};
static const char *const checkpointing[] = {"true", "full",  "True", "full",  "unsloth", "full", "offload",
					    "full", "false", "none", "False", "none",    NULL};
/* Any FSDP setting turns FSDP on, with or without `fsdp:` (axolotl 0.12 and later). */
#define FSDP_CONFIG(name) \
	{"--fsdp_config." name, EXTRA(DISTRIBUTED), "fsdp", NULL}, \
	{ \
		"--fsdp_config.fsdp_" name, EXTRA(DISTRIBUTED), "fsdp", NULL \
	}
static const int fsdp_values[] = {P4D_FINETUNE_FSDP_VERSION, P4D_FINETUNE_FSDP_WRAP,
				  P4D_FINETUNE_FSDP_PREFETCH, P4D_FINETUNE_FSDP_ORIG_PARAMS};
static const char *const chunked[] = {"true", "on", "True", "on", "false", "off", NULL};

enum { METHOD = P4D_FINETUNE_OWN };

static const p4d_read_argument arguments[] = {
    {"", P4D_READ_FILE, "", NULL},
    {"--base_model", P4D_MODEL, NULL, NULL},
    {"--micro_batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--eval_batch_size", P4D_EVAL_MICRO_BATCH, NULL, NULL},
    {"--gradient_accumulation_steps", EXTRA(ACCUMULATION), NULL, NULL},
    {"--sequence_len", P4D_SEQ_LEN, NULL, NULL},
    {"--bf16", P4D_PRECISION, NULL, halves},
    {"--fp16", P4D_PRECISION, "fp16", NULL},
    {"--gradient_checkpointing", P4D_RECOMPUTE, NULL, checkpointing},
    {"--auto_find_batch_size", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--fp8", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--lora_mlp_kernel", P4D_READ_SAVES, "on", NULL},
    {"--lora_qkv_kernel", P4D_READ_SAVES, "on", NULL},
    {"--lora_o_kernel", P4D_READ_SAVES, "on", NULL},
    {"--tiled_mlp", P4D_READ_SAVES, "on", NULL},
    {"--layer_offloading", P4D_READ_SAVES, "on", NULL},
    {"--lisa_n_layers", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--lora_target_parameters", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--quantize_moe_experts", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--selective_checkpointing", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--peft_layers_to_transform", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--unfrozen_parameters", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--lora_modules_to_save", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--peft_use_dora", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--relora", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--relora_steps", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--activation_offloading", P4D_READ_SAVES, "on", NULL},
    {"--adapter", EXTRA(LORA), NULL, adapters},
    {"--lora_r", EXTRA(RANK), NULL, NULL},
    {"--lora_dropout", EXTRA(DROPOUT), NULL, NULL},
    {"--lora_target_modules", EXTRA(TARGETS), NULL, p4d_reader__list},
    {"--lora_target_linear", EXTRA(ALL_LINEAR), "all-linear", NULL},
    {"--load_in_4bit", EXTRA(QUANT), "nf4", NULL},
    {"--load_in_8bit", EXTRA(QUANT), "int8", NULL},
    {"--optimizer", EXTRA(OPTIMIZER), NULL, p4d_finetune__optimizers},
    {"--sample_packing", EXTRA(PACKING), "on", p4d_finetune__off},
    {"--pad_to_sequence_len", EXTRA(PADDING), "max_length", NULL},
    {"--torch_compile", EXTRA(COMPILE), "on", p4d_finetune__off},
    {"--flash_attention", P4D_ATTENTION, "flash", NULL},
    {"--flex_attention", P4D_ATTENTION, "flash", NULL},
    {"--xformers_attention", P4D_ATTENTION, "flash", NULL},
    {"--sdp_attention", P4D_ATTENTION, "flash", NULL},
    {"--eager_attention", P4D_ATTENTION, "unfused", NULL},
    {"--attn_implementation", P4D_ATTENTION, NULL, p4d_finetune__attention},
    {"--liger_fused_linear_cross_entropy", EXTRA(CHUNKED_LOSS), NULL, chunked},
    {"--cut_cross_entropy", EXTRA(CHUNKED_LOSS), NULL, chunked},
    {"--chunked_cross_entropy", EXTRA(CHUNKED_LOSS), NULL, chunked},
    {"--deepspeed", P4D_READ_FILE_IN(P4D_FINETUNE_DEEPSPEED_FILE), "deepspeed.", NULL},
    {"--fsdp", EXTRA(FSDP), NULL, p4d_reader__list},
    {"--fsdp_version", EXTRA(FSDP_VERSION), NULL, NULL},
    P4D_FINETUNE_FSDP_UNITS("--fsdp_config."),
    P4D_FINETUNE_FSDP_UNITS("--fsdp_config.fsdp_"),
    FSDP_CONFIG("transformer_layer_cls_to_wrap"),
    FSDP_CONFIG("min_num_params"),
    FSDP_CONFIG("state_dict_type"),
    FSDP_CONFIG("sync_module_states"),
    FSDP_CONFIG("cpu_ram_efficient_loading"),
    {"--fsdp_config.reshard_after_forward", EXTRA(FSDP_STRATEGY), NULL, p4d_finetune__strategies},
    {"--fsdp_config.fsdp_reshard_after_forward", EXTRA(FSDP_STRATEGY), NULL, p4d_finetune__strategies},
    {"--fsdp_config.fsdp_sharding_strategy", EXTRA(FSDP_STRATEGY), NULL, p4d_finetune__strategies},
    {"--fsdp_config.fsdp_offload_params", EXTRA(FSDP_OFFLOAD), "on", NULL},
    {"--fsdp_config.offload_params", EXTRA(FSDP_OFFLOAD), "on", NULL},
    {"--fsdp_config.activation_checkpointing", EXTRA(FSDP_CHECKPOINTING), "full", NULL},
    {"--fsdp_config.fsdp_activation_checkpointing", EXTRA(FSDP_CHECKPOINTING), "full", NULL},
    {"--tensor_parallel_size", P4D_TP, NULL, NULL},
    {"--context_parallel_size", P4D_CP, NULL, NULL},
    {"--sequence_parallel_degree", P4D_CP, NULL, NULL},
    {"--dp_shard_size", P4D_SHARD_DEGREE, NULL, NULL},
    {"--rl", P4D_READ_EXTRA(METHOD), NULL, NULL},
    {"--reward_model", P4D_READ_NOT_MODELLED, "on", NULL},
    {NULL, 0, NULL, NULL},
};

static const p4d_read_default defaults[] = {
    {P4D_MODEL_CODE, "transformers"},
    {P4D_MICRO_BATCH, "1"},
    {P4D_SEQ_LEN, "512"},
    {P4D_PRECISION, "bf16"}, /* value of "auto" on GPUs that support bf16 */
    {P4D_RECOMPUTE, "none"},
    {0, NULL},
};

static const char *const bounds[] = {"--sequence_len", "", NULL};

static void finish(p4d_reading *r)
{
	const p4d_read_value *method = &r->extra[METHOD];
	p4d_read_value *told = p4d_finetune__extra(r, P4D_FINETUNE_DISTRIBUTED);

	for (size_t i = 0; i < sizeof(fsdp_values) / sizeof(*fsdp_values) && !p4d_reader__set(told); i++)
		if (p4d_reader__set(&r->extra[fsdp_values[i]])) {
			*told = r->extra[fsdp_values[i]];
			memcpy(told->text, "fsdp", sizeof("fsdp"));
		}
	p4d_finetune__finish(r);
	/* this is the only default that axolotl sets in accelerate's environment */
	if (p4d_reader__is(&r->value[P4D_FSDP_VERSION], "1") && !p4d_reader__set(&r->value[P4D_ORIG_PARAMS]))
		p4d_reader__put_default(r, P4D_ORIG_PARAMS, "off");
	/* axolotl loads weights in the type of the computation, whatever the release of transformers; p4d's
	 * option has no fp16 */
	if (p4d_reader__is(&r->value[P4D_FRAMEWORK], "ddp") && p4d_reader__set(&r->value[P4D_PRECISION]) &&
	    !p4d_reader__is(&r->value[P4D_PRECISION], "fp16"))
		p4d_reader__put_default(r, P4D_PARAM_DTYPE, "%s", r->value[P4D_PRECISION].text);
	if (p4d_reader__set(method) && !p4d_finetune__preference(r, method->text))
		p4d_reader__unknown(r, "rl", "rl %.60s is not modelled", method->text);
}

static const p4d_read_variable variables[] = {P4D_FINETUNE_ACCELERATE_VARIABLES,
					      {NULL, NULL, P4D_SET_ANYWHERE}};

const p4d_reader p4d_reader__axolotl = {
    .framework = "axolotl",
    .release = "axolotl 0.18",
    .programs = {"axolotl train", "axolotl.cli.train", "axolotl.train"},
    .arguments = {arguments, p4d_finetune__accelerate, p4d_finetune__deepspeed},
    .defaults = defaults,
    .every_gpu = true,
    .accelerates = true,
    .variables = variables,
    .aliases = p4d_finetune__aliases,
    .bounds = bounds,
    .filling = p4d_finetune__filling,
    .finish = finish,
};
