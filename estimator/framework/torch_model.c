/* SPDX-License-Identifier: Apache-2.0 */
/* The models, and parts of models, for which p4d has formulas in PyTorch's frameworks. */
#include <inttypes.h>

#include "framework/torch.h"
#include "request/architecture.h"
#include "request/framework.h"
#include "request/layers.h"

enum { MOST_LAYERS = 1024, MOST_CHUNKS = 512 };

p4d_torch_types p4d_torch__types(const p4d_layout *l)
{
	const bool single = l->precision == P4D_FP32;

	return (p4d_torch_types){.element = single ? 4 : 2,
				 .param = l->torch.param_dtype == P4D_PARAM_FP32 || single ? 4 : 2,
				 .reduced = l->grad_dtype == P4D_GRAD_FP32 ? 4 : 2};
}

/*
 * Checks FP8 with torchtitan's converter to torchao's Float8Linear. p4d has no formulas for FP8 in the HF
 * Trainer and similar programs.
 */
static int check_fp8(const p4d_request *r, p4d_error *err)
{
	const int64_t recipe = r->value[P4D_FP8_RECIPE];
	char name[16];

	if (r->value[P4D_PRECISION] != P4D_FP8)
		return 0;
	if (p4d_framework_of((int)r->value[P4D_FRAMEWORK])->sharing != P4D_SHARES_UNITS ||
	    r->value[P4D_MODEL_CODE] != P4D_MODEL_CODE_TORCHTITAN)
		return p4d_fail(err, P4D_E_UNMODELLED,
				"precision=fp8: among PyTorch's programs, p4d models it only in torchtitan");
	if (!p4d_is_set(r, P4D_FP8_RECIPE) || recipe == P4D_FP8_CURRENT ||
	    (recipe == P4D_FP8_ROWWISE && !r->value[P4D_FP8_PARAM_GATHER]))
		return 0;
	if (recipe == P4D_FP8_ROWWISE) {
		p4d_fail(err, P4D_E_VALUE,
			 "fp8-param-gather: torchao gathers only FP8 tensors that have a single scale");
		return p4d_fix(err, "--p4d-fp8-recipe=current");
	}
	p4d_fail(err, P4D_E_UNMODELLED, "fp8-recipe=%s: in torchtitan p4d models only current and rowwise",
		 p4d_request_value_text(r, P4D_FP8_RECIPE, name, sizeof(name)));
	return p4d_fix(err, "--p4d-fp8-recipe=current");
}

/* Checks models with experts or latent attention. */
static int check_sparse(const p4d_request *r, p4d_error *err)
{
	const bool titan = r->value[P4D_MODEL_CODE] == P4D_MODEL_CODE_TORCHTITAN;
	if (r->value[P4D_MODEL_CODE] != P4D_MODEL_CODE_TRANSFORMERS && p4d_is_set(r, P4D_CHUNKED_LOSS) &&
	    r->value[P4D_CHUNKED_LOSS] > P4D_LOSS_CHUNKED) {
		p4d_fail(err, P4D_E_VALUE, "chunked-loss: TRL trains transformers' modules");
		return p4d_fix(err, "--p4d-model-code=transformers");
	}
	const char *program = p4d_framework_of((int)r->value[P4D_FRAMEWORK])->program;
	const char *what = NULL;

	if (p4d_is_set(r, P4D_EXPERT_CAPACITY))
		return p4d_fail(err, P4D_E_UNMODELLED, "expert-capacity: p4d does not model it with %s",
				program);
	if (p4d_is_stated(r, P4D_MTP_LAYERS))
		return p4d_fail(err, P4D_E_UNMODELLED,
				"mtp-layers: p4d does not model multi-token prediction with %s", program);
	if (titan && p4d_architecture_of(r)->attention_sinks) {
		p4d_fail(err, P4D_E_UNMODELLED,
			 "%.80s has attention sinks and biases of experts, which p4d does not model in %s",
			 r->model, program);
		return p4d_fix(err, "--p4d-model-code=transformers");
	}
	/* among transformers' models, only Nemotron 3 has layers of these kinds */
	const bool nemotron =
	    p4d_architecture_of(r)->single_blocks && r->value[P4D_MODEL_CODE] == P4D_MODEL_CODE_TRANSFORMERS;
	if (p4d_is_set(r, P4D_EXPERTS) && !r->value[P4D_GLU] && !nemotron)
		what = "experts without a gate";
	else if (r->value[P4D_MODEL_CODE] == P4D_MODEL_CODE_LITGPT)
		what = p4d_is_set(r, P4D_EXPERTS) ? "experts" : "latent attention";
	else if (titan && r->value[P4D_TP] > 1 && p4d_is_stated(r, P4D_SEQUENCE_PARALLEL) &&
		 !r->value[P4D_SEQUENCE_PARALLEL]) {
		p4d_fail(err, P4D_E_UNMODELLED,
			 "sequence-parallel=off: p4d can predict torchtitan's experts and latent attention "
			 "only if "
			 "sequence parallelism is on");
		return p4d_fix(err, "--p4d-sequence-parallel=on");
	} else if (titan && r->value[P4D_TIED])
		what = "tied embeddings together with experts or latent attention";
	else if (titan && r->value[P4D_PRECISION] == P4D_FP8)
		what = "experts or latent attention in FP8";
	return what ? p4d_fail(err, P4D_E_UNMODELLED, "%.80s has %s, which p4d does not model in %s",
			       r->model, what, program)
		    : 0;
}

