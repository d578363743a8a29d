/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary position encodings: frequencies, compared with another formula, and their settings in model
 * files. */
#include "support/support.h"

#include <math.h>

#include "model/model.h"
#include "model/rope.h"
#include "plan/plan_line.h"
#include "run/job_plan.h"

static const p4d_rope llama31 = {500000, P4D_ROPE_LLAMA3, 8, 1, 4, 8192};

/* The transformers library's formula, which computes with wavelengths in positions. */
static double by_wavelength(const p4d_rope *r, int head_dim, int pair)
{
	const double inverse = 1 / pow(r->theta, 2.0 * pair / head_dim), length = 2 * acos(-1) / inverse;
	const double shortest_low = r->original / r->low, longest_high = r->original / r->high;

	if (length > shortest_low)
		return inverse / r->factor;
	if (length < longest_high)
		return inverse;
	const double share = (r->original / length - r->low) / (r->high - r->low);
	return inverse * (share + (1 - share) / r->factor);
}

static bool close_to(double a, double b)
{
	return fabs(a - b) <= 1e-12 * fabs(b);
}

static void frequencies_of_llama31(void **state)
{
	/* values from another program; pairs 0 to 28 have high frequencies, pairs from 36 on low ones */
	static const struct {
		int pair;
		double frequency;
	} known[] = {
	    {0, 1.0},
	    {1, 0.8146172338565447},
	    {20, 0.016560440080994446},
	    {28, 0.0032114459947525913},
	    {29, 0.002166570763503359},
	    {30, 0.0013718935677611381},
	    {32, 0.0005248461609929547},
	    {34, 0.00017850781276799638},
	    {36, 7.78465527393245e-05},
	    {50, 4.411534674558404e-06},
	    {63, 3.068925988914511e-07},
	};
	static const p4d_rope others[] = {{500000, P4D_ROPE_LLAMA3, 32, 1, 4, 8192},
					  {1000000, P4D_ROPE_LLAMA3, 1, 2, 3, 2048}};

	(void)state;
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		assert_true(
		    close_to(p4d_rope_frequency(&llama31, 128, (uint64_t)known[i].pair), known[i].frequency));
	for (int pair = 0; pair < 64; pair++) {
		assert_true(close_to(p4d_rope_frequency(&llama31, 128, (uint64_t)pair),
				     by_wavelength(&llama31, 128, pair)));
		for (int i = 0; i < 2; i++)
			assert_true(close_to(p4d_rope_frequency(&others[i], 128, (uint64_t)pair),
					     by_wavelength(&others[i], 128, pair)));
	}
}

static void frequencies_of_others(void **state)
{
	const p4d_rope plain = {.theta = 10000}, linear = {.theta = 10000, P4D_ROPE_LINEAR, .factor = 4};

	(void)state;
	for (uint64_t pair = 0; pair < 32; pair++) {
		const double expected = exp(-log(10000.0) * (double)pair / 32);
		assert_true(close_to(p4d_rope_frequency(&plain, 64, pair), expected));
		assert_true(close_to(p4d_rope_frequency(&linear, 64, pair), expected / 4));
	}
}

