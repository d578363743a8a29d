/* SPDX-License-Identifier: Apache-2.0 */
#include "request/heeds.h"

#include <stdio.h>
#include <string.h>

#include "request/framework.h"

#define ANY P4D_HEEDS_TRAIN
#define NONE P4D_NO_MEANING
#define OF_FSDP (P4D_HEEDS_TORCHTITAN | P4D_HEEDS_FSDP)
enum { REASONS = 3 };

#define NOT_FSDP \
	{ \
		ANY, NONE, "%s is not FSDP", false \
	}
#define PREFETCHES \
	{ \
		P4D_HEEDS_TORCHTITAN, NONE, "FSDP2 always prefetches the next unit", false \
	}
#define NO_ADAPTERS \
	{ \
		P4D_HEEDS_MEGATRON, NONE, "with %s p4d does not model adapters", false \
	}
/* Parallel degrees, which programs that do not split a model do not have. */
#define WHOLE \
	{ \
		{P4D_HEEDS_DDP, 1, "with %s every GPU has a copy of the model", false}, \
		    {P4D_HEEDS_DEEPSPEED, 1, "with %s p4d models only data parallelism", false}, \
		{ \
			P4D_HEEDS_FSDP, 1, \
			    "with %s p4d models data parallelism " \
			    "only, except for torchtitan's modules", \
			    false \
		} \
	}

/*
 * Why an option has no effect in a framework, and the framework's value instead. The first row for a
 * framework counts. options.def lists the frameworks in which an option has an effect. For an option without
 * a row, the framework has the option's default, and p4d refuses the option if the user gives it: "it has no
 * effect with DDP".
 */