/* The first feature of a hybrid model in transformers' modules that p4d does not model; NULL: none. */
static const char *unmodelled_hybrid(const p4d_request *r)
{
	const bool adapters = p4d_is_set(r, P4D_FINETUNE) && r->value[P4D_FINETUNE] != P4D_TUNE_FULL;
	const bool lora = adapters && r->value[P4D_FINETUNE] == P4D_TUNE_LORA;

	return r->value[P4D_MODEL_CODE] != P4D_MODEL_CODE_TRANSFORMERS ? "state-space layers"
	       : adapters && !lora                                     ? "quantized state-space layers"
	       : lora && p4d_is_set(r, P4D_EXPERTS) ? "adapters of experts in hybrid models"
						    : NULL;
}

/* Checks memory layers (P4D_FEED_MEMORY), which p4d models only with some other options. */
static int check_memory(const p4d_request *r, p4d_error *err)
{
	const char *program = p4d_framework_of((int)r->value[P4D_FRAMEWORK])->program;
	static const struct {
		p4d_option option;
		int64_t value;
	} alone[] = {{P4D_TP, 1}, {P4D_PP, 1}, {P4D_OFFLOAD, 0}, {P4D_PRECISION, P4D_BF16}};
	char value[32];

	if (r->value[P4D_MODEL_CODE] != P4D_MODEL_CODE_TORCHTITAN ||
	    !p4d_framework_of((int)r->value[P4D_FRAMEWORK])->trains_other_modules) {
		p4d_fail(err, P4D_E_UNMODELLED,
			 "memory layers: p4d models them only with torchtitan's modules");
		return p4d_fix(err, "--p4d-framework=fsdp --p4d-model-code=torchtitan");
	}
	if (p4d_is_sparse(r) || r->value[P4D_TIED])
		return p4d_fail(err, P4D_E_UNMODELLED,
				"memory layers: with %s p4d models them only if the model has no experts, "
				"latent attention and tied embeddings",
				program);
	for (size_t i = 0; i < sizeof(alone) / sizeof(*alone); i++) {
		const p4d_option option = alone[i].option;
		const char *name = p4d_request_option_info(option)->name;
		if (!p4d_is_set(r, option) || r->value[option] == alone[i].value)
			continue;
		p4d_fail(err, P4D_E_UNMODELLED,
			 "%s=%s: with %s p4d does not model this option for memory layers", name,
			 p4d_request_value_text(r, option, value, sizeof(value)), program);
		return option == P4D_OFFLOAD || option == P4D_PRECISION
			   ? -1
			   : p4d_fix(err, "--p4d-%s=%" PRId64, name, alone[i].value);
	}
	return 0;
}

