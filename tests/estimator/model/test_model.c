/* SPDX-License-Identifier: Apache-2.0 */
/* Presets, names, custom models and overrides. Model files: test_model_files.c. */
#include "support/models.h"

/* The presets that p4d promises to have. */
static const char *const promised[] = {
    "gpt-1.7b",     "gpt-3.6b",     "gpt-7.5b",       "gpt-18.4b",    "gpt-39.1b",     "gpt-76.1b",
    "gpt-145.6b",   "gpt-310.1b",   "gpt-529.6b",     "gpt-1t",       "gpt3-175b",     "llama7b",
    "llama13b",     "llama30b",     "llama65b",       "llama2-7b",    "llama2-13b",    "llama2-70b",
    "llama3-8b",    "llama3-70b",   "llama3.1-8b",    "llama3.1-70b", "llama3.1-405b", "llama3.2-1b",
    "llama3.2-3b",  "llama3.3-70b", "tinyllama-1.1b", "mistral-7b",   "nemotron4-15b", "nemotron4-340b",
    "qwen2.5-0.5b", "qwen2.5-1.5b", "qwen2.5-3b",     "qwen2.5-7b",   "qwen2.5-14b",   "qwen2.5-32b",
    "qwen2.5-72b",  "qwen3-0.6b",   "qwen3-1.7b",     "qwen3-4b",     "qwen3-8b",      "qwen3-14b",
    "qwen3-32b",
};
enum { PROMISED = sizeof(promised) / sizeof(promised[0]) };

/* PTD-P (arXiv 2104.04473), table 1: published billions, heads, hidden, layers, batch. */
static const struct {
	const char *name;
	double billions;
	int64_t heads, hidden, layers, batch;
} ptdp[] = {
    {"gpt-1.7b", 1.7, 24, 2304, 24, 512},         {"gpt-3.6b", 3.6, 32, 3072, 30, 512},
    {"gpt-7.5b", 7.5, 32, 4096, 36, 512},         {"gpt-18.4b", 18.4, 48, 6144, 40, 1024},
    {"gpt-39.1b", 39.1, 64, 8192, 48, 1536},      {"gpt-76.1b", 76.1, 80, 10240, 60, 1792},
    {"gpt-145.6b", 145.6, 96, 12288, 80, 2304},   {"gpt-310.1b", 310.1, 128, 16384, 96, 2160},
    {"gpt-529.6b", 529.6, 128, 20480, 105, 2520}, {"gpt-1t", 1008.0, 160, 25600, 128, 3072},
};

static void set(p4d_request *request, p4d_option option, const char *value)
{
	p4d_error err = {0};

	if (p4d_request_set(request, option, value, P4D_BY_USER, &err) < 0)
		fail_msg("%s", err.text);
}

static void check_preset(const p4d_preset *preset, const p4d_request *request, void *context)
{
	uint64_t counted = p4d_model_parameters(request);
	uint64_t error =
	    counted > preset->parameters ? counted - preset->parameters : preset->parameters - counted;

	++*(int *)context;
	assert_true(preset->parameters > 0);
	assert_int_equal(preset->exact, preset->rounding == 0);
	if (error > preset->rounding)
		fail_msg("%s: published %" PRIu64 ", counted %" PRIu64, preset->name, preset->parameters,
			 counted);
	assert_true(strlen(preset->source) > 10);
	for (int i = 0; i < P4D_OPTIONS; i++) {
		const p4d_option_info *info = p4d_request_option_info((p4d_option)i);
		const bool may_lack = i == P4D_SLIDING_WINDOW || i == P4D_STORED || i == P4D_JUDGED_PART ||
				      (i >= P4D_EXPERTS && i <= P4D_V_HEAD_DIM) ||
				      (i >= P4D_EMBEDDING_SCALE && i <= P4D_LOGIT_SCALE) ||
				      (i == P4D_MAX_SEQ_LEN && request->value[P4D_POSITIONS] != P4D_LEARNED);
		if (info->where & P4D_WHERE_MODEL && !may_lack && request->origin[i] != P4D_BY_MODEL)
			fail_msg("%s has no %s", preset->name, info->name);
	}
}

static void presets_have_published_parameters(void **state)
{
	int count = 0;
	p4d_error err = {0};
	(void)state;

	if (p4d_model_each(datadir(), check_preset, &count, &err) < 0)
		fail_msg("%s", err.text);
	assert_true(count > 170); /* test_model_counts checks most of their names */
}

