/* SPDX-License-Identifier: Apache-2.0 */
/* config.json beside exported weights: the model of a plan line in the terms of the transformers library. */
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "request/framework.h"
#include "checkpoint/huggingface_config.h"
#include "base/new_file.h"
#include "plan/plan_line.h"
#include "model/rope.h"

typedef struct architecture {
	const char *name, *type;
} architecture;

/* name NULL: the library has none with these parts. */
static architecture architecture_of(const p4d_request *r)
{
	const bool bias = r->value[P4D_BIAS] == P4D_BIAS_QKV, norms = r->value[P4D_QK_NORM];

	if (p4d_framework_of(P4D_FRAMEWORK_P4D)->check_model(r, NULL) < 0 || (bias && norms))
		return (architecture){NULL, NULL};
	return norms  ? (architecture){"Qwen3ForCausalLM", "qwen3"}
	       : bias ? (architecture){"Qwen2ForCausalLM", "qwen2"}
		      : (architecture){"LlamaForCausalLM", "llama"};
}

static void add(struct json_object *to, const char *key, struct json_object *value)
{
	json_object_object_add(to, key, value);
}

static void add_text(struct json_object *to, const char *key, const char *text)
{
	add(to, key, json_object_new_string(text));
}

/* With a decimal point: the library does not accept 8 as a factor. */
static void add_decimal(struct json_object *to, const char *key, double value)
{
	char text[40];

	snprintf(text, sizeof(text) - 2, "%.15g", value);
	if (!strpbrk(text, ".e"))
		strcat(text, ".0");
	add(to, key, json_object_new_double_s(value, text));
}

static void add_numbers(struct json_object *to, const p4d_request *r)
{
	static const struct {
		const char *key;
		p4d_option option;
	} numbers[] = {
	    {"hidden_size", P4D_HIDDEN},
	    {"intermediate_size", P4D_FFN},
	    {"num_hidden_layers", P4D_LAYERS},
	    {"num_attention_heads", P4D_HEADS},
	    {"num_key_value_heads", P4D_KV_HEADS},
	    {"head_dim", P4D_HEAD_DIM},
	    {"vocab_size", P4D_VOCAB},
	};
	const p4d_option longest = p4d_is_set(r, P4D_MAX_SEQ_LEN) ? P4D_MAX_SEQ_LEN : P4D_SEQ_LEN;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		add(to, numbers[i].key, json_object_new_int64(r->value[numbers[i].option]));
	add(to, "max_position_embeddings", json_object_new_int64(r->value[longest]));
	add(to, "tie_word_embeddings", json_object_new_boolean(r->value[P4D_TIED] != 0));
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

static struct json_object *config_of(const p4d_request *r, const p4d_rope *rope, p4d_safetensors_type type)
{
	const architecture of = architecture_of(r);
	struct json_object *config = json_object_new_object(), *names = json_object_new_array();

	json_object_array_add(names, json_object_new_string(of.name));
	add(config, "architectures", names);
	add_text(config, "model_type", of.type);
	add_numbers(config, r);
	add_text(config, "hidden_act", "silu");
	add(config, "attention_bias", json_object_new_boolean(0));
	add_decimal(config, "rms_norm_eps", p4d_request_real(r, P4D_NORM_EPSILON));
	add_rope(config, rope);
	/* left out they would be 1 and 2 to the library, which are words of most vocabularies */
	add(config, "bos_token_id", NULL);
	add(config, "eos_token_id", NULL);
	add_text(config, "torch_dtype", type == P4D_ST_BF16 ? "bfloat16" : "float32");
	return config;
}

/* Takes the object. */
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
	if (!architecture_of(&request).name)
		return 0;
	return write_object(path, config_of(&request, &rope, type), err);
}

static struct json_object *targets_of(const p4d_layout *l)
{
	struct json_object *names = json_object_new_array();

	for (unsigned i = 0; i < P4D_ADAPTED_LAYERS; i++)
		if (p4d_is_adapted(l, i)) /* without the part of the layer it is in */
			json_object_array_add(
			    names, json_object_new_string(strchr(p4d_weights_adapted_name(i), '.') + 1));
	return names;
}

int p4d_huggingface__write_adapter_config(const char *path, const p4d_layout *layout,
					  const p4d_checkpoint_info *info, p4d_error *err)
{
	struct json_object *config = json_object_new_object();

	add_text(config, "peft_type", "LORA");
	add_text(config, "task_type", "CAUSAL_LM");
	add_text(config, "base_model_name_or_path", info->base);
	add(config, "inference_mode", json_object_new_boolean(1));
	add(config, "r", json_object_new_int64((int64_t)layout->lora_rank));
	add_decimal(config, "lora_alpha", info->alpha);
	add_decimal(config, "lora_dropout", 0);
	add_text(config, "bias", "none");
	add(config, "target_modules", targets_of(layout));
	return write_object(path, config, err);
}
