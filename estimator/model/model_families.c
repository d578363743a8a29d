/* SPDX-License-Identifier: Apache-2.0 */
/* Maps a config.json to a row of architectures.def, and reads fields that only one family has. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json_file.h"
#include "model/model_hf.h"
#include "request/architecture.h"

#define ALL_BIASED (P4D_BIASED_QKV | P4D_BIASED_OUTPUT | P4D_BIASED_MLP)

static void choose(p4d_request *model, p4d_option option, int64_t value)
{
	p4d_request_put(model, option, value, P4D_BY_MODEL);
}

__attribute__((format(printf, 2, 3))) static int cannot(p4d_request *model, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(model->unmodelled, sizeof(model->unmodelled), format, list);
	va_end(list);
	return 0;
}

/* Reads a boolean, or `otherwise` if it is absent. A wrong type is an error. */
static int flag(struct json_object *config, const char *key, bool otherwise, bool *value, p4d_error *err)
{
	*value = otherwise;
	return p4d_json_boolean(config, key, value, err);
}

/* Reads multi_query: one key/value head for all query heads. */
static int multi_query(struct json_object *config, p4d_request *model, bool usual, p4d_error *err)
{
	bool one;

	if (flag(config, "multi_query", usual, &one, err) < 0)
		return -1;
	if (one)
		choose(model, P4D_KV_HEADS, 1);
	return 0;
}

static int own_bigcode(struct json_object *config, p4d_request *model, p4d_error *err)
{
	return multi_query(config, model, true, err);
}

static int own_neox(struct json_object *config, p4d_request *model, p4d_error *err)
{
	bool parallel;

	if (flag(config, "use_parallel_residual", true, &parallel, err) < 0)
		return -1;
	if (!parallel)
		choose(model, P4D_ARCHITECTURE, P4D_ARCHITECTURE_GPT_NEOX_SEQUENTIAL);
	return 0;
}

static int own_stablelm(struct json_object *config, p4d_request *model, p4d_error *err)
{
	bool parallel, norms;

	if (flag(config, "use_parallel_residual", false, &parallel, err) < 0 ||
	    flag(config, "qk_layernorm", false, &norms, err) < 0)
		return -1;
	if (parallel)
		choose(model, P4D_ARCHITECTURE, P4D_ARCHITECTURE_STABLELM_12B);
	choose(model, P4D_QK_NORM, norms ? P4D_QK_NORM_WIDE : P4D_QK_NORM_OFF);
	return 0;
}

static int own_cohere(struct json_object *config, p4d_request *model, p4d_error *err)
{
	bool norms;

	if (flag(config, "use_qk_norm", false, &norms, err) < 0)
		return -1;
	choose(model, P4D_QK_NORM, norms ? P4D_QK_NORM_WIDE : P4D_QK_NORM_OFF);
	return 0;
}

/* Reads Falcon's three designs, which share one class name: 7B, 40B and later, RW. */
static int own_falcon(struct json_object *config, p4d_request *model, p4d_error *err)
{
	bool later, parallel, alibi, biased;
	int64_t norms = 2;

	if (flag(config, "new_decoder_architecture", false, &later, err) < 0 ||
	    flag(config, "parallel_attn", true, &parallel, err) < 0 ||
	    flag(config, "alibi", false, &alibi, err) < 0 || flag(config, "bias", false, &biased, err) < 0 ||
	    p4d_json_integer(config, "num_ln_in_parallel_attn", 1, 2, &norms, err) < 0)
		return -1;
	choose(model, P4D_BIAS, biased ? P4D_BIAS_ALL : P4D_BIAS_NONE);
	choose(model, P4D_POSITIONS, alibi ? P4D_ALIBI : P4D_ROPE);
	if (later)
		choose(model, P4D_ARCHITECTURE,
		       norms == 2 ? P4D_ARCHITECTURE_FALCON_40B : P4D_ARCHITECTURE_FALCON);
	else
		choose(model, P4D_ARCHITECTURE,
		       parallel ? P4D_ARCHITECTURE_FALCON : P4D_ARCHITECTURE_FALCON_RW);
	if (later)
		return 0;
	if (p4d_is_set(model, P4D_HEADS)) /* the file has num_kv_heads, but this design does not use it */
		choose(model, P4D_KV_HEADS, model->value[P4D_HEADS]);
	return multi_query(config, model, true, err);
}