/* The presets compiled into the program equal the files. */
static void built_in_presets_are_the_files(void **state)
{
	p4d_presets files = {0}, built_in = {0};
	p4d_error err = {0};
	(void)state;

	assert_int_equal(p4d_presets_load(&files, datadir(), &err), 0);
	assert_int_equal(p4d_presets_load(&built_in, NULL, &err), 0);
	assert_int_equal(built_in.count, files.count);
	for (size_t i = 0; i < files.count; i++) {
		assert_memory_equal(&built_in.row[i].preset, &files.row[i].preset, sizeof(p4d_preset));
		assert_memory_equal(&built_in.row[i].model, &files.row[i].model, sizeof(p4d_request));
		if (*files.row[i].preset.name) /* rows without a name are aliases with a context length of
						* their own */
			assert_ptr_equal(p4d_presets_find(&built_in, files.row[i].preset.name),
					 &built_in.row[i].model);
	}
	p4d_presets_free(&files);
	p4d_presets_free(&built_in);
}

/* If a directory has models, the presets of the build are not used. */
static void a_directory_replaces_what_is_built_in(void **state)
{
	char dir[] = "/tmp/p4d-test-XXXXXX", models[64], file[96];
	p4d_request changed = named("llama13b"), other = named("llama7b");
	p4d_error err = {0};
	(void)state;

	assert_non_null(mkdtemp(dir));
	snprintf(models, sizeof(models), "%s/models", dir);
	assert_int_equal(mkdir(models, 0755), 0);
	snprintf(file, sizeof(file), "%s/llama13b.json", models);
	FILE *out = fopen(file, "w");
	assert_non_null(out);
	fputs("{\"name\":\"llama13b\",\"layers\":2,\"hidden\":64,\"ffn\":128,\"heads\":4,\"vocab\":100}",
	      out);
	fclose(out);
	assert_int_equal(p4d_model_resolve(&changed, dir, NULL, &err), 0);
	assert_int_equal(changed.value[P4D_LAYERS], 2);
	assert_int_equal(p4d_model_resolve(&other, dir, NULL, &err), -1);
	assert_int_equal(err.code, P4D_E_UNKNOWN_MODEL);
	unlink(file);
	rmdir(models);
	rmdir(dir);
}

static void promised_presets_exist(void **state)
{
	(void)state;
	for (size_t i = 0; i < PROMISED; i++) {
		p4d_request request = named(promised[i]);
		p4d_preset preset;
		resolve(&request, &preset);
		assert_string_equal(preset.name, promised[i]);
	}
}

/* The equation of PTD-P's paper, which omits the last norm. p4d's own count uses other code. */
static void ptdp_rows_follow_the_paper(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(ptdp) / sizeof(ptdp[0]); i++) {
		p4d_request request = named(ptdp[i].name);
		p4d_preset preset;
		resolve(&request, &preset);
		assert_int_equal(request.value[P4D_HEADS], ptdp[i].heads);
		assert_int_equal(request.value[P4D_HIDDEN], ptdp[i].hidden);
		assert_int_equal(request.value[P4D_LAYERS], ptdp[i].layers);
		assert_int_equal(preset.global_batch, ptdp[i].batch);
		assert_int_equal(preset.seq_len, 2048);
		long double l = ptdp[i].layers, h = ptdp[i].hidden;
		long double p = 12 * l * h * h * (1 + 13 / (12 * h) + (51200 + 2048) / (12 * l * h));
		assert_int_equal(p4d_model_parameters(&request), (uint64_t)(p + 0.5L) + 2 * (uint64_t)h);
		assert_true(preset.parameters == (uint64_t)(ptdp[i].billions * 1e9 + 0.5));
		assert_int_equal(preset.rounding, 50000000);
	}
}

static void published_batches(void **state)
{
	static const struct {
		const char *name;
		uint32_t batch, seq_len;
	} cases[] = {{"llama65b", 2048, 2048},
		     {"llama2-70b", 1024, 4096},
		     {"gpt3-175b", 1536, 2048},
		     {"qwen3-8b", 0, 0}};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		p4d_request request = named(cases[i].name);
		p4d_preset preset;
		resolve(&request, &preset);
		assert_int_equal(preset.global_batch, cases[i].batch);
		assert_int_equal(preset.seq_len, cases[i].seq_len);
	}
}