/*
 * Checks layers that share parameters. They have no gradients if only adapters are trained, and every rank
 * has a copy.
 */
static int check_groups(const p4d_request *r, p4d_error *err)
{
	const bool lora = p4d_is_set(r, P4D_FINETUNE) && r->value[P4D_FINETUNE] == P4D_TUNE_LORA;

	if (!lora || p4d_framework_of((int)r->value[P4D_FRAMEWORK])->sharing != P4D_SHARES_NOTHING ||
	    r->value[P4D_MODEL_CODE] != P4D_MODEL_CODE_TRANSFORMERS) {
		p4d_fail(
		    err, P4D_E_UNMODELLED,
		    "layer-groups: p4d models layers that share parameters only with LoRA adapters and DDP");
		return p4d_fix(err, "--p4d-framework=ddp --p4d-finetune=lora");
	}
	if (p4d_is_sparse(r) || p4d_is_set(r, P4D_LAYER_PATTERN) || !r->value[P4D_TIED])
		return p4d_fail(err, P4D_E_UNMODELLED,
				"layer-groups: p4d does not model them together with experts, latent "
				"attention, a layer-pattern or an untied head");
	return 0;
}

int p4d_torch__check_model(const p4d_request *r, p4d_error *err)
{
	const bool remembers = p4d_layers_remember(r);
	const bool hybrid =
	    (p4d_is_set(r, P4D_LAYER_PATTERN) && !remembers) || p4d_architecture_of(r)->single_blocks;
	const char *difference = hybrid ? unmodelled_hybrid(r) : p4d_architecture_block_difference(r);

	if (p4d_is_set(r, P4D_LAYER_GROUPS) && check_groups(r, err) < 0)
		return -1;
	if ((remembers && check_memory(r, err) < 0) || check_fp8(r, err) < 0 ||
	    (p4d_is_sparse(r) && check_sparse(r, err) < 0))
		return -1;
	/* slurmctld must not wait for deeper models, because p4d visits layers one by one */
	if (r->value[P4D_LAYERS] > MOST_LAYERS)
		return p4d_fail(err, P4D_E_UNMODELLED, "layers=%" PRId64 ": p4d models up to %d in %s",
				r->value[P4D_LAYERS], MOST_LAYERS,
				p4d_framework_of((int)r->value[P4D_FRAMEWORK])->program);
	/* pp * vpp cannot overflow, because both are at most 1,024 */
	const bool chunks = p4d_is_set(r, P4D_PP) && p4d_is_set(r, P4D_VPP) && r->value[P4D_VPP] > 1;
	if (chunks && r->value[P4D_PP] * r->value[P4D_VPP] > MOST_CHUNKS)
		return p4d_fail(err, P4D_E_UNMODELLED,
				"pp=%" PRId64 " vpp=%" PRId64
				": p4d models pipelines of torchtitan with at most %d chunks (pp x vpp)",
				r->value[P4D_PP], r->value[P4D_VPP], MOST_CHUNKS);
	const bool titan = r->value[P4D_MODEL_CODE] == P4D_MODEL_CODE_TORCHTITAN;
	if (!titan && !hybrid)
		return 0;
	if (titan && p4d_is_set(r, P4D_ATTENTION) && !r->value[P4D_ATTENTION])
		return p4d_fail(err, P4D_E_VALUE,
				"attention=unfused: torchtitan has only PyTorch's fused attention");
	if (!difference)
		return 0;
	p4d_fail(err, P4D_E_UNMODELLED, "%.80s has %s, which p4d does not model in %s", r->model, difference,
		 p4d_framework_of((int)r->value[P4D_FRAMEWORK])->program);
	return p4d_fix(err, r->value[P4D_MODEL_CODE] == P4D_MODEL_CODE_TRANSFORMERS
				? "--p4d-finetune=full"
				: "--p4d-model-code=transformers");
}
