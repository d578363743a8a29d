/* SPDX-License-Identifier: Apache-2.0 */
/* Hugging Face config.json: fields that families share. model_families.c has fields of single families. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/json_file.h"
#include "model/model_hf.h"
#include "model/model_json.h"
#include "request/architecture.h"

/* The transformers library's default for an absent field. */
#define NORM_EPSILON 1e-6
#define LAYER_NORM_EPSILON 1e-5

/*
 * The names that families give to the numbers of a model. No family uses one of these names for another
 * number.
 */
static const struct {
	p4d_option option;
	const char *key[7];
} numbers[] = {
    {P4D_LAYERS, {"num_hidden_layers", "n_layer", "n_layers", "num_layers"}},
    {P4D_HIDDEN, {"hidden_size", "n_embd", "d_model", "n_embed"}},
    {P4D_FFN, {"intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "d_ff"}},
    {P4D_HEADS, {"num_attention_heads", "n_head", "n_heads", "num_heads"}},
    {P4D_KV_HEADS, {"num_key_value_heads", "num_kv_heads", "multi_query_group_num"}},
    {P4D_HEAD_DIM, {"head_dim", "kv_channels", "d_kv"}},
    {P4D_VOCAB, {"padded_vocab_size", "vocab_size"}},
    {P4D_MAX_SEQ_LEN,
     {"max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "seq_length"}},
};

/*
 * A boolean field that adds biases if it is true and removes them if it is false. Later rows of this table
 * override earlier ones.
 */
static const struct {
	const char *key;
	unsigned biased;
} switches[] = {
    {"attention_bias", P4D_BIASED_QKV | P4D_BIASED_OUTPUT},
    {"attention_out_bias", P4D_BIASED_OUTPUT},
    {"mlp_bias", P4D_BIASED_MLP},
    {"use_qkv_bias", P4D_BIASED_QKV},
    {"add_bias_linear", P4D_BIASED_QKV | P4D_BIASED_OUTPUT | P4D_BIASED_MLP},
    {"add_qkv_bias", P4D_BIASED_QKV},
    {"qkv_bias", P4D_BIASED_QKV},
    {"enable_bias", P4D_BIASED_QKV | P4D_BIASED_OUTPUT | P4D_BIASED_MLP},
    {"use_bias", P4D_BIASED_QKV | P4D_BIASED_OUTPUT | P4D_BIASED_MLP},
};

/* Whether a field is present and not null. */
static bool has(struct json_object *config, const char *key)
{
	return json_object_object_get(config, key) != NULL;
}

static int read_numbers(struct json_object *config, p4d_request *model, p4d_error *err)
{
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		const p4d_option option = numbers[i].option;
		const p4d_option_info *info = p4d_request_option_info(option);
		for (const char *const *key = numbers[i].key; *key && !p4d_is_set(model, option); key++) {
			int64_t value = 0;
			if (p4d_json_integer(config, *key, info->min, info->max, &value, err) < 0)
				return -1;
			if (value)
				p4d_request_put(model, option, value, P4D_BY_MODEL);
		}
	}
	return 0;
}

/*
 * Reads the numbers of experts and latent attention, under the names that families share; 0 and null count as
 * absent.
 */
static int read_experts(struct json_object *config, p4d_request *model, p4d_error *err)
{
	static const struct {
		const char *key;
		p4d_option option;
	} fields[] = {
	    {"num_local_experts", P4D_EXPERTS},
	    {"n_routed_experts", P4D_EXPERTS},
	    {"num_experts", P4D_EXPERTS},
	    {"num_experts_per_tok", P4D_EXPERTS_PER_TOKEN},
	    {"moe_intermediate_size", P4D_EXPERT_FFN},
	    {"shared_expert_intermediate_size", P4D_SHARED_FFN},
	    {"first_k_dense_replace", P4D_DENSE_LAYERS},
	    {"kv_lora_rank", P4D_KV_LORA_RANK},
	    {"q_lora_rank", P4D_Q_LORA_RANK},
	    {"qk_rope_head_dim", P4D_ROPE_HEAD_DIM},
	    {"v_head_dim", P4D_V_HEAD_DIM},
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
		int64_t value = 0;
		if (p4d_json_integer(config, fields[i].key, 0, p4d_request_option_info(fields[i].option)->max,
				     &value, err) < 0)
			return -1;
		if (value)
			p4d_request_put(model, fields[i].option, value, P4D_BY_MODEL);
	}
	return 0;
}

/*
 * Whether the file lacks the key. An explicit null is not absent: in every class it means a value that
 * follows from others (key/value heads = heads; head_dim = hidden / heads).
 */
static bool is_absent(struct json_object *config, p4d_option option)
{
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		for (const char *const *key = numbers[i].key; numbers[i].option == option && *key; key++)
			if (json_object_object_get_ex(config, *key, NULL))
				return false;
	return true;
}

static void take_defaults(struct json_object *config, const p4d_hf_family *family, p4d_request *model)
{
	for (int i = 0; i < P4D_HF_ABSENT && family->absent[i].value; i++)
		/* for head_dim, null also means the default of the class */
		if (family->absent[i].option == P4D_HEAD_DIM || is_absent(config, family->absent[i].option))
			p4d_request_default(model, family->absent[i].option, family->absent[i].value,
					    P4D_BY_MODEL);
	if (p4d_is_set(model, P4D_HIDDEN) &&
	    !p4d_is_gated(p4d_architectures[family->architecture].activation))
		p4d_request_default(model, P4D_FFN, 4 * model->value[P4D_HIDDEN], P4D_BY_MODEL);
}

/* Why p4d does not model the memory of this architecture; "" if it does. */
static void find_unmodelled(struct json_object *config, const char *name, const p4d_hf_family *family,
			    char *buf, size_t size)
{
	static const char *const experts[] = {"num_local_experts", "n_routed_experts", "num_experts",
					      "moe_num_experts", NULL};
	static const char *const state_space[] = {"ssm_cfg",       "state_size",   "ssm_state_size",
						  "mamba_d_state", "mamba_expand", NULL};
	const bool reads_experts = family && family->experts, reads_states = family && family->states;

	buf[0] = '\0';
	for (const char *const *key = experts; *key && !reads_experts; key++) {
		int64_t count = json_object_get_int64(json_object_object_get(config, *key));
		if (count > 1) {
			snprintf(buf, size, "%.64s: mixture of experts (%s=%" PRId64 ")", name, *key, count);
			return;
		}
	}
	int64_t rank = json_object_get_int64(json_object_object_get(config, "kv_lora_rank"));
	if (rank > 0 && !reads_experts) {
		snprintf(buf, size, "%.64s: multi-head latent attention (kv_lora_rank=%" PRId64 ")", name,
			 rank);
		return;
	}
	for (const char *const *key = state_space; *key && !reads_states; key++) {
		if (has(config, *key)) {
			snprintf(buf, size, "%.64s: state-space layers (%s)", name, *key);
			return;
		}
	}
	bool cross_attention = json_object_get_boolean(json_object_object_get(config, "add_cross_attention"));
	if (cross_attention)
		snprintf(buf, size, "%.64s: cross-attention", name);
}

static int read_bias(struct json_object *config, const p4d_hf_family *family, p4d_request *model,
		     p4d_error *err)
{
	unsigned biased = family->biased;

	for (size_t i = 0; !family->fixed_biases && i < sizeof(switches) / sizeof(*switches); i++) {
		bool on = biased & switches[i].biased;
		if (!has(config, switches[i].key))
			continue;
		if (p4d_json_boolean(config, switches[i].key, &on, err) < 0)
			return -1;
		biased = on ? biased | switches[i].biased : biased & ~switches[i].biased;
	}
	for (int bias = P4D_BIAS_NONE; bias <= P4D_BIAS_MLP; bias++)
		if (p4d_biased(bias) == biased) {
			p4d_request_put(model, P4D_BIAS, bias, P4D_BY_MODEL);
			return 0;
		}
	snprintf(model->unmodelled, sizeof(model->unmodelled),
		 "%.64s: biases of query, key and value %s, of attention's output %s, of the feed-forward "
		 "layer %s",
		 family->class_name, biased & P4D_BIASED_QKV ? "on" : "off",
		 biased & P4D_BIASED_OUTPUT ? "on" : "off", biased & P4D_BIASED_MLP ? "on" : "off");
	return 0;
}

/* The family decides whether the activation is gated; the file names the function. */
static int read_activation(struct json_object *config, const p4d_hf_family *family, p4d_request *model,
			   p4d_error *err)
{
	static const char *const keys[] = {"hidden_activation", "hidden_act", "activation_function",
					   "activation", NULL};
	const int usual = p4d_architectures[family->architecture].activation;
	const bool gated = p4d_is_gated(usual);
	char name[64] = "";

	for (const char *const *key = keys; *key && !*name; key++)
		if (json_object_is_type(json_object_object_get(config, *key), json_type_string) &&
		    p4d_json_string(config, *key, name, sizeof(name), err) < 0)
			return -1;
	int activation = usual;
	if (strstr(name, "gelu"))
		activation = gated ? P4D_GEGLU : P4D_GELU;
	else if (gated && (!strcmp(name, "silu") || !strcmp(name, "swish")))
		activation = P4D_SWIGLU_ACTIVATION;
	else if (!gated && !strcmp(name, "relu2"))
		activation = P4D_RELU2;
	else if (!gated && !strcmp(name, "xielu"))
		activation = P4D_XIELU;
	else if (!gated && !strcmp(name, "relu"))
		activation = P4D_RELU;
	else if (*name)
		snprintf(model->unmodelled, sizeof(model->unmodelled), "%.64s: activation %.40s",
			 family->class_name, name);
	p4d_request_put(model, P4D_ACTIVATION, activation, P4D_BY_MODEL);
	return 0;
}

static int read_epsilon(struct json_object *config, p4d_request *model, p4d_error *err)
{
	const p4d_option_info *info = p4d_request_option_info(P4D_NORM_EPSILON);
	const bool layer_norm = p4d_architecture_of(model)->norm != P4D_RMSNORM;
	double epsilon = layer_norm ? LAYER_NORM_EPSILON : NORM_EPSILON;

	if (p4d_json_number(config, layer_norm ? "layer_norm_epsilon" : "rms_norm_eps", info->least,
			    info->most, &epsilon, err) < 0)
		return -1;
	p4d_request_put_real(model, P4D_NORM_EPSILON, epsilon, P4D_BY_MODEL);
	return 0;
}

/* Reads the sliding window. Files of Qwen 2 and 3 have the number even if it is not used. */
static int read_window(struct json_object *config, p4d_request *model, p4d_error *err)
{
	const p4d_option_info *info = p4d_request_option_info(P4D_SLIDING_WINDOW);
	bool used = true;
	int64_t window = 0;

	if (p4d_json_boolean(config, "use_sliding_window", &used, err) < 0 ||
	    p4d_json_integer(config, "sliding_window", info->min, info->max, &window, err) < 0 ||
	    p4d_json_integer(config, "local_attention", info->min, info->max, &window, err) < 0)
		return -1;
	if (used && window)
		p4d_request_put(model, P4D_SLIDING_WINDOW, window, P4D_BY_MODEL);
	return 0;
}

static int read_family(struct json_object *config, const p4d_hf_family *family, p4d_request *model,
		       p4d_error *err)
{
	const bool turned = p4d_architectures[family->architecture].positions == P4D_ROPE;

	p4d_request_put(model, P4D_ARCHITECTURE, family->architecture, P4D_BY_MODEL);
	if (read_numbers(config, model, err) < 0 || read_bias(config, family, model, err) < 0 ||
	    read_activation(config, family, model, err) < 0 || read_window(config, model, err) < 0 ||
	    read_epsilon(config, model, err) < 0 || (turned && p4d_model__read_rope(config, model, err) < 0))
		return -1;
	if (family->experts && read_experts(config, model, err) < 0)
		return -1;
	take_defaults(config, family, model);
	if (family->own && family->own(config, model, err) < 0)
		return -1;
	p4d_architecture_defaults(model);
	return p4d_model__read_untrained(config, model, err);
}

/* The name for messages: the class, else the type. */
static int read_name(struct json_object *config, char *name, size_t name_size, char *type, size_t type_size,
		     p4d_error *err)
{
	if (p4d_json_list(config, "architectures", name, name_size, err) < 0 ||
	    p4d_json_string(config, "model_type", type, type_size, err) < 0)
		return -1;
	name[strcspn(name, ",")] = '\0';
	if (!*name)
		snprintf(name, name_size, "%s", type);
	return 0;
}

/* Models of several parts have the sizes of their text part in a nested object. */
static struct json_object *text_part(struct json_object *config)
{
	static const char *const keys[] = {"text_config", "llm_config", "language_config", NULL};

	for (const char *const *key = keys; *key; key++) {
		struct json_object *text = json_object_object_get(config, *key);
		if (json_object_is_type(text, json_type_object) && has(text, "model_type"))
			return text;
	}
	return NULL;
}

int p4d_model__read_hf(struct json_object *config, p4d_request *model, p4d_error *err)
{
	char name[256] = "", type[256] = "", part[64] = "";
	struct json_object *text = text_part(config);
	bool tied;

	if (read_name(config, name, sizeof(name), type, sizeof(type), err) < 0)
		return -1;
	const p4d_hf_family *family = p4d_model__family(name, type);
	if (text && p4d_json_string(text, "model_type", part, sizeof(part), err) < 0)
		return -1;
	if (text)
		family = p4d_model__family("", part);
	else
		text = config;
	find_unmodelled(text, name, family, model->unmodelled, sizeof(model->unmodelled));
	if (*model->unmodelled)
		return 0;
	if (!family) {
		snprintf(
		    model->unmodelled, sizeof(model->unmodelled),
		    "%.64s: no formula for this architecture; see --p4d-model=custom, --p4d-architecture",
		    name);
		return 0;
	}
	if (read_family(text, family, model, err) < 0 || p4d_model__read_quantization(config, model, err) < 0)
		return -1;
	if (family->partly || text != config) {
		snprintf(model->judged_part, sizeof(model->judged_part), "the text part of %.64s", name);
		p4d_request_put(model, P4D_JUDGED_PART, 1, P4D_BY_MODEL);
	}
	/* some fields of the whole model also apply to its text part */
	struct json_object *of = has(config, "tie_word_embeddings") ? config : text;
	tied = p4d_architectures[family->architecture].tied;
	if (p4d_json_boolean(of, "tie_word_embeddings", &tied, err) < 0)
		return -1;
	p4d_request_put(model, P4D_TIED, tied, P4D_BY_MODEL);
	return 0;
}
