/* SPDX-License-Identifier: Apache-2.0 */
/* Model files: Hugging Face config.json, the presets' own format, and every error in either. */
#include "support/model_files.h"

static p4d_request load(const char *name)
{
	p4d_request request = named(name);
	p4d_error err = {0};

	if (p4d_model_resolve(&request, datadir(), NULL, &err) < 0)
		fail_msg("%s: %s", name, err.text);
	assert_int_equal(err.code, P4D_OK);
	return request;
}

/* Parses text as a model file named "f". */
static p4d_request parse(const char *text)
{
	p4d_request request = {0};
	p4d_error err = {0};

	if (p4d_model__parse(text, strlen(text), "f", &request, NULL, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	return request;
}

/* The parameter counts that Hugging Face shows for these repositories. */
static void published_configs(void **state)
{
	static const struct {
		const char *name;
		uint64_t parameters;
	} cases[] = {
	    {"llama2-7b", 6738415616},   {"llama3.2-1b", 1235814400}, {"mistral-7b", 7241732096},
	    {"qwen2.5-0.5b", 494032768}, {"qwen3-8b", 8190735360},    {"gpt2", 124439808},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char name[256];
		snprintf(name, sizeof(name), "%s/../tests/data/hf/%s.json", datadir(), cases[i].name);
		p4d_request request = load(name);
		assert_string_equal(request.unmodelled, "");
		assert_int_equal(p4d_model_parameters(&request), cases[i].parameters);
		assert_int_equal(request.origin[P4D_HIDDEN], P4D_BY_MODEL);
	}
}

static void unmodelled_architectures_are_named(void **state)
{
	static const char *const files[][2] = {
	    {"mamba-130m", "MambaForCausalLM: state-space layers (state_size)"},
	};
	static const char *const texts[][2] = {
	    {"{\"architectures\":[\"JetMoeForCausalLM\"],\"num_local_experts\":8}",
	     "JetMoeForCausalLM: mixture of experts (num_local_experts=8)"},
	    {"{\"architectures\":[\"DeepseekV3ForCausalLM\"],\"n_routed_experts\":8,\"moe_layer_freq\":2}",
	     "experts in some of the layers (moe_layer_freq=2)"},
	    {"{\"architectures\":[\"Qwen3MoeForCausalLM\"],\"mlp_only_layers\":[3]}",
	     "experts in some of the layers (decoder_sparse_step, mlp_only_layers)"},
	    {"{\"architectures\":[\"LlamaForCausalLM\"],\"num_local_experts\":4}",
	     "LlamaForCausalLM: mixture of experts (num_local_experts=4)"},
	    {"{\"architectures\":[\"MiniCPM3ForCausalLM\"],\"kv_lora_rank\":256}",
	     "MiniCPM3ForCausalLM: multi-head latent attention (kv_lora_rank=256)"},
	    {"{\"architectures\":[\"FalconH1ForCausalLM\"],\"mamba_d_state\":256}",
	     "FalconH1ForCausalLM: state-space layers (mamba_d_state)"},
	    {"{\"architectures\":[\"JambaForCausalLM\"],\"expert_layer_offset\":0}",
	     "JambaForCausalLM: attention in layer 4 of 8, experts in 0 of 2"},
	    {"{\"architectures\":[\"NemotronHForCausalLM\"],\"hybrid_override_pattern\":\"ME\","
	     "\"moe_latent_size\":1024}",
	     "NemotronHForCausalLM: experts of a lower rank (moe_latent_size=1024)"},
	    {"{\"architectures\":[\"WhisperForConditionalGeneration\"],\"hidden_size\":8}",
	     "WhisperForConditionalGeneration: no formula for this architecture; see --p4d-model=custom, "
	     "--p4d-architecture"},
	    {"{\"model_type\":\"whisper\"}",
	     "whisper: no formula for this architecture; see --p4d-model=custom, --p4d-architecture"},
	    {"{\"architectures\":[\"SeedOssForCausalLM\"],\"attention_out_bias\":true,"
	     "\"attention_bias\":false}",
	     "SeedOssForCausalLM: biases of query, key and value off, of attention's output on, of the "
	     "feed-forward layer off"},
	    {"{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_act\":\"relu2\"}",
	     "LlamaForCausalLM: activation relu2"},
	    {"{\"architectures\":[\"OPTForCausalLM\"],\"do_layer_norm_before\":false}",
	     "OPTForCausalLM: norms after each block, or an embedding of another width (350M)"},
	    {"{\"architectures\":[\"LlamaForCausalLM\"],\"quantization_config\":{\"quant_method\":"
	     "\"aqlm\"}}",
	     "quantization aqlm of 0 bits"},
	    {"{\"architectures\":[\"GPT2LMHeadModel\"],\"add_cross_attention\":true}",
	     "GPT2LMHeadModel: cross-attention"},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char name[256];
		snprintf(name, sizeof(name), "%s/../tests/data/hf/%s.json", datadir(), files[i][0]);
		p4d_request request = load(name);
		assert_string_equal(request.unmodelled, files[i][1]);
		for (int option = 0; option < P4D_OPTIONS; option++)
			assert_int_equal(request.origin[option],
					 option == P4D_MODEL ? P4D_BY_USER : P4D_UNSET);
	}
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		p4d_request request = parse(texts[i][0]);
		assert_string_equal(request.unmodelled, texts[i][1]);
	}
}

#define SIZES "\"hidden_size\":4096,\"intermediate_size\":11008,\"num_hidden_layers\":2,\"vocab_size\":100,"
#define HEADS "\"num_attention_heads\":64"

/* Defaults of the transformers library for fields that a file does not have, for each class. */
static void absent_fields(void **state)
{
	static const struct {
		const char *text;
		int64_t kv_heads, head_dim, bias, qk_norm, tied;
	} cases[] = {
	    {"{\"architectures\":[\"LlamaForCausalLM\"]," SIZES HEADS "}", 64, 64, P4D_BIAS_NONE, 0, 0},
	    {"{\"architectures\":[],\"model_type\":\"llama\"," SIZES HEADS "}", 64, 64, P4D_BIAS_NONE, 0, 0},
	    {"{\"architectures\":[\"LlamaForCausalLM\"],\"attention_bias\":true,\"mlp_bias\":true," SIZES
		 HEADS "}",
	     64, 64, P4D_BIAS_ALL, 0, 0},
	    {"{\"architectures\":[\"MistralForCausalLM\"]," SIZES HEADS "}", 8, 64, P4D_BIAS_NONE, 0, 0},
	    {"{\"architectures\":[\"MistralForCausalLM\"],\"num_key_value_heads\":null," SIZES HEADS "}", 64,
	     64, P4D_BIAS_NONE, 0, 0},
	    {"{\"architectures\":[\"Qwen2ForCausalLM\"]," SIZES HEADS "}", 32, 64, P4D_BIAS_QKV, 0, 0},
	    {"{\"architectures\":[\"Qwen3ForCausalLM\"],\"head_dim\":null," SIZES HEADS "}", 32, 128,
	     P4D_BIAS_NONE, 1, 0},
	    {"{\"architectures\":[\"Qwen3ForCausalLM\"],\"head_dim\":32,\"tie_word_embeddings\":true," SIZES
		 HEADS "}",
	     32, 32, P4D_BIAS_NONE, 1, 1},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		p4d_request request = parse(cases[i].text);
		assert_string_equal(request.unmodelled, "");
		assert_int_equal(request.value[P4D_KV_HEADS], cases[i].kv_heads);
		assert_int_equal(request.value[P4D_HEAD_DIM], cases[i].head_dim);
		assert_int_equal(request.value[P4D_BIAS], cases[i].bias);
		assert_int_equal(request.value[P4D_QK_NORM], cases[i].qk_norm);
		assert_int_equal(request.value[P4D_TIED], cases[i].tied);
		assert_int_equal(request.value[P4D_GLU], 1);
		assert_false(p4d_is_set(&request, P4D_MAX_SEQ_LEN));
	}
	p4d_request gpt2 =
	    parse("{\"architectures\":[\"GPT2LMHeadModel\"],\"n_layer\":2,\"n_embd\":64.0,\"n_head\":4,"
		  "\"n_positions\":128,\"vocab_size\":100,\"tie_word_embeddings\":false}");
	assert_int_equal(gpt2.value[P4D_FFN], 256);
	assert_int_equal(gpt2.value[P4D_TIED], 0);
	assert_int_equal(gpt2.value[P4D_POSITIONS], P4D_LEARNED);
	assert_int_equal(gpt2.value[P4D_NORM], P4D_LAYERNORM);
	assert_int_equal(gpt2.value[P4D_BIAS], P4D_BIAS_ALL);
}

/* Fields of a file that switch biases on and off. */
static void switches_of_biases(void **state)
{
	static const struct {
		const char *text;
		int64_t bias;
	} cases[] = {
	    {"\"attention_bias\":true", P4D_BIAS_ATTENTION},
	    {"\"mlp_bias\":true", P4D_BIAS_MLP},
	    {"\"attention_bias\":true,\"mlp_bias\":true", P4D_BIAS_ALL},
	    {"\"attention_bias\":true,\"attention_out_bias\":false", P4D_BIAS_QKV},
	    {"\"attention_bias\":false", P4D_BIAS_NONE},
	};
	char text[512];
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		snprintf(text, sizeof(text), "{\"architectures\":[\"LlamaForCausalLM\"],%s," SIZES HEADS "}",
			 cases[i].text);
		p4d_request request = parse(text);
		assert_string_equal(request.unmodelled, "");
		assert_int_equal(request.value[P4D_BIAS], cases[i].bias);
	}
}

