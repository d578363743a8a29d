/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reinforcement learning with verl (0.7) and OpenRLHF (0.11, whose names have dots, and before it), and what
 * they have for supervised training; what TRL and swift are told of their engine.
 */
#include <inttypes.h>
#include <string.h>

#include "reader/read_finetune.h"

static const char *const checkpointing[] = {"none"};
static const char *const off[] = {"off"};
static const char *const precisions[] = {"bf16", "bf16", "fp16", "fp16", "bfloat16", "bf16", NULL};
static const char *const stored[] = {"fp32", "fp32",     "float32", "fp32", "bf16",
				     "bf16", "bfloat16", "bf16",    NULL};
static const char *const engines[] = {"vllm", "vllm", "sglang", "sglang", NULL};
static const char *const sft_strategies[] = {"fsdp", "", "fsdp2", "", "megatron", "", NULL};
static const char *const strategies[] = {"fsdp", "fsdp", "fsdp2", "fsdp", "megatron", "megatron", NULL};

#define EXTRA(name) P4D_READ_EXTRA(name)

/* Yes or no of a value that was read, or `otherwise`, which is what the program does by itself. */
static bool is_on(const p4d_read_value *v, bool otherwise)
{
	return p4d_reader__set(v) ? p4d_reader__is(v, "on") : otherwise;
}

/* A prompt and what is generated are one sequence; otherwise: what the program takes of each, 0: it does not
 * say. */
static void put_length(p4d_reading *r, int prompt, int response, const uint64_t otherwise[2])
{
	const p4d_read_value *part[] = {&r->extra[prompt], &r->extra[response]}, *place = NULL;
	uint64_t tokens = 0;

	for (int i = 0; i < 2; i++) {
		const uint64_t given = p4d_reader__number(part[i]), length = given ? given : otherwise[i];
		if (part[i]->unknown || !length) {
			p4d_reader__forget(r, P4D_SEQ_LEN);
			p4d_reader__unknown(r, "seq-len", "%s",
					    i ? "how much is generated" : "how long prompts may be");
			return;
		}
		tokens += length;
		place = given ? part[i] : place;
	}
	if (place)
		p4d_reader__put(r, P4D_SEQ_LEN, place, "%" PRIu64, tokens);
	else
		p4d_reader__put_default(r, P4D_SEQ_LEN, "%" PRIu64, tokens);
}

/* What goes to the host while others use the GPU. */
static void put_swap(p4d_reading *r, int params, int optimizer)
{
	const bool both = is_on(&r->extra[params], false) && is_on(&r->extra[optimizer], false);

	if (both)
		p4d_reader__put(r, P4D_SWAP, &r->extra[params], "optimizer,params");
	else if (is_on(&r->extra[params], false))
		p4d_reader__put(r, P4D_SWAP, &r->extra[params], "params");
	else if (is_on(&r->extra[optimizer], false))
		p4d_reader__put(r, P4D_SWAP, &r->extra[optimizer], "optimizer");
}

/* An estimator of advantages that learns values, as PPO's does, has a critic. */
static void put_critic(p4d_reading *r, int estimator)
{
	const p4d_read_value *v = &r->extra[estimator];

	if (v->unknown)
		p4d_reader__forget(r, P4D_CRITIC);
	else if (p4d_reader__set(v))
		p4d_reader__put(r, P4D_CRITIC, v, p4d_reader__is(v, "gae") ? "on" : "off");
	else
		p4d_reader__put_default(r, P4D_CRITIC, "on");
}

/* Sequences are packed up to so many tokens; otherwise: what the program takes. */
static void put_packed(p4d_reading *r, int packs, int most, const char *otherwise)
{
	if (!is_on(&r->extra[packs], false))
		return;
	p4d_reader__put(r, P4D_MICRO_BATCH, &r->extra[packs], "1");
	if (p4d_reader__number(&r->extra[most]))
		p4d_reader__put(r, P4D_SEQ_LEN, &r->extra[most], "%s", r->extra[most].text);
	else
		p4d_reader__put_default(r, P4D_SEQ_LEN, "%s", otherwise);
}