static const p4d_heeds_reason reasons[P4D_OPTIONS][REASONS] = {
    [P4D_TP] = WHOLE,
    [P4D_PP] = WHOLE,
    [P4D_CP] = WHOLE,
    [P4D_TP_GRID] = {{ANY, NONE, "%s splits matrices in one dimension", false}},
    [P4D_CP_COMM] = {{P4D_HEEDS_TORCHTITAN, P4D_CP_ALL_GATHER, "torchtitan gathers keys and values", false}},
    [P4D_CP_HEADS] = {{P4D_HEEDS_P4DTRAIN, NONE, "%s exchanges keys and values", false},
		      {ANY, NONE, "%s does not exchange heads", false}},
    [P4D_EP] = {{P4D_HEEDS_MODULES, 1, "in the transformers library every rank has all experts", false}},
    [P4D_ETP] = {{P4D_HEEDS_PYTORCH, 1, "with %s p4d does not model sharded experts", false}},
    [P4D_TOKEN_DISPATCHER] = {{P4D_HEEDS_PYTORCH, P4D_ALL_TO_ALL,
			       "with %s p4d models only the all-to-all dispatcher", false}},
    [P4D_SHARED_OVERLAP] = {{P4D_HEEDS_PYTORCH, 0, "shared experts run after the tokens are exchanged",
			     false}},
    [P4D_EVAL_MICRO_BATCH] = {{P4D_HEEDS_TORCHTITAN, NONE,
			       "torchtitan evaluates in the micro-batches of training; see --p4d-model-code",
			       true},
			      {ANY, NONE, "%s evaluates in the micro-batches of training", true}},
    [P4D_TOKEN_SLICES] = {{P4D_HEEDS_MEGATRON, NONE, "only p4d-train slices sequences", false},
			  {ANY, NONE, "only p4d-train slices sequences", false}},
    [P4D_LOCAL_LOSS] = {{ANY, NONE, "%s has only one loss, on the last stage", false}},
    [P4D_RECOMPUTE_METHOD] = {{P4D_HEEDS_P4DTRAIN, P4D_RECOMPUTE_UNIFORM, "%s recomputes all layers", false},
			      {ANY, P4D_RECOMPUTE_UNIFORM, "all layers are recomputed", false}},
    [P4D_RECOMPUTE_LAYERS] = {{P4D_HEEDS_P4DTRAIN, 1, "%s recomputes one layer at a time", false},
			      {ANY, 1, "layers are recomputed one at a time", false}},
    [P4D_OPTIMIZER_SHARDING] = {{ANY, NONE, "with %s, use --zero-stage", false}},
    [P4D_GRAD_DTYPE] = {{ANY, P4D_GRAD_FP32, "%s accumulates gradients in fp32", false}},
    [P4D_OPTIMIZER_DTYPE] = {{ANY, NONE, "moments have the dtype of the parameters (--param-dtype)", false}},
    [P4D_MASTER_DTYPE] = {{P4D_HEEDS_P4DTRAIN, P4D_STATE_FP32, "%s keeps master weights in fp32", false},
			  {ANY, NONE, "%s has no such option; see --param-dtype", false}},
    [P4D_ADAM_COPIES] = {{P4D_HEEDS_P4DTRAIN, NONE, "%s makes no copies of moments", false},
			 {ANY, NONE,
			  "%s does not use Transformer Engine's optimizer, which makes these copies", false}},
    [P4D_SHARD_DEGREE] = {{P4D_HEEDS_MEGATRON, NONE, "%s shards the optimizer over all dp*cp ranks", false},
			  {P4D_HEEDS_DEEPSPEED, NONE, "p4d models ZeRO only over all data-parallel ranks",
			   false},
			  {P4D_HEEDS_DDP, NONE, "%s shards nothing", false}},
    [P4D_FSDP_VERSION] = {{P4D_HEEDS_TORCHTITAN, NONE, "torchtitan runs FSDP2", false}, NOT_FSDP},
    [P4D_RESHARD] = {{P4D_HEEDS_P4DTRAIN, NONE,
		      "with %s, optimizer-sharding=gradients keeps parameters gathered for a whole step",
		      false},
		     {P4D_HEEDS_TORCHTITAN, NONE, "p4d models only torchtitan's default", false},
		     NOT_FSDP},
    [P4D_ORIG_PARAMS] = {{P4D_HEEDS_TORCHTITAN, NONE, "FSDP2 always keeps the model's own parameters", false},
			 NOT_FSDP},
    [P4D_BACKWARD_PREFETCH] = {PREFETCHES, NOT_FSDP},
    [P4D_FORWARD_PREFETCH] = {PREFETCHES, NOT_FSDP},
    [P4D_ZERO_BUCKET] = {{OF_FSDP, NONE, "%s reduces all gradients of a unit together", false},
			 {P4D_HEEDS_DDP, NONE, "%s shards nothing", false},
			 {ANY, NONE, "only DeepSpeed has gradient buckets of this kind", false}},
    [P4D_ZERO_STAGE] = {{OF_FSDP, 3, "%s shards parameters, gradients and optimizer, as stage 3 does", false},
			{P4D_HEEDS_DDP, 0, "%s shards nothing", false},
			{ANY, NONE, "with %s, use --optimizer-sharding", false}},
    [P4D_OPTIMIZER] = {{ANY, P4D_ADAMW, "with %s p4d models only AdamW", false}},
    [P4D_OPTIMIZER_FOREACH] = {{ANY, NONE, "the optimizer of %s updates all parameters in one kernel",
				false}},
    [P4D_PARAM_DTYPE] = {{ANY, NONE, "%s stores parameters in --precision", false}},
    [P4D_OFFLOAD] = {{ANY, 0, "with %s p4d does not model offloading", false}},
    [P4D_RESIDENT_LAYERS] = {{ANY, NONE, "with %s p4d does not model resident layers", false}},
    [P4D_FINETUNE] = {{P4D_HEEDS_MEGATRON, P4D_TUNE_FULL, "with %s p4d does not model adapters", false}},
    [P4D_LORA_RANK] = {NO_ADAPTERS},
    [P4D_ADAPTER_DTYPE] = {{P4D_HEEDS_P4DTRAIN, NONE, "%s stores adapters in --precision", false},
			   NO_ADAPTERS},
    [P4D_LORA_DROPOUT] = {{P4D_HEEDS_MEGATRON, NONE, "with %s p4d models adapters only without dropout",
			   false}},
    [P4D_QUANT] = {{P4D_HEEDS_P4DTRAIN, NONE, "%s always quantizes to nf4", false},
		   {P4D_HEEDS_MEGATRON, P4D_QUANT_NONE, "with %s p4d does not model quantized weights",
		    false}},
    [P4D_AUTOCAST] = {{P4D_HEEDS_TORCHTITAN, 1, "%s converts dtypes in its modules, without autocast", true},
		      {ANY, NONE, "%s converts dtypes in its modules, without autocast", false}},
    [P4D_ACCOUNT_FOR_EMBEDDING] =
	{{P4D_HEEDS_P4DTRAIN, 0,
	  "%s counts only layers when the model is divided into stages; see --p4d-pipeline-split", false}},
    [P4D_ACCOUNT_FOR_LOSS] =
	{{P4D_HEEDS_P4DTRAIN, 0,
	  "%s counts only layers when the model is divided into stages; see --p4d-pipeline-split", false}},
    [P4D_FP8_PARAM_GATHER] = {{P4D_HEEDS_P4DTRAIN, NONE, "%s always gathers parameters in --precision",
			       false}},
    [P4D_ATTENTION] = {{ANY, 1, "%s has only fused attention", true}},
    [P4D_CROSS_ENTROPY] = {{P4D_HEEDS_P4DTRAIN, 1, "%s has only a fused loss", true},
			   {ANY, 0, "the program uses PyTorch's loss; see --chunked-loss", false}},
    [P4D_SWIGLU] = {{ANY, 0, "the program uses the SwiGLU of PyTorch or of torch.compile", false}},
    [P4D_DROPOUT] = {{ANY, 0, "p4d models this program only without dropout", false}},
    [P4D_ATTENTION_DROPOUT] = {{P4D_HEEDS_P4DTRAIN, NONE, "%s has only fused attention", false},
			       {ANY, NONE, "p4d models this program only without dropout", false}},
    [P4D_TE_WGRAD] = {{P4D_HEEDS_PYTORCH, NONE,
		       "only Transformer Engine keeps dummy buffers for weight gradients", false}},
    [P4D_ATTENTION_MASK] = {{P4D_HEEDS_P4DTRAIN, NONE, "%s's attention needs no mask", false},
			    {ANY, NONE, "%s copies no attention mask to the GPU", false}},
    [P4D_CUDA_GRAPHS] = {{P4D_HEEDS_P4DTRAIN, P4D_GRAPHS_NONE, "%s captures no CUDA graphs", false},
			 {ANY, P4D_GRAPHS_NONE, "p4d models CUDA graphs only in Megatron-LM", false}},
    [P4D_TP_COMM_OVERLAP] = {{ANY, 0, "p4d models this overlap only in Megatron-LM and p4d-train", false}},
    [P4D_OVERLAP_P2P] = {{P4D_HEEDS_P4DTRAIN, 1, "%s overlaps transfers between stages", false},
			 {P4D_HEEDS_TORCHTITAN, 1, "PyTorch's pipelines overlap transfers between stages",
			  false}},
    [P4D_OVERLAP_DP] = {{P4D_HEEDS_P4DTRAIN, 1, "%s overlaps data-parallel communication", false},
			{ANY, 1, "%s overlaps communication with passes", false}},
    [P4D_MODEL_CODE] = {{ANY, NONE, "%s has its own code for the model", false}},
    [P4D_TRANSFORMERS] = {{P4D_HEEDS_TORCHTITAN, NONE, "torchtitan has its own code for the model", false},
			  {ANY, NONE, "%s has its own code for the model", false}},
    [P4D_COMPILE] = {{ANY, NONE, "%s does not compile the model", false}},
    [P4D_CHUNKED_LOSS] = {{ANY, NONE, "%s has only one implementation of the loss", false}},
    [P4D_PACKING] = {{ANY, NONE, "%s always fills sequences completely", false}},
    [P4D_PADDING] = {{ANY, NONE, "%s always fills sequences completely", false}},
    [P4D_ALLOCATOR] = {{ANY, P4D_ALLOCATOR_DEFAULT, "%s does not use PyTorch's allocator", false}},
};