static int own_mpt(struct json_object *config, p4d_request *model, p4d_error *err)
{
	struct json_object *attention = json_object_object_get(config, "attn_config");
	const p4d_option_info *info = p4d_request_option_info(P4D_KV_HEADS);
	bool alibi = true, unbiased;
	int64_t kv_heads = 0, times = 4;

	if (flag(config, "no_bias", true, &unbiased, err) < 0 ||
	    p4d_json_integer(config, "expansion_ratio", 1, 64, &times, err) < 0)
		return -1;
	if (json_object_is_type(attention, json_type_object) &&
	    (p4d_json_boolean(attention, "alibi", &alibi, err) < 0 ||
	     p4d_json_integer(attention, "kv_n_heads", info->min, info->max, &kv_heads, err) < 0))
		return -1;
	if (!unbiased || !alibi)
		return cannot(model, "MPTForCausalLM: no_bias=%s, alibi=%s", unbiased ? "true" : "false",
			      alibi ? "true" : "false");
	if (p4d_is_set(model, P4D_HIDDEN))
		choose(model, P4D_FFN, times * model->value[P4D_HIDDEN]);
	if (kv_heads)
		choose(model, P4D_KV_HEADS, kv_heads);
	return 0;
}

static int own_opt(struct json_object *config, p4d_request *model, p4d_error *err)
{
	bool before;
	int64_t width = 0;

	if (flag(config, "do_layer_norm_before", true, &before, err) < 0 ||
	    p4d_json_integer(config, "word_embed_proj_dim", 1, 1 << 20, &width, err) < 0)
		return -1;
	if (!before || (width && width != model->value[P4D_HIDDEN]))
		return cannot(model, "OPTForCausalLM: norms after each block, or an embedding of another "
				     "width (350M)");
	return 0;
}

/*
 * Corrects the number of key/value heads. Without multi_query_attention it is the number of heads, whatever
 * multi_query_group_num says.
 */
static int own_chatglm(struct json_object *config, p4d_request *model, p4d_error *err)
{
	bool grouped;

	if (flag(config, "multi_query_attention", false, &grouped, err) < 0)
		return -1;
	if (!grouped && p4d_is_set(model, P4D_HEADS))
		choose(model, P4D_KV_HEADS, model->value[P4D_HEADS]);
	return 0;
}

/* attention_bias applies only to query, key and value. */
static int own_glm(struct json_object *config, p4d_request *model, p4d_error *err)
{
	bool biased;

	if (flag(config, "attention_bias", true, &biased, err) < 0)
		return -1;
	choose(model, P4D_BIAS, biased ? P4D_BIAS_QKV : P4D_BIAS_NONE);
	return 0;
}

static int own_glm4(struct json_object *config, p4d_request *model, p4d_error *err)
{
	bool biased;

	if (flag(config, "attention_bias", false, &biased, err) < 0)
		return -1;
	choose(model, P4D_BIAS, biased ? P4D_BIAS_QKV : P4D_BIAS_NONE);
	return 0;
}

/* The 13B models have no rotary positions; only their code shows this. */
static int own_baichuan(struct json_object *config, p4d_request *model, p4d_error *err)
{
	(void)config, (void)err;
	if (model->value[P4D_HIDDEN] > 4096)
		choose(model, P4D_POSITIONS, P4D_ALIBI);
	return 0;
}

/* Reads T5's activation, "relu" or "gated-gelu": only this family has the gate in its name. */
static int own_t5(struct json_object *config, p4d_request *model, p4d_error *err)
{
	char kind[32] = "relu";
	int64_t decoder = 0, buckets = 32;

	if (p4d_json_string(config, "feed_forward_proj", kind, sizeof(kind), err) < 0 ||
	    p4d_json_integer(config, "num_decoder_layers", 1, 65536, &decoder, err) < 0 ||
	    p4d_json_integer(config, "relative_attention_num_buckets", 1, 65536, &buckets, err) < 0)
		return -1;
	if (decoder && decoder != model->value[P4D_LAYERS])
		return cannot(model,
			      "T5ForConditionalGeneration: %" PRId64 " layers of the encoder, %" PRId64
			      " of the decoder",
			      model->value[P4D_LAYERS], decoder);
	if (buckets != p4d_architectures[P4D_ARCHITECTURE_T5].relative_buckets)
		return cannot(model, "T5ForConditionalGeneration: %" PRId64 " buckets of positions", buckets);
	choose(model, P4D_ACTIVATION, !strcmp(kind, "gated-gelu") ? P4D_GEGLU : P4D_RELU);
	if (strcmp(kind, "gated-gelu") != 0 && strcmp(kind, "relu") != 0)
		return cannot(model, "T5ForConditionalGeneration: feed_forward_proj %s", kind);
	return 0;
}

