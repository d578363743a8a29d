/* SPDX-License-Identifier: Apache-2.0 */
/* NeMo-RL (0.6): its files configure two frameworks, of which one is enabled. */
#include "reader/read_reinforcement.h"

static const char *const checkpointing[] = {"none"};
static const char *const off[] = {"off"};
static const char *const precisions[] = {"bfloat16", "bf16", "bf16", "bf16", "float16", "fp16", NULL};
static const char *const half[] = {"bf16"};
static const char nemo_rl_release[] = "NeMo-RL 0.6";

#define EXTRA(name) P4D_READ_EXTRA(name)

enum {
	USES_DTENSOR,
	USES_MEGATRON,
	DTENSOR_TP,
	DTENSOR_CP,
	DTENSOR_SP,
	DTENSOR_CHECKPOINTING,
	DTENSOR_OFFLOAD,
	MEGATRON_TP,
	MEGATRON_PP,
	MEGATRON_CP,
	MEGATRON_EP,
	MEGATRON_ETP,
	MEGATRON_SP,
	MEGATRON_CHECKPOINTING,
	DTENSOR_LORA,
	DTENSOR_RANK,
	MEGATRON_LORA,
	MEGATRON_RANK,
	MEGATRON_STATES,
	MEGATRON_GRADIENTS,
	PENALTY,
};