/* verl */
enum {
	PROMPT,
	RESPONSE,
	PARAM_OFFLOAD,
	OPTIMIZER_OFFLOAD,
	REFERENCE_OFFLOAD,
	KL_LOSS,
	KL_REWARD,
	ESTIMATOR,
	DYNAMIC,
	MOST_TOKENS,
	SHARDS,
	MICRO_OF_ALL,
	CONFIG_NAME,
	VPP,
	ETP,
	GRANULARITY,
	MODULES,
	ON_HOST
};

static const p4d_read_argument verl_arguments[] = {
    {"--actor_rollout_ref.model.path", P4D_MODEL, NULL, NULL},
    {"--actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", P4D_MICRO_BATCH, NULL, NULL},
    {"--actor_rollout_ref.actor.use_dynamic_bsz", EXTRA(DYNAMIC), "on", off},
    {"--actor_rollout_ref.actor.ppo_max_token_len_per_gpu", EXTRA(MOST_TOKENS), NULL, NULL},
    {"--actor_rollout_ref.actor.megatron.tensor_model_parallel_size", P4D_TP, NULL, NULL},
    {"--actor_rollout_ref.actor.megatron.pipeline_model_parallel_size", P4D_PP, NULL, NULL},
    {"--actor_rollout_ref.actor.megatron.context_parallel_size", P4D_CP, NULL, NULL},
    {"--actor_rollout_ref.actor.megatron.expert_model_parallel_size", P4D_EP, NULL, NULL},
    {"--actor_rollout_ref.actor.megatron.expert_tensor_parallel_size", EXTRA(ETP), NULL, NULL},
    {"--actor_rollout_ref.actor.megatron.virtual_pipeline_model_parallel_size", EXTRA(VPP), NULL, NULL},
    {"--actor_rollout_ref.actor.megatron.sequence_parallel", P4D_SEQUENCE_PARALLEL, "on", off},
    {"--actor_rollout_ref.actor.megatron.use_distributed_optimizer", P4D_OPTIMIZER_SHARDING, "states", off},
    {"--actor_rollout_ref.actor.megatron.override_transformer_config.recompute_granularity",
     EXTRA(GRANULARITY), NULL, NULL},
    {"--actor_rollout_ref.actor.megatron.override_transformer_config.recompute_modules", EXTRA(MODULES), NULL,
     NULL},
    {"--actor_rollout_ref.actor.optim.override_optimizer_config.optimizer_cpu_offload", EXTRA(ON_HOST), "on",
     off},
    {"--actor_rollout_ref.actor.strategy", P4D_FRAMEWORK, NULL, strategies},
    {"--config-name", EXTRA(CONFIG_NAME), NULL, NULL},
    {"--actor_rollout_ref.actor.fsdp_config.fsdp_size", EXTRA(SHARDS), NULL, NULL},
    {"--actor_rollout_ref.actor.ppo_micro_batch_size", EXTRA(MICRO_OF_ALL), NULL, NULL},
    {"--actor_rollout_ref.actor.ulysses_sequence_parallel_size", P4D_CP, NULL, NULL},
    {"--actor_rollout_ref.actor.fsdp_config.model_dtype", P4D_PARAM_DTYPE, NULL, stored},
    {"--actor_rollout_ref.actor.fsdp_config.offload_policy", P4D_OFFLOAD, "params", NULL},
    {"--actor_rollout_ref.actor.fsdp_config.param_offload", EXTRA(PARAM_OFFLOAD), "on", off},
    {"--actor_rollout_ref.actor.fsdp_config.optimizer_offload", EXTRA(OPTIMIZER_OFFLOAD), "on", off},
    {"--actor_rollout_ref.actor.megatron.param_offload", EXTRA(PARAM_OFFLOAD), "on", off},
    {"--actor_rollout_ref.actor.megatron.optimizer_offload", EXTRA(OPTIMIZER_OFFLOAD), "on", off},
    {"--actor_rollout_ref.ref.fsdp_config.param_offload", EXTRA(REFERENCE_OFFLOAD), "on", off},
    {"--actor_rollout_ref.ref.megatron.param_offload", EXTRA(REFERENCE_OFFLOAD), "on", off},
    {"--actor_rollout_ref.actor.use_kl_loss", EXTRA(KL_LOSS), "on", off},
    {"--algorithm.use_kl_in_reward", EXTRA(KL_REWARD), "on", off},
    {"--algorithm.adv_estimator", EXTRA(ESTIMATOR), NULL, NULL},
    {"--data.max_prompt_length", EXTRA(PROMPT), NULL, NULL},
    {"--data.max_response_length", EXTRA(RESPONSE), NULL, NULL},
    {"--actor_rollout_ref.model.lora_rank", P4D_LORA_RANK, NULL, NULL},
    {"--actor_rollout_ref.model.target_modules", P4D_LORA_TARGETS, NULL, NULL},
    {"--actor_rollout_ref.model.enable_gradient_checkpointing", P4D_RECOMPUTE, "full", checkpointing},
    {"--actor_rollout_ref.model.use_remove_padding", P4D_PACKING, "on", off},
    {"--actor_rollout_ref.model.use_fused_kernels", P4D_CHUNKED_LOSS, "on", off},
    {"--actor_rollout_ref.rollout.name", P4D_ENGINE, NULL, engines},
    {"--actor_rollout_ref.rollout.tensor_model_parallel_size", P4D_ENGINE_TP, NULL, NULL},
    {"--actor_rollout_ref.rollout.gpu_memory_utilization", P4D_GPU_UTILIZATION, NULL, NULL},
    {"--actor_rollout_ref.rollout.free_cache_engine", P4D_ENGINE_SLEEP, "on", off},
    {"--actor_rollout_ref.rollout.max_num_batched_tokens", P4D_MAX_BATCHED_TOKENS, NULL, NULL},
    {"--actor_rollout_ref.rollout.max_num_seqs", P4D_MAX_NUM_SEQS, NULL, NULL},
    {"--trainer.n_gpus_per_node", P4D_GPUS_PER_NODE, NULL, NULL},
    {"--trainer.nnodes", P4D_NODES, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

/* As its ppo_trainer.yaml has them. */
static const p4d_read_default verl_defaults[] = {
    {P4D_WORKLOAD, "rl"},
    {P4D_FRAMEWORK, "fsdp"},
    {P4D_MODEL_CODE, "transformers"},
    {P4D_PRECISION, "bf16"},
    {P4D_RECOMPUTE, "full"},
    {P4D_PACKING, "on"},
    {P4D_ENGINE_TP, "2"},
    {P4D_GPU_UTILIZATION, "0.5"},
    {P4D_ENGINE_SLEEP, "on"},
    {0, NULL},
};

/* Adapters, of which a rank of 0 is none. */
static void finish_rank(p4d_reading *r)
{
	const p4d_read_value *rank = &r->value[P4D_LORA_RANK];

	if (rank->unknown)
		p4d_reader__forget(r, P4D_FINETUNE);
	else if (p4d_reader__is(rank, "0"))
		r->value[P4D_LORA_RANK] = r->value[P4D_LORA_TARGETS] = (p4d_read_value){.file = NULL};
	else if (p4d_reader__set(rank))
		p4d_reader__put(r, P4D_FINETUNE, rank, "lora");
}

/* What verl divides by its ranks, as it did before it had a name for the share of each. */
static void put_micro_batch(p4d_reading *r)
{
	const p4d_read_value *all = &r->extra[MICRO_OF_ALL];
	const uint64_t cp = p4d_reader__number(&r->value[P4D_CP]),
		       gpus = p4d_reader__number(&r->value[P4D_NODES]) *
			      p4d_reader__number(&r->value[P4D_GPUS_PER_NODE]),
		       ranks = gpus / (cp ? cp : 1);

	if (!p4d_reader__number(all) || p4d_reader__set(&r->value[P4D_MICRO_BATCH]))
		return;
	if (ranks && p4d_reader__number(all) >= ranks)
		p4d_reader__put(r, P4D_MICRO_BATCH, all, "%" PRIu64, p4d_reader__number(all) / ranks);
	else
		p4d_reader__unknown(r, "micro-batch",
				    "%.20s sequences of all ranks, whose number is not known", all->text);
}

/* -1: all ranks share. */
static void put_shards(p4d_reading *r)
{
	const p4d_read_value *shards = &r->extra[SHARDS];

	if (shards->unknown)
		p4d_reader__forget(r, P4D_SHARD_DEGREE);
	else if (p4d_reader__number(shards))
		p4d_reader__put(r, P4D_SHARD_DEGREE, shards, "%s", shards->text);
}

/* A value that a file or hydra may give as none. */
static bool is_null(const p4d_read_value *v)
{
	return !p4d_reader__set(v) || p4d_reader__is(v, "null") || p4d_reader__is(v, "None");
}

/* What ppo_megatron_trainer.yaml has otherwise (engine/megatron.yaml, utils/megatron_utils.py). */
static void finish_verl_megatron(p4d_reading *r)
{
	static const p4d_option of_fsdp[] = {P4D_MODEL_CODE, P4D_PACKING, P4D_CHUNKED_LOSS, P4D_PARAM_DTYPE};
	const p4d_read_value *granularity = &r->extra[GRANULARITY];

	for (size_t i = 0; i < sizeof(of_fsdp) / sizeof(*of_fsdp); i++)
		r->value[of_fsdp[i]] = (p4d_read_value){.file = NULL};
	p4d_reader__put_default(r, P4D_RECOMPUTE, "none");
	if (granularity->unknown)
		p4d_reader__forget(r, P4D_RECOMPUTE);
	else if (!is_null(granularity))
		p4d_reader__put(r, P4D_RECOMPUTE, granularity, "%s", granularity->text);
	if (p4d_reader__is(granularity, "selective") && !is_null(&r->extra[MODULES]))
		p4d_reader__unknown(r, "recompute-modules", "%.60s is not modelled", r->extra[MODULES].text);
	if (!is_null(&r->extra[VPP]))
		p4d_reader__put(r, P4D_VPP, &r->extra[VPP], "%s", r->extra[VPP].text);
	if (!is_null(&r->extra[ETP]))
		p4d_reader__put(r, P4D_ETP, &r->extra[ETP], "%s", r->extra[ETP].text);
	if (is_on(&r->extra[ON_HOST], false))
		p4d_reader__put(r, P4D_OFFLOAD, &r->extra[ON_HOST], "optimizer");
	if (!p4d_reader__set(&r->value[P4D_OPTIMIZER_SHARDING]))
		p4d_reader__put_default(r, P4D_OPTIMIZER_SHARDING, "states");
	if (!p4d_reader__set(&r->value[P4D_SEQUENCE_PARALLEL]) && p4d_reader__number(&r->value[P4D_TP]) > 1)
		p4d_reader__put_default(r, P4D_SEQUENCE_PARALLEL, "on");
	p4d_reader__put_default(r, P4D_GRAD_DTYPE, "fp32");
}

static void finish_verl(p4d_reading *r)
{
	const p4d_read_value *config = &r->extra[CONFIG_NAME];

	if (r->by_default[P4D_FRAMEWORK] && p4d_reader__set(config) && strstr(config->text, "megatron"))
		p4d_reader__put(r, P4D_FRAMEWORK, config, "megatron");
	const p4d_read_value *kl =
	    is_on(&r->extra[KL_LOSS], false) ? &r->extra[KL_LOSS] : &r->extra[KL_REWARD];

	put_length(r, PROMPT, RESPONSE, (uint64_t[]){512, 512});
	put_micro_batch(r);
	put_shards(r);
	put_swap(r, PARAM_OFFLOAD, OPTIMIZER_OFFLOAD);
	put_critic(r, ESTIMATOR);
	if (!is_on(kl, false))
		p4d_reader__put_default(r, P4D_REFERENCE, "off");
	else
		p4d_reader__put(r, P4D_REFERENCE, kl,
				is_on(&r->extra[REFERENCE_OFFLOAD], false) ? "host" : "on");
	if (p4d_reader__is(&r->value[P4D_FRAMEWORK], "megatron"))
		finish_verl_megatron(r);
	put_packed(r, DYNAMIC, MOST_TOKENS, "16384");
	finish_rank(r);
}

const p4d_reader p4d_reader__verl = {
    .framework = "verl",
    .programs = {"verl.trainer.main_*", "verl.experimental.*", "recipe.*"},
    .arguments_alone = {"actor_rollout_ref.model.path", "actor_rollout_ref.actor.strategy"},
    .arguments = {verl_arguments},
    .defaults = verl_defaults,
    .release = "verl 0.7",
    .assignments = true,
    .finish = finish_verl,
};

static const p4d_read_argument verl_sft_arguments[] = {
    {"--model.partial_pretrain", P4D_MODEL, NULL, NULL},
    {"--model.path", P4D_MODEL, NULL, NULL},
    {"--data.micro_batch_size_per_gpu", P4D_MICRO_BATCH, NULL, NULL},
    {"--data.train_batch_size", P4D_GLOBAL_BATCH, NULL, NULL},
    {"--data.max_length", P4D_SEQ_LEN, NULL, NULL},
    {"--model.lora_rank", P4D_LORA_RANK, NULL, NULL},
    {"--model.target_modules", P4D_LORA_TARGETS, NULL, NULL},
    {"--model.strategy", P4D_FRAMEWORK, NULL, sft_strategies},
    {"--model.enable_gradient_checkpointing", P4D_RECOMPUTE, "full", checkpointing},
    {"--ulysses_sequence_parallel_size", P4D_CP, NULL, NULL},
    {"--trainer.n_gpus_per_node", P4D_GPUS_PER_NODE, NULL, NULL},
    {"--trainer.nnodes", P4D_NODES, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

static void finish_verl_sft(p4d_reading *r)
{
	finish_rank(r);
	p4d_finetune__unmodelled(r);
}

const p4d_reader p4d_reader__verl_sft = {
    .framework = "verl",
    .programs = {"verl.trainer.fsdp_sft_trainer", "verl.trainer.sft_trainer"},
    .arguments = {verl_sft_arguments},
    .assignments = true,
    .finish = finish_verl_sft,
};

/* OpenRLHF */
enum { PROMPT_TOKENS, GENERATED_TOKENS, ADVANTAGE, KL, COLOCATES, SLEEPS, PACKS, MOST_PACKED };

static const char *const openrlhf_optimizers[] = {"adam", "adamw", "muon", "muon", NULL};

static const p4d_read_argument openrlhf_arguments[] = {
    {"--prompt_max_len", EXTRA(PROMPT_TOKENS), NULL, NULL},
    {"--generate_max_len", EXTRA(GENERATED_TOKENS), NULL, NULL},
    {"--advantage_estimator", EXTRA(ADVANTAGE), NULL, NULL},
    {"--init_kl_coef", EXTRA(KL), NULL, NULL},
    {"--colocate_all_models", EXTRA(COLOCATES), "on", NULL},
    {"--deepspeed_enable_sleep", EXTRA(SLEEPS), "on", NULL},
    {"--algo.advantage.estimator", EXTRA(ADVANTAGE), NULL, NULL},
    {"--algo.kl.init_coef", EXTRA(KL), NULL, NULL},
    {"--train.colocate_all", EXTRA(COLOCATES), "on", NULL},
    {"--ds.enable_sleep", EXTRA(SLEEPS), "on", NULL},
    {"--use_dynamic_batch", EXTRA(PACKS), "on", NULL},
    {"--train.dynamic_batch_enable", EXTRA(PACKS), "on", NULL},
    {"--train_max_tokens_per_gpu", EXTRA(MOST_PACKED), NULL, NULL},
    {"--train.max_tokens_per_gpu", EXTRA(MOST_PACKED), NULL, NULL},
    {"--vllm.tensor_parallel_size", P4D_ENGINE_TP, NULL, NULL},
    {"--vllm.gpu_memory_utilization", P4D_GPU_UTILIZATION, NULL, NULL},
    {"--vllm.enable_sleep", P4D_ENGINE_SLEEP, "on", NULL},
    {"--actor.num_nodes", P4D_NODES, NULL, NULL},
    {"--actor.num_gpus_per_node", P4D_GPUS_PER_NODE, NULL, NULL},
    {"--data.max_len", P4D_SEQ_LEN, NULL, NULL},
    {"--ds.attn_implementation", P4D_ATTENTION, NULL, p4d_finetune__attention},
    {"--ds.lora.rank", P4D_LORA_RANK, NULL, NULL},
    {"--ds.lora.target_modules", P4D_LORA_TARGETS, NULL, p4d_reader__list},
    {"--ds.load_in_4bit", P4D_QUANT, "nf4", NULL},
    {"--ds.use_liger_kernel", P4D_CHUNKED_LOSS, "on", NULL},
    {"--ds.ring_attn_size", P4D_CP, NULL, NULL},
    {"--ds.tensor_parallel_size", P4D_TP, NULL, NULL},
    {"--ds.zpg", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--optim", P4D_OPTIMIZER, NULL, openrlhf_optimizers},
    {"--vllm_tensor_parallel_size", P4D_ENGINE_TP, NULL, NULL},
    {"--vllm_gpu_memory_utilization", P4D_GPU_UTILIZATION, NULL, NULL},
    {"--vllm_enable_sleep", P4D_ENGINE_SLEEP, "on", NULL},
    {"--actor_num_nodes", P4D_NODES, NULL, NULL},
    {"--actor_num_gpus_per_node", P4D_GPUS_PER_NODE, NULL, NULL},
    {"--pretrain", P4D_MODEL, NULL, NULL},
    {"--actor.model_name_or_path", P4D_MODEL, NULL, NULL},
    {"--model.model_name_or_path", P4D_MODEL, NULL, NULL},
    {"--micro_train_batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--train.micro_batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--train_batch_size", P4D_GLOBAL_BATCH, NULL, NULL},
    {"--train.batch_size", P4D_GLOBAL_BATCH, NULL, NULL},
    {"--max_len", P4D_SEQ_LEN, NULL, NULL},
    {"--zero_stage", P4D_ZERO_STAGE, NULL, NULL},
    {"--ds.zero_stage", P4D_ZERO_STAGE, NULL, NULL},
    {"--adam_offload", P4D_OFFLOAD, "optimizer", NULL},
    {"--ds.adam_offload", P4D_OFFLOAD, "optimizer", NULL},
    {"--bf16", P4D_PRECISION, "bf16", NULL},
    {"--param_dtype", P4D_PRECISION, NULL, precisions},
    {"--ds.param_dtype", P4D_PRECISION, NULL, precisions},
    {"--flash_attn", P4D_ATTENTION, "flash", NULL},
    {"--attn_implementation", P4D_ATTENTION, NULL, p4d_finetune__attention},
    {"--packing_samples", P4D_PACKING, "on", NULL},
    {"--ds.packing_samples", P4D_PACKING, "on", NULL},
    {"--gradient_checkpointing", P4D_RECOMPUTE, "full", checkpointing},
    {"--model.gradient_checkpointing_enable", P4D_RECOMPUTE, "full", checkpointing},
    {"--actor.gradient_checkpointing_enable", P4D_RECOMPUTE, "full", checkpointing},
    {"--lora_rank", P4D_LORA_RANK, NULL, NULL},
    {"--target_modules", P4D_LORA_TARGETS, NULL, p4d_reader__list},
    {"--load_in_4bit", P4D_QUANT, "nf4", NULL},
    {"--use_liger_kernel", P4D_CHUNKED_LOSS, "on", NULL},
    {"--ring_attn_size", P4D_CP, NULL, NULL},
    {"--ds_tensor_parallel_size", P4D_TP, NULL, NULL},
    {"--zpg", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--ref_offload", P4D_REFERENCE, "host", NULL},
    {"--ref.offload", P4D_REFERENCE, "host", NULL},
    {NULL, 0, NULL, NULL},
};

static const p4d_read_default openrlhf_defaults[] = {
    {P4D_WORKLOAD, "rl"},
    {P4D_FRAMEWORK, "deepspeed"},
    {P4D_MODEL_CODE, "transformers"},
    {P4D_PRECISION, "bf16"},
    {P4D_ZERO_STAGE, "2"},
    {P4D_RECOMPUTE, "none"},
    {P4D_MICRO_BATCH, "4"},
    {P4D_ENGINE_TP, "1"},
    {P4D_GPU_UTILIZATION, "0.95"},
    {P4D_ENGINE_SLEEP, "off"},
    {0, NULL},
};

static void finish_openrlhf(p4d_reading *r)
{
	const p4d_read_value *kl = &r->extra[KL];

	if (!is_on(&r->extra[COLOCATES], false)) {
		p4d_reader__unknown(
		    r, "colocate",
		    "without --colocate_all_models each model has GPUs of its own, which p4d does "
		    "not model");
		return;
	}
	/* --data.max_len is that of both */
	if (!p4d_reader__set(&r->value[P4D_SEQ_LEN]))
		put_length(r, PROMPT_TOKENS, GENERATED_TOKENS, (uint64_t[]){1024, 1024});
	put_packed(r, PACKS, MOST_PACKED, "16192");
	put_critic(r, ADVANTAGE);
	if (p4d_reader__is_zero(kl))
		p4d_reader__put(r, P4D_REFERENCE, kl, "off");
	else
		p4d_reader__put_default(r, P4D_REFERENCE, "on");
	if (is_on(&r->extra[SLEEPS], false))
		p4d_reader__put(r, P4D_SWAP, &r->extra[SLEEPS], "optimizer,params");
	finish_rank(r);
}

const p4d_reader p4d_reader__openrlhf = {
    .framework = "openrlhf",
    .programs = {"openrlhf.cli.train_ppo*", "openrlhf.cli.train_grpo*"},
    .arguments = {openrlhf_arguments},
    .defaults = openrlhf_defaults,
    .release = "OpenRLHF 0.8",
    .finish = finish_openrlhf,
};

/* By DeepSpeed, in a loop of its own: chosen and rejected sequences in one pass (dpo_trainer.py), or KTO's.
 */
static void finish_openrlhf_preference(p4d_reading *r)
{
	finish_rank(r);
	p4d_finetune__preference(r, strstr(r->program, "kto") ? "kto" : "dpo");
}

static const p4d_read_default openrlhf_preference_defaults[] = {
    {P4D_FRAMEWORK, "deepspeed"}, {P4D_MODEL_CODE, "transformers"}, {P4D_PRECISION, "bf16"},
    {P4D_ZERO_STAGE, "2"},        {P4D_RECOMPUTE, "none"},          {0, NULL},
};

const p4d_reader p4d_reader__openrlhf_preference = {
    .framework = "openrlhf",
    .programs = {"openrlhf.cli.train_dpo", "openrlhf.cli.train_kto"},
    .arguments = {openrlhf_arguments},
    .defaults = openrlhf_preference_defaults,
    .release = "OpenRLHF 0.8",
    .finish = finish_openrlhf_preference,
};

/* Preferences, distillation: two models, and no engine. */
const p4d_reader p4d_reader__openrlhf_others = {
    .framework = "openrlhf",
    .programs = {"openrlhf.cli.train_*"},
    .arguments = {openrlhf_arguments},
    .finish = p4d_finetune__reinforcement,
};

/* One model, by DeepSpeed, in a loop of its own (sft_trainer.py), which was compared with nothing. */
static void finish_openrlhf_sft(p4d_reading *r)
{
	p4d_read_unknown *loop;

	finish_rank(r);
	if (p4d_reader__set(&r->value[P4D_QUANT]) && p4d_reader__set(&r->value[P4D_FINETUNE]))
		p4d_reader__put(r, P4D_FINETUNE, &r->value[P4D_QUANT], "qlora");
	if (strstr(r->program, "train_rm")) {
		p4d_reader__unknown(r, "loss", "%s", p4d_finetune__reward);
		return;
	}
	loop = p4d_reader__unknown(r, "loss", "OpenRLHF's own is counted as transformers', and unvalidated");
	if (loop)
		loop->doubt = true;
}

const p4d_reader p4d_reader__openrlhf_sft = {
    .framework = "openrlhf",
    .programs = {"openrlhf.cli.train_sft", "openrlhf.cli.train_rm"},
    .arguments = {openrlhf_arguments},
    .defaults = openrlhf_preference_defaults,
    .release = "OpenRLHF 0.8",
    .finish = finish_openrlhf_sft,
};

/* TRL's GRPO and RLOO, and swift's, on the Trainer. */
enum {
	USES_ENGINE = P4D_FINETUNE_OWN,
	ENGINE_MODE,
	BETA,
	PROMPT_LENGTH,
	COMPLETION_LENGTH,
	SLEEP_LEVEL,
	OFFLOADS_MODEL,
	OFFLOADS_OPTIMIZER,
	KIND,
	GENERATIONS
};
_Static_assert((int)GENERATIONS < (int)P4D_READ_EXTRAS, "extra values");

const p4d_read_argument p4d_reinforcement__engine[] = {
    {"--rlhf_type", EXTRA(KIND), NULL, NULL},
    {"--num_generations", EXTRA(GENERATIONS), NULL, NULL},
    {"--use_vllm", EXTRA(USES_ENGINE), "on", off},
    {"--vllm_mode", EXTRA(ENGINE_MODE), NULL, NULL},
    {"--vllm_gpu_memory_utilization", P4D_GPU_UTILIZATION, NULL, NULL},
    {"--vllm_tensor_parallel_size", P4D_ENGINE_TP, NULL, NULL},
    {"--vllm_enable_sleep_mode", P4D_ENGINE_SLEEP, "on", off},
    {"--sleep_level", EXTRA(SLEEP_LEVEL), NULL, NULL},
    {"--beta", EXTRA(BETA), NULL, NULL},
    {"--max_prompt_length", EXTRA(PROMPT_LENGTH), NULL, NULL},
    {"--max_completion_length", EXTRA(COMPLETION_LENGTH), NULL, NULL},
    {"--offload_model", EXTRA(OFFLOADS_MODEL), "on", off},
    {"--offload_optimizer", EXTRA(OFFLOADS_OPTIMIZER), "on", off},
    {NULL, 0, NULL, NULL},
};

/* The methods that learn from groups of sequences that they generate; others hold other models. */
static bool generates(const p4d_reading *r)
{
	const p4d_read_value *kind = &r->extra[KIND];

	return p4d_reader__set(kind) ? p4d_reader__is(kind, "grpo")
				     : strstr(r->program, "grpo") || strstr(r->program, "rloo") ||
					   p4d_reader__set(&r->extra[GENERATIONS]);
}

void p4d_reinforcement__finish(p4d_reading *r, const p4d_reinforcement_defaults *d)
{
	const p4d_read_value *beta = &r->extra[BETA], *level = &r->extra[SLEEP_LEVEL],
			     *mode = &r->extra[ENGINE_MODE], *uses = &r->extra[USES_ENGINE];
	const bool engine = is_on(uses, false);

	if (!generates(r)) {
		const p4d_read_value *kind = &r->extra[KIND];
		const char *method = p4d_reader__set(kind)       ? kind->text
				     : strstr(r->program, "kto") ? "kto"
								 : "";
		if (!strcmp(method, "rm") || strstr(r->program, "reward")) {
			p4d_reader__forget(r, P4D_FRAMEWORK);
			p4d_reader__unknown(r, "framework", "a reward model is not modelled: %s",
					    p4d_finetune__reward);
		} else if (kind->unknown || !p4d_finetune__preference(r, method))
			p4d_finetune__reinforcement(r);
		return;
	}
	p4d_reader__put_default(r, P4D_WORKLOAD, "rl");
	/* swift's max_length is that of prompts */
	if (p4d_reader__set(&r->value[P4D_SEQ_LEN]) && !r->by_default[P4D_SEQ_LEN])
		r->extra[PROMPT_LENGTH] = r->value[P4D_SEQ_LEN];
	put_length(r, PROMPT_LENGTH, COMPLETION_LENGTH, (uint64_t[]){d->prompt, d->completion});
	put_swap(r, OFFLOADS_MODEL, OFFLOADS_OPTIMIZER);
	if (mode->unknown || uses->unknown)
		p4d_reader__unknown(r, "colocate", "whether an engine is on these GPUs");
	else if (!engine || p4d_reader__is(mode, "server"))
		p4d_reader__put_default(r, P4D_COLOCATE, "off");
	else
		p4d_reader__put(r, P4D_COLOCATE, p4d_reader__set(mode) ? mode : uses, "on");
	if (p4d_reader__is_zero(beta) || (!p4d_reader__set(beta) && !d->refers))
		p4d_reader__put_default(r, P4D_REFERENCE, "off");
	else if (beta->unknown)
		p4d_reader__forget(r, P4D_REFERENCE);
	if (p4d_reader__set(level) && !p4d_reader__is_zero(level))
		p4d_reader__put(r, P4D_ENGINE_SLEEP, level, "on");
	if (!p4d_reader__set(&r->value[P4D_ENGINE_SLEEP]))
		p4d_reader__put_default(r, P4D_ENGINE_SLEEP, "off");
	if (!p4d_reader__set(&r->value[P4D_GPU_UTILIZATION]))
		p4d_reader__put_default(r, P4D_GPU_UTILIZATION, "%s", d->utilization);
}