/* The formats in which files describe quantized weights. */
static void quantized_weights(void **state)
{
	static const struct {
		const char *text;
		int64_t stored;
	} cases[] = {
	    {"\"quant_method\":\"awq\",\"bits\":4", P4D_STORED_INT4},
	    {"\"quant_method\":\"gptq\",\"bits\":8", P4D_STORED_INT8},
	    {"\"quant_method\":\"fp8\"", P4D_STORED_FP8},
	    {"\"quant_method\":\"mxfp4\"", P4D_STORED_FP4},
	    {"\"quant_method\":\"bitsandbytes\",\"_load_in_4bit\":true,\"load_in_8bit\":false",
	     P4D_STORED_NF4},
	    {"\"quant_method\":\"bitsandbytes\",\"load_in_8bit\":true", P4D_STORED_INT8},
	    {"\"quant_method\":\"compressed-tensors\",\"config_groups\":{\"group_0\":{\"weights\":"
	     "{\"num_bits\":8,\"type\":\"float\"}}}",
	     P4D_STORED_FP8},
	    {"\"quant_method\":\"compressed-tensors\",\"config_groups\":{\"group_0\":{\"weights\":"
	     "{\"num_bits\":4,\"type\":\"int\"}}}",
	     P4D_STORED_INT4},
	};
	char text[512];
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		snprintf(text, sizeof(text),
			 "{\"architectures\":[\"LlamaForCausalLM\"],\"quantization_config\":{%s}," SIZES HEADS
			 "}",
			 cases[i].text);
		p4d_request request = parse(text);
		assert_string_equal(request.unmodelled, "");
		assert_true(p4d_is_set(&request, P4D_STORED));
		assert_int_equal(request.value[P4D_STORED], cases[i].stored);
	}
	assert_false(p4d_is_set(&(p4d_request){0}, P4D_STORED));
}