/* The sequence length is the number of an image's patches, without the class token. */
static int own_vit(struct json_object *config, p4d_request *model, p4d_error *err)
{
	struct json_object *labels = json_object_object_get(config, "id2label");
	int64_t image = 224, patch = 16, channels = 3, count = 2;

	if (p4d_json_integer(config, "image_size", 1, 65536, &image, err) < 0 ||
	    p4d_json_integer(config, "patch_size", 1, 65536, &patch, err) < 0 ||
	    p4d_json_integer(config, "num_channels", 1, 65536, &channels, err) < 0 ||
	    p4d_json_integer(config, "num_labels", 1, 1 << 24, &count, err) < 0)
		return -1;
	if (channels * patch * patch != p4d_architectures[P4D_ARCHITECTURE_VIT].patch_elements)
		return cannot(model, "ViTForImageClassification: patches of %" PRId64 " x %" PRId64, patch,
			      patch);
	if (json_object_is_type(labels, json_type_object) && json_object_object_length(labels) > 0)
		count = json_object_object_length(labels);
	choose(model, P4D_VOCAB, count);
	choose(model, P4D_MAX_SEQ_LEN, image / patch * (image / patch));
	return 0;
}

static int own_bert(struct json_object *config, p4d_request *model, p4d_error *err)
{
	const unsigned rows = p4d_architectures[model->value[P4D_ARCHITECTURE]].token_types;
	int64_t types = rows;

	if (p4d_json_integer(config, "type_vocab_size", 1, 65536, &types, err) < 0)
		return -1;
	return types == rows ? 0 : cannot(model, "type_vocab_size=%" PRId64 " instead of %u", types, rows);
}

/* Qwen MoE: layers without experts may be in any order; p4d supports only the first ones. */
static int own_qwen_moe(struct json_object *config, p4d_request *model, p4d_error *err)
{
	struct json_object *dense = json_object_object_get(config, "mlp_only_layers");
	int64_t every = 1;

	if (p4d_json_integer(config, "decoder_sparse_step", 1, 65536, &every, err) < 0)
		return -1;
	if (every == 1 && !(json_object_is_type(dense, json_type_array) && json_object_array_length(dense)))
		return 0;
	return cannot(model, "experts in some of the layers (decoder_sparse_step, mlp_only_layers)");
}

/* DeepSeek V2 and V3, Moonlight, Kimi K2; and GLM-4.5, whose attention is not latent. */
static int own_deepseek(struct json_object *config, p4d_request *model, p4d_error *err)
{
	const p4d_option_info *info = p4d_request_option_info(P4D_SHARED_FFN);
	int64_t shared = 0, every = 1, head = 0;
	bool norms = false;

	if (p4d_json_integer(config, "n_shared_experts", 0, 65536, &shared, err) < 0 ||
	    p4d_json_integer(config, "moe_layer_freq", 1, 65536, &every, err) < 0 ||
	    p4d_json_integer(config, "qk_nope_head_dim", 1, 65536, &head, err) < 0 ||
	    p4d_json_boolean(config, "use_qk_norm", &norms, err) < 0)
		return -1;
	if (every != 1)
		return cannot(model, "experts in some of the layers (moe_layer_freq=%" PRId64 ")", every);
	if (shared && p4d_is_set(model, P4D_EXPERT_FFN) && shared <= info->max / model->value[P4D_EXPERT_FFN])
		choose(model, P4D_SHARED_FFN, shared * model->value[P4D_EXPERT_FFN]);
	if (norms)
		choose(model, P4D_QK_NORM, P4D_QK_NORM_HEAD);
	if (model->value[P4D_BIAS] != P4D_BIAS_NONE) /* the output matmul has no bias */
		choose(model, P4D_BIAS, P4D_BIAS_QKV);
	if (!p4d_is_set(model, P4D_KV_LORA_RANK))
		return 0;
	if (p4d_is_set(model, P4D_HEADS))
		choose(model, P4D_KV_HEADS, model->value[P4D_HEADS]);
	if (!json_object_object_get_ex(config, "q_lora_rank", NULL))
		choose(model, P4D_Q_LORA_RANK, 1536);
	p4d_request_default(model, P4D_ROPE_HEAD_DIM, 64, P4D_BY_MODEL);
	p4d_request_default(model, P4D_V_HEAD_DIM, 128, P4D_BY_MODEL);
	choose(model, P4D_HEAD_DIM, head ? head : 128);
	return 0;
}

