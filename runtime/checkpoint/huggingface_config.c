/* SPDX-License-Identifier: Apache-2.0 */
/* config.json for exported weights: describes the model of a plan line to the transformers library. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "request/architecture.h"
#include "checkpoint/huggingface_config.h"
#include "checkpoint/huggingface_names.h"
#include "base/new_file.h"
#include "plan/plan_line.h"
#include "plan/shared_sizes.h"
#include "model/rope.h"

#define BIAS(value) (1u << P4D_BIAS_##value)
#define FACTOR(option) (1u << (P4D_##option##_SCALE - P4D_EMBEDDING_SCALE))
#define LINEAR_BIASES (BIAS(NONE) | BIAS(ATTENTION) | BIAS(MLP) | BIAS(ALL))

typedef enum windows { WITHOUT_WINDOW, ANY_WINDOW, WITH_WINDOW } windows;

/* A class of the transformers library, and the models that it computes. */
typedef struct architecture {
	const char *name, *type;
	int row;         /* row of architectures.def */
	unsigned biases; /* values of --bias */
	int qk_norm;
	windows window;
	unsigned factors; /* options of factors for which the class has a field */
	bool gpt2;        /* the class has GPT-2's names of fields */
	bool switches;    /* the class has the field mlp_bias */
} architecture;

#define ROW(architecture_) .row = P4D_ARCHITECTURE_##architecture_
/* Classes for rows of architectures.def that differ only in defaults of options. */
#define LIKE_LLAMA(architecture_) \
	{"Qwen3ForCausalLM", \
	 "qwen3", \
	 ROW(architecture_), \
	 BIAS(NONE) | BIAS(ATTENTION), \
	 .qk_norm = P4D_QK_NORM_HEAD, \
	 .window = ANY_WINDOW, \
	 .switches = true}, \
	    {"Qwen2ForCausalLM", "qwen2", ROW(architecture_), BIAS(QKV), .window = ANY_WINDOW}, \
	    {"MistralForCausalLM", "mistral", ROW(architecture_), BIAS(NONE), .window = WITH_WINDOW}, \
	{ \
		"LlamaForCausalLM", "llama", ROW(architecture_), LINEAR_BIASES, .switches = true \
	}

static const architecture classes[] = {
    {"GPT2LMHeadModel", "gpt2", ROW(GPT2), BIAS(ALL), .gpt2 = true},
    {"GemmaForCausalLM", "gemma", ROW(GEMMA), BIAS(NONE) | BIAS(ATTENTION)},
    {"Gemma2ForCausalLM", "gemma2", ROW(GEMMA2), BIAS(NONE) | BIAS(ATTENTION), .window = ANY_WINDOW,
     .factors = FACTOR(ATTENTION)},
    {"Gemma3ForCausalLM", "gemma3_text", ROW(GEMMA3), BIAS(NONE) | BIAS(ATTENTION),
     .qk_norm = P4D_QK_NORM_HEAD, .window = WITH_WINDOW, .factors = FACTOR(ATTENTION)},
    {"GraniteForCausalLM", "granite", ROW(GRANITE), LINEAR_BIASES, .switches = true,
     .factors = FACTOR(EMBEDDING) | FACTOR(RESIDUAL) | FACTOR(ATTENTION) | FACTOR(LOGIT)},
    {"SmolLM3ForCausalLM", "smollm3", ROW(SMOLLM3), LINEAR_BIASES, .switches = true},
    {"Olmo2ForCausalLM", "olmo2", ROW(OLMO2), BIAS(NONE), .qk_norm = P4D_QK_NORM_WIDE},
    {"Phi3ForCausalLM", "phi3", ROW(PHI3), BIAS(NONE), .window = ANY_WINDOW},
    LIKE_LLAMA(LLAMA),
    LIKE_LLAMA(QWEN2),
    LIKE_LLAMA(QWEN3),
};

static bool is_windowed(const p4d_request *r)
{
	return p4d_is_set(r, P4D_SLIDING_WINDOW);
}

static bool is_gpt2(const p4d_request *r)
{
	return r->value[P4D_KV_HEADS] == r->value[P4D_HEADS] &&
	       r->value[P4D_HEADS] * r->value[P4D_HEAD_DIM] == r->value[P4D_HIDDEN];
}

static bool has_factors(const architecture *of, const p4d_request *r)
{
	for (int i = P4D_EMBEDDING_SCALE; i <= P4D_LOGIT_SCALE; i++)
		if (p4d_is_set(r, (p4d_option)i) && !(of->factors & 1u << (i - P4D_EMBEDDING_SCALE)))
			return false;
	return true;
}

static bool computes(const architecture *of, const p4d_request *r)
{
	const p4d_architecture *row = &p4d_architectures[of->row];

	return r->value[P4D_ARCHITECTURE] == of->row && r->value[P4D_NORM] == row->norm &&
	       r->value[P4D_ACTIVATION] == row->activation && r->value[P4D_POSITIONS] == row->positions &&
	       of->biases & 1u << r->value[P4D_BIAS] && r->value[P4D_QK_NORM] == of->qk_norm &&
	       !(of->window == WITHOUT_WINDOW && is_windowed(r)) &&
	       !(of->window == WITH_WINDOW && !is_windowed(r)) && (!of->gpt2 || is_gpt2(r)) &&
	       has_factors(of, r);
}

