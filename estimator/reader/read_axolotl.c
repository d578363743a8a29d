/* SPDX-License-Identifier: Apache-2.0 */
/* Axolotl's YAML (0.12), also with overrides on the command line. */
#include "reader/read_finetune.h"

#define EXTRA(name) P4D_READ_EXTRA(P4D_FINETUNE_##name)

static const char *const adapters[] = {"lora", "lora", "qlora", "qlora", "", "", NULL};
static const char *const halves[] = {"true", "bf16",  "True", "bf16",  "auto", "bf16", "full",
				     "bf16", "false", "",     "False", "",     NULL};
static const char *const checkpointing[] = {"true",  "full", "True",  "full", "unsloth", "full",
					    "false", "none", "False", "none", NULL};
static const char *const chunked[] = {"true", "on", "True", "on", "false", "off", NULL};

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
    {"--activation_offloading", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--adapter", EXTRA(LORA), NULL, adapters},
    {"--lora_r", EXTRA(RANK), NULL, NULL},
    {"--lora_target_modules", EXTRA(TARGETS), NULL, p4d_reader__list},
    {"--lora_target_linear", EXTRA(ALL_LINEAR), "all-linear", NULL},
    {"--load_in_4bit", EXTRA(QUANT), "nf4", NULL},
    {"--load_in_8bit", EXTRA(QUANT), "int8", NULL},
    {"--optimizer", EXTRA(OPTIMIZER), NULL, p4d_finetune__optimizers},
    {"--sample_packing", EXTRA(PACKING), "on", NULL},
    {"--torch_compile", EXTRA(COMPILE), "on", NULL},
    {"--flash_attention", P4D_ATTENTION, "flash", NULL},
    {"--sdp_attention", P4D_ATTENTION, "flash", NULL},
    {"--eager_attention", P4D_ATTENTION, "unfused", NULL},
    {"--attn_implementation", P4D_ATTENTION, NULL, p4d_finetune__attention},
    {"--liger_fused_linear_cross_entropy", EXTRA(CHUNKED_LOSS), NULL, chunked},
    {"--cut_cross_entropy", EXTRA(CHUNKED_LOSS), NULL, chunked},
    {"--chunked_cross_entropy", EXTRA(CHUNKED_LOSS), NULL, chunked},
    {"--deepspeed", P4D_READ_FILE_IN(P4D_FINETUNE_DEEPSPEED_FILE), "deepspeed.", NULL},
    {"--fsdp", EXTRA(FSDP), NULL, p4d_reader__list},
    {"--fsdp_config.fsdp_offload_params", EXTRA(FSDP_OFFLOAD), "on", NULL},
    {"--fsdp_config.offload_params", EXTRA(FSDP_OFFLOAD), "on", NULL},
    {"--fsdp_config.activation_checkpointing", EXTRA(FSDP_CHECKPOINTING), "full", NULL},
    {"--fsdp_config.fsdp_activation_checkpointing", EXTRA(FSDP_CHECKPOINTING), "full", NULL},
    {"--tensor_parallel_size", P4D_TP, NULL, NULL},
    {"--context_parallel_size", P4D_CP, NULL, NULL},
    {"--dp_shard_size", P4D_SHARD_DEGREE, NULL, NULL},
    {"--rl", P4D_READ_NOT_MODELLED, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

static const p4d_read_default defaults[] = {{P4D_MODEL_CODE, "transformers"}, {0, NULL}};

const p4d_reader p4d_reader__axolotl = {
    .framework = "axolotl",
    .programs = {"axolotl train", "axolotl.cli.train", "axolotl.train"},
    .arguments = {arguments, p4d_finetune__accelerate, p4d_finetune__deepspeed},
    .defaults = defaults,
    .every_gpu = true,
    .accelerates = true,
    .aliases = p4d_finetune__aliases,
    .finish = p4d_finetune__finish,
};