/* Reads how often layers have experts: all layers, or every second one. */
static int own_llama4(struct json_object *config, p4d_request *model, p4d_error *err)
{
	int64_t every = 1, width = 8192, dense = 16384, chunk = 8192;

	if (p4d_json_integer(config, "interleave_moe_layer_step", 1, 65536, &every, err) < 0 ||
	    p4d_json_integer(config, "intermediate_size", 1, 1 << 23, &width, err) < 0 ||
	    p4d_json_integer(config, "intermediate_size_mlp", 1, 1 << 23, &dense, err) < 0 ||
	    p4d_json_integer(config, "attention_chunk_size", 1, 1 << 23, &chunk, err) < 0)
		return -1;
	choose(model, P4D_FFN, dense);
	choose(model, P4D_SLIDING_WINDOW, chunk);
	choose(model, P4D_EXPERT_FFN, width);
	choose(model, P4D_SHARED_FFN, width);
	choose(model, P4D_QK_NORM, P4D_QK_NORM_OFF); /* its qk norm has no weights */
	if (every > 1)
		choose(model, P4D_EXPERT_EVERY, every);
	return 0;
}

/* Reads one number for all layers, or a list with one number per layer, which must all be equal. */
static int one_of_all(struct json_object *config, const char *key, int64_t *value, p4d_request *model,
		      p4d_error *err)
{
	struct json_object *list = json_object_object_get(config, key);

	if (!json_object_is_type(list, json_type_array))
		return p4d_json_integer(config, key, 0, 65536, value, err);
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		const int64_t of_layer = json_object_get_int64(json_object_array_get_idx(list, i));
		if (i && of_layer != *value)
			return cannot(model, "%s differs between layers", key);
		*value = of_layer;
	}
	return 0;
}

/* All shared experts together are one feed-forward part with the width of one. */
static int own_hunyuan(struct json_object *config, p4d_request *model, p4d_error *err)
{
	int64_t experts = 1, each = 1;

	if (one_of_all(config, "num_experts", &experts, model, err) < 0 ||
	    one_of_all(config, "moe_topk", &each, model, err) < 0)
		return -1;
	if (experts < 1 || experts > 65536 || each < 1 || each > experts)
		return cannot(model, "HunYuanMoEV1ForCausalLM: %" PRId64 " of %" PRId64 " experts", each,
			      experts);
	choose(model, P4D_EXPERTS, experts);
	choose(model, P4D_EXPERTS_PER_TOKEN, each);
	choose(model, P4D_SHARED_FFN, model->value[P4D_FFN]);
	return 0;
}

/*
 * All layers from a certain one on have experts. Shared experts together are as wide as the number of shared
 * experts times one expert.
 */
