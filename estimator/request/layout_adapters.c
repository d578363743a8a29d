/* SPDX-License-Identifier: Apache-2.0 */
/* The trained parameters of a model: --finetune, --lora-targets and related options. */
#include <string.h>

#include "request/framework.h"
#include "request/layout_internal.h"

/* Families whose modeling files use a name of a linear layer: a mask of 1 << p4d_module_names. */
enum {
	OF_LLAMA = 1 << P4D_MODULES_LLAMA,
	OF_GPT2 = 1 << P4D_MODULES_GPT2,
	OF_PHI3 = 1 << P4D_MODULES_PHI3,
	OF_ALL = OF_LLAMA | OF_GPT2 | OF_PHI3,
	OF_OTHERS = 0
};

/* Names of linear layers in modeling files. */
static const struct {
	const char *name;
	unsigned targets;
	unsigned families;
} names[] = {
    {"all-linear", P4D_TARGET_ALL, OF_ALL},
    {"attention", P4D_TARGET_ATTENTION, OF_ALL},
    {"mlp", P4D_TARGET_ALL - P4D_TARGET_ATTENTION, OF_ALL},
    {"q_proj", P4D_TARGET_Q, OF_LLAMA},
    {"k_proj", P4D_TARGET_K, OF_LLAMA},
    {"v_proj", P4D_TARGET_V, OF_LLAMA},
    {"o_proj", P4D_TARGET_O, OF_LLAMA | OF_PHI3},
    {"gate_proj", P4D_TARGET_GATE, OF_LLAMA},
    {"up_proj", P4D_TARGET_UP, OF_LLAMA},
    {"down_proj", P4D_TARGET_DOWN, OF_LLAMA | OF_PHI3},
    {"c_attn", P4D_TARGET_Q, OF_GPT2},
    {"c_proj", P4D_TARGET_O | P4D_TARGET_DOWN, OF_GPT2},
    {"attn.c_attn", P4D_TARGET_Q, OF_GPT2},
    {"attn.c_proj", P4D_TARGET_O, OF_GPT2},
    {"mlp.c_fc", P4D_TARGET_UP, OF_GPT2},
    {"mlp.c_proj", P4D_TARGET_DOWN, OF_GPT2},
    {"c_fc", P4D_TARGET_UP, OF_GPT2},
    {"out_proj", P4D_TARGET_O, OF_OTHERS},
    {"dense", P4D_TARGET_O, OF_OTHERS},
    {"qkv_proj", P4D_TARGET_Q, OF_PHI3},
    {"query_key_value", P4D_TARGET_Q, OF_OTHERS},
    {"Wqkv", P4D_TARGET_Q, OF_OTHERS},
    {"gate_up_proj", P4D_TARGET_UP, OF_PHI3},
    {"fc1", P4D_TARGET_UP, OF_OTHERS},
    {"fc2", P4D_TARGET_DOWN, OF_OTHERS},
    {"dense_h_to_4h", P4D_TARGET_UP, OF_OTHERS},
    {"dense_4h_to_h", P4D_TARGET_DOWN, OF_OTHERS},
};

/*
 * Whether the program accepts the name. p4d-train uses the model's own names; other programs can train any
 * model.
 */
static bool is_named(const p4d_request *r, unsigned families)
{
	return !p4d_framework_of((int)r->value[P4D_FRAMEWORK])->names_layers ||
	       families & 1u << p4d_architecture_of(r)->modules;
}

/* The modules in the list; *unknown (may be NULL) points to the first unknown name. */
static unsigned targets_of(const p4d_request *r, const char **unknown)
{
	unsigned targets = 0;

	for (const char *at = r->lora_targets; *at;) {
		const size_t length = strcspn(at, ",");
		unsigned found = 0;
		for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
			if (is_named(r, names[i].families) && strlen(names[i].name) == length &&
			    !strncmp(names[i].name, at, length))
				found = names[i].targets;
		if (!found && unknown)
			*unknown = at;
		targets |= found;
		at += length + (at[length] == ',');
	}
	return targets;
}