/* If a model has several parts, p4d reads the text part and reports this. */
static void text_parts(void **state)
{
	(void)state;
	p4d_request gemma = parse(
	    "{\"architectures\":[\"Gemma3ForConditionalGeneration\"],\"model_type\":\"gemma3\",\"text_"
	    "config\":"
	    "{\"model_type\":\"gemma3_text\",\"hidden_size\":2560,\"intermediate_size\":10240,"
	    "\"num_hidden_layers\":34,\"sliding_window\":1024},\"vision_config\":{\"hidden_size\":1152}}");
	assert_string_equal(gemma.judged_part, "the text part of Gemma3ForConditionalGeneration");
	assert_int_equal(p4d_model_parameters(&gemma), 3880263168);
	assert_int_equal(gemma.value[P4D_HEADS], 8); /* the file does not have this field, so the class's
						      * default counts */
	p4d_request flat =
	    parse("{\"architectures\":[\"Qwen2_5_VLForConditionalGeneration\"],\"num_key_value_heads\":4,"
		  "\"vision_config\":{\"depth\":32}," SIZES HEADS "}");
	assert_string_equal(flat.judged_part, "the text part of Qwen2_5_VLForConditionalGeneration");
	assert_int_equal(flat.value[P4D_BIAS], P4D_BIAS_QKV);
	p4d_request experts =
	    parse("{\"architectures\":[\"Ernie4_5_VLForConditionalGeneration\"],\"text_config\":{"
		  "\"model_type\":\"ernie4_5_vl_text\",\"num_local_experts\":16}}");
	assert_string_equal(experts.unmodelled,
			    "Ernie4_5_VLForConditionalGeneration: mixture of experts (num_local_experts=16)");
}

