/* SPDX-License-Identifier: Apache-2.0 */
/* Model files: Hugging Face config.json, the presets' own form, and everything that can be wrong with either.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "model/model.h"

static char dir[] = "/tmp/p4d-test-XXXXXX";
static char path[96]; /* DIR/config.json, the file a test writes */

static const char *datadir(void)
{
	const char *from_make = getenv("P4D_TEST_DATADIR");

	return from_make ? from_make : "etc";
}

static int make_directory(void **state)
{
	(void)state;
	if (!mkdtemp(dir) || chmod(dir, 0755))
		return -1;
	snprintf(path, sizeof(path), "%s/config.json", dir);
	return 0;
}

static int remove_file(void **state)
{
	(void)state;
	unlink(path);
	return 0;
}

static int remove_directory(void **state)
{
	(void)state;
	return rmdir(dir);
}

static void write_file(const char *text, size_t length)
{
	FILE *out = fopen(path, "w");

	assert_non_null(out);
	assert_int_equal(fwrite(text, 1, length, out), length);
	fclose(out);
}

static p4d_request named(const char *name)
{
	p4d_request request = {0};
	p4d_error err = {0};

	assert_int_equal(p4d_request_set(&request, P4D_MODEL, name, P4D_BY_USER, &err), 0);
	return request;
}

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

/* The file must be refused with this text, and nothing changed. */
static void refuse_file(const char *name, p4d_code code, const char *text)
{
	p4d_request request = named(name), before = request;
	p4d_error err = {0};

	assert_int_equal(p4d_model_resolve(&request, datadir(), NULL, &err), -1);
	assert_string_equal(err.text, text);
	assert_int_equal(err.code, code);
	assert_memory_equal(&request, &before, sizeof(request));
}

/* message: NULL where test_model.c has it */
static void refuse_text(const char *text, size_t length, p4d_code code, const char *message)
{
	p4d_request request = {0}, before = request;
	p4d_error err = {0};

	assert_int_equal(p4d_model__parse(text, length, "f", &request, NULL, &err), -1);
	if (message)
		assert_string_equal(err.text, message);
	assert_int_equal(err.code, code);
	assert_memory_equal(&request, &before, sizeof(request));
	assert_int_equal(p4d_model__parse(text, length, "f", &request, NULL, NULL), -1);
}

/* The totals Hugging Face shows for these repositories. */
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
	    {"{\"architectures\":[\"JambaForCausalLM\"],\"num_experts\":1,\"mamba_d_state\":16}",
	     "JambaForCausalLM: state-space layers (mamba_d_state)"},
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
	     "OPTForCausalLM: norms behind each block, or an embedding of another width (350M)"},
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

/* What the transformers library assumes when a field is absent, per class. */
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

/* Biases, as their switches say. */
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

/* How files of quantized models say what they hold. */
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

/* Of models with several parts the text part is read, and said. */
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
	assert_int_equal(gemma.value[P4D_HEADS], 8); /* which the repository leaves to the class */
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

#define LLAMA "{\"architectures\":[\"LlamaForCausalLM\"],\"num_hidden_layers\":2,\"vocab_size\":100,"
#define REST "\"hidden_size\":64,\"intermediate_size\":128,\"num_attention_heads\":4"

