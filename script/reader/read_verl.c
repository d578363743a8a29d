/* SPDX-License-Identifier: Apache-2.0 */
/* Reinforcement learning with verl (0.7) and SkyRL (August 2026), which use hydra's syntax, on FSDP or
 * Megatron-Core; and verl's supervised training. */
#include <inttypes.h>
#include <string.h>

#include "reader/read_reinforcement.h"

static const char *const checkpointing[] = {"none"};
static const char *const off[] = {"off"};
static const char *const half[] = {"bf16"};
static const char *const stored[] = {"fp32", "fp32",     "float32", "fp32", "bf16",
				     "bf16", "bfloat16", "bf16",    NULL};
static const char *const sft_strategies[] = {"fsdp", "", "fsdp2", "", "megatron", "", NULL};
static const char *const strategies[] = {"fsdp", "fsdp", "fsdp2", "fsdp", "megatron", "megatron", NULL};

#define EXTRA(name) P4D_READ_EXTRA(name)

/* verl's arguments */
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
	METHOD,
	RECOMPUTED_LAYERS,
	REWARD,
	REWARD_APART
};

static const p4d_read_argument verl_arguments[] = {
    {"--trainer.val_only", P4D_READ_TRAINS_NOTHING, "on", NULL},
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
    {"--actor_rollout_ref.actor.megatron.override_transformer_config.recompute_method", EXTRA(METHOD), NULL,
     NULL},
    {"--actor_rollout_ref.actor.megatron.override_transformer_config.recompute_num_layers",
     EXTRA(RECOMPUTED_LAYERS), NULL, NULL},
    {"--actor_rollout_ref.model.lora.rank", P4D_LORA_RANK, NULL, NULL},
    {"--actor_rollout_ref.model.lora.target_modules", P4D_LORA_TARGETS, NULL, NULL},
    {"--actor_rollout_ref.actor.optim.override_optimizer_config.optimizer_cpu_offload", P4D_READ_NOT_MODELLED,
     "on", NULL},
    {"--actor_rollout_ref.actor.strategy", P4D_FRAMEWORK, NULL, strategies},
    {"--hydra.shipped", EXTRA(CONFIG_NAME), NULL, NULL},
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
    {"--actor_rollout_ref.hybrid_engine", P4D_COLOCATE, "on", off},
    {"--actor_rollout_ref.rollout.name", P4D_ENGINE, NULL, p4d_reinforcement__engines},
    {"--actor_rollout_ref.rollout.tensor_model_parallel_size", P4D_ENGINE_TP, NULL, NULL},
    {"--actor_rollout_ref.rollout.gpu_memory_utilization", P4D_GPU_UTILIZATION, NULL, NULL},
    {"--actor_rollout_ref.rollout.free_cache_engine", P4D_ENGINE_SLEEP, "on", off},
    {"--actor_rollout_ref.rollout.max_num_batched_tokens", P4D_MAX_BATCHED_TOKENS, NULL, NULL},
    {"--actor_rollout_ref.rollout.max_num_seqs", P4D_MAX_NUM_SEQS, NULL, NULL},
    {"--reward_model.enable", EXTRA(REWARD), "on", off},
    {"--reward.reward_model.enable", EXTRA(REWARD), "on", off}, /* since 0.7 */
    {"--reward_model.enable_resource_pool", EXTRA(REWARD_APART), "on", off},
    {"--reward.reward_model.enable_resource_pool", EXTRA(REWARD_APART), "on", off},
    {"--reward_model.model.update", P4D_READ_NOT_MODELLED, "on",
     NULL}, /* PRIME trains its reward model, which p4d does not model */
    {"--trainer.n_gpus_per_node", P4D_GPUS_PER_NODE, NULL, NULL},
    {"--trainer.nnodes", P4D_NODES, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

static const char *const verl_shipped[] = {"ppo_trainer", "ppo_megatron_trainer",
					   "dp_*",        "megatron_*",
					   "legacy_*",    "hf_model",
					   "rollout",     "rollout_*",
					   "reward_*",    "profiler",
					   "fsdp",        "engine",
					   NULL};
static const p4d_read_hydra verl_hydra = {verl_shipped, "config", "ppo_trainer"};

/* Defaults in verl's ppo_trainer.yaml. */
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

/*
 * Sets the micro-batch from totals that verl divides by its ranks. verl's newer arguments give one rank's
 * share.
 */
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
		p4d_reader__unknown(
		    r, "micro-batch",
		    "%.20s sequences on all ranks together, but the number of ranks is not known", all->text);
}

/* Sets the number of ranks that shard the model. -1: all ranks. */
static void put_shards(p4d_reading *r, const p4d_read_value *shards)
{
	if (shards->unknown || p4d_reader__number(shards))
		p4d_reader__put(r, P4D_SHARD_DEGREE, shards, "%s", shards->text);
}

/* Whether a value means "no value", in files or for hydra. */
static bool is_null(const p4d_read_value *v)
{
	return !v->unknown && (!p4d_reader__set(v) || p4d_reader__is(v, "null") || p4d_reader__is(v, "None"));
}

/* Removes options that only FSDP has, for jobs on Megatron-Core. */
static void leave_fsdp(p4d_reading *r)
{
	static const p4d_option of_fsdp[] = {P4D_MODEL_CODE, P4D_PACKING, P4D_CHUNKED_LOSS, P4D_PARAM_DTYPE};

	for (size_t i = 0; i < sizeof(of_fsdp) / sizeof(*of_fsdp); i++)
		p4d_reader__leave_out(r, of_fsdp[i]);
}

static void put_unless_null(p4d_reading *r, p4d_option option, const p4d_read_value *v)
{
	if (!is_null(v))
		p4d_reader__put(r, option, v, "%s", v->text);
}

/* The extra values for the modules that Megatron-Core recomputes. */
typedef struct recomputation {
	int granularity, modules, method, layers;
} recomputation;

/* Whether only core_attn is listed, which `selective` recomputes anyway. */
static bool is_core_attention(const p4d_read_value *modules)
{
	return is_null(modules) || p4d_reader__is(modules, "core_attn") ||
	       p4d_reader__is(modules, "[core_attn]") || p4d_reader__is(modules, "[\"core_attn\"]") ||
	       p4d_reader__is(modules, "['core_attn']");
}

static void put_recomputation(p4d_reading *r, const recomputation *which)
{
	const p4d_read_value *granularity = &r->extra[which->granularity],
			     *modules = &r->extra[which->modules];

	p4d_reader__put(r, P4D_RECOMPUTE, granularity, "%s",
			is_null(granularity) ? "none" : granularity->text);
	if (p4d_reader__is(granularity, "selective") && !is_core_attention(modules))
		p4d_reader__unknown(r, "recompute-modules", "%.60s is not modelled", modules->text);
	if (!p4d_reader__is(granularity, "full"))
		return;
	put_unless_null(r, P4D_RECOMPUTE_METHOD, &r->extra[which->method]);
	put_unless_null(r, P4D_RECOMPUTE_LAYERS, &r->extra[which->layers]);
}

/* Defaults of Megatron-Core (verl's engine/megatron.yaml, SkyRL's config.py). */
static void put_megatron_defaults(p4d_reading *r)
{
	static const p4d_read_default otherwise[] = {
	    {P4D_OPTIMIZER_SHARDING, "states"}, {P4D_GRAD_DTYPE, "fp32"}, {P4D_SEQUENCE_PARALLEL, "on"}};

	for (size_t i = 0; i < sizeof(otherwise) / sizeof(*otherwise); i++)
		if (!p4d_reader__set(&r->value[otherwise[i].option]) &&
		    (otherwise[i].option != P4D_SEQUENCE_PARALLEL ||
		     p4d_reader__number(&r->value[P4D_TP]) > 1))
			p4d_reader__put_default(r, otherwise[i].option, "%s", otherwise[i].value);
}

static void finish_verl_megatron(p4d_reading *r)
{
	static const recomputation which = {GRANULARITY, MODULES, METHOD, RECOMPUTED_LAYERS};

	leave_fsdp(r);
	p4d_reader__put_default(r, P4D_RECOMPUTE, "none");
	if (r->extra[which.granularity].unknown || p4d_reader__set(&r->extra[which.granularity]))
		put_recomputation(r, &which);
	put_unless_null(r, P4D_VPP, &r->extra[VPP]);
	put_unless_null(r, P4D_ETP, &r->extra[ETP]);
	put_megatron_defaults(r);
}

/* Sets whether there is a frozen copy, which both KL terms need. */
static void put_reference(p4d_reading *r, const p4d_read_value *loss, const p4d_read_value *reward,
			  bool otherwise, const char *where)
{
	const p4d_read_value *place = p4d_reader__is(loss, "on") ? loss : reward;

	if (p4d_reader__is(place, "on"))
		p4d_reader__put(r, P4D_REFERENCE, place, "%s", where);
	else if (loss->unknown || reward->unknown)
		p4d_reader__forget(r, P4D_REFERENCE);
	else if (otherwise && !p4d_reader__set(loss))
		p4d_reader__put_default(r, P4D_REFERENCE, "%s", where);
	else
		p4d_reader__put_default(r, P4D_REFERENCE, "off");
}

/* A reward model is not counted. With a resource pool of its own it is on other GPUs. */
static void finish_reward(p4d_reading *r)
{
	static const char *const names[] = {"reward_model.enable", "reward.reward_model.enable",
					    "reward_model.enable_resource_pool",
					    "reward.reward_model.enable_resource_pool"};
	const bool apart = p4d_reader__is(&r->extra[REWARD_APART], "on");

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		p4d_reader__ignore_unknown(r, names[i]);
	if (r->extra[REWARD].unknown && !apart)
		p4d_reader__doubt(
		    r, "reward",
		    "p4d does not know whether there is a reward model, and counts no reward model");
	else if (!apart)
		p4d_reinforcement__put_reward(r, REWARD);
}

static void finish_verl(p4d_reading *r)
{
	const p4d_read_value *config = &r->extra[CONFIG_NAME];

	if (r->by_default[P4D_FRAMEWORK] && config->unknown)
		p4d_reader__forget(r, P4D_FRAMEWORK);
	else if (r->by_default[P4D_FRAMEWORK] && p4d_reader__set(config) && strstr(config->text, "megatron"))
		p4d_reader__put(r, P4D_FRAMEWORK, config, "megatron");
	p4d_reinforcement__put_length(r, PROMPT, RESPONSE, (uint64_t[]){512, 512});
	put_micro_batch(r);
	put_shards(r, &r->extra[SHARDS]);
	p4d_reinforcement__put_swap(r, PARAM_OFFLOAD, OPTIMIZER_OFFLOAD);
	p4d_reinforcement__put_critic(r, ESTIMATOR);
	put_reference(r, &r->extra[KL_LOSS], &r->extra[KL_REWARD], false,
		      p4d_reader__is(&r->extra[REFERENCE_OFFLOAD], "on") ? "host" : "on");
	if (p4d_reader__is(&r->value[P4D_FRAMEWORK], "megatron"))
		finish_verl_megatron(r);
	p4d_reinforcement__put_packed(r, DYNAMIC, MOST_TOKENS, 16384, (p4d_option[]){P4D_CP, P4D_OPTIONS});
	p4d_reinforcement__finish_rank(r);
	finish_reward(r);
	/* an engine on other GPUs keeps its weights there, so it does not sleep */
	if (p4d_reader__is(&r->value[P4D_COLOCATE], "off") && r->by_default[P4D_ENGINE_SLEEP])
		p4d_reader__put_default(r, P4D_ENGINE_SLEEP, "off");
}

const p4d_reader p4d_reader__verl = {
    .framework = "verl",
    .programs = {"verl.trainer.main_*", "verl.experimental.*", "~recipe.*"},
    .arguments_alone = {"actor_rollout_ref.model.path", "actor_rollout_ref.actor.strategy"},
    .arguments = {verl_arguments},
    .defaults = verl_defaults,
    .release = "verl 0.7",
    .hydra = &verl_hydra,
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

/* For the supervised training of verl and SkyRL. */
static void finish_supervised(p4d_reading *r)
{
	p4d_reinforcement__finish_rank(r);
	p4d_finetune__unmodelled(r);
}

static const char *const verl_sft_shipped[] = {"sft_trainer", "sft_trainer_*", NULL};
static const p4d_read_hydra verl_sft_hydra = {verl_sft_shipped, "config", "sft_trainer"};
static const char *const skyrl_shipped[] = {"ppo_base_config", NULL};
static const p4d_read_hydra skyrl_hydra = {skyrl_shipped, "config", "ppo_base_config"};

static const char *const supervised_bounds[] = {"--data.max_length", "--max_length", NULL};

const p4d_reader p4d_reader__verl_sft = {
    .framework = "verl",
    .programs = {"verl.trainer.fsdp_sft_trainer", "verl.trainer.sft_trainer"},
    .arguments = {verl_sft_arguments},
    .hydra = &verl_sft_hydra,
    .assignments = true,
    .bounds = supervised_bounds,
    .finish = finish_supervised,
};

/* SkyRL's arguments */
enum {
	SKYRL_PROMPT,
	SKYRL_RESPONSE,
	SKYRL_MOST_TOKENS,
	SKYRL_SHARDS,
	SKYRL_CRITIC,
	SKYRL_ETP,
	SKYRL_GRANULARITY,
	SKYRL_MODULES,
	SKYRL_METHOD,
	SKYRL_LAYERS,
	SKYRL_KL_LOSS,
	SKYRL_KL_REWARD
};

static const p4d_read_argument skyrl_arguments[] = {
    {"--trainer.policy.model.path", P4D_MODEL, NULL, NULL},
    {"--trainer.policy.model.lora.rank", P4D_LORA_RANK, NULL, NULL},
    {"--trainer.policy.model.lora.target_modules", P4D_LORA_TARGETS, NULL, NULL},
    {"--trainer.critic.model.path", EXTRA(SKYRL_CRITIC), NULL, NULL},
    {"--trainer.strategy", P4D_FRAMEWORK, NULL, strategies},
    {"--trainer.placement.colocate_all", P4D_COLOCATE, "on", off},
    {"--trainer.placement.policy_num_nodes", P4D_NODES, NULL, NULL},
    {"--trainer.placement.policy_num_gpus_per_node", P4D_GPUS_PER_NODE, NULL, NULL},
    {"--trainer.policy.sequence_parallel_size", P4D_CP, NULL, NULL},
    {"--trainer.policy.fsdp_config.cpu_offload", P4D_OFFLOAD, "params", NULL},
    {"--trainer.policy.fsdp_config.fsdp_size", EXTRA(SKYRL_SHARDS), NULL, NULL},
    {"--trainer.policy.megatron_config.tensor_model_parallel_size", P4D_TP, NULL, NULL},
    {"--trainer.policy.megatron_config.pipeline_model_parallel_size", P4D_PP, NULL, NULL},
    {"--trainer.policy.megatron_config.context_parallel_size", P4D_CP, NULL, NULL},
    {"--trainer.policy.megatron_config.expert_model_parallel_size", P4D_EP, NULL, NULL},
    {"--trainer.policy.megatron_config.expert_tensor_parallel_size", EXTRA(SKYRL_ETP), NULL, NULL},
    {"--trainer.policy.megatron_config.ddp_config.grad_reduce_in_fp32", P4D_GRAD_DTYPE, "fp32", half},
    {"--trainer.policy.megatron_config.transformer_config_kwargs.recompute_granularity",
     EXTRA(SKYRL_GRANULARITY), NULL, NULL},
    {"--trainer.policy.megatron_config.transformer_config_kwargs.recompute_modules", EXTRA(SKYRL_MODULES),
     NULL, NULL},
    {"--trainer.policy.megatron_config.transformer_config_kwargs.recompute_method", EXTRA(SKYRL_METHOD), NULL,
     NULL},
    {"--trainer.policy.megatron_config.transformer_config_kwargs.recompute_num_layers", EXTRA(SKYRL_LAYERS),
     NULL, NULL},
    {"--trainer.policy.megatron_config.optimizer_config_kwargs.optimizer_cpu_offload", P4D_READ_NOT_MODELLED,
     "on", NULL},
    {"--trainer.algorithm.use_kl_loss", EXTRA(SKYRL_KL_LOSS), "on", off},
    {"--trainer.algorithm.use_kl_in_reward", EXTRA(SKYRL_KL_REWARD), "on", off},
    {"--trainer.gradient_checkpointing", P4D_RECOMPUTE, "full", checkpointing},
    {"--trainer.micro_train_batch_size_per_gpu", P4D_MICRO_BATCH, NULL, NULL},
    {"--trainer.max_tokens_per_microbatch", EXTRA(SKYRL_MOST_TOKENS), NULL, NULL},
    {"--trainer.remove_microbatch_padding", P4D_PACKING, "on", off},
    {"--trainer.use_sample_packing", P4D_PACKING, "on", off},
    {"--trainer.fused_lm_head_logprob", P4D_CHUNKED_LOSS, "on", off},
    {"--trainer.max_prompt_length", EXTRA(SKYRL_PROMPT), NULL, NULL},
    {"--generator.sampling_params.max_generate_length", EXTRA(SKYRL_RESPONSE), NULL, NULL},
    {"--generator.backend", P4D_ENGINE, NULL, p4d_reinforcement__engines},
    {"--generator.inference_engine.backend", P4D_ENGINE, NULL, p4d_reinforcement__engines},
    {"--generator.inference_engine_tensor_parallel_size", P4D_ENGINE_TP, NULL, NULL},
    {"--generator.inference_engine.tensor_parallel_size", P4D_ENGINE_TP, NULL, NULL},
    {"--generator.gpu_memory_utilization", P4D_GPU_UTILIZATION, NULL, NULL},
    {"--generator.inference_engine.gpu_memory_utilization", P4D_GPU_UTILIZATION, NULL, NULL},
    {"--generator.inference_engine.max_num_batched_tokens", P4D_MAX_BATCHED_TOKENS, NULL, NULL},
    {"--generator.inference_engine.max_num_seqs", P4D_MAX_NUM_SEQS, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

/*
 * Defaults in SkyRL's config.py. If all models share the GPUs, each moves to the host while another one
 * works.
 */
static const p4d_read_default skyrl_defaults[] = {
    {P4D_WORKLOAD, "rl"},     {P4D_FRAMEWORK, "fsdp"},        {P4D_MODEL_CODE, "transformers"},
    {P4D_PRECISION, "bf16"},  {P4D_PARAM_DTYPE, "fp32"},      {P4D_RECOMPUTE, "full"},
    {P4D_PACKING, "on"},      {P4D_MICRO_BATCH, "1"},         {P4D_NODES, "1"},
    {P4D_GPUS_PER_NODE, "1"}, {P4D_ENGINE_TP, "1"},           {P4D_GPU_UTILIZATION, "0.8"},
    {P4D_ENGINE_SLEEP, "on"}, {P4D_SWAP, "optimizer,params"}, {0, NULL},
};

/* Sets the maximum tokens of a micro-batch, which has at least one sequence. */
static void put_most_tokens(p4d_reading *r, const p4d_read_value *most)
{
	const uint64_t tokens = p4d_reader__number(most),
		       longest = p4d_reader__number(&r->value[P4D_SEQ_LEN]);

	if (!most->unknown && !tokens)
		return;
	p4d_reader__put(r, P4D_MICRO_BATCH, most, "1");
	if (most->unknown || tokens > longest)
		p4d_reader__put(r, P4D_SEQ_LEN, most, "%s", most->text);
}

/*
 * Sets SkyRL's recomputation on Megatron-Core. By default all layers are recomputed; without
 * trainer.gradient_checkpointing, none.
 */
static void finish_skyrl_megatron(p4d_reading *r)
{
	static const recomputation which = {SKYRL_GRANULARITY, SKYRL_MODULES, SKYRL_METHOD, SKYRL_LAYERS};
	const p4d_read_value *granularity = &r->extra[SKYRL_GRANULARITY];

	leave_fsdp(r);
	if (!p4d_reader__is(&r->value[P4D_RECOMPUTE], "none") &&
	    (granularity->unknown || p4d_reader__set(granularity)))
		put_recomputation(r, &which);
	put_unless_null(r, P4D_ETP, &r->extra[SKYRL_ETP]);
	put_megatron_defaults(r);
}

static void finish_skyrl(p4d_reading *r)
{
	const p4d_read_value *critic = &r->extra[SKYRL_CRITIC];

	p4d_reinforcement__put_length(r, SKYRL_PROMPT, SKYRL_RESPONSE, (uint64_t[]){512, 1024});
	put_shards(r, &r->extra[SKYRL_SHARDS]);
	if (p4d_reader__is(&r->value[P4D_COLOCATE], "off"))
		p4d_reader__unknown(r, "colocate",
				    "without trainer.placement.colocate_all each model has its own GPUs");
	if (!is_null(critic))
		p4d_reader__put(r, P4D_CRITIC, critic, "on");
	else
		p4d_reader__put_default(r, P4D_CRITIC, "off");
	put_reference(r, &r->extra[SKYRL_KL_LOSS], &r->extra[SKYRL_KL_REWARD], true, "host");
	put_most_tokens(r, &r->extra[SKYRL_MOST_TOKENS]);
	if (p4d_reader__is(&r->value[P4D_FRAMEWORK], "megatron"))
		finish_skyrl_megatron(r);
	p4d_reinforcement__finish_rank(r);
}

const p4d_reader p4d_reader__skyrl = {
    .framework = "skyrl",
    .programs = {"skyrl.train.entrypoints.*", "skyrl_train.entrypoints.*"},
    .arguments_alone = {"trainer.policy.model.path"},
    .arguments = {skyrl_arguments},
    .defaults = skyrl_defaults,
    .release = "SkyRL of August 2026",
    .hydra = &skyrl_hydra,
    .assignments = true,
    .finish = finish_skyrl,
};

static const p4d_read_argument skyrl_sft_arguments[] = {
    {"--model.path", P4D_MODEL, NULL, NULL},
    {"--model.lora.rank", P4D_LORA_RANK, NULL, NULL},
    {"--model.lora.target_modules", P4D_LORA_TARGETS, NULL, NULL},
    {"--strategy", P4D_FRAMEWORK, NULL, strategies},
    {"--placement.num_nodes", P4D_NODES, NULL, NULL},
    {"--placement.num_gpus_per_node", P4D_GPUS_PER_NODE, NULL, NULL},
    {"--sequence_parallel_size", P4D_CP, NULL, NULL},
    {"--fsdp_config.cpu_offload", P4D_OFFLOAD, "params", NULL},
    {"--megatron_config.tensor_model_parallel_size", P4D_TP, NULL, NULL},
    {"--megatron_config.pipeline_model_parallel_size", P4D_PP, NULL, NULL},
    {"--megatron_config.context_parallel_size", P4D_CP, NULL, NULL},
    {"--megatron_config.expert_model_parallel_size", P4D_EP, NULL, NULL},
    {"--batch_size", P4D_GLOBAL_BATCH, NULL, NULL},
    {"--micro_train_batch_size_per_gpu", P4D_MICRO_BATCH, NULL, NULL},
    {"--max_length", P4D_SEQ_LEN, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

const p4d_reader p4d_reader__skyrl_sft = {
    .framework = "skyrl",
    .programs = {"skyrl.train.main_sft"},
    .arguments = {skyrl_sft_arguments},
    .assignments = true,
    .bounds = supervised_bounds,
    .finish = finish_supervised,
};