/* Whether the model's file has quantized weights that stay quantized in training. transformers converts
 * gpt-oss's experts from MXFP4 to bf16 (quantizer_mxfp4.py trains no other form). */
static bool stays_quantized(const p4d_request *r)
{
	return p4d_is_set(r, P4D_STORED) && r->value[P4D_STORED] != P4D_STORED_FULL &&
	       !(r->value[P4D_STORED] == P4D_STORED_FP4 && p4d_architecture_of(r)->expert_bias);
}

void p4d_layout__adapters(const p4d_request *r, p4d_layout *l)
{
	static const int stored[] = {[P4D_STORED_FP8] = P4D_QUANT_FP8,
				     [P4D_STORED_INT8] = P4D_QUANT_INT8,
				     [P4D_STORED_INT4] = P4D_QUANT_NF4,
				     [P4D_STORED_NF4] = P4D_QUANT_NF4,
				     [P4D_STORED_FP4] = P4D_QUANT_NF4};

	l->finetune = (int)p4d_framework_value(r, P4D_FINETUNE);
	if (l->finetune < 0)
		l->finetune = P4D_TUNE_FULL;
	l->lora.rank = 0;
	l->lora.targets = 0;
	l->lora.dropout = 0;
	l->quant = P4D_QUANT_NONE;
	l->lora.fp32 = true;
	if (l->finetune == P4D_TUNE_FULL)
		return;
	l->lora.rank =
	    p4d_is_set(r, P4D_LORA_RANK) ? (uint64_t)r->value[P4D_LORA_RANK] : 8; /* PEFT's default rank */
	l->lora.dropout = p4d_option_real(p4d_framework_value(r, P4D_LORA_DROPOUT));
	l->lora.targets = *r->lora_targets ? targets_of(r, NULL) : P4D_TARGET_ALL;
	l->lora.fp32 = !p4d_is_set(r, P4D_ADAPTER_DTYPE) || r->value[P4D_ADAPTER_DTYPE] == P4D_PARAM_FP32;
	/* PEFT makes adapters in the type of the layer's own weights, or in fp32 */
	if (l->finetune == P4D_TUNE_LORA && p4d_framework_value(r, P4D_PARAM_DTYPE) == P4D_PARAM_FP32)
		l->lora.fp32 = true;
	if (p4d_is_set(r, P4D_QUANT))
		l->quant = (int)r->value[P4D_QUANT];
	else if (stays_quantized(r))
		l->quant = stored[r->value[P4D_STORED]]; /* LoRA on quantized weights is QLoRA */
	else if (l->finetune == P4D_TUNE_QLORA)
		l->quant = P4D_QUANT_NF4;
	if (l->finetune == P4D_TUNE_ALPHA) { /* one trained number for each output of all linear layers */
		l->lora.rank = 1;
		l->lora.targets = P4D_TARGET_ALL;
		l->lora.fp32 = true;
		l->lora.dropout = 0;
		l->quant = p4d_is_set(r, P4D_QUANT) ? l->quant : P4D_QUANT_BCQ4;
	}
}

/*
 * Checks AlphaTuning (scales of binary codes), which p4d models only for plain decoders in transformers'
 * modules, with a copy on every rank.
 */