unsigned p4d_heeds__bit(const p4d_request *r, int framework)
{
	return p4d_framework_of(framework)->trains_other_modules && p4d_framework_has_other_modules(r)
		   ? P4D_HEEDS_FSDP
		   : 1u << framework;
}

bool p4d_heeds(const p4d_request *r, int framework, p4d_option option)
{
	return p4d_heeds_by(p4d_heeds__bit(r, framework), option);
}

const p4d_heeds_reason *p4d_heeds__reason_of(unsigned bit, p4d_option option)
{
	if (p4d_heeds_by(bit, option))
		return NULL;
	for (const p4d_heeds_reason *at = reasons[option]; at < reasons[option] + REASONS; at++)
		if (at->of & bit)
			return at;
	return NULL;
}

const p4d_heeds_reason *p4d_heeds_instead(const p4d_request *r, int framework, p4d_option option)
{
	return p4d_heeds__reason_of(p4d_heeds__bit(r, framework), option);
}

const char *p4d_heeds__why(const p4d_heeds_reason *reason, int framework, char *buf, size_t size)
{
	const char *why = reason ? reason->why : "it has no effect with %s", *at = strstr(why, "%s");

	if (at)
		snprintf(buf, size, "%.*s%s%s", (int)(at - why), why, p4d_framework_of(framework)->program,
			 at + 2);
	else
		snprintf(buf, size, "%s", why);
	return buf;
}

bool p4d_heeds__says_nothing(const p4d_request *r, p4d_option option)
{
	return r->value[option] == p4d_request_option_info(option)->number ||
	       p4d_framework_states_nothing(r, option);
}

