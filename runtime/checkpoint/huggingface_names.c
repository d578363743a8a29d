/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/huggingface_names.h"

#include <stdio.h>
#include <string.h>

/* Which of p4d's matrices a file stores as one matrix, one below the other. */
typedef enum joined { ALONE, QUERY_KEY_VALUE, GATE_UP } joined;

/* A module inside or outside of layers: p4d's name, and the name in files. */
typedef struct module {
	const char *name, *of_file;
	joined joined;
	int part;
	bool matrix;
} module;

static const module gpt2[] = {
    {"model.embed_tokens", "wte", ALONE, 0, false},
    {"model.embed_positions", "wpe", ALONE, 0, false},
    {"model.norm", "ln_f", ALONE, 0, false},
    {"input_layernorm", "ln_1", ALONE, 0, false},
    {"post_attention_layernorm", "ln_2", ALONE, 0, false},
    {"self_attn.q_proj", "attn.c_attn", QUERY_KEY_VALUE, 0, true},
    {"self_attn.k_proj", "attn.c_attn", QUERY_KEY_VALUE, 1, true},
    {"self_attn.v_proj", "attn.c_attn", QUERY_KEY_VALUE, 2, true},
    {"self_attn.o_proj", "attn.c_proj", ALONE, 0, true},
    {"mlp.up_proj", "mlp.c_fc", ALONE, 0, true},
    {"mlp.down_proj", "mlp.c_proj", ALONE, 0, true},
};
static const module phi3[] = {
    {"self_attn.q_proj", "self_attn.qkv_proj", QUERY_KEY_VALUE, 0, true},
    {"self_attn.k_proj", "self_attn.qkv_proj", QUERY_KEY_VALUE, 1, true},
    {"self_attn.v_proj", "self_attn.qkv_proj", QUERY_KEY_VALUE, 2, true},
    {"mlp.gate_proj", "mlp.gate_up_proj", GATE_UP, 0, true},
    {"mlp.up_proj", "mlp.gate_up_proj", GATE_UP, 1, true},
};

/*
 * Names in the files of each kind of model, indexed by p4d_module_names. Modules that are not listed have
 * p4d's names.
 */
static const struct naming {
	const module *modules;
	size_t count;
	const char *model, *layers; /* these replace "" and "model.layers." */
	bool transposes;            /* the files store matrices as (in, out) */
} namings[] = {
    [P4D_MODULES_LLAMA] = {NULL, 0, "", "model.layers.", false},
    [P4D_MODULES_GPT2] = {gpt2, sizeof(gpt2) / sizeof(*gpt2), "transformer.", "h.", true},
    [P4D_MODULES_PHI3] = {phi3, sizeof(phi3) / sizeof(*phi3), "", "model.layers.", false},
};

static const struct naming *naming_of(const p4d_layout *l)
{
	return &namings[l->architecture->modules];
}

bool p4d_huggingface__transposes(const p4d_layout *l)
{
	return naming_of(l)->transposes;
}

/* Returns the length of `with` if the name begins with it, else 0. */
static size_t begins(const char *name, const char *with)
{
	const size_t length = strlen(with);

	return strncmp(name, with, length) ? 0 : length;
}

/*
 * Finds the module of a name. inside: the name after "model.layers.12.", or a name outside of layers. *what:
 * the rest of the name after the module.
 */
static const module *module_of(const struct naming *of, const char *inside, const char **what)
{
	for (size_t i = 0; i < of->count; i++) {
		const size_t length = begins(inside, of->modules[i].name);
		*what = inside + length;
		if (length && (!**what || !strcmp(*what, ".weight") || !strcmp(*what, ".bias") ||
			       begins(*what, ".lora_")))
			return &of->modules[i];
	}
	return NULL;
}

/* Sets the row at which a part of a joined matrix begins, and its number of rows. */
static void place(const p4d_layout *l, const module *m, p4d_file_tensor *y)
{
	const uint64_t q = l->heads * l->head_dim, kv = l->kv_heads * l->head_dim;

	if (m->joined == QUERY_KEY_VALUE) {
		y->rows = q + 2 * kv;
		y->first = m->part ? q + (uint64_t)(m->part - 1) * kv : 0;
	} else if (m->joined == GATE_UP) {
		y->rows = 2 * l->ffn;
		y->first = m->part ? l->ffn : 0;
	}
}

const char *p4d_huggingface__module_name(const p4d_layout *l, unsigned number)
{
	const struct naming *of = naming_of(l);
	const char *name = p4d_weights_adapted_name(number), *what;
	const module *m = module_of(of, name, &what);

	/* PEFT finds modules by the end of their name, so the last part is enough. In GPT-2, attn.c_proj and
	 * mlp.c_proj have the same last part, so p4d writes both parts. */
	return m && of->transposes ? m->of_file : strchr(m ? m->of_file : name, '.') + 1;
}

p4d_file_tensor p4d_huggingface__file_tensor(const p4d_layout *l, const p4d_weight_slice *slice)
{
	static const char of_adapters[] = "base_model.model.", of_layers[] = "model.layers.";
	const struct naming *of = naming_of(l);
	const size_t peft = begins(slice->name, of_adapters), layers = begins(slice->name + peft, of_layers);
	const char *number = slice->name + peft + layers, *what;
	const int digits = layers ? (int)strspn(number, "0123456789") + 1 : 0;
	const module *m = module_of(of, number + digits, &what);
	p4d_file_tensor y = {.rows = slice->tensor_rows};

	if (!m) {
		snprintf(y.name, sizeof(y.name), "%s", slice->name);
		return y;
	}
	snprintf(y.name, sizeof(y.name), "%s%s%s%.*s%s%s", peft ? of_adapters : "", of->model,
		 layers ? of->layers : "", digits, number, m->of_file, what);
	y.transposed = of->transposes && m->matrix && slice->tensor_columns && !peft;
	if (!begins(what, ".lora_A"))
		place(l, m, &y);
	return y;
}
