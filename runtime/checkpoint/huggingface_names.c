/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/huggingface_names.h"

#include <stdio.h>
#include <string.h>

/* A module of a layer, or outside of layers; part: the third of a fused matrix. */
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

bool p4d_huggingface__is_gpt2(const p4d_layout *l)
{
	return l->architecture->gpt2_modules;
}

/* Length of this beginning of a name; 0: it begins in another way. */
static size_t begins(const char *name, const char *with)
{
	const size_t length = strlen(with);

	return strncmp(name, with, length) ? 0 : length;
}

/* The module of a name after "model.layers.12.", or of a name outside of layers; *what: the end of the name.
 */
static const struct module *module_of(const char *inside, const char **what)
{
	for (size_t i = 0; i < sizeof(gpt2) / sizeof(*gpt2); i++) {
		const size_t length = begins(inside, gpt2[i].name);
		*what = inside + length;
		if (length && (!**what || !strcmp(*what, ".weight") || !strcmp(*what, ".bias") ||
			       begins(*what, ".lora_")))
			return &gpt2[i];
	}
	return NULL;
}

static p4d_file_tensor of_gpt2(const p4d_layout *l, const p4d_weight_slice *slice)
{
	static const char of_adapters[] = "base_model.model.", of_layers[] = "model.layers.";
	const size_t peft = begins(slice->name, of_adapters), layers = begins(slice->name + peft, of_layers);
	const char *number = slice->name + peft + layers, *what;
	const int digits = layers ? (int)strspn(number, "0123456789") + 1 : 0;
	const struct module *m = module_of(number + digits, &what);
	p4d_file_tensor y = {.rows = slice->tensor_rows};

	if (!m) {
		snprintf(y.name, sizeof(y.name), "%s", slice->name);
		return y;
	}
	snprintf(y.name, sizeof(y.name), "%stransformer.%s%.*s%s%s", peft ? of_adapters : "",
		 layers ? "h." : "", digits, number, m->of_gpt2, what);
	y.transposed = m->matrix && slice->tensor_columns && !peft;
	if (m->part < 0 || begins(what, ".lora_A"))
		return y;
	const uint64_t q = l->heads * l->head_dim, kv = l->kv_heads * l->head_dim;
	y.rows = q + 2 * kv;
	y.first = m->part ? q + (uint64_t)(m->part - 1) * kv : 0;
	return y;
}

const char *p4d_huggingface__module_name(const p4d_layout *l, unsigned number)
{
	const char *name = p4d_weights_adapted_name(number), *what;

	return p4d_huggingface__is_gpt2(l) ? module_of(name, &what)->of_gpt2 : strchr(name, '.') + 1;
}

p4d_file_tensor p4d_huggingface__file_tensor(const p4d_layout *l, const p4d_weight_slice *slice)
{
	p4d_file_tensor y = {.rows = slice->tensor_rows};

	if (p4d_huggingface__is_gpt2(l))
		return of_gpt2(l, slice);
	snprintf(y.name, sizeof(y.name), "%s", slice->name);
	return y;
}
