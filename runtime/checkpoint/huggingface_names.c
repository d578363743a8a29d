/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/huggingface_names.h"

#include <stdio.h>
#include <string.h>

/* A module of a layer, or beside them; part: which third of a fused matrix it is. */
static const struct module {
	const char *name, *of_gpt2;
	int part; /* -1: all */
	bool matrix;
} gpt2[] = {
    {"model.embed_tokens", "wte", -1, false},
    {"model.embed_positions", "wpe", -1, false},
    {"model.norm", "ln_f", -1, false},
    {"input_layernorm", "ln_1", -1, false},
    {"post_attention_layernorm", "ln_2", -1, false},
    {"self_attn.q_proj", "attn.c_attn", 0, true},
    {"self_attn.k_proj", "attn.c_attn", 1, true},
    {"self_attn.v_proj", "attn.c_attn", 2, true},
    {"self_attn.o_proj", "attn.c_proj", -1, true},
    {"mlp.up_proj", "mlp.c_fc", -1, true},
    {"mlp.down_proj", "mlp.c_proj", -1, true},
};

/* "12." behind "model.layers.", and what follows; 0: no layer's. */
static int layer_prefix(const char *name)
{
	static const char layers[] = "model.layers.";
	const size_t length = sizeof(layers) - 1;

	return strncmp(name, layers, length) ? 0 : (int)(length + strspn(name + length, "0123456789") + 1);
}

static p4d_file_tensor of_gpt2(const p4d_layout *l, const p4d_weight_slice *slice)
{
	const int prefix = layer_prefix(slice->name);
	const char *inside = slice->name + prefix, *what = strrchr(inside, '.');
	p4d_file_tensor y = {.rows = slice->tensor_rows};

	for (size_t i = 0; i < sizeof(gpt2) / sizeof(*gpt2); i++) {
		const struct module *m = &gpt2[i];
		const size_t length = strlen(m->name);
		if (strncmp(inside, m->name, length) != 0 || inside + length != what)
			continue;
		snprintf(y.name, sizeof(y.name), "transformer.%s%.*s%s%s", prefix ? "h." : "",
			 prefix ? prefix - 13 : 0, slice->name + (prefix ? 13 : 0), m->of_gpt2, what);
		y.transposed = m->matrix && slice->tensor_columns;
		if (m->part < 0)
			return y;
		const uint64_t q = l->heads * l->head_dim, kv = l->kv_heads * l->head_dim;
		y.rows = q + 2 * kv;
		y.first = m->part ? q + (uint64_t)(m->part - 1) * kv : 0;
		return y;
	}
	snprintf(y.name, sizeof(y.name), "%s", slice->name);
	return y;
}

p4d_file_tensor p4d_huggingface__file_tensor(const p4d_layout *l, const p4d_weight_slice *slice)
{
	p4d_file_tensor y = {.rows = slice->tensor_rows};

	if (l->architecture == &p4d_architectures[P4D_ARCHITECTURE_GPT2])
		return of_gpt2(l, slice);
	snprintf(y.name, sizeof(y.name), "%s", slice->name);
	return y;
}
