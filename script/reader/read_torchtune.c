/* SPDX-License-Identifier: Apache-2.0 */
/* torchtune (0.6) and litgpt (0.5): YAML with overrides. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "reader/read_finetune.h"

#define EXTRA(name) P4D_READ_EXTRA(P4D_FINETUNE_##name)

enum {
	COMPONENT = P4D_FINETUNE_OWN, /* torchtune's function that builds the model:
					 torchtune.models.llama3_1.lora_llama3_1_8b */
	ATTENTION_MODULES,
	MLP,
	/* No fix adds these two: a tensor_parallel_dim above 1 also needs a tensor_parallel_plan and an
	 * unfused optimizer, and torchtune 0.6 ignores context_parallel_dim. */
	TENSOR,
	CONTEXT,
	LIT_QUERY, /* litgpt's switches for the modules that get adapters */
	LIT_KEY,
	LIT_VALUE,
	LIT_PROJECTION,
	LIT_MLP,
	LIT_PRECISION,
};
_Static_assert((int)LIT_PRECISION < (int)P4D_READ_EXTRAS, "extra values");

static const char *const dtypes[] = {"bf16", "bf16", "fp32", "fp32", NULL};
static const char *const optimizers[] = {"torch.optim.AdamW",
					 "adamw",
					 "torch.optim.Adam",
					 "adamw",
					 "torch.optim.SGD",
					 "sgd",
					 "bitsandbytes.optim.PagedAdamW8bit",
					 "paged-adamw-8bit",
					 "bitsandbytes.optim.PagedAdamW",
					 "paged-adamw",
					 "torchao.optim.AdamW4bit",
					 "adamw-4bit",
					 "torchao.optim.AdamW8bit",
					 "adamw-8bit",
					 "bitsandbytes.optim.AdamW8bit",
					 "adamw-8bit",
					 "transformers.optimization.Adafactor",
					 "adafactor",
					 NULL};
static const char *const losses[] = {"torchtune.modules.loss.LinearCrossEntropyLoss",
				     "on",
				     "torchtune.modules.loss.CEWithChunkedOutputLoss",
				     "on",
				     "torch.nn.CrossEntropyLoss",
				     "off",
				     NULL};
static const char *const checkpointing[] = {"none"};
static const char *const resharding[] = {"true", "", "True", "", NULL}, *const modes[] = {"full", "full",
											  NULL};
static const char *const no[] = {"off"}, *const none[] = {"none"};

