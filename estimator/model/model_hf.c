/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/json_file.h"
#include "model/model_json.h"

/* An architecture of the transformers library, with what it assumes of absent fields. */
typedef struct hf_architecture {
	const char *name, *model_type;
	int64_t kv_heads; /* 0: as many as heads */
	int64_t head_dim; /* 0: hidden / heads */
	int64_t bias, qk_norm;
	bool gpt2;
} hf_architecture;

/* The transformers library's default for an absent field. */
#define NORM_EPSILON 1e-6

static const hf_architecture modelled[] = {
    {.name = "LlamaForCausalLM", .model_type = "llama"},
    {.name = "MistralForCausalLM", .model_type = "mistral", .kv_heads = 8},
    {.name = "Qwen2ForCausalLM", .model_type = "qwen2", .kv_heads = 32, .bias = P4D_BIAS_QKV},
    {.name = "Qwen3ForCausalLM", .model_type = "qwen3", .kv_heads = 32, .head_dim = 128, .qk_norm = 1},
    {.name = "GPT2LMHeadModel", .model_type = "gpt2", .bias = P4D_BIAS_ALL, .gpt2 = true},
};

typedef struct field {
	const char *key;
	p4d_option option;
} field;

static const field llama_fields[] = {
    {"num_hidden_layers", P4D_LAYERS},
    {"hidden_size", P4D_HIDDEN},
    {"intermediate_size", P4D_FFN},
    {"num_attention_heads", P4D_HEADS},
    {"vocab_size", P4D_VOCAB},
    {"max_position_embeddings", P4D_MAX_SEQ_LEN},
    {"head_dim", P4D_HEAD_DIM},
    {"num_key_value_heads", P4D_KV_HEADS},
    {NULL, P4D_OPTIONS},
};

static const field gpt2_fields[] = {
    {"n_layer", P4D_LAYERS},   {"n_embd", P4D_HIDDEN},           {"n_inner", P4D_FFN}, {"n_head", P4D_HEADS},
    {"vocab_size", P4D_VOCAB}, {"n_positions", P4D_MAX_SEQ_LEN}, {NULL, P4D_OPTIONS},
};

/* Present and not null. */
static bool has(struct json_object *config, const char *key)
{
	return json_object_object_get(config, key) != NULL;
}

/* Absent leaves *flag. */
static int read_flag(struct json_object *config, const char *key, bool *flag, p4d_error *err)
{
	struct json_object *member = json_object_object_get(config, key);

	if (!member)
		return 0;
	if (!json_object_is_type(member, json_type_boolean))
		return p4d_fail(err, P4D_E_JSON, "\"%s\" is %.40s, not true or false", key,
				json_object_to_json_string_ext(member, JSON_C_TO_STRING_PLAIN));
	*flag = json_object_get_boolean(member);
	return 0;
}

static int read_fields(struct json_object *config, const field *fields, p4d_request *model, p4d_error *err)
{
	for (const field *f = fields; f->key; f++) {
		const p4d_option_info *info = p4d_request_option_info(f->option);
		int64_t value = 0;
		if (p4d_json_integer(config, f->key, info->min, info->max, &value, err) < 0)
			return -1;
		if (value)
			p4d_request_put(model, f->option, value, P4D_BY_MODEL);
	}
	return 0;
}

/* Says why the memory of this architecture is not modelled; "" when it is. */
static void find_unmodelled(struct json_object *config, const char *name, char *buf, size_t size)
{
	static const char *const experts[] = {"num_local_experts", "n_routed_experts", "num_experts",
					      "moe_num_experts", NULL};
	static const char *const state_space[] = {"ssm_cfg",       "state_size",   "ssm_state_size",
						  "mamba_d_state", "mamba_expand", NULL};

	buf[0] = '\0';
	for (const char *const *key = experts; *key; key++) {
		int64_t count = json_object_get_int64(json_object_object_get(config, *key));
		if (count > 1) {
			snprintf(buf, size, "%.64s: mixture of experts (%s=%" PRId64 ")", name, *key, count);
			return;
		}
	}
	int64_t rank = json_object_get_int64(json_object_object_get(config, "kv_lora_rank"));
	if (rank > 0) {
		snprintf(buf, size, "%.64s: multi-head latent attention (kv_lora_rank=%" PRId64 ")", name,
			 rank);
		return;
	}
	for (const char *const *key = state_space; *key; key++) {
		if (has(config, *key)) {
			snprintf(buf, size, "%.64s: state-space layers (%s)", name, *key);
			return;
		}
	}
}

static const hf_architecture *find_architecture(const char *name)
{
	for (size_t i = 0; i < sizeof(modelled) / sizeof(modelled[0]); i++)
		if (!strcmp(name, modelled[i].name) || !strcmp(name, modelled[i].model_type))
			return &modelled[i];
	return NULL;
}