static int check_alpha(const p4d_request *r, p4d_error *err)
{
	const bool alpha = p4d_is_set(r, P4D_FINETUNE) && r->value[P4D_FINETUNE] == P4D_TUNE_ALPHA;
	const bool codes = p4d_is_set(r, P4D_QUANT) && r->value[P4D_QUANT] >= P4D_QUANT_BCQ2;
	const int framework = (int)r->value[P4D_FRAMEWORK];

	if (!alpha && codes) {
		p4d_fail(err, P4D_E_VALUE, "quant: only finetune=alpha trains scales of binary codes");
		return p4d_fix(err, "--p4d-finetune=alpha");
	}
	if (!alpha)
		return 0;
	if (p4d_is_set(r, P4D_QUANT) && !codes) {
		p4d_fail(err, P4D_E_VALUE,
			 "finetune=alpha trains scales of binary codes: quant is bcq2, bcq3 or bcq4");
		return p4d_fix(err, "--p4d-quant=bcq4");
	}
	if (p4d_framework_of(framework)->sharing != P4D_SHARES_NOTHING ||
	    r->value[P4D_MODEL_CODE] != P4D_MODEL_CODE_TRANSFORMERS) {
		p4d_fail(err, P4D_E_UNMODELLED,
			 "finetune=alpha: p4d models it only with DDP and the transformers library");
		return p4d_fix(err, "--p4d-framework=ddp --p4d-model-code=transformers");
	}
	if (p4d_is_sparse(r) || p4d_is_set(r, P4D_LAYER_PATTERN) ||
	    p4d_architecture_of(r)->kind != P4D_DECODER)
		return p4d_fail(err, P4D_E_UNMODELLED,
				"finetune=alpha: p4d models it only for decoders without experts, latent "
				"attention and state-space layers");
	return 0;
}

/* Refuses options that only FSDP1, or only FSDP2, supports. */
static int check_fsdp(const p4d_request *r, p4d_error *err)
{
	const bool flat = r->value[P4D_FSDP_VERSION] == 1 && p4d_is_set(r, P4D_FSDP_VERSION);
	static const struct {
		p4d_option option;
		bool of_flat; /* only FSDP1 supports the option */
		const char *why;
	} unused[] = {
	    /* FSDP2 keeps trained parameters in --p4d-param-dtype, and does not need autocast */
	    {P4D_ADAPTER_DTYPE, false, "FSDP, which keeps and casts parameters itself"},
	    {P4D_AUTOCAST, false, "FSDP, which keeps and casts parameters itself"},
	    {P4D_ORIG_PARAMS, true, "FSDP2, which always keeps the model's own parameters"},
	    {P4D_FORWARD_PREFETCH, true, "FSDP2, which always prefetches the next unit"},
	    {P4D_BACKWARD_PREFETCH, true, "FSDP2, which always prefetches the next unit"},
	};

	for (size_t i = 0; i < sizeof(unused) / sizeof(*unused); i++) {
		const char *name = p4d_request_option_info(unused[i].option)->name;
		if (r->origin[unused[i].option] != P4D_BY_USER ||
		    p4d_framework_states_nothing(r, unused[i].option) || (flat && unused[i].of_flat))
			continue;
		p4d_fail(err, P4D_E_VALUE, "%s has no effect with %s", name, unused[i].why);
		return unused[i].of_flat ? p4d_fix(err, "--p4d-fsdp-version=1")
					 : p4d_fix(err, "leave out --p4d-%s", name);
	}
	return 0;
}

