/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of Hugging Face's example programs, TRL, and other programs on the Trainer (transformers 5.23,
 * trl 1.16). */
#include <string.h>

#include "reader/evidence.h"
#include "reader/read_reinforcement.h"

#define EXTRA(name) P4D_READ_EXTRA(P4D_FINETUNE_##name)

static const char *const checkpointing[] = {"none"};
static const char *const methods[] = {"lora", "lora", "none", "full", NULL};

static const p4d_read_argument arguments[] = {
    {"", P4D_READ_FILE, "",
     p4d_reader__first}, /* HfArgumentParser reads a single file instead of arguments */
    {"--config", P4D_READ_FILE, "", NULL},
    {"--model_name_or_path", P4D_MODEL, NULL, NULL},
    {"--config_name", P4D_MODEL, NULL, NULL}, /* names the configuration with the model's sizes */
    {"--config_overrides", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--model_name", P4D_MODEL, NULL, NULL},
    {"--model_path", P4D_MODEL, NULL, NULL},
    {"--base_model", P4D_MODEL, NULL, NULL},
    {"--per_device_train_batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--per_gpu_train_batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--auto_find_batch_size", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--label_smoothing_factor", P4D_READ_NOT_MODELLED, "on", NULL}, /* computes a second softmax */
    {"--lora_target_parameters", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--per_device_eval_batch_size", P4D_EVAL_MICRO_BATCH, NULL, NULL},
    {"--eval_strategy", EXTRA(EVALUATION), NULL, p4d_finetune__evaluation},
    {"--evaluation_strategy", EXTRA(EVALUATION), NULL, p4d_finetune__evaluation},
    {"--do_eval", EXTRA(EVALUATION), "on", NULL},
    {"--do_train", EXTRA(TRAIN), "on", p4d_finetune__off},
    {"--do_predict", EXTRA(PREDICT), "on", NULL},
    {"--gradient_accumulation_steps", EXTRA(ACCUMULATION), NULL, NULL},
    {"--max_seq_length", P4D_SEQ_LEN, NULL, NULL},
    {"--max_seq_len", P4D_SEQ_LEN, NULL, NULL},
    {"--max_length", P4D_SEQ_LEN, NULL, NULL},
    {"--model_max_length", P4D_SEQ_LEN, NULL, NULL},
    {"--block_size", P4D_SEQ_LEN, NULL, NULL},
    {"--max_source_length", P4D_SEQ_LEN, NULL, NULL}, /* length of the encoder's input */
    {"--bf16", P4D_PRECISION, "bf16", NULL},
    {"--fp16", P4D_PRECISION, "fp16", NULL},
    {"--dtype", EXTRA(PARAM_DTYPE), NULL, p4d_finetune__dtypes},
    {"--torch_dtype", EXTRA(PARAM_DTYPE), NULL, p4d_finetune__dtypes},
    {"--model_init_kwargs", P4D_READ_FILE, "model_init_kwargs.", NULL},
    {"--model_init_kwargs.torch_dtype", EXTRA(PARAM_DTYPE), NULL, p4d_finetune__dtypes},
    {"--model_init_kwargs.dtype", EXTRA(PARAM_DTYPE), NULL, p4d_finetune__dtypes},
    {"--model_init_kwargs.attn_implementation", P4D_ATTENTION, NULL, p4d_finetune__attention},
    {"--gradient_checkpointing", P4D_RECOMPUTE, "full", checkpointing},
    {"--activation_checkpointing", P4D_RECOMPUTE, "full", checkpointing},
    {"--activation_offloading", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--attn_implementation", P4D_ATTENTION, NULL, p4d_finetune__attention},
    {"--use_flash_attention_2", P4D_ATTENTION, "flash", NULL},
    {"--use_flash_attn", P4D_ATTENTION, "flash", NULL},
    {"--optim", EXTRA(OPTIMIZER), NULL, p4d_finetune__optimizers},
    {"--torch_compile", EXTRA(COMPILE), "on", p4d_finetune__off},
    {"--packing", EXTRA(PACKING), "on", p4d_finetune__off},
    {"--pad_to_max_length", EXTRA(PADDING), "max_length", NULL},
    {"--padding", EXTRA(PADDING), NULL, NULL},
    {"--use_liger_kernel", EXTRA(CHUNKED_LOSS), "on", p4d_finetune__off},
    {"--use_liger", EXTRA(CHUNKED_LOSS), "on", p4d_finetune__off},
    {"--use_peft", EXTRA(LORA), "lora", NULL},
    {"--use_lora", EXTRA(LORA), "lora", NULL},
    {"--use_peft_lora", EXTRA(LORA), "lora", NULL},
    {"--lora_enable", EXTRA(LORA), "lora", NULL}, /* of LLaVA */
    {"--enable_lora", EXTRA(LORA), "lora", NULL},
    {"--lora", EXTRA(LORA), "lora", NULL},
    {"--qlora", EXTRA(LORA), "qlora", NULL},
    {"--q_lora", EXTRA(LORA), "qlora", NULL}, /* of FastChat */
    {"--use_qlora", EXTRA(LORA), "qlora", NULL},
    {"--peft_method", EXTRA(LORA), NULL, methods}, /* of fms-hf-tuning */
    {"--r", EXTRA(RANK), NULL, NULL},
    {"--lora_r", EXTRA(RANK), NULL, NULL},
    {"--lora_rank", EXTRA(RANK), NULL, NULL},
    {"--lora_dropout", EXTRA(DROPOUT), NULL, NULL},
    {"--lora_target_modules", EXTRA(TARGETS), NULL, p4d_reader__list},
    {"--lora_modules_to_save", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--modules_to_save", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--load_in_4bit", EXTRA(QUANT), "nf4", NULL},
    {"--use_4bit_quantization", EXTRA(QUANT), "nf4", NULL},
    {"--load_in_8bit", EXTRA(QUANT), "int8", NULL},
    {"--use_8bit_quantization", EXTRA(QUANT), "int8", NULL},
    {"--deepspeed", P4D_READ_FILE_IN(P4D_FINETUNE_DEEPSPEED_FILE), "deepspeed.", NULL},
    {"--zero_stage", EXTRA(ZERO_STAGE), NULL, NULL}, /* of DeepSpeed-Chat */
    {"--fsdp", EXTRA(FSDP), NULL, p4d_reader__list},
    {"--fsdp_config", P4D_READ_FILE, "fsdp_config.", NULL},
    P4D_FINETUNE_FSDP_UNITS("--fsdp_config."),
    P4D_FINETUNE_FSDP_UNITS("--fsdp_config.fsdp_"),
    {"--fsdp_transformer_layer_cls_to_wrap", EXTRA(FSDP_VERSION), "1",
     NULL}, /* argument before transformers 5.0 */
    {"--fsdp_config.activation_checkpointing", EXTRA(FSDP_CHECKPOINTING), "full", NULL},
    {"--fsdp_config.fsdp_activation_checkpointing", EXTRA(FSDP_CHECKPOINTING), "full", NULL},
    {"--fsdp_config.reshard_after_forward", EXTRA(FSDP_STRATEGY), NULL, p4d_finetune__strategies},
    {"--fsdp_config.fsdp_reshard_after_forward", EXTRA(FSDP_STRATEGY), NULL, p4d_finetune__strategies},
    {"--fsdp_config.cpu_offload", EXTRA(FSDP_OFFLOAD), "on", NULL}, /* argument since transformers 5.10 */
    {"--fsdp_config.offload_params", EXTRA(FSDP_OFFLOAD), "on", NULL},
    {"--fsdp_config.fsdp_offload_params", EXTRA(FSDP_OFFLOAD), "on", NULL},
    {"--use_dora", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--precompute_ref_log_probs", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--parallelism_config.tp_size", P4D_TP, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

/*
 * Arguments that are only an upper bound, because data collators pad to the longest sequence of a batch.
 * --block_size is none of them: it cuts all text into blocks.
 */
static const char *const bounds[] = {"--max_seq_length",
				     "--max_seq_len",
				     "--max_length",
				     "--model_max_length",
				     "--max_source_length",
				     "",
				     NULL};

/* Defaults in the documentation of transformers.TrainingArguments. */
static const p4d_read_default trainer_defaults[] = {
    {P4D_MICRO_BATCH, "8"},
    {P4D_PRECISION, "fp32"},
    {P4D_RECOMPUTE, "none"},
    {P4D_MODEL_CODE, "transformers"},
    {0, NULL},
};

/* Defaults of TRL's SFTConfig and DPOConfig that differ from the Trainer's. */
static const p4d_read_default trl_defaults[] = {
    {P4D_MICRO_BATCH, "8"},
    {P4D_SEQ_LEN, "1024"},
    {P4D_PRECISION, "bf16"},
    {P4D_PARAM_DTYPE, "fp32"},
    {P4D_RECOMPUTE, "full"},
    {P4D_MODEL_CODE, "transformers"},
    {0, NULL},
};

/* --deepspeed takes a file, which p4d does not write. */
static const p4d_read_shards shards[] = {
    {"fsdp", 0, "--fsdp", "--fsdp \"full_shard auto_wrap\"", false},
    {"deepspeed", 2, "--accelerate.use_deepspeed", "--use_deepspeed --zero_stage 2", true},
    {"deepspeed", 3, "--accelerate.use_deepspeed", "--use_deepspeed --zero_stage 3", true},
    {NULL, 0, NULL, NULL, false},
};

/* Sets the sequence length of example programs whose --max_source_length has a default. */
static void put_source_length(p4d_reading *r)
{
	static const char *const programs[] = {"run_summarization", "run_translation"};

	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++)
		if (strstr(p4d_reading_kind(r), programs[i]) && !p4d_reader__set(&r->value[P4D_SEQ_LEN]) &&
		    !r->value[P4D_SEQ_LEN].unknown) {
			p4d_reader__put_default(r, P4D_SEQ_LEN, "1024");
			p4d_reader__put_default(r, P4D_PADDING, "longest");
		}
}

/* Finishes the reading of programs that use transformers' Trainer, whatever their names. */
static void finish_trainer(p4d_reading *r)
{
	put_source_length(r);
	p4d_reader__put_default(r, P4D_MODEL_CODE, "transformers");
	p4d_finetune__finish(r);
	p4d_finetune__find_training(r);
}

/* Arguments of transformers' examples that few other programs have. */
static const char *const trainer_typical[] = {"--model_name_or_path",
					      "--per_device_train_batch_size",
					      "--per_gpu_train_batch_size",
					      "--config_name",
					      "--block_size",
					      "--max_source_length",
					      "--do_train",
					      NULL};

static const p4d_read_variable variables[] = {P4D_FINETUNE_ACCELERATE_VARIABLES,
					      {NULL, NULL, P4D_SET_ANYWHERE}};

const p4d_reader p4d_reader__trainer = {
    .framework = "trainer",
    .release = "transformers 5.23",
    .programs = {"pytorch/language-modeling/run_clm.py", "pytorch/language-modeling/run_mlm.py",
		 "pytorch/summarization/run_summarization.py", "pytorch/translation/run_translation.py",
		 "~run_clm.py", "~run_mlm.py", "~run_summarization.py", "~run_translation.py"},
    .variables = variables,
    .typical = trainer_typical,
    .parser = p4d_reader__of_examples,
    .arguments_alone = {"--per_device_train_batch_size"},
    .arguments = {arguments, p4d_finetune__accelerate, p4d_finetune__deepspeed},
    .defaults = trainer_defaults,
    .bounds = bounds,
    .filling = p4d_finetune__filling,
    .shards = shards,
    .finish = finish_trainer,
    .released = p4d_finetune__released,
};

enum { TRL_LOSS = P4D_FINETUNE_OWN };

/* The argument for SFTConfig's loss. DPO has other losses, which all need the logits. */
static const p4d_read_argument trl_arguments[] = {
    {"--loss_type", P4D_READ_EXTRA(TRL_LOSS), NULL, NULL},
    {NULL, 0, NULL, NULL},
};

/*
 * Sets how TRL computes head and loss. If its release is unknown, p4d assumes 1.15 or later, which makes no
 * logits; the guard then considers the logits of older releases. With Liger, Liger computes the loss.
 */
static void put_trl_loss(p4d_reading *r, p4d_read_trl trl, const p4d_read_value *place)
{
	const p4d_read_value *loss = &r->extra[TRL_LOSS], *liger = &r->extra[P4D_FINETUNE_CHUNKED_LOSS];
	const bool sft = !strstr(p4d_reading_kind(r), "dpo"), named = sft && p4d_reader__set(loss);
	const bool asks = named && p4d_reader__is(loss, "chunked_nll");
	const char *value = "off";

	if (p4d_reader__set(liger) && !p4d_reader__is(liger, "off"))
		return;
	p4d_reader__leave_out(r, P4D_CHUNKED_LOSS); /* Liger is off here, so its switch does not say how TRL
						     * computes the loss */
	if (trl == P4D_READ_TRL_UNKNOWN || trl == P4D_READ_TRL_FUSED)
		value = "trl-fused";
	else if (sft && trl >= P4D_READ_TRL_OFFERS && (asks || (trl == P4D_READ_TRL_CHUNKED && !named)))
		value = "trl";
	/* "off" (whole logits) is stored as a default, because an argument of the script may change it */
	if (trl != P4D_READ_TRL_UNKNOWN && strcmp(value, "off") != 0)
		p4d_reader__put(r, P4D_CHUNKED_LOSS, place, "%s", value);
	else if (asks)
		p4d_reader__put(r, P4D_CHUNKED_LOSS, loss, "%s", value);
	else
		p4d_reader__put_default(r, P4D_CHUNKED_LOSS, "%s", value);
}

static void finish_trl(p4d_reading *r)
{
	p4d_finetune__finish(r);
	p4d_finetune__adapter(r, "16", NULL, true); /* default rank in TRL's ModelConfig */
	if (strstr(p4d_reading_kind(r), "dpo"))
		p4d_finetune__preference(r, "dpo");
	put_trl_loss(r, P4D_READ_TRL_UNKNOWN, NULL);
}

/* Arguments of TRL that few other programs have. */
static const char *const trl_typical[] = {
    "--model_name_or_path", "--per_device_train_batch_size", "--sft_model_path", "--use_peft",
    "--num_generations",    "--max_completion_length",       "--reward_funcs",   NULL};

const p4d_reader p4d_reader__trl = {
    .framework = "trl",
    .accelerates = true,
    .variables = variables,
    .aliases = p4d_finetune__aliases,
    .release = "TRL 1.16",
    .programs = {"trl sft", "trl dpo", "trl.scripts.sft", "trl.scripts.dpo", "trl/scripts/sft.py",
		 "trl/scripts/dpo.py", "open_r1/sft.py", "open_r1.sft", "~examples/scripts/sft.py",
		 "~examples/scripts/dpo.py", "~run_sft.py", "~sft.py", "~dpo.py", "~run_dpo.py"},
    .typical = trl_typical,
    .parser = p4d_reader__of_trl,
    .arguments = {trl_arguments, arguments, p4d_finetune__accelerate, p4d_finetune__deepspeed},
    .defaults = trl_defaults,
    .bounds = bounds,
    .filling = p4d_finetune__filling,
    .shards = shards,
    .finish = finish_trl,
    .released = p4d_finetune__released,
    .trl = put_trl_loss,
};

static void finish_trl_rl(p4d_reading *r)
{
	static const p4d_reinforcement_defaults defaults = {.utilization = "0.3", .completion = 256};

	p4d_finetune__finish(r);
	p4d_finetune__adapter(r, "16", NULL, true);
	p4d_reinforcement__finish(r, &defaults);
}

const p4d_reader p4d_reader__trl_rl = {
    .framework = "trl",
    .accelerates = true,
    .variables = variables,
    .aliases = p4d_finetune__aliases,
    .release = "TRL 1.16",
    .programs = {"trl grpo",
		 "trl rloo",
		 "trl kto",
		 "trl reward",
		 "trl.scripts.reward",
		 "trl.scripts.grpo",
		 "trl.scripts.kto",
		 "trl.scripts.rloo",
		 "trl/scripts/reward.py",
		 "trl/scripts/grpo.py",
		 "trl/scripts/kto.py",
		 "trl/scripts/rloo.py",
		 "open_r1/grpo.py",
		 "~grpo.py",
		 "~run_grpo.py",
		 "~train_grpo.py",
		 "~ppo.py",
		 "~rloo.py",
		 "~kto.py",
		 "~gkd.py",
		 "~online_dpo.py",
		 "~grpo_vlm.py",
		 "~reward_modeling.py"},
    .typical = trl_typical,
    .parser = p4d_reader__of_trl_rl,
    .arguments_alone = {"--num_generations", "--reward_funcs", "--vllm_mode", "--rlhf_type"},
    .arguments = {arguments, p4d_finetune__accelerate, p4d_finetune__deepspeed, p4d_reinforcement__engine},
    .defaults = trl_defaults,
    .finish = finish_trl_rl,
    .released = p4d_finetune__released,
};

/* Arguments of users' own programs that use DeepSpeed's configuration. */
static const p4d_read_argument deepspeed_arguments[] = {
    {"--deepspeed_config", P4D_READ_FILE_IN(P4D_FINETUNE_DEEPSPEED_FILE), "deepspeed.", NULL},
    {NULL, 0, NULL, NULL},
};

const p4d_reader p4d_reader__deepspeed = {
    .framework = "deepspeed",
    .arguments_alone = {"--deepspeed_config"},
    .arguments = {deepspeed_arguments, p4d_finetune__deepspeed, p4d_finetune__accelerate, arguments},
    .bounds = bounds,
    .filling = p4d_finetune__filling,
    .finish = p4d_finetune__finish,
};
