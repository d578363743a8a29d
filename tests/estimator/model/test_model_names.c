/* SPDX-License-Identifier: Apache-2.0 */
/* Names of presets: variants, aliases, spellings, and unknown names. */
#include "support/models.h"

/* Names as people type them: with an organization, or of variants without an alias. */
static void names_of_variants(void **state)
{
	static const struct {
		const char *typed, *preset;
		int stored; /* quantization in the name; -1: none */
	} cases[] = {
	    {"Qwen/Qwen3-8B", "qwen3-8b", -1},
	    {"unsloth/Qwen3-8B-Base", "qwen3-8b", -1},
	    {"Qwen/Qwen2.5-7B-Instruct-AWQ", "qwen2.5-7b", P4D_STORED_INT4},
	    {"Qwen2.5-7B-Instruct-GPTQ-Int8", "qwen2.5-7b", P4D_STORED_INT8},
	    {"unsloth/Llama-3.2-1B-Instruct-bnb-4bit", "llama3.2-1b", P4D_STORED_NF4},
	    {"neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8", "llama3.1-8b", P4D_STORED_FP8},
	    {"NousResearch/Llama-2-7b-chat-hf", "llama2-7b", -1},
	    {"google/gemma-2-2b-it", "gemma2-2b", -1},
	    {"gemma-3-1b-it", "gemma3-1b", -1},
	    {"google/gemma-3-27b-it", "gemma3-27b", -1},
	    {"mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3", -1},
	    {"mistralai/Mistral-7B-Instruct-v0.2", "mistral-7b-v0.2", -1},
	    {"mistralai/Mistral-7B-Instruct-v0.1", "mistral-7b", -1},
	    {"Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b", -1},
	    {"lmsys/vicuna-13b-v1.3", "llama13b", -1},
	    {"mistralai/Mistral-Nemo-Instruct-2407", "mistral-nemo-12b", -1},
	    {"microsoft/Phi-3.5-mini-instruct", "phi3-mini", -1},
	    {"microsoft/phi-4", "phi4", -1},
	    {"HuggingFaceTB/SmolLM2-135M-Instruct", "smollm2-135m", -1},
	    {"allenai/OLMo-2-1124-7B-Instruct", "olmo2-7b", -1},
	    {"ibm-granite/granite-3.3-8b-instruct", "granite3-8b", -1},
	    {"tiiuae/falcon-7b-instruct", "falcon-7b", -1},
	    {"google-bert/bert-base-uncased", "bert-base", -1},
	    {"t5-base", "t5-base", -1},
	    {"openai-community/gpt2", "gpt2", -1},
	    {"Qwen/Qwen2.5-VL-7B-Instruct", "qwen2.5-vl-7b", -1},
	    {"Qwen/Qwen2.5-VL-32B-Instruct-AWQ", "qwen2.5-vl-32b", P4D_STORED_INT4},
	    {"Qwen/Qwen3-VL-30B-A3B-Instruct", "qwen3-vl-30b-a3b", -1},
	    {"Qwen/Qwen2-72B-Instruct", "qwen2.5-72b", -1},
	    {"Qwen/Qwen2.5-Coder-32B-Instruct", "qwen2.5-32b", -1},
	    {"Qwen/QwQ-32B-AWQ", "qwen2.5-32b", P4D_STORED_INT4},
	    {"deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "llama3.3-70b", -1},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		p4d_request request = named(cases[i].typed);
		p4d_preset preset;
		resolve(&request, &preset);
		assert_string_equal(preset.name, cases[i].preset);
		assert_int_equal(p4d_is_set(&request, P4D_STORED), cases[i].stored >= 0);
		if (cases[i].stored >= 0)
			assert_int_equal(request.value[P4D_STORED], cases[i].stored);
	}
	/* p4d never drops the first word of a name, nor all words */
	p4d_request none = named("base-7b-chat"), empty = named("org/instruct-hf");
	assert_int_equal(p4d_model_resolve(&none, NULL, NULL, NULL), -1);
	assert_int_equal(p4d_model_resolve(&empty, NULL, NULL, NULL), -1);
}

/* Models of the same shape whose config.json have different context lengths, and names of their quantized
 * files. */
static void variants_have_their_own_context(void **state)
{
	static const struct {
		const char *typed;
		int64_t max_seq_len;
		int stored;
	} cases[] = {
	    {"Qwen/Qwen3-4B", 40960, -1},
	    {"qwen3-4b", 40960, -1},
	    {"Qwen/Qwen3-4B-FP8", 40960, P4D_STORED_FP8},
	    {"Qwen/Qwen3-4B-Instruct-2507", 262144, -1},
	    {"Qwen3-4B-Instruct-2507", 262144, -1},
	    {"Qwen/Qwen3-4B-Instruct-2507-FP8", 262144, P4D_STORED_FP8},
	    {"Qwen/Qwen3-4B-Base", 32768, -1},
	    {"unsloth/Qwen3-4B-Instruct-2507-unsloth-bnb-4bit", 262144, P4D_STORED_NF4},
	    {"Qwen/Qwen3-Coder-30B-A3B-Instruct-FP8", 262144, P4D_STORED_FP8},
	    {"Qwen/Qwen2.5-7B", 131072, -1},
	    {"Qwen/Qwen2.5-7B-Instruct", 32768, -1},
	    {"Qwen/Qwen2.5-7B-Instruct-AWQ", 32768, P4D_STORED_INT4},
	    {"Qwen/Qwen2.5-Coder-7B-Instruct", 32768, -1},
	    {"microsoft/Phi-3-mini-4k-instruct", 4096, -1},
	    {"microsoft/Phi-3-mini-128k-instruct", 131072, -1},
	    {"meta-llama/Llama-4-Scout-17B-16E-Instruct", 10485760, -1},
	    {"RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", 131072, P4D_STORED_INT4},
	};
	p4d_presets presets = {0};
	p4d_error err = {0};
	(void)state;

	assert_int_equal(p4d_presets_load(&presets, NULL, &err), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		p4d_request request = named(cases[i].typed);
		p4d_preset preset;
		resolve(&request, &preset);
		assert_int_equal(request.value[P4D_MAX_SEQ_LEN], cases[i].max_seq_len);
		assert_int_equal(p4d_is_set(&request, P4D_STORED) ? (int)request.value[P4D_STORED] : -1,
				 cases[i].stored);
	}
	/* slurmctld compares plans with the preset's numbers */
	const p4d_request *found = p4d_presets_find(&presets, "Qwen/Qwen3-4B-Instruct-2507");
	assert_non_null(found);
	assert_int_equal(found->value[P4D_MAX_SEQ_LEN], 262144);
	assert_int_equal(p4d_presets_find(&presets, "qwen3-4b")->value[P4D_MAX_SEQ_LEN], 40960);
	assert_int_equal(p4d_presets_find(&presets, "Qwen/Qwen3-4B")->value[P4D_MAX_SEQ_LEN], 40960);
	p4d_presets_free(&presets);
	/* values that the user sets take precedence */
	p4d_request own = named("Qwen/Qwen3-4B-Instruct-2507");
	p4d_request_put(&own, P4D_MAX_SEQ_LEN, 1000, P4D_BY_USER);
	resolve(&own, NULL);
	assert_int_equal(own.value[P4D_MAX_SEQ_LEN], 1000);
}

/* All names and aliases in the form in which p4d compares them. With a clash, an alias would depend on the
 * order of files. */
static struct {
	char key[64], name[64];
} seen[1024];
static size_t seen_count;

static void add_name(const char *name, size_t length, const char *owner)
{
	char key[64] = "";
	size_t used = 0;

	for (size_t i = 0; i < length; i++)
		if (!strchr("-_ ", name[i]))
			key[used++] = (char)tolower((unsigned char)name[i]);
	for (size_t i = 0; i < seen_count; i++)
		if (!strcmp(seen[i].key, key) && strcmp(seen[i].name, owner))
			fail_msg("%s names both %s and %s", key, seen[i].name, owner);
	memcpy(seen[seen_count].key, key, sizeof(key));
	snprintf(seen[seen_count++].name, sizeof(seen[0].name), "%s", owner);

	char alias[128];
	p4d_preset preset;
	snprintf(alias, sizeof(alias), "%.*s", (int)length, name);
	p4d_request request = named(alias);
	resolve(&request, &preset);
	assert_string_equal(preset.name, owner);
}

static void check_aliases(const p4d_preset *preset, const p4d_request *request, void *context)
{
	(void)request;
	(void)context;
	add_name(preset->name, strlen(preset->name), preset->name);
	for (const char *at = preset->aliases; *at;
	     at += at[strcspn(at, ",")] ? strcspn(at, ",") + 1 : strlen(at))
		add_name(at, strcspn(at, ",="), preset->name);
}

static void aliases_are_unique_and_resolve(void **state)
{
	p4d_error err = {0};
	(void)state;

	assert_int_equal(p4d_model_each(datadir(), check_aliases, NULL, &err), 0);
	assert_true(seen_count > 100);
}

static void names_ignore_case_and_separators(void **state)
{
	static const char *const names[][2] = {
	    {"Llama13B", "llama13b"},
	    {"llama-13b", "llama13b"},
	    {"Llama_13B", "llama13b"},
	    {"llama 13b", "llama13b"},
	    {"llama1-13b", "llama13b"},
	    {"llama-2-13b", "llama2-13b"},
	    {"llama213b", "llama2-13b"},
	    {"meta-llama/Llama-2-13b-hf", "llama2-13b"},
	    {"META-LLAMA/llama-2-13b", "llama2-13b"},
	    {"meta-llama/Meta-Llama-3-8B", "llama3-8b"},
	    {"llama3-1-8b", "llama3.1-8b"},
	    {"meta-llama/Llama-3.1-405B", "llama3.1-405b"},
	    {"meta-llama/Llama-3.1-405B-Instruct", "llama3.1-405b"},
	    {"tinyllama", "tinyllama-1.1b"},
	    {"Qwen/Qwen2.5-7B", "qwen2.5-7b"},
	    {"Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"},
	    {"qwen3_0.6b", "qwen3-0.6b"},
	    {"gpt-1008b", "gpt-1t"},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		p4d_request request = named(names[i][0]);
		p4d_preset preset;
		resolve(&request, &preset);
		assert_string_equal(preset.name, names[i][1]);
		assert_string_equal(request.model, names[i][0]);
	}
}

#define FILES "; for another model, give --p4d-model=PATH/config.json"
#define OTHERS FILES ", or --p4d-model=custom and its sizes"
#define OTHERS_OF(name) FILES " (hf download " name " config.json), or --p4d-model=custom and its sizes"

static void unknown_names_show_the_nearest(void **state)
{
	static const char *const cases[][3] = {
	    {"llama14b", "unknown model \"llama14b\"; nearest: llama13b, llama2-13b, llama2-7b" OTHERS, ""},
	    {"meta-llama/Llama-2-13c",
	     "unknown model \"meta-llama/Llama-2-13c\"; nearest: llama2-13b, llama13b, llama2-70b" OTHERS_OF(
		 "meta-llama/Llama-2-13c"),
	     ""},
	    {"mistral7", "unknown model \"mistral7\"; nearest: mistral-7b" OTHERS, ""},
	    {"lama7b", "unknown model \"lama7b\"; nearest: llama7b" OTHERS, ""},
	    /* names that only resemble a preset's name */
	    {"someorg/jetmoe-8b",
	     "unknown model \"someorg/jetmoe-8b\"; p4d knows no model of the family \"jetmoe\"" OTHERS_OF(
		 "someorg/jetmoe-8b"),
	     "p4d models"},
	    {"gqx-oss-20b",
	     "unknown model \"gqx-oss-20b\"; p4d knows no model of the family \"gqxoss\"" OTHERS,
	     "p4d models"},
	    {"no/such/thing",
	     "unknown model \"no/such/thing\"; p4d knows no model of the family \"thing\"" OTHERS_OF(
		 "no/such/thing"),
	     "p4d models"},
	    /* bytes that are not printable are escaped in messages */
	    {"a\\x1bz-7b", "unknown model \"a\\x1bz-7b\"" OTHERS, "p4d models"},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		p4d_request request = named(cases[i][0]);
		refuse(&request, P4D_E_UNKNOWN_MODEL, cases[i][1], cases[i][2]);
	}
}

/* A private datadir whose models/ can be entered but not listed: p4d must open the file without listing
 * the folder. */
static void canonical_names_open_one_file(void **state)
{
	char dir[] = "/tmp/p4d-test-XXXXXX", models[64], file[96];
	static const char text[] = "{\"name\":\"tiny\",\"layers\":2,\"hidden\":64,\"ffn\":128,\"heads\":4,"
				   "\"vocab\":100}";
	p4d_request canonical = named("TINY"), alias = named("ti-ny"), outside = named("../secret");
	p4d_error err = {0};
	p4d_preset preset;
	(void)state;

	assert_non_null(mkdtemp(dir));
	chmod(dir, 0755);
	snprintf(models, sizeof(models), "%s/models", dir);
	assert_int_equal(mkdir(models, 0755), 0);
	for (int i = 0; i < 2; i++) {
		snprintf(file, sizeof(file), i ? "%s/models/tiny.json" : "%s/secret.json", dir);
		FILE *out = fopen(file, "w");
		assert_non_null(out);
		fputs(text, out);
		fclose(out);
	}
	chmod(models, 0311);
	bool root = geteuid() == 0;
	if (root)
		assert_int_equal(seteuid(65534), 0);
	else
		chmod(models, 0111);
	int rc = p4d_model_resolve(&canonical, dir, &preset, &err);
	int listed = p4d_model_resolve(&alias, dir, NULL, &err);
	if (root)
		assert_int_equal(seteuid(0), 0);
	chmod(models, 0755);
	assert_int_equal(rc, 0);
	assert_string_equal(preset.name, "tiny");
	assert_int_equal(listed, -1);
	assert_int_equal(err.code, P4D_E_INSTALLATION);
	/* a name never leads out of models/: with a slash, it is a file relative to the user's directory */
	assert_int_equal(p4d_model_resolve(&outside, dir, NULL, &err), -1);
	assert_int_equal(err.code, P4D_E_IO);
	assert_non_null(strstr(err.text, "../secret"));
	assert_int_equal(p4d_model_resolve(&alias, dir, NULL, &err), 0);
	unlink(file);
	snprintf(file, sizeof(file), "%s/secret.json", dir);
	unlink(file);
	rmdir(models);
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names_of_variants),
	    cmocka_unit_test(variants_have_their_own_context),
	    cmocka_unit_test(aliases_are_unique_and_resolve),
	    cmocka_unit_test(names_ignore_case_and_separators),
	    cmocka_unit_test(unknown_names_show_the_nearest),
	    cmocka_unit_test(canonical_names_open_one_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