static void user_wins_over_preset(void **state)
{
	p4d_request request = named("llama13b");
	p4d_preset preset;
	(void)state;

	set(&request, P4D_LAYERS, "12");
	set(&request, P4D_HIDDEN, "4096");
	set(&request, P4D_TIED, "on");
	resolve(&request, &preset);
	assert_int_equal(request.value[P4D_LAYERS], 12);
	assert_int_equal(request.origin[P4D_LAYERS], P4D_BY_USER);
	assert_int_equal(request.value[P4D_HIDDEN], 4096);
	/* head-dim is an option of its own, so the model's value stays */
	assert_int_equal(request.value[P4D_HEAD_DIM], 128);
	assert_int_equal(request.value[P4D_FFN], 13824);
	assert_int_equal(request.origin[P4D_FFN], P4D_BY_MODEL);
	/* 12 layers of 4 h a d + 3 h f + 2 h elements, one vocabulary table, one norm */
	assert_int_equal(p4d_model_parameters(&request),
			 12 * (4 * 4096 * 5120ULL + 3 * 4096 * 13824ULL + 2 * 4096) + 32000 * 4096ULL + 4096);
}

static void overrides_must_agree(void **state)
{
	p4d_request fewer = named("llama13b"), odd = named("llama2-70b");
	(void)state;

	set(&fewer, P4D_HEADS, "20");
	refuse(&fewer, P4D_E_VALUE, "llama13b: more key/value heads than heads: kv-heads 40, heads 20",
	       "--p4d-kv-heads=20");
	set(&fewer, P4D_KV_HEADS, "20");
	resolve(&fewer, NULL);
	set(&odd, P4D_KV_HEADS, "24");
	refuse(&odd, P4D_E_VALUE,
	       "llama2-70b: heads are not a multiple of key/value heads: kv-heads 24, heads 64",
	       "--p4d-kv-heads=16");
}

static void custom_needs_every_size(void **state)
{
	p4d_request request = named("Custom");
	(void)state;

	refuse(&request, P4D_E_INCOMPLETE_MODEL,
	       "custom: the model lacks --p4d-layers --p4d-hidden --p4d-ffn --p4d-heads --p4d-vocab",
	       "--p4d-layers=N --p4d-hidden=N --p4d-ffn=N --p4d-heads=N --p4d-vocab=N");
	set(&request, P4D_LAYERS, "2");
	set(&request, P4D_HEADS, "3");
	set(&request, P4D_FFN, "256");
	set(&request, P4D_POSITIONS, "learned");
	refuse(&request, P4D_E_INCOMPLETE_MODEL,
	       "custom: the model lacks --p4d-hidden --p4d-vocab --p4d-max-seq-len",
	       "--p4d-hidden=N --p4d-vocab=N --p4d-max-seq-len=N");
	set(&request, P4D_VOCAB, "1000");
	set(&request, P4D_POSITIONS, "rope");
	set(&request, P4D_HIDDEN, "64");
	refuse(&request, P4D_E_VALUE,
	       "custom: hidden 64 is not a multiple of heads 3, and no head-dim is given",
	       "--p4d-head-dim=21");
	set(&request, P4D_HEADS, "4");
	p4d_preset preset = {.name = "stale"};
	resolve(&request, &preset);
	assert_string_equal(preset.name, "");
	assert_int_equal(request.value[P4D_KV_HEADS], 4);
	assert_int_equal(request.value[P4D_HEAD_DIM], 16);
	assert_int_equal(request.value[P4D_NORM], P4D_RMSNORM);
	assert_int_equal(request.value[P4D_GLU], 1);
	assert_int_equal(request.value[P4D_TIED], 0);
	assert_int_equal(request.value[P4D_POSITIONS], P4D_ROPE);
	assert_int_equal(request.value[P4D_BIAS], P4D_BIAS_NONE);
	assert_int_equal(request.value[P4D_QK_NORM], 0);
	assert_false(p4d_is_set(&request, P4D_MAX_SEQ_LEN));
	assert_int_equal(p4d_model_parameters(&request),
			 2 * (4 * 64 * 64 + 3 * 64 * 256 + 2 * 64) + 2 * 1000 * 64 + 64);
}

