/* SPDX-License-Identifier: Apache-2.0 */
/* Programs whose layout is read, though p4d models their memory as Megatron-LM's or not at all. */
#include <string.h>

#include "reader/read_finetune.h"

static const char *const precisions[] = {"bf16", "bf16", "bf16-mixed", "bf16", "bf16_mixed", "bf16",
					 "16",   "fp16", "16-mixed",   "fp16", "32",         "fp32",
					 "fp16", "fp16", "bfloat16",   "bf16", NULL};
static const char *const checkpointing[] = {"none"};
static const char *const off[] = {"off"};
static const char *const recomputations[] = {"full", "full", "selective", "selective", NULL};

enum { CONFIG_NAME };

/* NeMo 1 and 2, and Megatron-Bridge: overrides in hydra's manner. */
static const p4d_read_argument nemo_arguments[] = {
    {"--model.tensor_model_parallel_size", P4D_TP, NULL, NULL},
    {"--model.pipeline_model_parallel_size", P4D_PP, NULL, NULL},
    {"--model.virtual_pipeline_model_parallel_size", P4D_VPP, NULL, NULL},
    {"--model.context_parallel_size", P4D_CP, NULL, NULL},
    {"--model.sequence_parallel", P4D_SEQUENCE_PARALLEL, "on", NULL},
    {"--model.micro_batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--model.global_batch_size", P4D_GLOBAL_BATCH, NULL, NULL},
    {"--train.micro_batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--train.global_batch_size", P4D_GLOBAL_BATCH, NULL, NULL},
    {"--model.encoder_seq_length", P4D_SEQ_LEN, NULL, NULL},
    {"--model.data.seq_length", P4D_SEQ_LEN, NULL, NULL},
    {"--model.seq_length", P4D_SEQ_LEN, NULL, NULL},
    {"--dataset.sequence_length", P4D_SEQ_LEN, NULL, NULL},
    {"--model.max_position_embeddings", P4D_MAX_SEQ_LEN, NULL, NULL},
    {"--model.num_layers", P4D_LAYERS, NULL, NULL},
    {"--model.hidden_size", P4D_HIDDEN, NULL, NULL},
    {"--model.ffn_hidden_size", P4D_FFN, NULL, NULL},
    {"--model.num_attention_heads", P4D_HEADS, NULL, NULL},
    {"--model.num_query_groups", P4D_KV_HEADS, NULL, NULL},
    {"--model.activations_checkpoint_granularity", P4D_RECOMPUTE, NULL, recomputations},
    {"--model.recompute_granularity", P4D_RECOMPUTE, NULL, recomputations},
    {"--model.activations_checkpoint_num_layers", P4D_RECOMPUTE_LAYERS, NULL, NULL},
    {"--model.recompute_num_layers", P4D_RECOMPUTE_LAYERS, NULL, NULL},
    {"--config-name", P4D_READ_EXTRA(CONFIG_NAME), NULL, NULL},
    {"--trainer.devices", P4D_GPUS_PER_NODE, NULL, NULL},
    {"--trainer.num_nodes", P4D_NODES, NULL, NULL},
    {"--trainer.precision", P4D_PRECISION, NULL, precisions},
    {"--model.restore_from_path", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--model.peft.peft_scheme", P4D_READ_NOT_MODELLED, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

/* Both run Megatron-Core; what the command line does not say is in a configuration made of many files. */
static void finish_nemo(p4d_reading *r)
{
	if (r->named)
		p4d_reader__put_default(r, P4D_FRAMEWORK, "megatron");
	if (p4d_reader__set(&r->value[P4D_LAYERS]) && p4d_reader__set(&r->value[P4D_HIDDEN]))
		p4d_reader__put_default(r, P4D_MODEL, "custom");
	if (p4d_reader__set(&r->extra[CONFIG_NAME])) {
		p4d_reader__unknown(r, "file", "what the configuration %.60s sets is not read",
				    r->extra[CONFIG_NAME].text);
		r->more_arguments = true;
	}
}

const p4d_reader p4d_reader__nemo = {
    .framework = "nemo",
    .programs = {"megatron_gpt_pretraining.py", "megatron_gpt_finetuning.py"},
    .arguments_alone = {"model.tensor_model_parallel_size", "train.global_batch_size"},
    .arguments = {nemo_arguments},
    .assignments = true,
    .finish = finish_nemo,
};

/* GPT-NeoX: several YAML files, whose names are those of the command line. */
static const p4d_read_argument neox_arguments[] = {
    {"", P4D_READ_FILE, "", NULL},
    {"--model-parallel-size", P4D_TP, NULL, NULL},
    {"--pipe-parallel-size", P4D_PP, NULL, NULL},
    {"--sequence-parallel", P4D_SEQUENCE_PARALLEL, "on", NULL},
    {"--num-layers", P4D_LAYERS, NULL, NULL},
    {"--hidden-size", P4D_HIDDEN, NULL, NULL},
    {"--intermediate-size", P4D_FFN, NULL, NULL},
    {"--num-attention-heads", P4D_HEADS, NULL, NULL},
    {"--num-kv-heads", P4D_KV_HEADS, NULL, NULL},
    {"--seq-length", P4D_SEQ_LEN, NULL, NULL},
    {"--max-position-embeddings", P4D_MAX_SEQ_LEN, NULL, NULL},
    {"--train-micro-batch-size-per-gpu", P4D_MICRO_BATCH, NULL, NULL},
    {"--train-batch-size", P4D_GLOBAL_BATCH, NULL, NULL},
    {"--checkpoint-activations", P4D_RECOMPUTE, "full", NULL},
    {"--precision", P4D_PRECISION, NULL, precisions},
    {"--zero-optimization.stage", P4D_ZERO_STAGE, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

const p4d_reader p4d_reader__neox = {
    .framework = "gpt-neox",
    .programs = {"deepy.py"},
    .arguments = {neox_arguments},
    .finish = p4d_finetune__unmodelled,
};

static const p4d_read_argument nanotron_arguments[] = {
    {"--config-file", P4D_READ_FILE, "", NULL},
    {"--parallelism.tp", P4D_TP, NULL, NULL},
    {"--parallelism.pp", P4D_PP, NULL, NULL},
    {"--parallelism.context_parallel_size", P4D_CP, NULL, NULL},
    {"--parallelism.recompute_layer", P4D_RECOMPUTE, "full", NULL},
    {"--tokens.micro_batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--tokens.sequence_length", P4D_SEQ_LEN, NULL, NULL},
    {"--model.dtype", P4D_PRECISION, NULL, precisions},
    {"--model.model_config.hidden_size", P4D_HIDDEN, NULL, NULL},
    {"--model.model_config.intermediate_size", P4D_FFN, NULL, NULL},
    {"--model.model_config.num_hidden_layers", P4D_LAYERS, NULL, NULL},
    {"--model.model_config.num_attention_heads", P4D_HEADS, NULL, NULL},
    {"--model.model_config.num_key_value_heads", P4D_KV_HEADS, NULL, NULL},
    {"--model.model_config.vocab_size", P4D_VOCAB, NULL, NULL},
    {"--model.model_config.max_position_embeddings", P4D_MAX_SEQ_LEN, NULL, NULL},
    {"--optimizer.zero_stage", P4D_ZERO_STAGE, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

const p4d_reader p4d_reader__nanotron = {
    .framework = "nanotron",
    .arguments_alone = {"--config-file"},
    .arguments = {nanotron_arguments},
    .assignments = true,
    .finish = p4d_finetune__unmodelled,
};

/* Reinforcement learning with verl (0.7), NeMo-RL and OpenRLHF (0.9 and before it). */
static const char *const strategies[] = {"fsdp", "", "fsdp2", "", "megatron", "", NULL};

static const p4d_read_argument verl_arguments[] = {
    {"--actor_rollout_ref.model.path", P4D_MODEL, NULL, NULL},
    {"--actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", P4D_MICRO_BATCH, NULL, NULL},
    {"--actor_rollout_ref.actor.megatron.tensor_model_parallel_size", P4D_TP, NULL, NULL},
    {"--actor_rollout_ref.actor.megatron.pipeline_model_parallel_size", P4D_PP, NULL, NULL},
    {"--actor_rollout_ref.actor.megatron.context_parallel_size", P4D_CP, NULL, NULL},
    {"--actor_rollout_ref.actor.strategy", P4D_FRAMEWORK, NULL, strategies},
    {"--actor_rollout_ref.model.enable_gradient_checkpointing", P4D_RECOMPUTE, "full", checkpointing},
    {"--trainer.n_gpus_per_node", P4D_GPUS_PER_NODE, NULL, NULL},
    {"--trainer.nnodes", P4D_NODES, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

const p4d_reader p4d_reader__verl = {
    .framework = "verl",
    .programs = {"verl.trainer.main_*", "verl.experimental.*", "recipe.*"},
    .arguments_alone = {"actor_rollout_ref.model.path", "actor_rollout_ref.actor.strategy"},
    .arguments = {verl_arguments},
    .assignments = true,
    .finish = p4d_finetune__reinforcement,
};

static const p4d_read_argument verl_sft_arguments[] = {
    {"--model.partial_pretrain", P4D_MODEL, NULL, NULL},
    {"--model.path", P4D_MODEL, NULL, NULL},
    {"--data.micro_batch_size_per_gpu", P4D_MICRO_BATCH, NULL, NULL},
    {"--data.train_batch_size", P4D_GLOBAL_BATCH, NULL, NULL},
    {"--data.max_length", P4D_SEQ_LEN, NULL, NULL},
    {"--model.lora_rank", P4D_LORA_RANK, NULL, NULL},
    {"--model.target_modules", P4D_LORA_TARGETS, NULL, NULL},
    {"--model.strategy", P4D_FRAMEWORK, NULL, strategies},
    {"--model.enable_gradient_checkpointing", P4D_RECOMPUTE, "full", checkpointing},
    {"--ulysses_sequence_parallel_size", P4D_CP, NULL, NULL},
    {"--trainer.n_gpus_per_node", P4D_GPUS_PER_NODE, NULL, NULL},
    {"--trainer.nnodes", P4D_NODES, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

/* A rank of 0 is no adapter. */
static void finish_verl_sft(p4d_reading *r)
{
	const p4d_read_value *rank = &r->value[P4D_LORA_RANK];

	if (rank->unknown)
		p4d_reader__forget(r, P4D_FINETUNE);
	else if (p4d_reader__is(rank, "0"))
		r->value[P4D_LORA_RANK] = r->value[P4D_LORA_TARGETS] = (p4d_read_value){.file = NULL};
	else if (p4d_reader__set(rank))
		p4d_reader__put(r, P4D_FINETUNE, rank, "lora");
	p4d_finetune__unmodelled(r);
}

const p4d_reader p4d_reader__verl_sft = {
    .framework = "verl",
    .programs = {"verl.trainer.fsdp_sft_trainer", "verl.trainer.sft_trainer"},
    .arguments = {verl_sft_arguments},
    .assignments = true,
    .finish = finish_verl_sft,
};

static const p4d_read_argument nemo_rl_arguments[] = {
    {"--config", P4D_READ_FILE, "", NULL},
    {"--policy.model_name", P4D_MODEL, NULL, NULL},
    {"--policy.train_micro_batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--policy.train_global_batch_size", P4D_GLOBAL_BATCH, NULL, NULL},
    {"--policy.max_total_sequence_length", P4D_SEQ_LEN, NULL, NULL},
    {"--policy.dtensor_cfg.tensor_parallel_size", P4D_TP, NULL, NULL},
    {"--policy.dtensor_cfg.context_parallel_size", P4D_CP, NULL, NULL},
    {"--policy.dtensor_cfg.sequence_parallel", P4D_SEQUENCE_PARALLEL, "on", off},
    {"--policy.dtensor_cfg.activation_checkpointing", P4D_RECOMPUTE, "full", checkpointing},
    {"--policy.dtensor_cfg.cpu_offload", P4D_OFFLOAD, "params", NULL},
    {"--policy.megatron_cfg.tensor_model_parallel_size", P4D_TP, NULL, NULL},
    {"--policy.megatron_cfg.pipeline_model_parallel_size", P4D_PP, NULL, NULL},
    {"--policy.megatron_cfg.context_parallel_size", P4D_CP, NULL, NULL},
    {"--policy.megatron_cfg.expert_model_parallel_size", P4D_EP, NULL, NULL},
    {"--policy.megatron_cfg.expert_tensor_parallel_size", P4D_ETP, NULL, NULL},
    {"--policy.megatron_cfg.sequence_parallel", P4D_SEQUENCE_PARALLEL, "on", off},
    {"--policy.megatron_cfg.activation_checkpointing", P4D_RECOMPUTE, "full", checkpointing},
    {"--policy.precision", P4D_PRECISION, NULL, precisions},
    {"--policy.sequence_packing.enabled", P4D_PACKING, "on", off},
    {"--cluster.gpus_per_node", P4D_GPUS_PER_NODE, NULL, NULL},
    {"--cluster.num_nodes", P4D_NODES, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

const p4d_reader p4d_reader__nemo_rl = {
    .framework = "nemo-rl",
    .programs = {"run_grpo_math.py", "run_grpo_sliding_puzzle.py", "run_vlm_grpo.py", "run_grpo_rm.py",
		 "examples/run_grpo.py", "examples/run_dpo.py"},
    .arguments_alone = {"policy.model_name", "grpo.num_prompts_per_step", "cluster.gpus_per_node"},
    .arguments = {nemo_rl_arguments},
    .assignments = true,
    .finish = p4d_finetune__reinforcement,
};

/* One model. */
const p4d_reader p4d_reader__nemo_rl_sft = {
    .framework = "nemo-rl",
    .programs = {"examples/run_sft.py"},
    .arguments = {nemo_rl_arguments},
    .assignments = true,
    .finish = p4d_finetune__unmodelled,
};

static const p4d_read_argument openrlhf_arguments[] = {
    {"--pretrain", P4D_MODEL, NULL, NULL},
    {"--actor.model_name_or_path", P4D_MODEL, NULL, NULL},
    {"--model.model_name_or_path", P4D_MODEL, NULL, NULL},
    {"--micro_train_batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--train.micro_batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--train_batch_size", P4D_GLOBAL_BATCH, NULL, NULL},
    {"--train.batch_size", P4D_GLOBAL_BATCH, NULL, NULL},
    {"--max_len", P4D_SEQ_LEN, NULL, NULL},
    {"--data.max_len", P4D_SEQ_LEN, NULL, NULL},
    {"--zero_stage", P4D_ZERO_STAGE, NULL, NULL},
    {"--ds.zero_stage", P4D_ZERO_STAGE, NULL, NULL},
    {"--adam_offload", P4D_OFFLOAD, "optimizer", NULL},
    {"--ds.adam_offload", P4D_OFFLOAD, "optimizer", NULL},
    {"--bf16", P4D_PRECISION, "bf16", NULL},
    {"--param_dtype", P4D_PRECISION, NULL, precisions},
    {"--ds.param_dtype", P4D_PRECISION, NULL, precisions},
    {"--packing_samples", P4D_PACKING, "on", NULL},
    {"--ds.packing_samples", P4D_PACKING, "on", NULL},
    {"--gradient_checkpointing", P4D_RECOMPUTE, "full", checkpointing},
    {"--model.gradient_checkpointing_enable", P4D_RECOMPUTE, "full", checkpointing},
    {"--actor.gradient_checkpointing_enable", P4D_RECOMPUTE, "full", checkpointing},
    {"--lora_rank", P4D_LORA_RANK, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

const p4d_reader p4d_reader__openrlhf = {
    .framework = "openrlhf",
    .programs = {"openrlhf.cli.train_*"},
    .arguments = {openrlhf_arguments},
    .finish = p4d_finetune__reinforcement,
};

/* One model, by DeepSpeed, in a loop of its own. */
const p4d_reader p4d_reader__openrlhf_sft = {
    .framework = "openrlhf",
    .programs = {"openrlhf.cli.train_sft", "openrlhf.cli.train_rm"},
    .arguments = {openrlhf_arguments},
    .finish = p4d_finetune__unmodelled,
};

/* p4d-train, whose arguments are p4d's options. */
static const p4d_read_argument p4d_arguments[] = {
#define INTEGER(id, name, argument, least, most, where, otherwise, help) {"--" name, P4D_##id, NULL, NULL},
#define DECIMAL(id, name, argument, least, most, where, help) {"--" name, P4D_##id, NULL, NULL},
#define CHOICE(id, name, list, where, otherwise, help) {"--" name, P4D_##id, NULL, NULL},
#define TEXT(id, name, argument, field, where, help) {"--" name, P4D_##id, NULL, NULL},
#define SWITCH(id, name, where, help)
#include "request/options.def"
#undef INTEGER
#undef DECIMAL
#undef CHOICE
#undef TEXT
#undef SWITCH
    {NULL, 0, NULL, NULL},
};

static const p4d_read_default p4d_defaults[] = {{P4D_FRAMEWORK, "p4d"}, {0, NULL}};

const p4d_reader p4d_reader__p4d = {
    .framework = "p4d",
    .programs = {"p4d-train"},
    .arguments = {p4d_arguments},
    .defaults = p4d_defaults,
};