static int own_ernie(struct json_object *config, p4d_request *model, p4d_error *err)
{
	int64_t experts = 64, each = 6, width = 1536, shared = 2, start = 1, end = -1, every = 1;

	if (p4d_json_integer(config, "moe_num_experts", 1, 65536, &experts, err) < 0 ||
	    p4d_json_integer(config, "moe_k", 1, 65536, &each, err) < 0 ||
	    p4d_json_integer(config, "moe_intermediate_size", 1, 1 << 20, &width, err) < 0 ||
	    p4d_json_integer(config, "moe_num_shared_experts", 0, 4096, &shared, err) < 0 ||
	    p4d_json_integer(config, "moe_layer_start_index", 0, 65536, &start, err) < 0 ||
	    p4d_json_integer(config, "moe_layer_end_index", -1, 65536, &end, err) < 0 ||
	    p4d_json_integer(config, "moe_layer_interval", 1, 65536, &every, err) < 0)
		return -1;
	if (every != 1 || (end >= 0 && end < model->value[P4D_LAYERS] - 1))
		return cannot(model,
			      "experts in some of the layers (moe_layer_interval, moe_layer_end_index)");
	choose(model, P4D_EXPERTS, experts);
	choose(model, P4D_EXPERTS_PER_TOKEN, each);
	choose(model, P4D_EXPERT_FFN, width);
	if (shared)
		choose(model, P4D_SHARED_FFN, shared * width);
	if (start)
		choose(model, P4D_DENSE_LAYERS, start);
	return 0;
}

static int own_phimoe(struct json_object *config, p4d_request *model, p4d_error *err)
{
	bool biased;

	if (flag(config, "lm_head_bias", false, &biased, err) < 0)
		return -1;
	return biased ? 0 : cannot(model, "PhimoeForCausalLM: lm_head_bias=false");
}

static int own_olmoe(struct json_object *config, p4d_request *model, p4d_error *err)
{
	(void)config;
	(void)err;
	choose(model, P4D_QK_NORM, P4D_QK_NORM_WIDE);
	return 0;
}

/* The sizes of attention and of experts are in nested objects. */
static int own_dbrx(struct json_object *config, p4d_request *model, p4d_error *err)
{
	struct json_object *attention = json_object_object_get(config, "attn_config"),
			   *feed = json_object_object_get(config, "ffn_config");
	const p4d_option_info *info = p4d_request_option_info(P4D_FFN);
	int64_t kv_heads = 1, width = 3584, experts = 4, each = 1;
	double theta = 10000;

	if (json_object_is_type(attention, json_type_object) &&
	    (p4d_json_integer(attention, "kv_n_heads", 1, 65536, &kv_heads, err) < 0 ||
	     p4d_json_number(attention, "rope_theta", 1, 1e12, &theta, err) < 0))
		return -1;
	if (json_object_is_type(feed, json_type_object) &&
	    (p4d_json_integer(feed, "ffn_hidden_size", info->min, info->max, &width, err) < 0 ||
	     p4d_json_integer(feed, "moe_num_experts", 1, 65536, &experts, err) < 0 ||
	     p4d_json_integer(feed, "moe_top_k", 1, 65536, &each, err) < 0))
		return -1;
	choose(model, P4D_KV_HEADS, kv_heads);
	choose(model, P4D_FFN, width);
	choose(model, P4D_EXPERTS, experts);
	choose(model, P4D_EXPERTS_PER_TOKEN, each);
	p4d_request_put_real(model, P4D_ROPE_THETA, theta, P4D_BY_MODEL);
	return 0;
}

#define ROW(architecture_) .architecture = P4D_ARCHITECTURE_##architecture_
#define ABSENT(...) .absent = {__VA_ARGS__}
#define LATENT(heads, experts, each, width) \
	ABSENT({P4D_HEADS, heads}, {P4D_EXPERTS, experts}, {P4D_EXPERTS_PER_TOKEN, each}, \
	       {P4D_EXPERT_FFN, width})