/* In what a known family differs from the layers that p4d models. */
static const char *difference_of(const char *name)
{
	static const char *const families[][2] = {
	    {"phi3", "fused projections"},
	    {"phi4", "fused projections"},
	    {"gemma", "GeGLU and norms behind each block"},
	    {"olmo2", "norms behind each block"},
	    {"gptneox", "attention beside the feed-forward layer"},
	    {"gptj", "attention beside the feed-forward layer"},
	    {"cohere", "attention beside the feed-forward layer"},
	    {"falcon", "attention beside the feed-forward layer"},
	    {"bloom", "ALiBi positions"},
	    {"mpt", "ALiBi positions"},
	    {"granite", "scaled residuals"},
	    {"t5", "an encoder and a decoder"},
	    {"whisper", "an encoder and a decoder"},
	    {"bert", "an encoder"},
	};
	char key[64];
	size_t length = 0;

	for (; *name && length + 1 < sizeof(key); name++)
		if (isalnum((unsigned char)*name))
			key[length++] = (char)tolower((unsigned char)*name);
	key[length] = '\0';
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		if (!strncmp(key, families[i][0], strlen(families[i][0])))
			return families[i][1];
	return "no formula for this architecture";
}

/* Biases beyond what the architecture always has; combinations p4d has no option for are named as not
 * modelled. */
static int read_bias(struct json_object *config, const hf_architecture *arch, p4d_request *model,
		     p4d_error *err)
{
	bool attention = false, mlp = false;

	if (read_flag(config, "attention_bias", &attention, err) < 0 ||
	    read_flag(config, "mlp_bias", &mlp, err) < 0)
		return -1;
	bool llama = arch == &modelled[0], qwen3 = arch->qk_norm;
	if (llama && attention && mlp)
		p4d_request_put(model, P4D_BIAS, P4D_BIAS_ALL, P4D_BY_MODEL);
	else if ((llama && (attention || mlp)) || (qwen3 && attention))
		snprintf(model->unmodelled, sizeof(model->unmodelled),
			 "%s: attention_bias=%s with mlp_bias=%s", arch->name, attention ? "true" : "false",
			 mlp ? "true" : "false");
	else
		p4d_request_put(model, P4D_BIAS, arch->bias, P4D_BY_MODEL);
	return 0;
}

static int read_epsilon(struct json_object *config, p4d_request *model, p4d_error *err)
{
	const p4d_option_info *info = p4d_request_option_info(P4D_NORM_EPSILON);
	double epsilon = NORM_EPSILON;

	if (p4d_json_number(config, "rms_norm_eps", info->least, info->most, &epsilon, err) < 0)
		return -1;
	p4d_request_put_real(model, P4D_NORM_EPSILON, epsilon, P4D_BY_MODEL);
	return 0;
}

static int read_llama(struct json_object *config, const hf_architecture *arch, p4d_request *model,
		      p4d_error *err)
{
	if (read_fields(config, llama_fields, model, err) < 0 || read_bias(config, arch, model, err) < 0 ||
	    read_epsilon(config, model, err) < 0 || p4d_model__read_rope(config, model, err) < 0)
		return -1;
	/* an explicit null means as many as heads, in every class */
	if (arch->kv_heads && !json_object_object_get_ex(config, "num_key_value_heads", NULL))
		p4d_request_put(model, P4D_KV_HEADS, arch->kv_heads, P4D_BY_MODEL);
	if (arch->head_dim)
		p4d_request_default(model, P4D_HEAD_DIM, arch->head_dim, P4D_BY_MODEL);
	return 0;
}

static int read_gpt2(struct json_object *config, p4d_request *model, p4d_error *err)
{
	bool cross_attention = false;

	if (read_fields(config, gpt2_fields, model, err) < 0 ||
	    read_flag(config, "add_cross_attention", &cross_attention, err) < 0)
		return -1;
	if (cross_attention)
		snprintf(model->unmodelled, sizeof(model->unmodelled), "GPT2LMHeadModel: cross-attention");
	if (p4d_is_set(model, P4D_HIDDEN))
		p4d_request_default(model, P4D_FFN, 4 * model->value[P4D_HIDDEN], P4D_BY_MODEL);
	p4d_request_put(model, P4D_BIAS, P4D_BIAS_ALL, P4D_BY_MODEL);
	return 0;
}

int p4d_model__read_hf(struct json_object *config, p4d_request *model, p4d_error *err)
{
	char name[256] = "";

	if (p4d_json_list(config, "architectures", name, sizeof(name), err) < 0)
		return -1;
	name[strcspn(name, ",")] = '\0';
	if (!*name && p4d_json_string(config, "model_type", name, sizeof(name), err) < 0)
		return -1;
	find_unmodelled(config, name, model->unmodelled, sizeof(model->unmodelled));
	if (*model->unmodelled)
		return 0;
	const hf_architecture *arch = find_architecture(name);
	if (!arch) {
		snprintf(model->unmodelled, sizeof(model->unmodelled),
			 "%.64s: %s; layers like Llama's: --p4d-model=custom with their sizes", name,
			 difference_of(name));
		return 0;
	}
	bool tied = arch->gpt2;
	if ((arch->gpt2 ? read_gpt2(config, model, err) : read_llama(config, arch, model, err)) < 0 ||
	    read_flag(config, "tie_word_embeddings", &tied, err) < 0)
		return -1;
	p4d_request_put(model, P4D_TIED, tied, P4D_BY_MODEL);
	p4d_request_put(model, P4D_NORM, arch->gpt2 ? P4D_LAYERNORM : P4D_RMSNORM, P4D_BY_MODEL);
	p4d_request_put(model, P4D_GLU, !arch->gpt2, P4D_BY_MODEL);
	p4d_request_put(model, P4D_POSITIONS, arch->gpt2 ? P4D_LEARNED : P4D_ROPE, P4D_BY_MODEL);
	p4d_request_put(model, P4D_QK_NORM, arch->qk_norm, P4D_BY_MODEL);
	return 0;
}
