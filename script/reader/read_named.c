/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that p4d knows by name. p4d reads their layout, but does not model their memory. */
#include "reader/read_finetune.h"

static const char *const precisions[] = {"amp_bf16", "bf16", "amp_fp16", "fp16",         "fp32",
					 "fp32",     "bf16", "bf16",     "amp_bfloat16", "bf16",
					 "fp16",     "fp16", "bfloat16", "bf16",         NULL};
static const char *const checkpointing[] = {"none"};

/* LLM Foundry, which is based on Composer. */
static const p4d_read_argument foundry_arguments[] = {
    {"", P4D_READ_FILE, "", p4d_reader__first},
    {"--variables.max_seq_len", P4D_SEQ_LEN, NULL, NULL},
    {"--max_seq_len", P4D_SEQ_LEN, NULL, NULL},
    {"--model.pretrained_model_name_or_path", P4D_MODEL, NULL, NULL},
    {"--model.n_layers", P4D_LAYERS, NULL, NULL},
    {"--model.d_model", P4D_HIDDEN, NULL, NULL},
    {"--model.n_heads", P4D_HEADS, NULL, NULL},
    {"--model.vocab_size", P4D_VOCAB, NULL, NULL},
    {"--global_train_batch_size", P4D_GLOBAL_BATCH, NULL, NULL},
    {"--device_train_microbatch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--device_eval_batch_size", P4D_EVAL_MICRO_BATCH, NULL, NULL},
    {"--precision", P4D_PRECISION, NULL, precisions},
    {"--fsdp_config.activation_checkpointing", P4D_RECOMPUTE, "full", checkpointing},
    {"--gpus-per-node", P4D_GPUS_PER_NODE, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

const p4d_reader p4d_reader__foundry = {
    .framework = "llm-foundry",
    .programs = {"~train/train.py", "llmfoundry train"},
    .arguments_alone = {"device_train_microbatch_size", "fsdp_config.sharding_strategy", "model.d_model"},
    .arguments = {foundry_arguments},
    .assignments = true,
    .finish = p4d_finetune__unmodelled,
};

static const p4d_read_argument open_lm_arguments[] = {
    {"--config", P4D_READ_FILE, "", NULL},
    {"--hf-model", P4D_MODEL, NULL, NULL},
    {"--hf-seq-len", P4D_SEQ_LEN, NULL, NULL},
    {"--global-batch-size", P4D_GLOBAL_BATCH, NULL, NULL},
    {"--precision", P4D_PRECISION, NULL, precisions},
    {"--grad-checkpointing", P4D_RECOMPUTE, "full", checkpointing},
    {NULL, 0, NULL, NULL},
};

const p4d_reader p4d_reader__open_lm = {
    .framework = "open-lm",
    .programs = {"open_lm.main", "open_lm/main.py"},
    .arguments = {open_lm_arguments},
    .finish = p4d_finetune__unmodelled,
};

static const p4d_read_argument picotron_arguments[] = {
    {"--config", P4D_READ_FILE, "", NULL},
    {"--model.name", P4D_MODEL, NULL, NULL},
    {"--model.num_hidden_layers", P4D_LAYERS, NULL, NULL},
    {"--model.num_attention_heads", P4D_HEADS, NULL, NULL},
    {"--model.num_key_value_heads", P4D_KV_HEADS, NULL, NULL},
    {"--model.dtype", P4D_PRECISION, NULL, precisions},
    {"--distributed.tp_size", P4D_TP, NULL, NULL},
    {"--distributed.cp_size", P4D_CP, NULL, NULL},
    {"--distributed.pp_size", P4D_PP, NULL, NULL},
    {"--training.seq_length", P4D_SEQ_LEN, NULL, NULL},
    {"--training.micro_batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

const p4d_reader p4d_reader__picotron = {
    .framework = "picotron",
    .programs = {"picotron/train.py"},
    .arguments = {picotron_arguments},
    .finish = p4d_finetune__unmodelled,
};

/* Colossal-AI: its applications and examples. */
static const p4d_read_argument colossal_arguments[] = {
    {"--plugin", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--pretrained", P4D_MODEL, NULL, NULL},
    {"--model_path", P4D_MODEL, NULL, NULL},
    {"--tp", P4D_TP, NULL, NULL},
    {"--pp", P4D_PP, NULL, NULL},
    {"--zero_stage", P4D_ZERO_STAGE, NULL, NULL},
    {"--zero", P4D_ZERO_STAGE, NULL, NULL},
    {"--max_length", P4D_SEQ_LEN, NULL, NULL},
    {"--max_len", P4D_SEQ_LEN, NULL, NULL},
    {"--micro_batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--microbatch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--mixed_precision", P4D_PRECISION, NULL, precisions},
    {"--use_grad_checkpoint", P4D_RECOMPUTE, "full", checkpointing},
    {"--grad_checkpoint", P4D_RECOMPUTE, "full", checkpointing},
    {"--lora_rank", P4D_LORA_RANK, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

const p4d_reader p4d_reader__colossal = {
    .framework = "colossalai",
    .arguments_alone = {"--use_grad_checkpoint", "--zero_cpu_offload", "--enable_sequence_parallelism"},
    .arguments = {colossal_arguments},
    .finish = p4d_finetune__unmodelled,
};

static const p4d_read_argument automodel_arguments[] = {
    {"--config", P4D_READ_FILE, "", NULL},
    {"-c", P4D_READ_FILE, "", NULL},
    {"--model.pretrained_model_name_or_path", P4D_MODEL, NULL, NULL},
    {"--step_scheduler.global_batch_size", P4D_GLOBAL_BATCH, NULL, NULL},
    {"--step_scheduler.local_batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--distributed.tp_size", P4D_TP, NULL, NULL},
    {"--distributed.cp_size", P4D_CP, NULL, NULL},
    {"--distributed.pp_size", P4D_PP, NULL, NULL},
    {"--packed_sequence.packed_sequence_size", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--peft.dim", P4D_LORA_RANK, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

const p4d_reader p4d_reader__automodel = {
    .framework = "nemo-automodel",
    .programs = {"automodel finetune", "automodel pretrain", "~llm_finetune/finetune.py",
		 "~llm_pretrain/pretrain.py"},
    .arguments = {automodel_arguments},
    .finish = p4d_finetune__unmodelled,
};

/* unsloth-cli.py from Unsloth's repository. */
static const p4d_read_argument unsloth_arguments[] = {
    {"--model_name", P4D_MODEL, NULL, NULL},
    {"--max_seq_length", P4D_SEQ_LEN, NULL, NULL},
    {"--per_device_train_batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--r", P4D_LORA_RANK, NULL, NULL},
    {"--load_in_4bit", P4D_QUANT, "nf4", NULL},
    {"--dtype", P4D_PRECISION, NULL, p4d_finetune__dtypes},
    {NULL, 0, NULL, NULL},
};

const p4d_reader p4d_reader__unsloth = {
    .framework = "unsloth",
    .programs = {"unsloth-cli.py", "unsloth train"},
    .arguments = {unsloth_arguments},
    .finish = p4d_finetune__unmodelled,
};

/* Programs without known arguments. */
static const p4d_read_argument none[] = {{NULL, 0, NULL, NULL}};

const p4d_reader p4d_reader__maxtext = {
    .framework = "maxtext",
    .programs = {"MaxText.train", "MaxText/train.py", "MaxText.sft_train", "MaxText.rl.train_rl",
		 "maxtext.trainers.pre_train.train", "maxtext.trainers.post_train.*"},
    .arguments = {none},
    .finish = p4d_finetune__unmodelled,
};

const p4d_reader p4d_reader__xla = {
    .framework = "pytorch/xla",
    .programs = {"~xla_spawn.py", "torch_xla.distributed.xla_dist", "xla_dist"},
    .arguments = {none},
    .finish = p4d_finetune__unmodelled,
};