static void texts(void **state)
{
	static const struct {
		const char *text;
		p4d_code code;
	} refused[] = {
	    {"yarn", P4D_E_UNMODELLED},
	    {"dynamic", P4D_E_UNMODELLED},
	    {"longrope", P4D_E_UNMODELLED},
	    {"llama", P4D_E_UNMODELLED},
	    {"linear", P4D_E_UNMODELLED}, /* as from a model file without the factor */
	    {"llama3", P4D_E_UNMODELLED},
	    {"none,2", P4D_E_VALUE},
	    {"linear,0.5", P4D_E_VALUE},
	    {"linear,2,3", P4D_E_VALUE},
	    {"linear,", P4D_E_VALUE},
	    {"linear,2x", P4D_E_VALUE},
	    {"linear,nan", P4D_E_VALUE},
	    {"llama3,8", P4D_E_VALUE},
	    {"llama3,8,1,4", P4D_E_VALUE},
	    {"llama3,8,4,1,8192", P4D_E_VALUE},
	    {"llama3,8,1,4,8192,1", P4D_E_VALUE},
	    {"llama3,8,1,4,0", P4D_E_VALUE},
	};
	p4d_request r = {.gpu = ""};
	p4d_rope rope;
	p4d_error err;

	(void)state;
	p4d_rope_default(&r);
	assert_int_equal(p4d_rope_of(&r, &rope, &err), 0);
	assert_true(rope.theta == 10000 && rope.type == P4D_ROPE_NONE);
	assert_true(p4d_request_real(&r, P4D_NORM_EPSILON) == 1e-5);
	set_all(&r, "rope-theta=5e5 rope-scaling=llama3,8,1,4,8192");
	assert_int_equal(p4d_rope_of(&r, &rope, &err), 0);
	assert_true(rope.theta == 500000 && rope.type == P4D_ROPE_LLAMA3 && rope.factor == 8 &&
		    rope.low == 1 && rope.high == 4 && rope.original == 8192);
	set_all(&r, "rope-scaling=linear,2.5");
	assert_int_equal(p4d_rope_of(&r, &rope, &err), 0);
	assert_true(rope.type == P4D_ROPE_LINEAR && rope.factor == 2.5);
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		assert_int_equal(p4d_request_set(&r, P4D_ROPE_SCALING, refused[i].text, P4D_BY_USER, NULL),
				 0);
		rope.factor = 77;
		if (p4d_rope_of(&r, &rope, &err) == 0 || err.code != refused[i].code)
			fail_msg("%s: code %d", refused[i].text, err.code);
		assert_true(rope.factor == 77);
	}
}

#define SHAPE \
	"\"num_hidden_layers\":2,\"hidden_size\":64,\"intermediate_size\":128,\"num_attention_heads\":4," \
	"\"vocab_size\":257,\"max_position_embeddings\":64"
#define LLAMA3 \
	"\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0," \
	"\"original_max_position_embeddings\":8192"

static int parse(const char *text, p4d_request *r, p4d_error *err)
{
	return p4d_model__parse(text, strlen(text), "f", r, NULL, err);
}

/* Settings in files, and the values that the request then has. */
static void model_files(void **state)
{
	static const struct {
		const char *members;
		double theta;
		const char *scaling;
	} cases[] = {
	    {"", 10000, "none"},
	    {",\"rope_theta\":500000.0,\"rope_scaling\":null", 500000, "none"},
	    {",\"rope_theta\":500000,\"rope_scaling\":{\"rope_type\":\"llama3\"," LLAMA3 "}", 500000,
	     "llama3,8,1,4,8192"},
	    {",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.5}", 10000, "linear,2.5"},
	    {",\"rope_scaling\":{\"rope_type\":\"default\"}", 10000, "none"},
	    /* files of transformers 5 */
	    {",\"rope_parameters\":{\"rope_theta\":1000000.0,\"rope_type\":\"default\"}", 1000000, "none"},
	    {",\"rope_parameters\":{\"rope_theta\":500000.0,\"rope_type\":\"llama3\"," LLAMA3 "}", 500000,
	     "llama3,8,1,4,8192"},
	    /* p4d accepts these types, because only p4d-train must compute with their settings */
	    {",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4.0}", 10000, "yarn"},
	    {",\"rope_scaling\":{\"rope_type\":\"longrope\",\"long_factor\":[1,2]}", 10000, "longrope"},
	    {",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}", 10000, "dynamic"},
	    {",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0}", 10000, "llama3"},
	    {",\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"default\"}}", 10000, "layer"},
	    {",\"rope_parameters\":{\"rope_type\":\"default\",\"partial_rotary_factor\":0.5}", 10000,
	     "partial"},
	};
	static const char *const wrong[] = {",\"rope_scaling\":\"llama3\"",
					    ",\"rope_theta\":\"big\"",
					    ",\"rope_theta\":0.5",
					    ",\"rope_scaling\":{\"rope_type\":7}",
					    ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":\"2\"}",
					    ",\"rms_norm_eps\":1"};
	char text[1024];
	p4d_error err;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		p4d_request r = {.gpu = ""};
		snprintf(text, sizeof(text), "{\"model_type\":\"llama\"," SHAPE "%s}", cases[i].members);
		if (parse(text, &r, &err) < 0)
			fail_msg("%s: %s", text, err.text);
		assert_string_equal(r.rope_scaling, cases[i].scaling);
		assert_true(p4d_request_real(&r, P4D_ROPE_THETA) == cases[i].theta);
		assert_true(p4d_request_real(&r, P4D_NORM_EPSILON) == 1e-6); /* the library's default */
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		p4d_request r = {.gpu = ""};
		snprintf(text, sizeof(text), "{\"model_type\":\"llama\"," SHAPE "%s}", wrong[i]);
		if (parse(text, &r, &err) == 0)
			fail_msg("%s is taken", text);
	}
}