static const p4d_hf_family families[] = {
    {"LlamaForCausalLM", "llama", ROW(LLAMA)},
    {"MistralForCausalLM", "mistral", ROW(LLAMA), ABSENT({P4D_KV_HEADS, 8}), .fixed_biases = true},
    {"MinistralForCausalLM", "ministral", ROW(LLAMA), ABSENT({P4D_KV_HEADS, 8})},
    {"Ministral3ForCausalLM", "ministral3", ROW(LLAMA), ABSENT({P4D_KV_HEADS, 8}, {P4D_HEAD_DIM, 128})},
    {"Qwen2ForCausalLM", "qwen2", ROW(QWEN2), .biased = P4D_BIASED_QKV, ABSENT({P4D_KV_HEADS, 32}),
     .fixed_biases = true},
    {"Qwen3ForCausalLM", "qwen3", ROW(QWEN3), ABSENT({P4D_KV_HEADS, 32}, {P4D_HEAD_DIM, 128})},
    {"MixtralForCausalLM", "mixtral", ROW(LLAMA),
     ABSENT({P4D_KV_HEADS, 8}, {P4D_EXPERTS, 8}, {P4D_EXPERTS_PER_TOKEN, 2}), .fixed_biases = true,
     .experts = true},
    {"Qwen2MoeForCausalLM", "qwen2_moe", ROW(QWEN2), .biased = P4D_BIASED_QKV,
     ABSENT({P4D_KV_HEADS, 16}, {P4D_EXPERTS, 60}, {P4D_EXPERTS_PER_TOKEN, 4}, {P4D_EXPERT_FFN, 1408},
	    {P4D_SHARED_FFN, 5632}),
     .own = own_qwen_moe, .experts = true},
    {"Qwen3MoeForCausalLM", "qwen3_moe", ROW(QWEN3),
     ABSENT({P4D_KV_HEADS, 4}, {P4D_EXPERTS, 128}, {P4D_EXPERTS_PER_TOKEN, 8}, {P4D_EXPERT_FFN, 768}),
     .own = own_qwen_moe, .experts = true},
    {"DeepseekV2ForCausalLM", "deepseek_v2", ROW(LLAMA), LATENT(32, 64, 6, 1407), .own = own_deepseek,
     .experts = true},
    {"DeepseekV3ForCausalLM", "deepseek_v3", ROW(LLAMA), LATENT(128, 256, 8, 2048), .own = own_deepseek,
     .experts = true},
    {"Glm4MoeForCausalLM", "glm4_moe", ROW(LLAMA),
     ABSENT({P4D_KV_HEADS, 8}, {P4D_EXPERTS, 128}, {P4D_EXPERTS_PER_TOKEN, 8}, {P4D_EXPERT_FFN, 1408}),
     .own = own_deepseek, .experts = true},
    {"OlmoeForCausalLM", "olmoe", ROW(LLAMA), ABSENT({P4D_EXPERTS, 64}, {P4D_EXPERTS_PER_TOKEN, 8}),
     .own = own_olmoe, .experts = true},
    {"ArceeForCausalLM", "arcee", ROW(ARCEE)},
    {"HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense", ROW(HUNYUAN)},
    {"HunYuanMoEV1ForCausalLM", "hunyuan_v1_moe", ROW(HUNYUAN), .own = own_hunyuan, .experts = true},
    {"ApertusForCausalLM", "apertus", ROW(APERTUS)},
    {"Ernie4_5ForCausalLM", "ernie4_5", ROW(ERNIE), ABSENT({P4D_KV_HEADS, 2}, {P4D_HEAD_DIM, 128})},
    {"Ernie4_5_MoeForCausalLM", "ernie4_5_moe", ROW(ERNIE), ABSENT({P4D_KV_HEADS, 4}), .own = own_ernie,
     .experts = true},
    {"GraniteMoeForCausalLM", "granitemoe", ROW(GRANITE),
     ABSENT({P4D_EXPERTS, 8}, {P4D_EXPERTS_PER_TOKEN, 2}), .experts = true},
    {"PhimoeForCausalLM", "phimoe", ROW(PHIMOE),
     ABSENT({P4D_KV_HEADS, 8}, {P4D_EXPERTS, 16}, {P4D_EXPERTS_PER_TOKEN, 2}), .own = own_phimoe,
     .experts = true},
    {"GptOssForCausalLM", "gpt_oss", ROW(GPT_OSS), .biased = P4D_BIASED_QKV | P4D_BIASED_OUTPUT,
     ABSENT({P4D_KV_HEADS, 8}, {P4D_HEAD_DIM, 64}, {P4D_EXPERTS, 128}, {P4D_EXPERTS_PER_TOKEN, 4},
	    {P4D_SLIDING_WINDOW, 128}),
     .experts = true},
    {"Llama4ForCausalLM", "llama4_text", ROW(LLAMA4),
     ABSENT({P4D_KV_HEADS, 8}, {P4D_HEAD_DIM, 128}, {P4D_EXPERTS, 16}, {P4D_EXPERTS_PER_TOKEN, 1}),
     .own = own_llama4, .experts = true},
    {"DbrxForCausalLM", "dbrx", ROW(DBRX), .own = own_dbrx, .experts = true},
    {"NemotronHForCausalLM", "nemotron_h", ROW(NEMOTRON_H),
     ABSENT({P4D_KV_HEADS, 8}, {P4D_HEAD_DIM, 128}, {P4D_EXPERTS, 8}, {P4D_EXPERTS_PER_TOKEN, 2},
	    {P4D_EXPERT_FFN, 7688}),
     .own = p4d_model__own_nemotron_h, .experts = true, .states = true},
    {"Qwen3NextForCausalLM", "qwen3_next", ROW(QWEN3_NEXT),
     ABSENT({P4D_KV_HEADS, 2}, {P4D_HEAD_DIM, 256}, {P4D_EXPERTS, 512}, {P4D_EXPERTS_PER_TOKEN, 10},
	    {P4D_EXPERT_FFN, 512}, {P4D_SHARED_FFN, 512}),
     .own = p4d_model__own_qwen3_next, .experts = true, .states = true},
    {"Lfm2ForCausalLM", "lfm2", ROW(LFM2), ABSENT({P4D_KV_HEADS, 8}), .own = p4d_model__own_lfm2,
     .states = true},
    {"JambaForCausalLM", "jamba", ROW(JAMBA),
     ABSENT({P4D_KV_HEADS, 8}, {P4D_EXPERTS, 16}, {P4D_EXPERTS_PER_TOKEN, 2}), .own = p4d_model__own_jamba,
     .experts = true, .states = true},
    {"BambaForCausalLM", "bamba", ROW(BAMBA), ABSENT({P4D_KV_HEADS, 8}), .own = p4d_model__own_bamba,
     .states = true},
    {"GraniteMoeHybridForCausalLM", "granitemoehybrid", ROW(GRANITE_HYBRID),
     ABSENT({P4D_EXPERTS_PER_TOKEN, 2}), .own = p4d_model__own_granite_hybrid, .experts = true,
     .states = true},
    {"GPT2LMHeadModel", "gpt2", ROW(GPT2), .biased = ALL_BIASED},
    {"GPTBigCodeForCausalLM", "gpt_bigcode", ROW(GPT2), .biased = ALL_BIASED, .own = own_bigcode},
    {"Phi3ForCausalLM", "phi3", ROW(PHI3)},
    {"PhiForCausalLM", "phi", ROW(PHI), .biased = ALL_BIASED},
    {"GemmaForCausalLM", "gemma", ROW(GEMMA), ABSENT({P4D_KV_HEADS, 16}, {P4D_HEAD_DIM, 256})},
    {"Gemma2ForCausalLM", "gemma2", ROW(GEMMA2),
     ABSENT({P4D_KV_HEADS, 4}, {P4D_HEAD_DIM, 256}, {P4D_SLIDING_WINDOW, 4096}), .own = p4d_model__own_gemma},
    {"Gemma3ForCausalLM", "gemma3_text", ROW(GEMMA3),
     ABSENT({P4D_HEADS, 8}, {P4D_KV_HEADS, 4}, {P4D_HEAD_DIM, 256}, {P4D_VOCAB, 262208},
	    {P4D_SLIDING_WINDOW, 4096}),
     .own = p4d_model__own_gemma3},
    {"OlmoForCausalLM", "olmo", ROW(OLMO)},
    {"Olmo2ForCausalLM", "olmo2", ROW(OLMO2)},
    {"Olmo3ForCausalLM", "olmo3", ROW(OLMO3), ABSENT({P4D_SLIDING_WINDOW, 4096})},
    {"SmolLM3ForCausalLM", "smollm3", ROW(SMOLLM3), ABSENT({P4D_KV_HEADS, 4})},
    {"GraniteForCausalLM", "granite", ROW(GRANITE), .own = p4d_model__own_granite},
    {"CohereForCausalLM", "cohere", ROW(COHERE), .own = own_cohere},
    {"Cohere2ForCausalLM", "cohere2", ROW(COHERE2), ABSENT({P4D_SLIDING_WINDOW, 4096})},
    {"Starcoder2ForCausalLM", "starcoder2", ROW(STARCODER2), .biased = ALL_BIASED, ABSENT({P4D_KV_HEADS, 2})},
    {"GPTNeoXForCausalLM", "gpt_neox", ROW(GPT_NEOX), .biased = ALL_BIASED, .own = own_neox},
    {"GPTJForCausalLM", "gptj", ROW(GPTJ), .biased = P4D_BIASED_MLP},
    {"OPTForCausalLM", "opt", ROW(OPT), .biased = ALL_BIASED, .own = own_opt},
    {"FalconForCausalLM", "falcon", ROW(FALCON), .own = own_falcon},
    {"RWForCausalLM", "RefinedWebModel", ROW(FALCON), .own = own_falcon},
    {"MptForCausalLM", "mpt", ROW(MPT), .own = own_mpt},
    {"MPTForCausalLM", "mpt", ROW(MPT), .own = own_mpt},
    {"BloomForCausalLM", "bloom", ROW(BLOOM), .biased = ALL_BIASED},
    {"NemotronForCausalLM", "nemotron", ROW(NEMOTRON)},
    {"StableLmForCausalLM", "stablelm", ROW(STABLELM), .own = own_stablelm},
    {"InternLM2ForCausalLM", "internlm2", ROW(INTERNLM2)},
    {"InternLM3ForCausalLM", "internlm3", ROW(LLAMA)},
    {"ChatGLMModel", "chatglm", ROW(CHATGLM), .biased = P4D_BIASED_QKV, .own = own_chatglm},
    {"ChatGLMForConditionalGeneration", "chatglm", ROW(CHATGLM), .biased = P4D_BIASED_QKV,
     .own = own_chatglm},
    {"GlmForCausalLM", "glm", ROW(GLM), .own = own_glm},
    {"Glm4ForCausalLM", "glm4", ROW(GLM4), .own = own_glm4},
    {"BaichuanForCausalLM", "baichuan", ROW(BAICHUAN), .own = own_baichuan},
    {"BaiChuanForCausalLM", "baichuan", ROW(BAICHUAN), .own = own_baichuan},
    {"ExaoneForCausalLM", "exaone", ROW(LLAMA)},
    {"Exaone4ForCausalLM", "exaone4", ROW(EXAONE4)},
    {"SeedOssForCausalLM", "seed_oss", ROW(LLAMA), .biased = P4D_BIASED_QKV},
    {"Qwen2VLForConditionalGeneration", "qwen2_vl", ROW(QWEN2), .biased = P4D_BIASED_QKV, .partly = true},
    {"Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", ROW(QWEN2), .biased = P4D_BIASED_QKV,
     .partly = true},
    {"", "qwen2_vl_text", ROW(QWEN2), .biased = P4D_BIASED_QKV, .partly = true},
    {"", "qwen2_5_vl_text", ROW(QWEN2), .biased = P4D_BIASED_QKV, .partly = true},
    {"", "qwen3_vl_text", ROW(QWEN3), ABSENT({P4D_KV_HEADS, 32}, {P4D_HEAD_DIM, 128}), .partly = true},
    {"", "mllama_text_model", ROW(LLAMA), ABSENT({P4D_KV_HEADS, 8}), .partly = true},
    {"BertForMaskedLM", "bert", ROW(BERT), .biased = ALL_BIASED, .own = own_bert},
    {"RobertaForMaskedLM", "roberta", ROW(ROBERTA), .biased = ALL_BIASED, .own = own_bert},
    {"XLMRobertaForMaskedLM", "xlm-roberta", ROW(ROBERTA), .biased = ALL_BIASED, .own = own_bert},
    {"ModernBertForMaskedLM", "modernbert", ROW(MODERNBERT), ABSENT({P4D_SLIDING_WINDOW, 128})},
    {"T5ForConditionalGeneration", "t5", ROW(T5), .own = own_t5},
    {"ViTForImageClassification", "vit", ROW(VIT), .biased = ALL_BIASED, .own = own_vit},
};

const p4d_hf_family *p4d_model__family(const char *class_name, const char *model_type)
{
	const size_t count = sizeof(families) / sizeof(*families);

	for (size_t i = 0; *class_name && i < count; i++)
		if (!strcmp(families[i].class_name, class_name))
			return &families[i];
	for (size_t i = 0; i < count; i++)
		if (!strcmp(families[i].model_type, model_type) ||
		    !strcmp(families[i].model_type, class_name))
			return &families[i];
	return NULL;
}