/* Writes a text to FOLDER/NAME. Makes missing folders. */
static void write_below(const char *folder, const char *name, const char *text)
{
	char file[256];

	snprintf(file, sizeof(file), "%s/%s", folder, name);
	for (char *at = file + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		mkdir(file, 0755);
		*at = '/';
	}
	FILE *out = fopen(file, "w");
	assert_non_null(out);
	fputs(text, out);
	fclose(out);
}

#define TINY "{\"architectures\":[\"LlamaForCausalLM\"],\"num_hidden_layers\":3,\"vocab_size\":100," REST "}"

/* ORG/NAME in the hub's cache means the revision in refs/main. */
static void cache_of_the_hub(void **state)
{
	char home[] = "/tmp/p4d-hub-XXXXXX", command[64];
	p4d_request request = named("lab/tiny"), outside = named("lab/..");
	p4d_preset preset;
	p4d_error err = {0};
	(void)state;

	assert_non_null(mkdtemp(home));
	unsetenv("HF_HUB_CACHE");
	assert_int_equal(setenv("HF_HOME", home, 1), 0);
	assert_int_equal(p4d_model_resolve(&request, NULL, &preset, &err), -1);
	assert_int_equal(err.code, P4D_E_UNKNOWN_MODEL);
	write_below(home, "hub/models--lab--tiny/refs/main", "abc123\n");
	write_below(home, "hub/models--lab--tiny/snapshots/abc123/config.json", TINY);
	write_below(home, "hub/models--lab--tiny/snapshots/def456/config.json", "{}");
	assert_int_equal(p4d_model_resolve(&request, NULL, &preset, &err), 0);
	assert_int_equal(request.value[P4D_LAYERS], 3);
	assert_non_null(strstr(preset.file, "models--lab--tiny/snapshots/abc123"));
	assert_int_equal(p4d_model_resolve(&outside, NULL, &preset, NULL), -1);
	/* the exact name of a preset overrides the cache, the name of a variant does not */
	write_below(home, "hub/models--Qwen--Qwen3-8B/refs/main", "a");
	write_below(home, "hub/models--Qwen--Qwen3-8B/snapshots/a/config.json", TINY);
	write_below(home, "hub/models--mine--Qwen3-8B-it/refs/main", "a");
	write_below(home, "hub/models--mine--Qwen3-8B-it/snapshots/a/config.json", TINY);
	p4d_request known = load("Qwen/Qwen3-8B"), own = load("mine/Qwen3-8B-it");
	assert_int_equal(known.value[P4D_LAYERS], 36);
	assert_int_equal(own.value[P4D_LAYERS], 3);
	unsetenv("HF_HOME");
	snprintf(command, sizeof(command), "rm -r %s", home);
	assert_int_equal(system(command), 0);
}

/* For an adapter, p4d reads the base model, and the message names it. */
static void adapters(void **state)
{
	char home[] = "/tmp/p4d-hub-XXXXXX", folder[64], command[64];
	p4d_preset preset;
	p4d_error err = {0};
	(void)state;

	assert_non_null(mkdtemp(home));
	write_below(home, "lora/adapter_config.json",
		    "{\"peft_type\":\"LORA\",\"base_model_name_or_path\":\"Qwen/Qwen3-8B\",\"r\":16,"
		    "\"target_modules\":[\"q_proj\",\"v_proj\"]}");
	snprintf(folder, sizeof(folder), "%s/lora", home);
	p4d_request request = named(folder);
	if (p4d_model_resolve(&request, NULL, &preset, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(request.value[P4D_LAYERS], 36);
	assert_string_equal(preset.file, "Qwen/Qwen3-8B, base of the adapter");
	assert_int_equal(request.value[P4D_FINETUNE], P4D_TUNE_LORA);
	assert_int_equal(request.value[P4D_LORA_RANK], 16);
	assert_string_equal(request.lora_targets, "q_proj,v_proj");
	char again[256];
	snprintf(again, sizeof(again), "{\"base_model_name_or_path\":\"%s\"}", folder);
	write_below(home, "lora/adapter_config.json", again);
	request = named(folder);
	assert_int_equal(p4d_model_resolve(&request, NULL, &preset, &err), -1);
	assert_non_null(strstr(err.text, "its base model is also an adapter"));
	snprintf(command, sizeof(command), "rm -r %s", home);
	assert_int_equal(system(command), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(published_configs), cmocka_unit_test(unmodelled_architectures_are_named),
	    cmocka_unit_test(absent_fields),     cmocka_unit_test(switches_of_biases),
	    cmocka_unit_test(quantized_weights), cmocka_unit_test(text_parts),
	    cmocka_unit_test(cache_of_the_hub),  cmocka_unit_test(adapters),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