int p4d_layout__check_adapters(const p4d_request *r, p4d_error *err)
{
	const bool adapters = p4d_is_set(r, P4D_FINETUNE) && r->value[P4D_FINETUNE] != P4D_TUNE_FULL;
	const bool alpha = adapters && r->value[P4D_FINETUNE] == P4D_TUNE_ALPHA;
	const bool quantized = alpha || (adapters && r->value[P4D_FINETUNE] == P4D_TUNE_QLORA);
	const bool drops = r->origin[P4D_LORA_DROPOUT] == P4D_BY_USER && r->value[P4D_LORA_DROPOUT];
	const int framework = (int)r->value[P4D_FRAMEWORK];
	const p4d_framework *f = p4d_framework_of(framework);
	const char *unknown = NULL;
	char why[96];

	if (check_alpha(r, err) < 0)
		return -1;
	if ((!adapters || alpha) && (r->origin[P4D_LORA_RANK] == P4D_BY_USER || *r->lora_targets ||
				     r->origin[P4D_ADAPTER_DTYPE] == P4D_BY_USER || drops)) {
		p4d_fail(err, P4D_E_VALUE, "%s has no effect without finetune=lora or qlora",
			 r->origin[P4D_LORA_RANK] == P4D_BY_USER       ? "lora-rank"
			 : *r->lora_targets                            ? "lora-targets"
			 : r->origin[P4D_ADAPTER_DTYPE] == P4D_BY_USER ? "adapter-dtype"
								       : "lora-dropout");
		return p4d_fix(err, "--p4d-finetune=lora");
	}
	/* modules compute in the type of their parameters, but adapters have another type */
	if (!adapters && f->sharing == P4D_SHARES_BY_STAGE && r->origin[P4D_AUTOCAST] == P4D_BY_USER &&
	    r->value[P4D_AUTOCAST]) {
		p4d_fail(err, P4D_E_VALUE,
			 "autocast has no effect with DeepSpeed, which keeps all trained parameters in "
			 "--precision");
		return p4d_fix(err, "leave out --p4d-autocast");
	}
	const p4d_heeds_reason *instead = p4d_heeds_instead(r, framework, P4D_QUANT);
	if (quantized && instead && instead->value == P4D_QUANT_NONE) {
		p4d_fail(err, P4D_E_VALUE, "finetune=qlora: %s",
			 p4d_heeds__why(instead, framework, why, sizeof(why)));
		return p4d_fix(err, "--p4d-finetune=lora");
	}
	if (!quantized && p4d_is_set(r, P4D_QUANT) && r->value[P4D_QUANT] != P4D_QUANT_NONE) {
		p4d_fail(err, P4D_E_VALUE, "quant needs finetune=qlora: quantized weights are not trained");
		return p4d_fix(err, "--p4d-finetune=qlora");
	}
	if (quantized && p4d_is_set(r, P4D_QUANT) && r->value[P4D_QUANT] == P4D_QUANT_NONE) {
		p4d_fail(err, P4D_E_VALUE, "finetune=qlora with quant=none is finetune=lora");
		return p4d_fix(err, "--p4d-finetune=lora");
	}
	if (!adapters && stays_quantized(r) &&
	    p4d_framework_value(r, P4D_MODEL_CODE) == P4D_MODEL_CODE_TRANSFORMERS &&
	    p4d_framework_has(r, P4D_MODEL_CODE) && r->value[P4D_FINETUNE] == P4D_TUNE_FULL &&
	    p4d_is_stated(r, P4D_FINETUNE)) {
		p4d_fail(err, P4D_E_VALUE,
			 "finetune=full: the weights of this model are quantized, so they cannot be trained");
		return p4d_fix(err, "--p4d-finetune=lora");
	}
	if (adapters && p4d_framework_has(r, P4D_MODEL_CODE) &&
	    r->value[P4D_MODEL_CODE] == P4D_MODEL_CODE_TORCHTITAN) {
		p4d_fail(err, P4D_E_VALUE,
			 "model-code=torchtitan: p4d models adapters only with model-code=transformers");
		return p4d_fix(err, "--p4d-model-code=transformers");
	}
	if (f->sharing == P4D_SHARES_UNITS && check_fsdp(r, err) < 0)
		return -1;
	targets_of(r, &unknown);
	/* other programs can train any model, with names that p4d does not know, and also heads and
	 * embeddings */
	if (unknown && !f->names_layers)
		return p4d_fail(err, P4D_E_UNMODELLED, "lora-targets: p4d knows no linear layer named '%.*s'",
				(int)strcspn(unknown, ","), unknown);
	if (unknown)
		return p4d_fail(err, P4D_E_VALUE, "lora-targets: no linear layer is named '%.*s'",
				(int)strcspn(unknown, ","), unknown);
	return 0;
}