/* If only the activation or only glu is given, p4d derives the other. */
static void activation_and_glu(void **state)
{
	p4d_request request = named("llama3-8b");

	(void)state;
	set(&request, P4D_ACTIVATION, "relu2");
	resolve(&request, NULL);
	assert_int_equal(request.value[P4D_GLU], 0);
	assert_int_equal(request.origin[P4D_GLU], P4D_BY_USER);
	request = named("llama3-8b");
	resolve(&request, NULL);
	assert_int_equal(request.value[P4D_ACTIVATION], P4D_SWIGLU_ACTIVATION);
	assert_int_equal(request.origin[P4D_ACTIVATION], P4D_BY_MODEL);
	request = named("llama3-8b");
	set(&request, P4D_GLU, "off");
	resolve(&request, NULL);
	assert_int_equal(request.value[P4D_ACTIVATION], P4D_GELU);
	request = named("nemotron4-15b");
	resolve(&request, NULL);
	assert_int_equal(request.value[P4D_ACTIVATION], P4D_RELU2);
	assert_int_equal(request.value[P4D_GLU], 0);
	request = named("llama3-8b");
	set(&request, P4D_GLU, "off");
	set(&request, P4D_ACTIVATION, "geglu");
	refuse(&request, P4D_E_VALUE,
	       "llama3-8b: the activation contradicts glu=off: swiglu and geglu are gated, all other "
	       "activations are not",
	       "--p4d-glu=on");
}

static void no_model(void **state)
{
	p4d_request request = {0};
	(void)state;

	refuse(&request, P4D_E_INCOMPLETE_MODEL, "no model given", "--p4d-model=NAME");
}

static void no_presets(void **state)
{
	p4d_request request = named("llama-13b");
	p4d_error err = {0};
	(void)state;

	assert_int_equal(p4d_model_resolve(&request, "/nonexistent", NULL, &err), -1);
	assert_int_equal(err.code, P4D_E_INSTALLATION);
	assert_string_equal(err.text,
			    "/nonexistent/models: presets cannot be read: No such file or directory");
	assert_int_equal(p4d_model_each("/nonexistent", check_preset, NULL, &err), -1);
}

/* A count with all options on, so that a missing or wrong term changes it. The expected sum is written out
 * by hand. */
static void count_has_every_term(void **state)
{
	p4d_request r = named("custom");
	(void)state;

	set(&r, P4D_LAYERS, "3");
	set(&r, P4D_HIDDEN, "10");
	set(&r, P4D_FFN, "7");
	set(&r, P4D_HEADS, "4");
	set(&r, P4D_KV_HEADS, "2");
	set(&r, P4D_HEAD_DIM, "5");
	set(&r, P4D_VOCAB, "100");
	set(&r, P4D_MAX_SEQ_LEN, "11");
	set(&r, P4D_NORM, "layernorm");
	set(&r, P4D_POSITIONS, "learned");
	set(&r, P4D_BIAS, "all");
	set(&r, P4D_QK_NORM, "on");
	resolve(&r, NULL);
	uint64_t attention = 10 * 20 + 2 * 10 * 10 + 20 * 10, attention_bias = 20 + 10 + 10 + 10;
	uint64_t ffn = 3 * 10 * 7, ffn_bias = 7 + 7 + 10, norms = 2 * 2 * 10 + 2 * 5;
	uint64_t outside = 2 * 100 * 10 + 11 * 10 + 2 * 10;
	assert_int_equal(p4d_model_parameters(&r),
			 3 * (attention + attention_bias + ffn + ffn_bias + norms) + outside);
	set(&r, P4D_BIAS, "qkv");
	assert_int_equal(p4d_model_parameters(&r), 3 * (attention + 20 + 10 + 10 + ffn + norms) + outside);
}

static void count_saturates(void **state)
{
	p4d_request request = named("custom");
	(void)state;

	set(&request, P4D_LAYERS, "65536");
	set(&request, P4D_HIDDEN, "1048576");
	set(&request, P4D_FFN, "8388608");
	set(&request, P4D_HEADS, "65536");
	set(&request, P4D_HEAD_DIM, "65536");
	set(&request, P4D_VOCAB, "16777216");
	resolve(&request, NULL);
	assert_true(p4d_model_parameters(&request) == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(presets_have_published_parameters),
	    cmocka_unit_test(built_in_presets_are_the_files),
	    cmocka_unit_test(a_directory_replaces_what_is_built_in),
	    cmocka_unit_test(promised_presets_exist),
	    cmocka_unit_test(ptdp_rows_follow_the_paper),
	    cmocka_unit_test(published_batches),
	    cmocka_unit_test(user_wins_over_preset),
	    cmocka_unit_test(overrides_must_agree),
	    cmocka_unit_test(custom_needs_every_size),
	    cmocka_unit_test(activation_and_glu),
	    cmocka_unit_test(no_model),
	    cmocka_unit_test(no_presets),
	    cmocka_unit_test(count_has_every_term),
	    cmocka_unit_test(count_saturates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