/* Options of each workload, indexed by P4D_WORKLOAD_*. */
static const struct {
	const char *name;
	unsigned heeds;
} workloads[] = {
    [P4D_WORKLOAD_TRAIN] = {"training", P4D_HEEDS_TRAIN},
    [P4D_WORKLOAD_SERVE] = {"serving", P4D_HEEDS_SERVE},
    [P4D_WORKLOAD_RL] = {"reinforcement learning", P4D_HEEDS_TRAIN | P4D_HEEDS_RL},
    [P4D_WORKLOAD_PREFERENCE] = {"preference learning", P4D_HEEDS_TRAIN | P4D_HEEDS_PREFERENCE},
};

/*
 * Whether the option affects a part of the workload other than training: options of the inference engine in
 * reinforcement learning.
 */
static bool is_of_workload(const p4d_request *r, p4d_option option)
{
	return p4d_heeds_by(workloads[r->value[P4D_WORKLOAD]].heeds & ~(unsigned)P4D_HEEDS_TRAIN, option);
}

/* Whether the option has no effect, although p4d_framework_check does not refuse it. */
static bool is_idle(const p4d_request *r, int framework, p4d_option option)
{
	if (p4d_heeds(r, framework, option) || is_of_workload(r, option) ||
	    p4d_heeds__says_nothing(r, option))
		return false;
	const p4d_heeds_reason *reason = p4d_heeds_instead(r, framework, option);
	return !reason || (reason->of_user && reason->value != r->value[option]);
}

/* If p4d chose the framework: the first framework in which the option has an effect; -1: none. */
static int framework_with(const p4d_request *r, p4d_option option)
{
	if (r->origin[P4D_FRAMEWORK] == P4D_BY_P4D)
		for (int f = 0; f < P4D_FRAMEWORKS; f++)
			if (p4d_heeds(r, f, option))
				return f;
	return -1;
}

int p4d_heeds__check(const p4d_request *r, p4d_error *err)
{
	const int framework = (int)r->value[P4D_FRAMEWORK];
	/* p4d-train itself refuses an option in a script's arguments when it starts */
	const bool of_script = p4d_framework_of(framework)->allocates_plan;
	char why[160], value[64];

	for (p4d_option option = p4d_request_next_stated(r, 0); option < P4D_OPTIONS;
	     option = p4d_request_next_stated(r, option + 1)) {
		if (r->origin[option] == P4D_BY_SCRIPT && !of_script)
			continue;
		/* options of engines cause a warning */
		if (!p4d_heeds_by(P4D_HEEDS_TRAIN, option) || !is_idle(r, framework, option))
			continue;
		p4d_fail(
		    err, P4D_E_VALUE, "%s=%s: %s", p4d_request_option_info(option)->name,
		    p4d_request_value_text(r, option, value, sizeof(value)),
		    p4d_heeds__why(p4d_heeds_instead(r, framework, option), framework, why, sizeof(why)));
		const int other = framework_with(r, option);
		return other < 0
			   ? p4d_fix(err, "leave out --p4d-%s", p4d_request_option_info(option)->name)
			   : p4d_fix(err, "--p4d-framework=%s",
				     p4d_request_choice_name(P4D_FRAMEWORK, other, value, sizeof(value)));
	}
	return 0;
}

/*
 * The user may not have meant such an option: for example, getopt completes "--p4d-gpu=8" to the name of one.
 */
p4d_option p4d_heeds_unused(const p4d_request *r)
{
	const unsigned heeds = workloads[r->value[P4D_WORKLOAD]].heeds;

	for (int i = 0; i < P4D_OPTIONS; i++) {
		const p4d_option option = (p4d_option)i;
		if (r->origin[i] == P4D_BY_USER && !p4d_heeds_by(heeds, option) &&
		    !(p4d_heeds_by(P4D_HEEDS_TRAIN, option) && p4d_heeds__says_nothing(r, option)))
			return option;
	}
	return P4D_OPTIONS;
}

const char *p4d_heeds_unused_text(const p4d_request *r, p4d_option unused, const char *prefix, char *buf,
				  size_t size)
{
	int with = 0; /* the first workload in which the option has an effect */
	char name[16];

	while (!p4d_heeds_by(workloads[with].heeds, unused))
		with++;
	snprintf(buf, size, "%s%s has no effect on %s, only with %sworkload=%s", prefix,
		 p4d_request_option_info(unused)->name, workloads[r->value[P4D_WORKLOAD]].name, prefix,
		 p4d_request_choice_name(P4D_WORKLOAD, with, name, sizeof(name)));
	return buf;
}