static void presets(void **state)
{
	static const struct {
		const char *name;
		double theta, epsilon;
		const char *scaling;
	} cases[] = {
	    {"llama7b", 10000, 1e-6, "none"},
	    {"llama2-70b", 10000, 1e-5, "none"},
	    {"llama3-8b", 500000, 1e-5, "none"},
	    {"llama3.1-8b", 500000, 1e-5, "llama3,8,1,4,8192"},
	    {"llama3.1-405b", 500000, 1e-5, "llama3,8,1,4,8192"},
	    {"llama3.2-1b", 500000, 1e-5, "llama3,32,1,4,8192"},
	    {"llama3.3-70b", 500000, 1e-5, "llama3,8,1,4,8192"},
	    {"qwen3-8b", 1000000, 1e-6, "none"},
	    {"mistral-7b", 10000, 1e-5, "none"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		p4d_request r = {.gpu = ""}, again = {.gpu = ""};
		char line[P4D_PLAN_MAX];
		p4d_error err;
		p4d_request_set(&r, P4D_MODEL, cases[i].name, P4D_BY_USER, NULL);
		if (p4d_model_resolve(&r, test_datadir(), NULL, &err) < 0)
			fail_msg("%s", err.text);
		/* the plan line must have these settings, because the ranks read them from it */
		assert_int_equal(p4d_plan_write(&r, line, sizeof(line), &err), 0);
		if (p4d_plan_read(line, &again, &err) < 0)
			fail_msg("%s", err.text);
		assert_string_equal(again.rope_scaling, cases[i].scaling);
		assert_true(p4d_request_real(&again, P4D_ROPE_THETA) == cases[i].theta);
		assert_true(p4d_request_real(&again, P4D_NORM_EPSILON) == cases[i].epsilon);
		assert_int_equal(again.origin[P4D_ROPE_SCALING], P4D_BY_MODEL);
	}
}

/* The guard does not need these settings. p4d-train refuses those with which it cannot compute. */
static void the_runtime_names_what_it_cannot(void **state)
{
	char *words[] = {(char *)"p4d-train",           (char *)"--data=a",
			 (char *)"--steps=5",           (char *)"--model=llama3.2-1b",
			 (char *)"--rope-scaling=yarn", NULL};
	p4d_job_plan plan = {.gpu = NULL};
	p4d_settings s;
	p4d_error err = {.fix = ""};

	(void)state;
	assert_int_equal(p4d_settings_parse(&s, 5, words, &err), 0);
	assert_int_equal(p4d_job_plan_open(&plan, NULL, &s, 1, 1, test_datadir(), &err), -1);
	assert_int_equal(err.code, P4D_E_UNMODELLED);
	assert_non_null(strstr(err.text, "\"yarn\""));
	assert_non_null(strstr(err.text, "none, linear and llama3"));
	words[4] = (char *)"--rope-scaling=llama3,8,1";
	assert_int_equal(p4d_settings_parse(&s, 5, words, &err), 0);
	assert_int_equal(p4d_job_plan_open(&plan, NULL, &s, 1, 1, test_datadir(), &err), -1);
	assert_int_equal(err.code, P4D_E_VALUE);
	assert_string_equal(err.fix, "--rope-scaling=llama3,8,1,4,8192");
	words[4] = (char *)"--rope-theta=600000";
	assert_int_equal(p4d_settings_parse(&s, 5, words, &err), 0);
	assert_int_equal(p4d_job_plan_open(&plan, NULL, &s, 1, 1, test_datadir(), &err), 0);
	assert_true(plan.rope.theta == 600000 && plan.rope.type == P4D_ROPE_LLAMA3 && plan.rope.factor == 32);
	p4d_job_plan_close(&plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(frequencies_of_llama31),
	    cmocka_unit_test(frequencies_of_others),
	    cmocka_unit_test(texts),
	    cmocka_unit_test(model_files),
	    cmocka_unit_test(presets),
	    cmocka_unit_test(the_runtime_names_what_it_cannot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