/* The requested tensors that the framework actually keeps on the host: a mask of P4D_OFFLOAD_*. */
unsigned p4d_layout__offload(const p4d_request *r)
{
	const unsigned asked = (unsigned)p4d_framework_value(r, P4D_OFFLOAD);
	const p4d_framework_sharing sharing = p4d_framework_of((int)r->value[P4D_FRAMEWORK])->sharing;

	/* FSDP's CPUOffloadPolicy moves shards of parameters together with their gradients and moments */
	if (sharing == P4D_SHARES_UNITS && asked & P4D_OFFLOAD_PARAMS)
		return asked | P4D_OFFLOAD_OPTIMIZER;
	if (sharing == P4D_SHARES_BY_STAGE && p4d_framework_value(r, P4D_ZERO_STAGE) < 3)
		return asked & ~(unsigned)P4D_OFFLOAD_PARAMS;
	return asked;
}

int p4d_layout__check_offload(const p4d_request *r, p4d_error *err)
{
	const p4d_framework_sharing sharing = p4d_framework_of((int)r->value[P4D_FRAMEWORK])->sharing;
	const bool fsdp = sharing == P4D_SHARES_UNITS, zero = sharing == P4D_SHARES_BY_STAGE;
	const unsigned asked = (unsigned)p4d_framework_value(r, P4D_OFFLOAD);
	const int64_t stage = p4d_framework_value(r, P4D_ZERO_STAGE);
	const bool halves = r->value[P4D_PRECISION] != P4D_FP32;

	if (asked & P4D_OFFLOAD_WEIGHTS) {
		p4d_fail(err, P4D_E_VALUE, "offload=weights is only for inference engines");
		return p4d_fix(err, fsdp || zero ? "--p4d-offload=optimizer,params" : "--p4d-workload=serve");
	}
	if (fsdp && asked & P4D_OFFLOAD_OPTIMIZER && !(asked & P4D_OFFLOAD_PARAMS)) {
		p4d_fail(
		    err, P4D_E_VALUE,
		    "offload=optimizer: FSDP can only offload parameters, gradients and optimizer together");
		return p4d_fix(err, "--p4d-offload=optimizer,params");
	}
	if (sharing == P4D_SHARES_NOTHING && asked & ~(unsigned)P4D_OFFLOAD_ACTIVATIONS) {
		p4d_fail(
		    err, P4D_E_VALUE,
		    "offload: with DDP only activations can leave the GPU, not parameters and optimizer");
		return p4d_fix(err, "--p4d-framework=deepspeed --p4d-zero-stage=2");
	}
	if (asked & P4D_OFFLOAD_ACTIVATIONS && p4d_framework_has(r, P4D_MODEL_CODE) &&
	    r->value[P4D_MODEL_CODE] == P4D_MODEL_CODE_TORCHTITAN) {
		p4d_fail(err, P4D_E_VALUE, "offload=activations: torchtitan keeps them on the GPU");
		return p4d_fix(err, "--p4d-recompute=full");
	}
	if (r->origin[P4D_OFFLOAD] == P4D_BY_USER && zero && stage < 3 && asked & P4D_OFFLOAD_PARAMS) {
		p4d_fail(err, P4D_E_VALUE, "offload=params: ZeRO-%d keeps all parameters on every GPU",
			 (int)stage);
		return p4d_fix(err, "--p4d-zero-stage=3");
	}
	if (r->origin[P4D_OFFLOAD] == P4D_BY_USER && zero && !stage && asked & P4D_OFFLOAD_OPTIMIZER) {
		p4d_fail(err, P4D_E_VALUE,
			 "offload=optimizer: DeepSpeed can offload only sharded optimizer states");
		return p4d_fix(err, "--p4d-zero-stage=2");
	}
	if (r->origin[P4D_PARAM_DTYPE] == P4D_BY_USER && zero &&
	    (r->value[P4D_PARAM_DTYPE] == P4D_PARAM_BF16) != halves) {
		p4d_fail(err, P4D_E_VALUE, "param-dtype=%s: DeepSpeed holds parameters in --p4d-precision%s",
			 halves ? "fp32" : "bf16", halves ? ", and a master copy in fp32" : "");
		return p4d_fix(err, "leave out --p4d-param-dtype");
	}
	return 0;
}