/* Finds the class of the library that computes the model. NULL: it has none with these features. */
static const architecture *architecture_of(const p4d_request *r)
{
	for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++)
		if (computes(&classes[i], r))
			return &classes[i];
	return NULL;
}

static void add(struct json_object *to, const char *key, struct json_object *value)
{
	json_object_object_add(to, key, value);
}

static void add_text(struct json_object *to, const char *key, const char *text)
{
	add(to, key, json_object_new_string(text));
}

/* Adds a number that always has a decimal point, because the library does not accept 8 as a factor. */
static void add_decimal(struct json_object *to, const char *key, double value)
{
	char text[40];

	snprintf(text, sizeof(text) - 2, "%.15g", value);
	if (!strpbrk(text, ".e"))
		strcat(text, ".0");
	add(to, key, json_object_new_double_s(value, text));
}

static void add_numbers(struct json_object *to, const p4d_request *r, const architecture *of)
{
	static const struct {
		const char *key, *of_gpt2;
		p4d_option option;
	} numbers[] = {
	    {"hidden_size", "n_embd", P4D_HIDDEN},        {"intermediate_size", "n_inner", P4D_FFN},
	    {"num_hidden_layers", "n_layer", P4D_LAYERS}, {"num_attention_heads", "n_head", P4D_HEADS},
	    {"num_key_value_heads", NULL, P4D_KV_HEADS},  {"head_dim", NULL, P4D_HEAD_DIM},
	    {"vocab_size", "vocab_size", P4D_VOCAB},
	};
	const int64_t positions = p4d_is_set(r, P4D_MAX_SEQ_LEN) ? r->value[P4D_MAX_SEQ_LEN] : 0,
		      length = r->value[P4D_SEQ_LEN];
	/* A table of learned positions has as many rows as the larger of these two numbers. */
	const int64_t longest = positions && (positions > length || !of->gpt2) ? positions : length;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		const char *key = of->gpt2 ? numbers[i].of_gpt2 : numbers[i].key;
		if (key)
			add(to, key, json_object_new_int64(r->value[numbers[i].option]));
	}
	add(to, of->gpt2 ? "n_positions" : "max_position_embeddings", json_object_new_int64(longest));
	add(to, "tie_word_embeddings", json_object_new_boolean(r->value[P4D_TIED] != 0));
}

/* Adds the window. Qwen's models use it only in the layers from a number on, and only if a switch is on. */
static void add_window(struct json_object *to, const p4d_request *r, const architecture *of)
{
	if (!is_windowed(r))
		return;
	add(to, "sliding_window", json_object_new_int64(r->value[P4D_SLIDING_WINDOW]));
	if (strncmp(of->type, "qwen", 4) != 0)
		return;
	add(to, "use_sliding_window", json_object_new_boolean(1));
	add(to, "max_window_layers", json_object_new_int64(0));
}

static void add_rope(struct json_object *to, const p4d_rope *rope)
{
	struct json_object *scaling = NULL;

	add_decimal(to, "rope_theta", rope->theta);
	if (rope->type != P4D_ROPE_NONE) {
		scaling = json_object_new_object();
		add_text(scaling, "rope_type", rope->type == P4D_ROPE_LINEAR ? "linear" : "llama3");
		add_decimal(scaling, "factor", rope->factor);
	}
	if (rope->type == P4D_ROPE_LLAMA3) {
		add_decimal(scaling, "low_freq_factor", rope->low);
		add_decimal(scaling, "high_freq_factor", rope->high);
		add(scaling, "original_max_position_embeddings",
		    json_object_new_int64((int64_t)rope->original));
	}
	add(to, "rope_scaling", scaling);
}

static void add_flag(struct json_object *to, const char *key, bool flag)
{
	add(to, key, json_object_new_boolean(flag));
}

/* Factors on embeddings, residuals, scores and logits. */
static void add_factors(struct json_object *to, const p4d_request *r, const p4d_layout *l)
{
	const p4d_architecture *a = p4d_architecture_of(r);

	if (a->scales_residual) {
		add_decimal(to, "embedding_multiplier", l->factor.embedding);
		add_decimal(to, "residual_multiplier", l->factor.residual);
		add_decimal(to, "attention_multiplier", l->factor.attention);
		add_decimal(to, "logits_scaling", 1 / l->factor.logit);
	}
	if (a->attention_cap > 0) {
		add_decimal(to, "attn_logit_softcapping", (double)a->attention_cap);
		add_decimal(to, "final_logit_softcapping", (double)a->logit_cap);
	}
	if (a->scaled_embedding && a->place == P4D_NORMS_AROUND)
		add(to, "query_pre_attn_scalar",
		    json_object_new_int64(llround(pow(l->factor.attention, -2))));
	if (a->window_theta > 0)
		add_decimal(to, "rope_local_base_freq", (double)a->window_theta);
}

