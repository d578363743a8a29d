/* SPDX-License-Identifier: Apache-2.0 */
/* Megatron-Core as ms-swift 4 runs it, with models of the hub (swift/megatron/arguments/megatron_args.py). */
#include <string.h>

#include "reader/read_finetune.h"
#include "reader/read_megatron.h"

static const char *const tuners[] = {"full", "full", "lora", "lora", NULL};
static const char *const on[] = {"true", "", "True", "", NULL};
static const char *const off[] = {"off"};
static const char *const masked[] = {"on"}; /* sequences that are not packed need an attention mask */
static const char *const backends[] = {"flash", "flash", "flash_2", "flash",   "flash_3",
				       "flash", "fused", "flash",   "unfused", "unfused",
				       "auto",  "flash", "local",   "unfused", NULL};

enum { PACKING = P4D_READ_EXTRA(P4D_READ_EXTRAS - 1) };

/* Arguments with other names or other meanings than in Megatron-LM. */
static const p4d_read_argument arguments[] = {
    {"--config", P4D_READ_FILE, "", NULL},
    {"--model", P4D_MODEL, NULL, NULL},
    {"--tuner_type", P4D_FINETUNE, NULL, tuners},
    {"--train_type", P4D_FINETUNE, NULL, tuners},
    {"--lora_rank", P4D_LORA_RANK, NULL, NULL},
    {"--target_modules", P4D_LORA_TARGETS, NULL, p4d_reader__list},
    {"--max_length", P4D_SEQ_LEN, NULL, NULL},
    {"--packing", PACKING, "on", off},
    {"--virtual_pipeline_model_parallel_size", P4D_VPP, NULL, NULL},
    {"--num_layers_per_virtual_pipeline_stage", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--sequence_parallel", P4D_SEQUENCE_PARALLEL, "on", off},
    {"--use_distributed_optimizer", P4D_OPTIMIZER_SHARDING, "on", off},
    {"--gradient_accumulation_fusion", P4D_TE_WGRAD, "on", off},
    {"--padding_free", P4D_ATTENTION_MASK, "off", masked},
    {"--moe_grouped_gemm", P4D_READ_NOT_MODELLED, NULL, on},
    {"--torch_dtype", P4D_PRECISION, NULL, p4d_finetune__dtypes},
    {"--attention_backend", P4D_ATTENTION, NULL, backends},
    {"--task_type", P4D_READ_NOT_MODELLED, NULL, p4d_swift__tasks},
    {"--freeze_llm", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--freeze_parameters", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--freeze_parameters_regex", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--freeze_parameters_ratio", P4D_READ_NOT_MODELLED, NULL, p4d_swift__none},
    {"--adapters", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--mcore_adapter", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--megatron_extra_kwargs", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--extra_megatron_kwargs", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--nodes", P4D_NODES, NULL, NULL},
    {"--gpus-per-node", P4D_GPUS_PER_NODE, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

static const p4d_read_default defaults[] = {
    {P4D_TP, "1"},
    {P4D_PP, "1"},
    {P4D_CP, "1"},
    {P4D_MICRO_BATCH, "1"},
    {P4D_GLOBAL_BATCH, "16"},
    {P4D_SEQUENCE_PARALLEL, "off"},
    {P4D_OPTIMIZER_SHARDING, "on"},
    {P4D_PRECISION, "bf16"}, /* defaults of models from the hub */
    {P4D_DROPOUT, "off"},
    {P4D_RECOMPUTE, "selective"},
    {P4D_CROSS_ENTROPY, "unfused"},
    {0, NULL},
};

/* Sets recomputation. --recompute-modules alone turns it on, because there is no default granularity. */
static void finish_granularity(p4d_reading *r)
{
	p4d_read_value *granularity = p4d_reader__slot(r, P4D_MEGATRON_GRANULARITY);
	const p4d_read_value *modules = p4d_reader__slot(r, P4D_MEGATRON_MODULES);

	if (!p4d_reader__set(granularity) && !granularity->unknown && p4d_reader__set(modules)) {
		*granularity = *modules;
		memcpy(granularity->text, "selective", sizeof("selective"));
	} else if (p4d_reader__is(granularity, "none")) {
		p4d_reader__put(r, P4D_RECOMPUTE, granularity, "none");
		*granularity = (p4d_read_value){.file = NULL};
	}
}

/* Leaves out options for adapters if no adapters are trained. */
static void finish_adapter(p4d_reading *r)
{
	const p4d_read_value *method = &r->value[P4D_FINETUNE];

	if (p4d_reader__is(method, "lora")) {
		p4d_reader__unknown(r, method->argument + strspn(method->argument, "-"),
				    "adapters with Megatron-Core are not modelled");
		p4d_reader__forget(r, P4D_FRAMEWORK);
	} else if (!method->unknown) {
		r->value[P4D_LORA_RANK] = r->value[P4D_LORA_TARGETS] = (p4d_read_value){.file = NULL};
	}
}

static const char *const bounds[] = {"--max_length", NULL};
static const p4d_read_filling filling[] = {
    {PACKING, "on", true}, {PACKING, "off", false}, {P4D_READ_PROGRAM, "pt", true}, {0, NULL, false}};

static void finish(p4d_reading *r)
{

	finish_adapter(r);
	if (strstr(r->program, "rlhf")) {
		p4d_finetune__reinforcement(r);
		return;
	}
	finish_granularity(r);
	p4d_megatron__finish_training(r);
	p4d_megatron__finish_dispatcher(r);
	if (!p4d_reader__set(&r->value[P4D_ETP]) && p4d_reader__set(&r->value[P4D_EP]))
		p4d_reader__put_default(r, P4D_ETP, "1");
	if (r->value[P4D_FRAMEWORK].unknown)
		return;
	if (r->named)
		p4d_reader__put_default(r, P4D_FRAMEWORK, "megatron");
	p4d_reader__doubt(r, "loss",
			  "p4d counts ms-swift's own loss like the loss of Megatron-LM; ms-swift's examples "
			  "needed up to 5 GiB more, or 11 to 14 GiB without tp");
}

const p4d_reader p4d_reader__swift_megatron = {
    .framework = "megatron-swift",
    .release = "swift 4",
    .programs = {"megatron sft", "megatron pt", "megatron rlhf", "swift/cli/_megatron/sft.py",
		 "swift/cli/_megatron/pt.py", "swift/cli/_megatron/rlhf.py"},
    .arguments = {arguments, p4d_reader__megatron_arguments},
    .defaults = defaults,
    .variables = p4d_swift__processes,
    .bounds = bounds,
    .filling = filling,
    .finish = finish,
};