static const p4d_read_argument tune_arguments[] = {
    {"--config", P4D_READ_FILE, "", NULL},
    {"--model._component_", P4D_READ_EXTRA(COMPONENT), NULL, NULL},
    {"--model.lora_rank", EXTRA(RANK), NULL, NULL},
    {"--model.lora_dropout", EXTRA(DROPOUT), NULL, NULL},
    {"--model.lora_attn_modules", P4D_READ_EXTRA(ATTENTION_MODULES), NULL, p4d_reader__list},
    {"--model.apply_lora_to_mlp", P4D_READ_EXTRA(MLP), "on", NULL},
    {"--model.apply_lora_to_output", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--model.use_dora", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--model.quantize_base", EXTRA(QUANT), "nf4", NULL},
    {"--tokenizer.max_seq_len", P4D_SEQ_LEN, NULL, NULL},
    {"--batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--gradient_accumulation_steps", EXTRA(ACCUMULATION), NULL, NULL},
    {"--optimizer._component_", EXTRA(OPTIMIZER), NULL, optimizers},
    {"--optimizer", EXTRA(OPTIMIZER), NULL, optimizers},
    {"--loss._component_", EXTRA(CHUNKED_LOSS), NULL, losses},
    {"--loss", EXTRA(CHUNKED_LOSS), NULL, losses},
    {"--dtype", EXTRA(PARAM_DTYPE), NULL, dtypes},
    {"--enable_activation_checkpointing", P4D_RECOMPUTE, "full", checkpointing},
    {"--enable_activation_offloading", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--compile", EXTRA(COMPILE), "on", no},
    {"--dataset.packed", EXTRA(PACKING), "on", no},
    {"--fsdp_cpu_offload", EXTRA(FSDP_OFFLOAD), "on", NULL},
    {"--fsdp_reshard_after_forward", EXTRA(FSDP_STRATEGY), NULL, resharding},
    {"--data_parallel_shard_dim", P4D_SHARD_DEGREE, NULL, NULL},
    {"--ac_mode", P4D_RECOMPUTE, NULL, modes},
    {"--tensor_parallel_dim", P4D_READ_EXTRA(TENSOR), NULL, NULL},
    {"--context_parallel_dim", P4D_READ_EXTRA(CONTEXT), NULL, NULL},
    {"--optimizer_in_bwd", P4D_READ_SAVES, "on", NULL},
    {NULL, 0, NULL, NULL},
};

/* p4d's name of the model that a builder of torchtune makes: "llama3_1_8b" is "llama-3.1-8b". */
static const char *model_of(const char *builder)
{
	static const char *const models[] = {"llama2_7b",
					     "llama2-7b",
					     "llama2_13b",
					     "llama2-13b",
					     "llama2_70b",
					     "llama2-70b",
					     "llama3_8b",
					     "llama3-8b",
					     "llama3_70b",
					     "llama3-70b",
					     "llama3_1_8b",
					     "llama3.1-8b",
					     "llama3_1_70b",
					     "llama3.1-70b",
					     "llama3_1_405b",
					     "llama3.1-405b",
					     "llama3_2_1b",
					     "llama3.2-1b",
					     "llama3_2_3b",
					     "llama3.2-3b",
					     "llama3_3_70b",
					     "llama3.3-70b",
					     "mistral_7b",
					     "mistral-7b",
					     "qwen2_5_0_5b",
					     "qwen2.5-0.5b",
					     "qwen2_5_1_5b_base",
					     "qwen2.5-1.5b",
					     "qwen2_5_1_5b_instruct",
					     "qwen2.5-1.5b",
					     "qwen2_5_3b",
					     "qwen2.5-3b",
					     "qwen2_5_7b_base",
					     "qwen2.5-7b",
					     "qwen2_5_7b_instruct",
					     "qwen2.5-7b",
					     "qwen2_5_14b_base",
					     "qwen2.5-14b",
					     "qwen2_5_14b_instruct",
					     "qwen2.5-14b",
					     "qwen2_5_32b_base",
					     "qwen2.5-32b",
					     "qwen2_5_32b_instruct",
					     "qwen2.5-32b",
					     "qwen2_5_72b_base",
					     "qwen2.5-72b",
					     "qwen2_5_72b_instruct",
					     "qwen2.5-72b",
					     "qwen3_0_6b_base",
					     "qwen3-0.6b",
					     "qwen3_0_6b_instruct",
					     "qwen3-0.6b",
					     "qwen3_1_7b_base",
					     "qwen3-1.7b",
					     "qwen3_1_7b_instruct",
					     "qwen3-1.7b",
					     "qwen3_4b_base",
					     "qwen3-4b",
					     "qwen3_4b_instruct",
					     "qwen3-4b",
					     "qwen3_8b_base",
					     "qwen3-8b",
					     "qwen3_8b_instruct",
					     "qwen3-8b",
					     "qwen3_14b_base",
					     "qwen3-14b",
					     "qwen3_14b_instruct",
					     "qwen3-14b",
					     "qwen3_32b",
					     "qwen3-32b",
					     NULL};

	for (int i = 0; models[i]; i += 2)
		if (!strcmp(models[i], builder))
			return models[i + 1];
	return NULL;
}

/* Sets model and kind of training, which one name gives: qlora_llama3_1_8b. */
static void finish_component(p4d_reading *r)
{
	const p4d_read_value *component = &r->extra[COMPONENT];
	const char *dot = strrchr(component->text, '.'), *name = dot ? dot + 1 : component->text;
	p4d_read_value *lora = &r->extra[P4D_FINETUNE_LORA], *quant = &r->extra[P4D_FINETUNE_QUANT];

	if (!p4d_reader__set(component))
		return;
	const bool qlora = !strncmp(name, "qlora_", 6), adapted = qlora || !strncmp(name, "lora_", 5);
	const char *model = model_of(name + (qlora ? 6 : adapted ? 5 : 0));
	*lora = *component;
	snprintf(lora->text, sizeof(lora->text), "%s", qlora ? "qlora" : adapted ? "lora" : "full");
	if (qlora) {
		*quant = *component;
		snprintf(quant->text, sizeof(quant->text), "nf4");
	}
	if (model)
		p4d_reader__put(r, P4D_MODEL, component, "%s", model);
	else
		p4d_reader__unknown(r, "model", "p4d does not know torchtune's %.80s", name);
}

/* Sets the modules that get adapters: those of attention, and optionally the whole feed-forward layer. */
static void finish_targets(p4d_reading *r)
{
	const p4d_read_value *attention = &r->extra[ATTENTION_MODULES];
	p4d_read_value *targets = &r->extra[P4D_FINETUNE_TARGETS];
	const bool mlp = p4d_reader__set(&r->extra[MLP]);
	char names[sizeof(targets->text)];

	if (!p4d_reader__set(attention))
		return;
	*targets = *attention;
	memcpy(names, attention->text, sizeof(names));
	p4d_text text = p4d_text_in(targets->text, sizeof(targets->text));
	/* torchtune calls attention's output projection output_proj */
	for (char *save = NULL, *word = strtok_r(names, ",", &save); word; word = strtok_r(NULL, ",", &save))
		p4d_text_entry(&text, ",", "%s", strcmp(word, "output_proj") != 0 ? word : "o_proj");
	if (mlp)
		p4d_text_entry(&text, ",", "gate_proj,up_proj,down_proj");
}

static void put_degree(p4d_reading *r, p4d_option option, const p4d_read_value *degree)
{
	if (p4d_reader__set(degree) || degree->unknown)
		p4d_reader__put(r, option, degree, "%s", degree->text);
}

static void finish_tune(p4d_reading *r)
{
	const bool single = strstr(r->program, "single_device") != NULL;
	const p4d_read_value program = {.file = r->file, .line = r->line};

	finish_component(r);
	finish_targets(r);
	put_degree(r, P4D_TP, &r->extra[TENSOR]);
	put_degree(r, P4D_CP, &r->extra[CONTEXT]);
	if (p4d_reader__is(&r->value[P4D_SHARD_DEGREE],
			   "-1")) /* -1: all ranks that the other degrees leave */
		r->value[P4D_SHARD_DEGREE] = (p4d_read_value){.file = NULL};
	p4d_reader__put_default(r, P4D_FRAMEWORK, single ? "ddp" : "fsdp");
	if (single && !p4d_reader__set(&r->value[P4D_GPUS_PER_NODE]))
		p4d_reader__put(r, P4D_GPUS_PER_NODE, &program, "1");
	/* torchtune has modules and a loss of its own. Its FSDP2 reduces gradients in their own type
	 * instead of fp32 (training/_distributed.py, shard_model of 0.6) */
	p4d_reader__doubt(r, "modules",
			  "p4d counts torchtune's modules like the modules of another program, so the "
			  "prediction is unvalidated");
	if (p4d_reader__set(&r->extra[P4D_FINETUNE_FSDP_OFFLOAD]))
		p4d_reader__put(r, P4D_OFFLOAD, &r->extra[P4D_FINETUNE_FSDP_OFFLOAD], "params");
	if (p4d_reader__set(&r->extra[P4D_FINETUNE_PARAM_DTYPE]))
		p4d_reader__put(r, P4D_PRECISION, &r->extra[P4D_FINETUNE_PARAM_DTYPE], "%s",
				r->extra[P4D_FINETUNE_PARAM_DTYPE].text);
	p4d_finetune__finish(r);
}

static const struct {
	const char *name, *component, *batch, *steps, *rank, *optimizer, *switches;
} tune_configs[] = {
#define CONFIG(name, component, batch, steps, rank, optimizer, switches) \
	{name, component, batch, steps, rank, optimizer, switches},
#include "reader/torchtune_configs.def"
#undef CONFIG
};

/* Reads a configuration that torchtune ships, and sets the values of its file. */
static bool find_tune_config(p4d_reading *r, const p4d_read_argument *a, const p4d_read_given *given)
{
	(void)a;
	for (size_t i = 0; i < sizeof(tune_configs) / sizeof(tune_configs[0]); i++) {
		const char *const switches = tune_configs[i].switches;
		const bool adapted = *tune_configs[i].rank;
		const char *const values[][2] = {
		    {"--model._component_", tune_configs[i].component},
		    {"--batch_size", tune_configs[i].batch},
		    {"--gradient_accumulation_steps", tune_configs[i].steps},
		    {"--model.lora_rank", tune_configs[i].rank},
		    {"--model.lora_attn_modules", adapted ? "q_proj,v_proj,output_proj" : ""},
		    {"--model.apply_lora_to_mlp", adapted ? "true" : ""},
		    {"--optimizer._component_", tune_configs[i].optimizer},
		    {"--loss._component_", "torchtune.modules.loss.CEWithChunkedOutputLoss"},
		    {"--dtype", "bf16"},
		    {"--enable_activation_checkpointing", strchr(switches, 'r') ? "true" : "false"},
		    {"--enable_activation_offloading", strchr(switches, 'a') ? "true" : ""},
		    {"--optimizer_in_bwd", strchr(switches, 'b') ? "true" : ""},
		    {"--fsdp_cpu_offload", strchr(switches, 'p') ? "true" : ""},
		};
		if (strcmp(tune_configs[i].name, given->value) != 0)
			continue;
		for (size_t j = 0; j < sizeof(values) / sizeof(values[0]); j++) {
			const p4d_read_given value = {.name = values[j][0] + 2,
						      .value = values[j][1],
						      .file = given->file,
						      .line = given->line};
			if (*values[j][1])
				p4d_reader__take(r, p4d_reader__find(r->reader, values[j][0]), &value);
		}
		return true;
	}
	return false;
}

static const char *const tune_bounds[] = {"--tokenizer.max_seq_len", "", NULL};

const p4d_reader p4d_reader__torchtune = {
    .framework = "torchtune",
    .programs = {"full_finetune_distributed", "full_finetune_single_device", "lora_finetune_distributed",
		 "lora_finetune_single_device", "full_finetune_distributed.py",
		 "full_finetune_single_device.py", "lora_finetune_distributed.py",
		 "lora_finetune_single_device.py"},
    .release = "torchtune 0.6.1",
    .arguments = {tune_arguments},
    .assignments = true,
    .shipped = find_tune_config,
    .bounds = tune_bounds,
    .filling = p4d_finetune__filling,
    .finish = finish_tune,
};

static const char *const quants[] = {"bnb.nf4", "nf4", "bnb.nf4-dq", "nf4", "bnb.int8", "int8", NULL};
static const char *const litgpt_optimizers[] = {"AdamW",
						"adamw",
						"Adam",
						"adamw",
						"SGD",
						"sgd",
						"torch.optim.AdamW",
						"adamw",
						"bitsandbytes.optim.PagedAdamW",
						"",
						NULL};

static const p4d_read_argument litgpt_arguments[] = {
    {"", P4D_MODEL, NULL, NULL},
    {"--config", P4D_READ_FILE, "", NULL},
    {"--checkpoint_dir", P4D_MODEL, NULL, NULL},
    {"--model_name", P4D_MODEL, NULL, NULL},
    {"--precision", P4D_READ_EXTRA(LIT_PRECISION), NULL, NULL},
    {"--quantize", EXTRA(QUANT), NULL, quants},
    {"--devices", P4D_GPUS_PER_NODE, NULL, NULL},
    {"--num_nodes", P4D_NODES, NULL, NULL},
    {"--lora_r", EXTRA(RANK), NULL, NULL},
    {"--lora_query", P4D_READ_EXTRA(LIT_QUERY), "q_proj", none},
    {"--lora_key", P4D_READ_EXTRA(LIT_KEY), "k_proj", none},
    {"--lora_value", P4D_READ_EXTRA(LIT_VALUE), "v_proj", none},
    {"--lora_projection", P4D_READ_EXTRA(LIT_PROJECTION), "o_proj", none},
    {"--lora_mlp", P4D_READ_EXTRA(LIT_MLP), "gate_proj,up_proj,down_proj", none},
    {"--lora_head", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--train.micro_batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--train.global_batch_size", P4D_GLOBAL_BATCH, NULL, NULL},
    {"--train.max_seq_length", P4D_SEQ_LEN, NULL, NULL},
    {"--optimizer", EXTRA(OPTIMIZER), NULL, litgpt_optimizers},
    {"--optimizer.class_path", EXTRA(OPTIMIZER), NULL, litgpt_optimizers},
    {NULL, 0, NULL, NULL},
};

/* Sets litgpt's default targets: query and value have adapters. */
static void finish_lit_targets(p4d_reading *r)
{
	static const char *const otherwise[] = {"q_proj", "", "v_proj", "", ""};
	char names[128];
	p4d_text text = p4d_text_in(names, sizeof(names));
	const p4d_read_value *place = NULL;

	for (int i = LIT_QUERY; i <= LIT_MLP; i++) {
		const p4d_read_value *v = &r->extra[i];
		const char *name = p4d_reader__set(v) ? v->text : otherwise[i - LIT_QUERY];
		if (v->unknown) {
			p4d_reader__forget(r, P4D_LORA_TARGETS);
			return;
		}
		if (p4d_reader__set(v))
			place = v;
		if (*name && strcmp(name, "none") != 0)
			p4d_text_entry(&text, ",", "%s", name);
	}
	if (place && *names) {
		r->extra[P4D_FINETUNE_TARGETS] = *place;
		memcpy(r->extra[P4D_FINETUNE_TARGETS].text, names, strlen(names) + 1);
	}
}

/* Sets precision and type of parameters: "bf16-true" stores parameters in bf16, "bf16-mixed" in fp32. */
static void finish_lit_precision(p4d_reading *r)
{
	static const char *const names[][3] = {
	    {"bf16-true", "bf16", "bf16"}, {"bf16-mixed", "bf16", "fp32"}, {"32-true", "fp32", "fp32"},
	    {"16-true", "fp16", NULL},     {"16-mixed", "fp16", NULL},
	};
	const p4d_read_value *v = &r->extra[LIT_PRECISION];
	size_t i = 0;

	if (v->unknown)
		p4d_reader__forget(r, P4D_PRECISION);
	if (!p4d_reader__set(v))
		return;
	while (i < sizeof(names) / sizeof(names[0]) && !p4d_reader__is(v, names[i][0]))
		i++;
	if (i == sizeof(names) / sizeof(names[0])) {
		p4d_reader__forget(r, P4D_PRECISION);
		p4d_reader__unknown(r, "precision", "--precision %.60s is not modelled", v->text);
		return;
	}
	p4d_reader__put(r, P4D_PRECISION, v, "%s", names[i][1]);
	if (names[i][2])
		p4d_reader__put(r, P4D_PARAM_DTYPE, v, "%s", names[i][2]);
}

/*
 * Sets litgpt's strategy. With several GPUs, it shards parameters and recomputes layers. `pretrain` differs:
 * it shards only within a node.
 */
static void finish_lit_strategy(p4d_reading *r, bool pretrain)
{
	const p4d_read_value *gpus = &r->value[P4D_GPUS_PER_NODE], *nodes = &r->value[P4D_NODES];
	const uint64_t each = p4d_reader__number(gpus),
		       all = each * (p4d_reader__set(nodes) ? p4d_reader__number(nodes) : 1);

	p4d_reader__put_default(r, P4D_MODEL_CODE, "litgpt");
	if (gpus->unknown || nodes->unknown || (p4d_reader__set(gpus) && !each)) /* "auto" gives no number */
		return;
	if (all > 1)
		p4d_reader__put_default(r, P4D_FRAMEWORK, "fsdp");
	p4d_reader__put_default(r, P4D_RECOMPUTE, all > 1 && !pretrain ? "full" : "none");
	if (pretrain && each > 1 && all > each)
		p4d_reader__put_default(r, P4D_SHARD_DEGREE, "%s", gpus->text);
}

/* Sets the model from a folder: litgpt downloads the hub's model to "checkpoints/meta-llama/Llama-3.2-1B". */
static void finish_litgpt(p4d_reading *r)
{
	p4d_read_value *model = &r->value[P4D_MODEL], *lora = &r->extra[P4D_FINETUNE_LORA];
	static const char folder[] = "checkpoints/";
	const size_t length = sizeof(folder) - 1;
	const bool pretrain = strstr(r->program, "pretrain");

	if (p4d_reader__set(model) && !strncmp(model->text, folder, length) && model->text[length])
		memmove(model->text, model->text + length, strlen(model->text + length) + 1);
	if (strstr(r->program, "adapter")) {
		p4d_reader__forget(r, P4D_FINETUNE);
		p4d_reader__unknown(r, "finetune", "LLaMA-Adapter is not modelled");
	} else if (strcmp(r->program, "litgpt finetune") == 0 || strstr(r->program, "lora")) {
		*lora = (p4d_read_value){.file = r->file, .line = r->line};
		snprintf(lora->text, sizeof(lora->text), "lora");
	}
	if (pretrain && r->by_default[P4D_MICRO_BATCH])
		p4d_reader__put_default(r, P4D_MICRO_BATCH, "4");
	finish_lit_strategy(r, pretrain);
	finish_lit_precision(r);
	finish_lit_targets(r);
	p4d_finetune__finish(r);
	if (r->by_default[P4D_GLOBAL_BATCH] || !r->value[P4D_GLOBAL_BATCH].file)
		p4d_reader__put_default(r, P4D_GLOBAL_BATCH, pretrain ? "512" : "16");
	if (p4d_reader__is(lora, "lora") && p4d_reader__is(&r->value[P4D_PARAM_DTYPE], "bf16") &&
	    !p4d_reader__is(&r->value[P4D_FRAMEWORK], "fsdp"))         /* FSDP casts parameters by itself */
		p4d_reader__put_default(r, P4D_ADAPTER_DTYPE, "bf16"); /* adapters have the model's type */
	p4d_finetune__adapter(r, "8", "q_proj,v_proj",
			      false); /* litgpt's lora_query and lora_value are on by default */
}

/* Defaults of litgpt's commands, in the precision for GPUs with bf16. */
static const p4d_read_default litgpt_defaults[] = {
    {P4D_MICRO_BATCH, "1"},
    {P4D_PRECISION, "bf16"},
    {P4D_PARAM_DTYPE, "fp32"},
    {0, NULL},
};

static const char *const litgpt_bounds[] = {"--train.max_seq_length", "", NULL};
static const p4d_read_filling litgpt_filling[] = {{P4D_READ_PROGRAM, "pretrain", true}, {0, NULL, false}};

const p4d_reader p4d_reader__litgpt = {
    .framework = "litgpt",
    .release = "litgpt 0.5",
    .programs = {"litgpt finetune*", "litgpt pretrain"},
    .arguments = {litgpt_arguments},
    .defaults = litgpt_defaults,
    .bounds = litgpt_bounds,
    .filling = litgpt_filling,
    .finish = finish_litgpt,
};