/* Adds no_rope_layers: 1 for each layer that rotates, 0 for those that do not. */
static void add_rotations(struct json_object *to, const p4d_layout *l)
{
	struct json_object *list = json_object_new_array();

	for (uint64_t i = 0; i < l->layers; i++)
		json_object_array_add(list, json_object_new_int(!p4d_rope_table_of(l, i)));
	add(to, "no_rope_layers", list);
	add(to, "no_rope_layer_interval", json_object_new_int64(l->architecture->unrotated_every));
}

/* Adds the fields in which the model differs from Llama. */
static void add_own(struct json_object *to, const p4d_request *r, const p4d_rope *rope,
		    const architecture *of)
{
	static const char *const dropouts[] = {"resid_pdrop", "embd_pdrop", "attn_pdrop"};
	const p4d_architecture *a = p4d_architecture_of(r);
	p4d_layout l;

	if (of->gpt2) {
		add_text(to, "activation_function", "gelu_new");
		add_decimal(to, "layer_norm_epsilon", p4d_request_real(r, P4D_NORM_EPSILON));
		for (size_t i = 0; i < sizeof(dropouts) / sizeof(*dropouts); i++)
			add_decimal(to, dropouts[i], 0);
		return;
	}
	add_text(to, "hidden_act", a->unit_norms ? "gelu_pytorch_tanh" : "silu");
	if (a->unit_norms)
		add_text(to, "hidden_activation", "gelu_pytorch_tanh");
	p4d_layout_of_model(r, &l);
	add_factors(to, r, &l);
	if (a->unrotated_every)
		add_rotations(to, &l);
	add_flag(to, "attention_bias", l.biased & P4D_BIASED_OUTPUT);
	if (of->switches)
		add_flag(to, "mlp_bias", l.biased & P4D_BIASED_MLP);
	add_decimal(to, "rms_norm_eps", p4d_request_real(r, P4D_NORM_EPSILON));
	add_rope(to, rope);
}

static struct json_object *config_of(const p4d_request *r, const p4d_rope *rope, p4d_safetensors_type type)
{
	const architecture *of = architecture_of(r);
	struct json_object *config = json_object_new_object(), *names = json_object_new_array();

	json_object_array_add(names, json_object_new_string(of->name));
	add(config, "architectures", names);
	add_text(config, "model_type", of->type);
	add_numbers(config, r, of);
	add_window(config, r, of);
	add_own(config, r, rope, of);
	/*
	 * Without these keys the library would assume 1, 2 and, for some classes, other numbers. In most
	 * vocabularies these are words.
	 */
	add(config, "bos_token_id", NULL);
	add(config, "eos_token_id", NULL);
	add(config, "pad_token_id", NULL);
	add_text(config, "torch_dtype", type == P4D_ST_BF16 ? "bfloat16" : "float32");
	return config;
}

/* Writes the object to a file, and frees it. */
static int write_object(const char *path, struct json_object *config, p4d_error *err)
{
	const char *text =
	    json_object_to_json_string_ext(config, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);
	int rc = text ? p4d_new_file_put(path, text, strlen(text), err)
		      : p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %.300s", path);

	json_object_put(config);
	return rc;
}

int p4d_huggingface__write_config(const char *path, const char *plan, p4d_safetensors_type type,
				  p4d_error *err)
{
	p4d_request request;
	p4d_rope rope;

	if (p4d_plan_read(plan, &request, err) < 0)
		return -1;
	p4d_rope_default(&request);
	if (p4d_rope_of(&request, &rope, err) < 0)
		return -1;
	if (!architecture_of(&request))
		return 0;
	return write_object(path, config_of(&request, &rope, type), err);
}

static struct json_object *targets_of(const p4d_layout *l)
{
	struct json_object *names = json_object_new_array();

	for (unsigned i = 0; i < P4D_ADAPTED_LAYERS; i++)
		if (p4d_is_adapted(l, i))
			json_object_array_add(names,
					      json_object_new_string(p4d_huggingface__module_name(l, i)));
	return names;
}

int p4d_huggingface__write_adapter_config(const char *path, const p4d_layout *layout,
					  const p4d_checkpoint_info *info, p4d_error *err)
{
	struct json_object *config = json_object_new_object();

	add_text(config, "peft_type", "LORA");
	add_text(config, "task_type", "CAUSAL_LM");
	/* A path that the user typed means nothing on other machines, so a name in the hub is better. */
	add_text(config, "base_model_name_or_path",
		 info->released[0] && !strstr(info->released, "/models--") ? info->released : info->base);
	add(config, "inference_mode", json_object_new_boolean(1));
	add(config, "r", json_object_new_int64((int64_t)layout->lora.rank));
	add_decimal(config, "lora_alpha", info->alpha);
	add_decimal(config, "lora_dropout", 0);
	add_text(config, "bias", "none");
	add(config, "fan_in_fan_out", json_object_new_boolean(p4d_huggingface__transposes(layout)));
	add(config, "target_modules", targets_of(layout));
	return write_object(path, config, err);
}