static void bad_texts(void **state)
{
	static const struct {
		const char *text;
		p4d_code code;
		const char *message;
	} cases[] = {
	    {"", P4D_E_JSON, "f: empty file"},
	    {" \n\t", P4D_E_JSON, "f: empty file"},
	    {"[{}]", P4D_E_JSON, "f: holds a JSON array, not an object"},
	    {"\"x\"", P4D_E_JSON, "f: not a JSON object (begins with byte 0x22)"},
	    {"\xef\xbb\xbf{}", P4D_E_JSON, "f: not a JSON object (begins with byte 0xef)"},
	    {"{}", P4D_E_JSON,
	     "f: neither a Hugging Face config.json (no \"architectures\" or \"model_type\") nor a preset "
	     "(no \"name\")"},
	    {LLAMA "\"hidden_size\":64,\"intermedi", P4D_E_JSON,
	     "f: truncated: the JSON text breaks off after 104 bytes"},
	    {"{\"name\":\"x\"} {}", P4D_E_JSON, "f: malformed JSON at byte 14: unexpected character"},
	    {"{\"name\":\"x\",}", P4D_E_JSON, "f: malformed JSON at byte 13: unexpected character"},
	    {"{'name':\"x\"}", P4D_E_JSON, "f: malformed JSON at byte 2: single quote"},
	    {"{\"name\":\"\xff\"}", P4D_E_JSON, "f: malformed JSON at byte 10: invalid utf-8 string"},
	    {LLAMA "\"hidden_size\":\"4096\"}", P4D_E_JSON,
	     "f: \"hidden_size\" is \"4096\", not a whole number"},
	    {LLAMA "\"hidden_size\":[4096]}", P4D_E_JSON, "f: \"hidden_size\" is [4096], not a whole number"},
	    {LLAMA "\"hidden_size\":true}", P4D_E_JSON, "f: \"hidden_size\" is true, not a whole number"},
	    {LLAMA "\"hidden_size\":4096.5}", P4D_E_JSON, "f: \"hidden_size\" is 4096.5, not a whole number"},
	    {LLAMA "\"hidden_size\":1e300}", P4D_E_JSON, "f: \"hidden_size\" is 1e300, not a whole number"},
	    {LLAMA "\"hidden_size\":NaN}", P4D_E_JSON, "f: \"hidden_size\" is NaN, not a whole number"},
	    {LLAMA "\"hidden_size\":-4096}", P4D_E_VALUE,
	     "f: \"hidden_size\" is -4096: not from 1 to 1048576"},
	    {LLAMA "\"hidden_size\":0}", P4D_E_VALUE, "f: \"hidden_size\" is 0: not from 1 to 1048576"},
	    {LLAMA "\"hidden_size\":9223372036854775808}", P4D_E_VALUE,
	     "f: \"hidden_size\" is 9223372036854775808: not from 1 to 1048576"},
	    {LLAMA "\"hidden_size\":-9223372036854775809}", P4D_E_VALUE,
	     "f: \"hidden_size\" is -9223372036854775808: not from 1 to 1048576"},
	    {LLAMA "\"hidden_size\":1048577}", P4D_E_VALUE,
	     "f: \"hidden_size\" is 1048577: not from 1 to 1048576"},
	    {LLAMA "\"hidden_size\":1,\"hidden_size\":2}", P4D_E_JSON,
	     "f: field \"hidden_size\" is given twice"},
	    {LLAMA "\"rope_scaling\":{\"type\":1,\"type\":2}}", P4D_E_JSON, "f: a field is given twice"},
	    {LLAMA "\"tie_word_embeddings\":\"yes\"," REST "}", P4D_E_JSON,
	     "f: \"tie_word_embeddings\" is \"yes\", not true or false"},
	    {"{\"architectures\":\"LlamaForCausalLM\"}", P4D_E_JSON,
	     "f: \"architectures\" is \"LlamaForCausalLM\", not a list of strings"},
	    {"{\"architectures\":[7]}", P4D_E_JSON, "f: \"architectures\" is 7, not a list of strings"},
	    {"{\"architectures\":[\"\\u001b[31m\"]}", P4D_E_JSON,
	     "f: \"architectures\" holds the control character 0x1b"},
	    {"{\"architectures\":[\"a\\u0000b\"]}", P4D_E_JSON,
	     "f: \"architectures\" holds the control character 0x00"},
	    {LLAMA "\"hidden_size\":65,\"intermediate_size\":8,\"num_attention_heads\":4}", P4D_E_VALUE,
	     NULL},
	    {LLAMA REST ",\"num_key_value_heads\":8}", P4D_E_VALUE, NULL},
	    {LLAMA REST ",\"num_key_value_heads\":3}", P4D_E_VALUE,
	     "f: heads are not a multiple of key/value heads: kv-heads 3, heads 4"},
	    {LLAMA "\"hidden_size\":64}", P4D_E_INCOMPLETE_MODEL, NULL},
	    {"{\"architectures\":[\"GPT2LMHeadModel\"],\"n_layer\":2,\"n_embd\":64,\"n_head\":4,\"vocab_"
	     "size\":9}",
	     P4D_E_INCOMPLETE_MODEL, NULL},
	    {"{\"name\":\"x\",\"layer\":2}", P4D_E_JSON, "f: unknown field \"layer\""},
	    {"{\"name\":\"x\",\"\\u001b\":2}", P4D_E_JSON, "f: unknown field \"\\u001b\""},
	    {"{\"name\":\"x\",\"kv-heads\":2}", P4D_E_JSON, "f: unknown field \"kv-heads\""},
	    {"{\"name\":\"x\",\"tp\":2}", P4D_E_JSON, "f: unknown field \"tp\""},
	    {"{\"name\":\"x\",\"norm\":\"batchnorm\"}", P4D_E_VALUE,
	     "f: --p4d-norm=batchnorm: not one of rmsnorm|layernorm|layernorm-scale|layernorm-plain"},
	    {"{\"name\":\"x\",\"glu\":true}", P4D_E_JSON, "f: \"glu\" is true, not a string"},
	    {"{\"name\":\"x\",\"parameters\":\"13.0\"}", P4D_E_VALUE,
	     "f: \"parameters\" is \"13.0\": neither a number nor like \"13.0B\""},
	    {"{\"name\":\"x\",\"parameters\":\"1.2.3B\"}", P4D_E_VALUE,
	     "f: \"parameters\" is \"1.2.3B\": neither a number nor like \"13.0B\""},
	    {"{\"name\":\"x\",\"parameters\":\"1234567B\"}", P4D_E_VALUE,
	     "f: \"parameters\" is \"1234567B\": neither a number nor like \"13.0B\""},
	    {"{\"name\":\"x\",\"parameters\":\"1.2345K\"}", P4D_E_VALUE,
	     "f: \"parameters\" is \"1.2345K\": neither a number nor like \"13.0B\""},
	    {"{\"name\":\"x\",\"parameters\":-1}", P4D_E_VALUE,
	     "f: \"parameters\" is -1: not from 1 to 9223372036854775807"},
	    {"{\"name\":\"x\",\"aliases\":[\"a,b\"]}", P4D_E_JSON,
	     "f: \"aliases\" holds \"a,b\": empty or with a comma"},
	    {"{\"name\":\"x\",\"global_batch\":0}", P4D_E_VALUE,
	     "f: \"global_batch\" is 0: not from 1 to 16777216"},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		refuse_text(cases[i].text, strlen(cases[i].text), cases[i].code, cases[i].message);
	refuse_text("{\"name\":\0\"x\"}", 13, P4D_E_JSON, "f: NUL byte at byte 9");
}

/* {"name":"x","layers":[[[1]]]} with so many levels, the object counted. */
static void nested(char *text, size_t levels)
{
	static const char start[] = "{\"name\":\"x\",\"layers\":";
	char *at = text + sizeof(start) - 1;

	memcpy(text, start, sizeof(start));
	memset(at, '[', levels - 1);
	at[levels - 1] = '1';
	memset(at + levels, ']', levels - 1);
	memcpy(at + 2 * levels - 1, "}", 2);
}

static void deep_nesting(void **state)
{
	char text[256];
	(void)state;

	nested(text, 100);
	refuse_text(text, strlen(text), P4D_E_JSON, "f: nested more than 32 levels deep");
	nested(text, 33);
	refuse_text(text, strlen(text), P4D_E_JSON, "f: nested more than 32 levels deep");
	nested(text, 32);
	refuse_text(text, strlen(text), P4D_E_JSON,
		    "f: \"layers\" is [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]], not a whole number");
}

static void long_text(char *expected, size_t size, const char *rest)
{
	snprintf(expected, size, "%s: %s", path, rest);
}

static void bad_files(void **state)
{
	char expected[256], name[128];
	(void)state;

	long_text(expected, sizeof(expected), "cannot be read: No such file or directory");
	refuse_file(path, P4D_E_IO, expected); /* missing */
	refuse_file(dir, P4D_E_IO, expected);  /* a directory without config.json */

	assert_int_equal(mkfifo(path, 0644), 0);
	long_text(expected, sizeof(expected), "not a regular file");
	refuse_file(path, P4D_E_IO, expected);
	unlink(path);
	refuse_file("/dev/zero", P4D_E_IO, "/dev/zero: not a regular file");

	write_file("", 0);
	long_text(expected, sizeof(expected), "empty file");
	refuse_file(path, P4D_E_JSON, expected);
	refuse_file(dir, P4D_E_JSON, expected);

	char *big = malloc(10 * 1024 * 1024);
	assert_non_null(big);
	memset(big, ' ', 10 * 1024 * 1024);
	big[0] = '{';
	big[1024 * 1024 - 1] = '}';
	write_file(big, 10 * 1024 * 1024);
	long_text(expected, sizeof(expected), "larger than 1048576 bytes");
	refuse_file(path, P4D_E_IO, expected);
	write_file(big, 1024 * 1024); /* the largest that is read */
	free(big);
	long_text(expected, sizeof(expected),
		  "neither a Hugging Face config.json (no \"architectures\" or \"model_type\") nor a preset "
		  "(no \"name\")");
	refuse_file(path, P4D_E_JSON, expected);

	/* a missing member of a directory that is no directory */
	snprintf(name, sizeof(name), "%s/x.json", path);
	snprintf(expected, sizeof(expected), "%s: cannot be read: Not a directory", name);
	refuse_file(name, P4D_E_IO, expected);
}

static void unreadable_file(void **state)
{
	char expected[256];
	int root = geteuid() == 0;
	(void)state;

	write_file("{}", 2);
	assert_int_equal(chmod(path, 0), 0);
	if (root) /* root reads everything */
		assert_int_equal(seteuid(65534), 0);
	long_text(expected, sizeof(expected), "cannot be read: Permission denied");
	refuse_file(path, P4D_E_IO, expected);
	refuse_file(dir, P4D_E_IO, expected);
	if (root)
		assert_int_equal(seteuid(0), 0);
}

/* org/name is a preset's alias first, and else a file relative to where the user stands. */
static void relative_directory(void **state)
{
	static const char text[] =
	    "{\"architectures\":[\"LlamaForCausalLM\"],\"num_hidden_layers\":2,\"vocab_size\":100,"
	    "\"hidden_size\":64,\"intermediate_size\":128,\"num_attention_heads\":4}";
	char here[1024], absolute[1100], name[64];
	p4d_error err = {0};
	(void)state;

	assert_non_null(getcwd(here, sizeof(here)));
	snprintf(absolute, sizeof(absolute), "%s%s%s", *datadir() == '/' ? "" : here,
		 *datadir() == '/' ? "" : "/", datadir());
	write_file(text, strlen(text));
	snprintf(name, sizeof(name), "%s", dir + 1);
	assert_int_equal(chdir("/"), 0);
	p4d_request request = named(name), bare = named("tmp");
	int rc = p4d_model_resolve(&request, absolute, NULL, &err);
	int bare_rc = p4d_model_resolve(&bare, absolute, NULL, &err);
	assert_int_equal(chdir(here), 0);
	assert_int_equal(rc, 0);
	assert_int_equal(request.value[P4D_HIDDEN], 64);
	/* without a slash it is a name, even where such a directory exists */
	assert_int_equal(bare_rc, -1);
	assert_int_equal(err.code, P4D_E_UNKNOWN_MODEL);
}

static void own_preset_file(void **state)
{
	static const char text[] =
	    "{\"name\":\"mine\",\"parameters\":\"1.5K\",\"global_batch\":48,\"layers\":2,\"hidden\":60,"
	    "\"ffn\":128,\"heads\":4,\"vocab\":100,\"norm\":\"layernorm\",\"glu\":\"off\"}";
	p4d_preset preset;
	p4d_error err = {0};
	(void)state;

	write_file(text, strlen(text));
	p4d_request request = named(path);
	assert_int_equal(p4d_request_set(&request, P4D_HEADS, "8", P4D_BY_USER, &err), 0);
	assert_int_equal(p4d_model_resolve(&request, datadir(), &preset, &err), 0);
	assert_string_equal(preset.name, "mine");
	assert_int_equal(preset.parameters, 1500);
	assert_int_equal(preset.rounding, 50);
	assert_int_equal(preset.exact, 0);
	assert_int_equal(preset.global_batch, 48);
	assert_int_equal(request.value[P4D_HEADS], 8);
	/* what the file leaves open: KV heads follow the user's heads, head size is that of the file's heads
	 */
	assert_int_equal(request.value[P4D_KV_HEADS], 8);
	assert_int_equal(request.value[P4D_HEAD_DIM], 15);
	assert_int_equal(request.value[P4D_NORM], P4D_LAYERNORM);
	assert_int_equal(request.value[P4D_GLU], 0);
}

/* A request that named an unmodelled architecture before can be used again. */
/* FOLDER/NAME with this text, folders made as needed. */
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

/* ORG/NAME in the hub's cache is the revision that refs/main names. */
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
	/* a preset's very name goes first, a variant's does not */
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

/* An adapter is judged as its base, and says which it is. */
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
	assert_non_null(strstr(err.text, "its base model is an adapter, too"));
	snprintf(command, sizeof(command), "rm -r %s", home);
	assert_int_equal(system(command), 0);
}

static void unmodelled_is_cleared(void **state)
{
	p4d_request request = named("llama7b");
	p4d_error err = {0};
	(void)state;

	snprintf(request.unmodelled, sizeof(request.unmodelled), "stale");
	assert_int_equal(p4d_model_resolve(&request, datadir(), NULL, &err), 0);
	assert_string_equal(request.unmodelled, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(published_configs),
	    cmocka_unit_test(unmodelled_architectures_are_named),
	    cmocka_unit_test(absent_fields),
	    cmocka_unit_test(switches_of_biases),
	    cmocka_unit_test(quantized_weights),
	    cmocka_unit_test(text_parts),
	    cmocka_unit_test(bad_texts),
	    cmocka_unit_test(deep_nesting),
	    cmocka_unit_test_teardown(bad_files, remove_file),
	    cmocka_unit_test_teardown(unreadable_file, remove_file),
	    cmocka_unit_test_teardown(relative_directory, remove_file),
	    cmocka_unit_test_teardown(own_preset_file, remove_file),
	    cmocka_unit_test(cache_of_the_hub),
	    cmocka_unit_test(adapters),
	    cmocka_unit_test(unmodelled_is_cleared),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
