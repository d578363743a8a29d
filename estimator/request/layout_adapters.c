/* SPDX-License-Identifier: Apache-2.0 */
/* What is trained of a model: --finetune, --lora-targets and their relatives. */
#include <string.h>

#include "base/text.h"
#include "request/framework.h"
#include "request/layout_internal.h"

/* Names of linear layers, as modeling files have them. */
static const struct {
	const char *name;
	unsigned targets;
} names[] = {
    {"all-linear", P4D_TARGET_ALL},
    {"attention", P4D_TARGET_ATTENTION},
    {"mlp", P4D_TARGET_ALL - P4D_TARGET_ATTENTION},
    {"q_proj", P4D_TARGET_Q},
    {"k_proj", P4D_TARGET_K},
    {"v_proj", P4D_TARGET_V},
    {"o_proj", P4D_TARGET_O},
    {"out_proj", P4D_TARGET_O},
    {"dense", P4D_TARGET_O},
    {"gate_proj", P4D_TARGET_GATE},
    {"up_proj", P4D_TARGET_UP},
    {"down_proj", P4D_TARGET_DOWN},
    {"qkv_proj", P4D_TARGET_Q},
    {"query_key_value", P4D_TARGET_Q},
    {"c_attn", P4D_TARGET_Q},
    {"Wqkv", P4D_TARGET_Q},
    {"gate_up_proj", P4D_TARGET_UP},
    {"fc1", P4D_TARGET_UP},
    {"fc2", P4D_TARGET_DOWN},
    {"c_fc", P4D_TARGET_UP},
    {"c_proj", P4D_TARGET_O | P4D_TARGET_DOWN},
    {"dense_h_to_4h", P4D_TARGET_UP},
    {"dense_4h_to_h", P4D_TARGET_DOWN},
};

/* Of a list of names; *unknown (may be NULL) points to the first that is none. */
static unsigned targets_of(const char *list, const char **unknown)
{
	unsigned targets = 0;

	for (const char *at = list; *at;) {
		const size_t length = strcspn(at, ",");
		unsigned found = 0;
		for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
			if (strlen(names[i].name) == length && !strncmp(names[i].name, at, length))
				found = names[i].targets;
		if (!found && unknown)
			*unknown = at;
		targets |= found;
		at += length + (at[length] == ',');
	}
	return targets;
}

void p4d_layout__adapters(const p4d_request *r, p4d_layout *l)
{
	l->finetune = (int)p4d_framework_value(r, P4D_FINETUNE);
	if (l->finetune < 0)
		l->finetune = P4D_TUNE_FULL;
	l->lora_rank = 0;
	l->lora_targets = 0;
	l->quant = P4D_QUANT_NONE;
	l->adapter_fp32 = true;
	if (l->finetune == P4D_TUNE_FULL)
		return;
	l->lora_rank =
	    p4d_is_set(r, P4D_LORA_RANK) ? (uint64_t)r->value[P4D_LORA_RANK] : 8; /* PEFT's default */
	l->lora_targets = *r->lora_targets ? targets_of(r->lora_targets, NULL) : P4D_TARGET_ALL;
	l->adapter_fp32 = !p4d_is_set(r, P4D_ADAPTER_DTYPE) || r->value[P4D_ADAPTER_DTYPE] == P4D_PARAM_FP32;
	/* PEFT makes adapters in the type of the layer's own weights, or in fp32 */
	if (l->finetune == P4D_TUNE_LORA && p4d_framework_value(r, P4D_PARAM_DTYPE) == P4D_PARAM_FP32)
		l->adapter_fp32 = true;
	if (l->finetune == P4D_TUNE_QLORA)
		l->quant = p4d_is_set(r, P4D_QUANT) ? (int)r->value[P4D_QUANT] : P4D_QUANT_NF4;
}

int p4d_layout__check_adapters(const p4d_request *r, p4d_error *err)
{
	const bool adapters = p4d_is_set(r, P4D_FINETUNE) && r->value[P4D_FINETUNE] != P4D_TUNE_FULL;
	const bool quantized = adapters && r->value[P4D_FINETUNE] == P4D_TUNE_QLORA;
	const char *unknown = NULL;

	if (!adapters && r->origin[P4D_LORA_RANK] == P4D_BY_USER)
		return p4d_fail(err, P4D_E_VALUE,
				"--lora-rank has no effect without --finetune lora or qlora");
	if (!adapters && *r->lora_targets)
		return p4d_fail(err, P4D_E_VALUE,
				"--lora-targets has no effect without --finetune lora or qlora");
	if (!quantized && p4d_is_set(r, P4D_QUANT) && r->value[P4D_QUANT] != P4D_QUANT_NONE)
		return p4d_fail(err, P4D_E_VALUE,
				"--quant needs --finetune qlora: quantized weights are not trained");
	if (quantized && p4d_is_set(r, P4D_QUANT) && r->value[P4D_QUANT] == P4D_QUANT_NONE)
		return p4d_fail(err, P4D_E_VALUE, "--finetune qlora with --quant none is --finetune lora");
	if (!adapters && r->origin[P4D_ADAPTER_DTYPE] == P4D_BY_USER)
		return p4d_fail(err, P4D_E_VALUE,
				"--adapter-dtype has no effect without --finetune lora or qlora");
	if (adapters && r->value[P4D_MODEL_CODE] == P4D_MODEL_CODE_TORCHTITAN) {
		p4d_fail(err, P4D_E_VALUE,
			 "model-code=torchtitan: p4d models adapters in transformers' modules");
		return p4d_fix(err, "--p4d-model-code=transformers");
	}
	targets_of(r->lora_targets, &unknown);
	if (unknown)
		return p4d_fail(err, P4D_E_VALUE, "--lora-targets: no linear layer is named '%.*s'",
				(int)strcspn(unknown, ","), unknown);
	return 0;
}
