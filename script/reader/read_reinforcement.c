/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reinforcement learning and supervised training with OpenRLHF (0.11, whose options have dots, and earlier
 * releases); the engines of TRL and swift; and functions that all such programs share.
 */
#include "reader/read_reinforcement.h"

#include <inttypes.h>
#include <string.h>

static const char *const checkpointing[] = {"none"};
static const char *const off[] = {"off"};
static const char *const precisions[] = {"bf16", "bf16", "fp16", "fp16", "bfloat16", "bf16", NULL};

#define EXTRA(name) P4D_READ_EXTRA(name)

const char *const p4d_reinforcement__engines[] = {"vllm", "vllm", "sglang", "sglang", NULL};

void p4d_reinforcement__put_length(p4d_reading *r, int prompt, int response, const uint64_t otherwise[2])
{
	const p4d_read_value *part[] = {&r->extra[prompt], &r->extra[response]}, *place = NULL;
	uint64_t tokens = 0;

	for (int i = 0; i < 2; i++) {
		const uint64_t given = p4d_reader__number(part[i]),
			       length = given      ? given
					: r->named ? otherwise[i]
						   : 0; /* another program has other defaults */
		if (part[i]->unknown || !length) {
			p4d_reader__forget(r, P4D_SEQ_LEN);
			p4d_reader__unknown(r, "seq-len", "%s",
					    i ? "p4d does not know the length of answers"
					      : "p4d does not know the length of prompts");
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

void p4d_reinforcement__put_swap(p4d_reading *r, int params, int optimizer)
{
	if (r->extra[params].unknown || r->extra[optimizer].unknown) {
		p4d_reader__forget(r, P4D_SWAP);
		return;
	}
	const bool both =
	    p4d_reader__is(&r->extra[params], "on") && p4d_reader__is(&r->extra[optimizer], "on");

	if (both)
		p4d_reader__put(r, P4D_SWAP, &r->extra[params], "optimizer,params");
	else if (p4d_reader__is(&r->extra[params], "on"))
		p4d_reader__put(r, P4D_SWAP, &r->extra[params], "params");
	else if (p4d_reader__is(&r->extra[optimizer], "on"))
		p4d_reader__put(r, P4D_SWAP, &r->extra[optimizer], "optimizer");
}

void p4d_reinforcement__put_critic(p4d_reading *r, int estimator)
{
	const p4d_read_value *v = &r->extra[estimator];

	if (v->unknown || p4d_reader__set(v))
		p4d_reader__put(r, P4D_CRITIC, v, p4d_reader__is(v, "gae") ? "on" : "off");
	else
		p4d_reader__put_default(r, P4D_CRITIC, "on");
}

void p4d_reinforcement__put_packed(p4d_reading *r, int packs, int most, uint64_t otherwise,
				   const p4d_option *shared)
{
	const p4d_read_value *given = &r->extra[most];
	uint64_t tokens = p4d_reader__set(given) ? p4d_reader__number(given) : otherwise;

	if (r->extra[packs].unknown) {
		p4d_reader__forget(r, P4D_MICRO_BATCH);
		p4d_reader__forget(r, P4D_SEQ_LEN);
	}
	if (!p4d_reader__is(&r->extra[packs], "on"))
		return;
	p4d_reader__put(r, P4D_MICRO_BATCH, &r->extra[packs], "1");
	for (; *shared != P4D_OPTIONS; shared++) {
		const p4d_read_value *degree = &r->value[*shared];
		const uint64_t ranks = p4d_reader__set(degree) ? p4d_reader__number(degree) : 1;
		if (degree->unknown || __builtin_mul_overflow(tokens, ranks, &tokens))
			tokens = 0;
	}
	if (given->unknown || !tokens || tokens > UINT32_MAX)
		p4d_reader__forget(r, P4D_SEQ_LEN);
	else if (p4d_reader__set(given))
		p4d_reader__put(r, P4D_SEQ_LEN, given, "%" PRIu64, tokens);
	else
		p4d_reader__put_default(r, P4D_SEQ_LEN, "%" PRIu64, tokens);
}

void p4d_reinforcement__finish_rank(p4d_reading *r)
{
	const p4d_read_value *rank = &r->value[P4D_LORA_RANK];

	if (rank->unknown)
		p4d_reader__forget(r, P4D_FINETUNE);
	else if (p4d_reader__is(rank, "0"))
		r->value[P4D_LORA_RANK] = r->value[P4D_LORA_TARGETS] = (p4d_read_value){.file = NULL};
	else if (p4d_reader__set(rank))
		p4d_reader__put(r, P4D_FINETUNE, rank, "lora");
}

void p4d_reinforcement__put_reward(p4d_reading *r, int model)
{
	const p4d_read_value *reward = &r->extra[model];

	if (!p4d_reader__is(reward, "on"))
		return;
	p4d_read_unknown *u = p4d_reader__unknown(r, "reward", "the reward model (%.60s:%u) is not counted",
						  reward->file, reward->line);
	if (u)
		u->doubt = true;
}

/* OpenRLHF */
enum {
	PROMPT_TOKENS,
	GENERATED_TOKENS,
	ADVANTAGE,
	KL,
	COLOCATES,
	SLEEPS,
	PACKS,
	MOST_PACKED,
	REWARD_MODEL,
	REMOTE_REWARD
};

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
    {"--actor.optim", P4D_OPTIMIZER, NULL, openrlhf_optimizers},
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
    {"--reward_pretrain", EXTRA(REWARD_MODEL), NULL, p4d_reader__there},
    {"--reward.model_name_or_path", EXTRA(REWARD_MODEL), NULL, p4d_reader__there},
    {"--remote_rm_url", EXTRA(REMOTE_REWARD), NULL, p4d_reader__there},
    {"--reward.remote_url", EXTRA(REMOTE_REWARD), NULL, p4d_reader__there},
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

static void finish_openrlhf_rank(p4d_reading *r)
{
	p4d_reinforcement__finish_rank(r);
	if (p4d_reader__is(&r->value[P4D_FINETUNE], "lora") && !p4d_reader__set(&r->value[P4D_LORA_TARGETS]))
		p4d_reader__put_default(r, P4D_LORA_TARGETS, "all-linear");
}

static void finish_openrlhf(p4d_reading *r)
{
	const p4d_read_value *kl = &r->extra[KL];

	if (!p4d_reader__is(&r->extra[COLOCATES], "on")) {
		p4d_reader__unknown(r, "colocate",
				    "without --train.colocate_all (--colocate_all_models) each model has "
				    "its own GPUs, which p4d does not model");
		return;
	}
	/* --data.max_len limits prompt and response together */
	if (!p4d_reader__set(&r->value[P4D_SEQ_LEN]))
		p4d_reinforcement__put_length(r, PROMPT_TOKENS, GENERATED_TOKENS, (uint64_t[]){1024, 1024});
	p4d_reinforcement__put_packed(r, PACKS, MOST_PACKED, 16192,
				      (p4d_option[]){P4D_CP, P4D_TP, P4D_OPTIONS});
	p4d_reinforcement__put_critic(r, ADVANTAGE);
	/* with a remote reward model, --reward_pretrain only names the critic's initial weights */
	if (!p4d_reader__set(&r->extra[REMOTE_REWARD]))
		p4d_reinforcement__put_reward(r, REWARD_MODEL);
	if (p4d_reader__is_zero(kl))
		p4d_reader__put(r, P4D_REFERENCE, kl, "off");
	else
		p4d_reader__put_default(r, P4D_REFERENCE, "on");
	if (r->extra[SLEEPS].unknown || p4d_reader__is(&r->extra[SLEEPS], "on"))
		p4d_reader__put(r, P4D_SWAP, &r->extra[SLEEPS], "optimizer,params");
	finish_openrlhf_rank(r);
	/* the release whose options have dots has fewer options */
	if (r->by_default[P4D_MICRO_BATCH] && r->value[P4D_MODEL].argument &&
	    strchr(r->value[P4D_MODEL].argument, '.'))
		p4d_reader__put_default(r, P4D_MICRO_BATCH, "1");
}

const p4d_reader p4d_reader__openrlhf = {
    .framework = "openrlhf",
    .programs = {"openrlhf.cli.train_ppo*", "openrlhf.cli.train_grpo*"},
    .arguments = {openrlhf_arguments},
    .defaults = openrlhf_defaults,
    .release = "OpenRLHF 0.8",
    .finish = finish_openrlhf,
};

/*
 * OpenRLHF's preference training with DeepSpeed: chosen and rejected sequences in one pass (dpo_trainer.py),
 * or KTO.
 */
static void finish_openrlhf_preference(p4d_reading *r)
{
	finish_openrlhf_rank(r);
	p4d_finetune__preference(r, strstr(p4d_reading_kind(r), "kto") ? "kto" : "dpo");
}

static const p4d_read_default openrlhf_preference_defaults[] = {
    {P4D_FRAMEWORK, "deepspeed"}, {P4D_MODEL_CODE, "transformers"}, {P4D_PRECISION, "bf16"},
    {P4D_ZERO_STAGE, "2"},        {P4D_RECOMPUTE, "none"},          {0, NULL},
};

/*
 * Arguments that are only an upper bound of sequences. --packing_samples joins the sequences of a micro-batch
 * without filling it (sft_dataset.py, packing_collate_fn).
 */
static const char *const openrlhf_bounds[] = {"--max_len", "--data.max_len", NULL};

const p4d_reader p4d_reader__openrlhf_preference = {
    .framework = "openrlhf",
    .programs = {"openrlhf.cli.train_dpo", "openrlhf.cli.train_kto"},
    .arguments = {openrlhf_arguments},
    .defaults = openrlhf_preference_defaults,
    .release = "OpenRLHF 0.8",
    .bounds = openrlhf_bounds,
    .finish = finish_openrlhf_preference,
};

/* Preference training and distillation, with two models and no engine. */
const p4d_reader p4d_reader__openrlhf_others = {
    .framework = "openrlhf",
    .programs = {"openrlhf.cli.train_*"},
    .arguments = {openrlhf_arguments},
    .finish = p4d_finetune__reinforcement,
};

/*
 * OpenRLHF's supervised training with DeepSpeed (sft_trainer.py). Nobody compared p4d's memory for it with
 * measurements.
 */
static void finish_openrlhf_sft(p4d_reading *r)
{
	finish_openrlhf_rank(r);
	if (p4d_reader__set(&r->value[P4D_QUANT]) && p4d_reader__set(&r->value[P4D_FINETUNE]))
		p4d_reader__put(r, P4D_FINETUNE, &r->value[P4D_QUANT], "qlora");
	if (strstr(p4d_reading_kind(r), "train_rm")) {
		p4d_reader__unknown(r, "loss", "%s", p4d_finetune__reward);
		return;
	}
	p4d_reader__doubt(
	    r, "loss",
	    "p4d counts OpenRLHF's own loss like the loss of transformers, so the prediction is unvalidated");
}

const p4d_reader p4d_reader__openrlhf_sft = {
    .framework = "openrlhf",
    .programs = {"openrlhf.cli.train_sft", "openrlhf.cli.train_rm"},
    .arguments = {openrlhf_arguments},
    .defaults = openrlhf_preference_defaults,
    .release = "OpenRLHF 0.8",
    .bounds = openrlhf_bounds,
    .finish = finish_openrlhf_sft,
};

/* GRPO and RLOO of TRL and of swift, on the Trainer. */
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
	GENERATIONS,
	SERVER,
	REWARD
};
_Static_assert((int)REWARD < (int)P4D_READ_EXTRAS, "extra values");

const p4d_read_argument p4d_reinforcement__engine[] = {
    {"--rlhf_type", EXTRA(KIND), NULL, NULL},
    {"--num_generations", EXTRA(GENERATIONS), NULL, NULL},
    {"--use_vllm", EXTRA(USES_ENGINE), "on", off},
    {"--vllm_mode", EXTRA(ENGINE_MODE), NULL, NULL},
    {"--vllm_server_host", EXTRA(SERVER), NULL, p4d_reader__there},
    {"--vllm_server_base_url", EXTRA(SERVER), NULL, p4d_reader__there},
    {"--vllm_gpu_memory_utilization", P4D_GPU_UTILIZATION, NULL, NULL},
    {"--vllm_tensor_parallel_size", P4D_ENGINE_TP, NULL, NULL},
    {"--vllm_enable_sleep_mode", P4D_ENGINE_SLEEP, "on", off},
    {"--sleep_level", EXTRA(SLEEP_LEVEL), NULL, NULL},
    {"--reward_model_name_or_path", EXTRA(REWARD), NULL, p4d_reader__there},
    {"--reward_model", EXTRA(REWARD), NULL, p4d_reader__there}, /* of swift */
    {"--beta", EXTRA(BETA), NULL, NULL},
    {"--max_prompt_length", EXTRA(PROMPT_LENGTH), NULL, NULL},
    {"--max_completion_length", EXTRA(COMPLETION_LENGTH), NULL, NULL},
    {"--offload_model", EXTRA(OFFLOADS_MODEL), "on", off},
    {"--offload_optimizer", EXTRA(OFFLOADS_OPTIMIZER), "on", off},
    {NULL, 0, NULL, NULL},
};

/* Whether the method learns from groups of generated sequences. Other methods have other models on the
 * GPUs. */
static bool generates(const p4d_reading *r)
{
	const p4d_read_value *kind = &r->extra[KIND];

	return p4d_reader__set(kind)
		   ? p4d_reader__is(kind, "grpo")
		   : strstr(p4d_reading_kind(r), "grpo") || strstr(p4d_reading_kind(r), "rloo") ||
			 p4d_reader__set(&r->extra[GENERATIONS]);
}

/*
 * Whether the engine may run on other GPUs: some option names the server mode, which was TRL's default before
 * 1.0.
 */
static bool names_server(const p4d_reading *r)
{
	return p4d_reader__set(&r->extra[SERVER]);
}

void p4d_reinforcement__finish(p4d_reading *r, const p4d_reinforcement_defaults *d)
{
	const p4d_read_value *beta = &r->extra[BETA], *level = &r->extra[SLEEP_LEVEL],
			     *mode = &r->extra[ENGINE_MODE], *uses = &r->extra[USES_ENGINE];
	const bool engine = p4d_reader__is(uses, "on");

	if (!generates(r)) {
		const p4d_read_value *kind = &r->extra[KIND];
		const char *method = p4d_reader__set(kind)                ? kind->text
				     : strstr(p4d_reading_kind(r), "kto") ? "kto"
									  : "";
		if (!strcmp(method, "rm") || strstr(p4d_reading_kind(r), "reward")) {
			p4d_reader__forget(r, P4D_FRAMEWORK);
			p4d_reader__unknown(r, "framework", "a reward model is not modelled: %s",
					    p4d_finetune__reward);
		} else if (kind->unknown || !p4d_finetune__preference(r, method))
			p4d_finetune__reinforcement(r);
		return;
	}
	p4d_reader__put_default(r, P4D_WORKLOAD, "rl");
	/* swift's max_length limits only prompts */
	if (p4d_reader__set(&r->value[P4D_SEQ_LEN]) && !r->by_default[P4D_SEQ_LEN])
		r->extra[PROMPT_LENGTH] = r->value[P4D_SEQ_LEN];
	p4d_reinforcement__put_length(r, PROMPT_LENGTH, COMPLETION_LENGTH,
				      (uint64_t[]){d->prompt, d->completion});
	p4d_reinforcement__put_swap(r, OFFLOADS_MODEL, OFFLOADS_OPTIMIZER);
	p4d_reinforcement__put_reward(r, REWARD);
	if (mode->unknown || uses->unknown)
		p4d_reader__unknown(r, "colocate", "p4d does not know whether an engine runs on these GPUs");
	else if (!engine || p4d_reader__is(mode, "server") || (!p4d_reader__set(mode) && names_server(r)))
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