static const p4d_read_argument nemo_rl_arguments[] = {
    {"--config", P4D_READ_FILE, "", NULL},
    {"--defaults", P4D_READ_FILE, "", p4d_reader__beside},
    {"--policy.model_name", P4D_MODEL, NULL, NULL},
    {"--policy.train_micro_batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--policy.train_global_batch_size", P4D_GLOBAL_BATCH, NULL, NULL},
    {"--policy.max_total_sequence_length", P4D_SEQ_LEN, NULL, NULL},
    {"--policy.dtensor_cfg.enabled", EXTRA(USES_DTENSOR), "on", off},
    {"--policy.dtensor_cfg.tensor_parallel_size", EXTRA(DTENSOR_TP), NULL, NULL},
    {"--policy.dtensor_cfg.context_parallel_size", EXTRA(DTENSOR_CP), NULL, NULL},
    {"--policy.dtensor_cfg.sequence_parallel", EXTRA(DTENSOR_SP), "on", off},
    {"--policy.dtensor_cfg.activation_checkpointing", EXTRA(DTENSOR_CHECKPOINTING), "full", checkpointing},
    {"--policy.dtensor_cfg.cpu_offload", EXTRA(DTENSOR_OFFLOAD), "params", NULL},
    {"--policy.dtensor_cfg.lora_cfg.enabled", EXTRA(DTENSOR_LORA), "lora", NULL},
    {"--policy.dtensor_cfg.lora_cfg.dim", EXTRA(DTENSOR_RANK), NULL, NULL},
    {"--policy.megatron_cfg.enabled", EXTRA(USES_MEGATRON), "on", off},
    {"--policy.megatron_cfg.tensor_model_parallel_size", EXTRA(MEGATRON_TP), NULL, NULL},
    {"--policy.megatron_cfg.pipeline_model_parallel_size", EXTRA(MEGATRON_PP), NULL, NULL},
    {"--policy.megatron_cfg.context_parallel_size", EXTRA(MEGATRON_CP), NULL, NULL},
    {"--policy.megatron_cfg.expert_model_parallel_size", EXTRA(MEGATRON_EP), NULL, NULL},
    {"--policy.megatron_cfg.expert_tensor_parallel_size", EXTRA(MEGATRON_ETP), NULL, NULL},
    {"--policy.megatron_cfg.sequence_parallel", EXTRA(MEGATRON_SP), "on", off},
    {"--policy.megatron_cfg.activation_checkpointing", EXTRA(MEGATRON_CHECKPOINTING), "full", checkpointing},
    {"--policy.megatron_cfg.peft.enabled", EXTRA(MEGATRON_LORA), "lora", NULL},
    {"--policy.megatron_cfg.peft.dim", EXTRA(MEGATRON_RANK), NULL, NULL},
    {"--policy.megatron_cfg.optimizer.use_distributed_optimizer", EXTRA(MEGATRON_STATES), "states", off},
    {"--policy.megatron_cfg.distributed_data_parallel_config.grad_reduce_in_fp32", EXTRA(MEGATRON_GRADIENTS),
     "fp32", half},
    {"--policy.precision", P4D_PRECISION, NULL, precisions},
    {"--policy.sequence_packing.enabled", P4D_PACKING, "on", off},
    {"--policy.generation.backend", P4D_ENGINE, NULL, p4d_reinforcement__engines},
    {"--policy.generation.vllm_cfg.tensor_parallel_size", P4D_ENGINE_TP, NULL, NULL},
    {"--policy.generation.vllm_cfg.gpu_memory_utilization", P4D_GPU_UTILIZATION, NULL, NULL},
    {"--policy.generation.colocated.enabled", P4D_COLOCATE, "on", off},
    {"--loss_fn.reference_policy_kl_penalty", EXTRA(PENALTY), NULL, NULL},
    {"--cluster.gpus_per_node", P4D_GPUS_PER_NODE, NULL, NULL},
    {"--cluster.num_nodes", P4D_NODES, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

/* Sets each option to the value of the framework that is enabled. */
static void put_enabled(p4d_reading *r)
{
	static const struct {
		p4d_option option;
		int dtensor,
		    megatron; /* extra values of each framework; -1: the framework has no such value */
	} rows[] = {{P4D_TP, DTENSOR_TP, MEGATRON_TP},
		    {P4D_CP, DTENSOR_CP, MEGATRON_CP},
		    {P4D_PP, -1, MEGATRON_PP},
		    {P4D_EP, -1, MEGATRON_EP},
		    {P4D_ETP, -1, MEGATRON_ETP},
		    {P4D_SEQUENCE_PARALLEL, DTENSOR_SP, MEGATRON_SP},
		    {P4D_RECOMPUTE, DTENSOR_CHECKPOINTING, MEGATRON_CHECKPOINTING},
		    {P4D_OFFLOAD, DTENSOR_OFFLOAD, -1},
		    {P4D_OPTIMIZER_SHARDING, -1, MEGATRON_STATES},
		    {P4D_GRAD_DTYPE, -1, MEGATRON_GRADIENTS},
		    {P4D_FINETUNE, DTENSOR_LORA, MEGATRON_LORA},
		    {P4D_LORA_RANK, DTENSOR_RANK, MEGATRON_RANK}};
	const p4d_read_value *dtensor = &r->extra[USES_DTENSOR], *megatron = &r->extra[USES_MEGATRON];
	const bool on = p4d_reader__is(dtensor, "on") || p4d_reader__is(megatron, "on"),
		   open = !on && (dtensor->unknown || megatron->unknown);
	static const p4d_read_value nothing;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const p4d_read_value *a = rows[i].dtensor < 0 ? &nothing : &r->extra[rows[i].dtensor],
				     *b = rows[i].megatron < 0 ? &nothing : &r->extra[rows[i].megatron];
		/* if no framework is enabled, the one that the script configures is used */
		const bool second = on ? p4d_reader__is(megatron, "on")
				       : p4d_reader__is(dtensor, "off") || !p4d_reader__set(a);
		const p4d_read_value *from = second ? b : a;
		const bool both = p4d_reader__set(a) && p4d_reader__set(b);
		if (rows[i].option == P4D_LORA_RANK && !p4d_reader__set(&r->value[P4D_FINETUNE]))
			continue;
		if (p4d_reader__set(from) && !(open && both))
			p4d_reader__put(r, rows[i].option, from, "%s", from->text);
		else if (from->unknown || (open && (both || a->unknown || b->unknown)))
			p4d_reader__forget(r, rows[i].option);
	}
}

/*
 * FSDP2 has parameters in fp32 and reduces gradients after every micro-batch, like torchtitan. torchtitan's
 * modules are also the ones for which p4d models tensor parallelism (models/automodel).
 */
static void put_framework(p4d_reading *r)
{
	const p4d_read_value *megatron = &r->extra[USES_MEGATRON], *dtensor = &r->extra[USES_DTENSOR];
	const bool adapts = p4d_reader__is(&r->value[P4D_FINETUNE], "lora");

	if (p4d_reader__is(megatron, "on")) {
		p4d_reader__put(r, P4D_FRAMEWORK, megatron, "megatron");
		/* p4d assumes full sequences in Megatron-Core, with or without packing */
		p4d_reader__leave_out(r, P4D_PACKING);
		return;
	}
	if (megatron->unknown || !p4d_reader__is(dtensor, "on")) {
		p4d_reader__forget(r, P4D_FRAMEWORK);
		p4d_reader__unknown(r, "framework",
				    "whether policy.dtensor_cfg or policy.megatron_cfg is enabled");
		return;
	}
	p4d_reader__put(r, P4D_FRAMEWORK, dtensor, "fsdp");
	p4d_reader__put_default(r, P4D_MODEL_CODE, adapts ? "transformers" : "torchtitan");
	p4d_reader__put_default(r, P4D_PARAM_DTYPE, "fp32");
	if (adapts) {
		p4d_reader__put_default(r, P4D_LORA_TARGETS, "all-linear");
		/* the policy's logits are in fp32, as without packing; see colocated.h */
		p4d_reader__leave_out(r, P4D_PACKING);
	}
}

static void finish_nemo_rl_grpo(p4d_reading *r)
{
	put_enabled(r);
	put_framework(r);
	if (p4d_reader__is(&r->value[P4D_COLOCATE], "off"))
		p4d_reader__unknown(
		    r, "colocate",
		    "the engine runs on other GPUs than the training, and p4d does not know on which");
	if (p4d_reader__is_zero(&r->extra[PENALTY]))
		p4d_reader__put(r, P4D_REFERENCE, &r->extra[PENALTY], "off");
}

/* While the engine or the reference uses a GPU, all other models are on the host (models/policy/workers). */
static const p4d_read_default grpo_defaults[] = {
    {P4D_WORKLOAD, "rl"},
    {P4D_SWAP, "optimizer,params"},
    {P4D_REFERENCE, "host"},
    {P4D_ENGINE_SLEEP, "on"},
    {0, NULL},
};

const p4d_reader p4d_reader__nemo_rl = {
    .framework = "nemo-rl",
    .programs = {"~run_grpo_math.py", "~run_grpo_sliding_puzzle.py", "~examples/run_grpo.py",
		 "~run_grpo_nemo_gym.py"},
    .arguments_alone = {"grpo.num_prompts_per_step"},
    .arguments = {nemo_rl_arguments},
    .defaults = grpo_defaults,
    .release = nemo_rl_release,
    .assignments = true,
    .finish = finish_nemo_rl_grpo,
};

static void finish_nemo_rl_dpo(p4d_reading *r)
{
	static const p4d_option of_engine[] = {P4D_ENGINE, P4D_ENGINE_TP, P4D_GPU_UTILIZATION, P4D_COLOCATE};

	/* configuration files for all methods have this section, so it does not show that an engine runs */
	for (size_t i = 0; i < sizeof(of_engine) / sizeof(*of_engine); i++)
		p4d_reader__leave_out(r, of_engine[i]);
	put_enabled(r);
	put_framework(r);
	p4d_finetune__preference(r, "dpo");
}

static const p4d_read_default dpo_defaults[] = {{P4D_REFERENCE, "host"}, {0, NULL}};

const p4d_reader p4d_reader__nemo_rl_dpo = {
    .framework = "nemo-rl",
    .programs = {"~examples/run_dpo.py"},
    .arguments = {nemo_rl_arguments},
    .defaults = dpo_defaults,
    .release = nemo_rl_release,
    .assignments = true,
    .finish = finish_nemo_rl_dpo,
};

static void finish_nemo_rl_others(p4d_reading *r)
{
	put_enabled(r);
	p4d_finetune__reinforcement(r);
}

/* Reward models, teachers, critics, and encoders of images. */
const p4d_reader p4d_reader__nemo_rl_others = {
    .framework = "nemo-rl",
    .programs = {"~run_vlm_grpo.py", "~run_grpo_rm.py", "~examples/run_ppo.py",
		 "~examples/run_distillation.py", "~run_distillation_nemo_gym.py",
		 "~run_grpo_single_controller.py", "~run_xtoken_off_policy_distillation.py"},
    .arguments_alone = {"policy.model_name", "cluster.gpus_per_node"},
    .arguments = {nemo_rl_arguments},
    .assignments = true,
    .finish = finish_nemo_rl_others,
};

static void finish_nemo_rl_sft(p4d_reading *r)
{
	put_enabled(r);
	p4d_finetune__unmodelled(r);
}

/* Supervised training, which has a single model. */
const p4d_reader p4d_reader__nemo_rl_sft = {
    .framework = "nemo-rl",
    .programs = {"~examples/run_sft.py", "~examples/run_rm.py", "~examples/run_vlm_sft.py"},
    .arguments = {nemo_rl_arguments},
    .assignments = true,
    .finish = finish_nemo_rl_sft,
};
