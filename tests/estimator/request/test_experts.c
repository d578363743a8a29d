/* SPDX-License-Identifier: Apache-2.0 */
/* Models with experts or latent attention: valid layouts, messages about invalid ones, and the frameworks
 * that support them. */
#include "support/support.h"

#include <inttypes.h>
#include <math.h>

#include "model/model.h"
#include "plan/parameters.h"
#include "plan/stage_memory.h"
#include "request/defaults.h"
#include "request/framework.h"
#include "request/routing.h"

static p4d_request asked(const char *flags, uint64_t world)
{
	p4d_request r = {.gpu = ""};
	p4d_error err;

	set_all(&r, flags);
	if (p4d_model_resolve(&r, NULL, NULL, &err) < 0)
		fail_msg("%s: %s", flags, err.text);
	p4d_request_complete(&r, 0, world);
	return r;
}

static int built(const p4d_request *r, uint64_t nodes, p4d_layout *l, p4d_error *err)
{
	return p4d_layout_build(r, nodes, 8, l, err);
}

/* 256 ranks (dp*cp*tp) with ep*etp = 64: four ranks have the same experts, and shard their optimizer
 * states over these four. */
static void layout_of_experts(void **state)
{
	const p4d_request r = asked("model=deepseek-v3 framework=megatron tp=2 ep=32 etp=2 "
				    "seq-len=4096 account-for-embedding=on account-for-loss=on vpp=1 pp=9",
				    2304);
	p4d_layout l;
	p4d_error err;

	(void)state;
	if (built(&r, 288, &l, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(l.dp * l.cp * l.tp, 256);
	assert_int_equal(l.expert_dp, 256 / 64);
	/* the first three layers of the model have no experts */
	assert_int_equal(p4d_parameters_expert_layers(&l, 0, 0), l.stage_layers[0] - 3);
	assert_int_equal(p4d_parameters_expert_layers(&l, 1, 0), l.stage_layers[1]);
}

/* p4d refuses an option without effect if the user typed it. It accepts the option in a script, which may
 * also train models with shared experts. */
static void overlap_of_no_shared_experts(void **state)
{
	p4d_request r = asked("model=qwen3-30b-a3b framework=megatron ep=8 shared-overlap=on", 8);
	p4d_layout l;
	p4d_error err;

	(void)state;
	assert_int_equal(built(&r, 1, &l, &err), -1);
	assert_non_null(strstr(err.text, "no shared experts"));
	r.origin[P4D_SHARED_OVERLAP] = P4D_BY_SCRIPT;
	assert_int_equal(built(&r, 1, &l, &err), 0);
}

/* ep=1 and etp=1 are the defaults, so they are no error for a model without experts. */
static void ranks_of_no_experts(void **state)
{
	p4d_request r = asked("model=llama2-7b framework=megatron ep=1 etp=1", 8);
	p4d_layout l;
	p4d_error err;

	(void)state;
	assert_int_equal(built(&r, 1, &l, &err), 0);
	r.value[P4D_EP] = 2;
	assert_int_equal(built(&r, 1, &l, &err), -1);
	assert_string_equal(err.text, "ep has no effect: the model has no experts");
	assert_string_equal(err.fix, "--p4d-ep=1");
}

/* p4d's number of layers with experts equals a loop over the layers, for each chunk and for whole stages. */
static void experts_of_stages(void **state)
{
	static const uint64_t layers[] = {24, 96, 120, 4096}, every[] = {1, 2, 3, 7}, dense[] = {1, 2, 3, 30};
	static p4d_layout l;

	(void)state;
	for (unsigned i = 0; i < 4 * 4 * 4 * 2; i++) {
		char flags[200];
		snprintf(flags, sizeof(flags),
			 "model=deepseek-v3 framework=megatron layers=%" PRIu64 " pp=%u vpp=%u schedule=%s "
			 "expert-every=%" PRIu64 " dense-layers=%" PRIu64,
			 layers[i % 4], i % 3 ? 4 : 8, i / 64 ? 3 : 1, i / 64 ? "interleaved" : "1f1b",
			 every[i / 4 % 4], dense[i / 16 % 4]);
		const p4d_request r = asked(flags, 64);
		if (built(&r, 8, &l, NULL) < 0)
			continue;
		for (uint32_t stage = 0; stage < l.pp; stage++) {
			uint64_t sum = 0;
			for (uint32_t chunk = 0; chunk < l.vpp; chunk++) {
				uint64_t first = 0, with = 0;
				for (uint64_t k = 0; k < chunk * l.pp + stage; k++)
					first +=
					    p4d_chunk_layers(&l, (uint32_t)(k % l.pp), (uint32_t)(k / l.pp));
				for (uint64_t k = first; k < first + p4d_chunk_layers(&l, stage, chunk); k++)
					with += k >= l.dense_layers && (k + 1) % l.expert_every == 0;
				assert_int_equal(p4d_parameters_first_layer(&l, stage, chunk), first);
				assert_int_equal(p4d_parameters_expert_layers(&l, stage, chunk), with);
				sum += with;
			}
			assert_int_equal(p4d_parameters_expert_layers_of_stage(&l, stage), sum);
		}
	}
}

/* recompute-modules implies recompute=selective, unless the user sets recompute. */
static void modules_say_selective(void **state)
{
	const p4d_request r = asked("model=mixtral-8x7b framework=megatron recompute-modules=moe_act", 8);
	p4d_layout l;

	(void)state;
	assert_int_equal(built(&r, 1, &l, NULL), 0);
	assert_int_equal(l.recompute, P4D_RECOMPUTE_SELECTIVE);
	assert_int_equal(l.megatron.recompute_modules, P4D_MODULE_MOE_ACTIVATION);
}

/* The message lists valid values, and the fix has a valid value. */
static void numbers_that_work(void **state)
{
	static const struct {
		const char *flags, *says, *fix;
		p4d_code code;
	} cases[] = {
	    {"ep=3", "ep=3 must divide the 8 experts", "ep can be 1, 2, 4, 8", P4D_E_EXPERTS},
	    {"ep=8 etp=2", "ep=8 must divide the 8 experts", "ep can be 1, 2, 4", P4D_E_EXPERTS},
	    {"etp=3", "etp=3 must divide each of these: the 14336 columns", "etp can be 1, 2, 4, 8",
	     P4D_E_EXPERTS},
	    {"experts-per-token=9", "a layer has 8 experts", "", P4D_E_VALUE},
	    {"tp=2 sequence-parallel=off", "needs sequence-parallel=on", "", P4D_E_VALUE},
	    {"attention=unfused", "attention=unfused: p4d does not model it", "", P4D_E_UNMODELLED},
	    {"recompute=mlp", "recompute=mlp: p4d does not model it", "", P4D_E_UNMODELLED},
	    {"framework=p4d", "trains models like Llama, GPT-2 and Gemma 2", "", P4D_E_UNMODELLED},
	    {"framework=deepspeed ep=2", "ep=2: in the transformers library", "", P4D_E_VALUE},
	    {"framework=ddp ep=2", "ep=2: in the transformers library", "", P4D_E_VALUE},
	    {"framework=fsdp ep=3", "ep=3 must divide the 8 experts", "ep can be 1, 2, 4, 8", P4D_E_EXPERTS},
	    {"framework=fsdp shard-degree=4 ep=8", "ep=8 must divide the 8 experts", "ep can be 1, 2, 4",
	     P4D_E_EXPERTS},
	    {"framework=fsdp tp=2 sequence-parallel=off",
	     "sequence-parallel=off: p4d can predict torchtitan's experts", "", P4D_E_UNMODELLED},
	    {"framework=fsdp etp=2", "etp=2: with FSDP p4d does not model sharded experts", "", P4D_E_VALUE},
	    {"framework=fsdp expert-capacity=1", "expert-capacity: p4d does not model it", "",
	     P4D_E_UNMODELLED},
	    {"framework=fsdp model-code=litgpt", "has experts, which p4d does not model in FSDP", "",
	     P4D_E_UNMODELLED},
	};
	char flags[160];
	p4d_layout l;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const bool other = strstr(cases[i].flags, "framework=");
		p4d_error err = {0};
		snprintf(flags, sizeof(flags), "model=mixtral-8x7b seq-len=4096 %s %s",
			 other ? "" : "framework=megatron", cases[i].flags);
		p4d_request r = asked(flags, 8);
		assert_int_equal(built(&r, 1, &l, &err), -1);
		assert_int_equal(err.code, cases[i].code);
		if (!strstr(err.text, cases[i].says) || !strstr(err.text, cases[i].fix))
			fail_msg("%s: %s", flags, err.text);
		if (err.code == P4D_E_UNMODELLED)
			continue;
		char *value = strchr(err.fix + 6, '='); /* the fix is --p4d-NAME=VALUE */
		assert_non_null(value);
		char name[64];
		snprintf(name, sizeof(name), "%.*s", (int)(value - err.fix - 6), err.fix + 6);
		set_all(&r, "experts-per-token=2");
		assert_int_equal(p4d_request_set(&r, (p4d_option)p4d_request_option_find(name), value + 1,
						 P4D_BY_USER, &err),
				 0);
		if (built(&r, 1, &l, &err) < 0)
			fail_msg("%s, fixed: %s", flags, err.text);
	}
}

/* The message lists divisors of a large number of experts, on both sides of its square root. */
static void numbers_that_work_of_many(void **state)
{
	static const struct {
		const char *flags, *can;
	} cases[] = {
	    {"experts=15000 ep=5", "ep can be 1, 2, 3, 4, 6, 8, 12, 24"},
	    {"experts=72 ep=5", "ep can be 1, 2, 3, 4, 6, 8, 9, 12, 18, 24, 36, 72"},
	    {"experts=65521 ep=5", "ep can be 1"}, /* a prime */
	    {"experts=36 ep=5", "ep can be 1, 2, 3, 4, 6, 9, 12, 18, 36"},
	};
	char flags[160];
	p4d_layout l;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		p4d_error err = {0};
		snprintf(flags, sizeof(flags), "model=mixtral-8x7b framework=megatron seq-len=4096 %s",
			 cases[i].flags);
		const p4d_request r = asked(flags, 72);
		assert_int_equal(built(&r, 9, &l, &err), -1);
		if (!strstr(err.text, cases[i].can) ||
		    strlen(strstr(err.text, cases[i].can)) != strlen(cases[i].can))
			fail_msg("%s: %s", flags, err.text);
	}
}

/* p4d refuses options for experts if the model has none. */
static void dense_models_have_none(void **state)
{
	static const char *const flags[] = {"ep=2",
					    "etp=2",
					    "imbalance=2",
					    "recompute=moe",
					    "shared-ffn=128",
					    "token-dispatcher=all-gather",
					    "expert-capacity=1.25",
					    "pad-experts=on"};
	char text[128];
	p4d_layout l;

	(void)state;
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		p4d_error err = {0};
		snprintf(text, sizeof(text), "model=llama3-8b framework=megatron tp=2 %s", flags[i]);
		const p4d_request r = asked(text, 8);
		assert_int_equal(built(&r, 1, &l, &err), -1);
		assert_int_equal(err.code, P4D_E_VALUE);
	}
}

/* p4d refuses an option that would change nothing, and proposes a fix. */
static void options_without_effect(void **state)
{
	static const struct {
		const char *flags, *says, *fix;
	} cases[] = {
	    {"framework=megatron ep=1 imbalance=2",
	     "imbalance has no effect with ep=1: each rank has all experts, and its own tokens",
	     "leave out --p4d-imbalance"},
	    {"framework=megatron imbalance=2",
	     "imbalance has no effect with ep=1: each rank has all experts, and its own tokens",
	     "leave out --p4d-imbalance"},
	    {"framework=megatron recompute=none recompute-modules=moe_act",
	     "recompute-modules has no effect without recompute=selective", "--p4d-recompute=selective"},
	    {"framework=fsdp recompute=selective recompute-modules=moe_act",
	     "recompute-modules has no effect with FSDP: they are Megatron-LM's",
	     "leave out --p4d-recompute-modules"},
	};
	char flags[160];
	p4d_layout l;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		p4d_error err = {0};
		const char *model = strstr(cases[i].flags, "fsdp") ? "deepseek-v2" : "mixtral-8x7b";
		snprintf(flags, sizeof(flags), "model=%s seq-len=4096 %s", model, cases[i].flags);
		const p4d_request r = asked(flags, 8);
		assert_int_equal(built(&r, 1, &l, &err), -1);
		assert_string_equal(err.text, cases[i].says);
		assert_string_equal(err.fix, cases[i].fix);
	}
}

static uint64_t bytes_with(const char *flags)
{
	char text[200];
	p4d_stage stage;
	p4d_layout l;
	p4d_error err;

	snprintf(text, sizeof(text), "model=mixtral-8x7b framework=megatron seq-len=4096 %s", flags);
	const p4d_request r = asked(text, 64);
	if (built(&r, 8, &l, &err) < 0 || p4d_memory_of_stage(&l, P4D_METHOD_PLAN, NULL, 0, &stage, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	return stage.allocated_bytes;
}

static void imbalance_and_recomputation_count(void **state)
{
	(void)state;
	assert_true(bytes_with("ep=8 imbalance=1.5") > bytes_with("ep=8"));
	assert_true(bytes_with("ep=8 recompute=moe") < bytes_with("ep=8"));
	assert_true(bytes_with("ep=8") < bytes_with("ep=4"));
}

static void dispatchers_and_capacities_count(void **state)
{
	const uint64_t exchanged = bytes_with("ep=8"), full = bytes_with("ep=8 imbalance=2");

	(void)state;
	/* with all-gather, tokens are not copied before the exchange, but each rank receives all tokens */
	assert_true(bytes_with("ep=8 token-dispatcher=all-gather") != exchanged);
	assert_true(bytes_with("ep=2 token-dispatcher=all-gather") <
		    bytes_with("ep=8 token-dispatcher=all-gather") + (bytes_with("ep=2") - exchanged));
	assert_true(bytes_with("ep=8 token-dispatcher=deepep") != exchanged);
	/* experts drop tokens above their capacity; with padding, they need the capacity even if fewer
	 * tokens arrive */
	assert_true(bytes_with("ep=8 imbalance=2 expert-capacity=1.25") < full);
	assert_true(bytes_with("ep=8 expert-capacity=1.25 pad-experts=on") > exchanged);
	assert_true(bytes_with("ep=8 expert-capacity=4 pad-experts=on") > full);
	assert_true(bytes_with("ep=8 mtp-layers=1") > exchanged);
}

/* With deepep, the busiest rank receives each token at most once. The formula must agree with choosing a
 * token's experts one by one. */
static void deepep_receives_each_once(void **state)
{
	static const uint64_t cases[][2] = {{8, 2},     {256, 8},     {4096, 64},
					    {4096, 65}, {65536, 200}, {65536, 60000}};
	const uint64_t own = 1 << 20;
	char text[256];
	p4d_layout l;
	p4d_error err;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const uint64_t experts = cases[i][0], chosen = cases[i][1];
		snprintf(text, sizeof(text),
			 "model=mixtral-8x7b framework=megatron seq-len=4096 experts=%" PRIu64
			 " experts-per-token=%" PRIu64 " ep=8 token-dispatcher=deepep",
			 experts, chosen);
		const p4d_request r = asked(text, 64);
		if (built(&r, 8, &l, &err) < 0)
			fail_msg("%s: %s", text, err.text);
		double none = 1;
		for (uint64_t k = 0; k < chosen; k++)
			none *= k < experts - experts / 8
				    ? (double)(experts - experts / 8 - k) / (double)(experts - k)
				    : 0;
		const double expected = (double)own * 8 * (1 - none),
			     got = (double)p4d_routed_of(&l, own).received;
		if (fabs(got - expected) > 1 + 1e-9 * expected)
			fail_msg("%s: %.0f tokens, not %.0f", text, got, expected);
	}
}

/* p4d refuses each layout, and the fix is valid. */
static void dispatch_that_megatron_lacks(void **state)
{
	static const char *const flags[] = {
	    "ep=8 pad-experts=on",
	    "ep=8 imbalance=1.5 expert-capacity=1 pad-experts=on",
	    "ep=8 token-dispatcher=deepep expert-capacity=1 pad-experts=on",
	    "ep=1 token-dispatcher=deepep",
	    "ep=8 mtp-layers=1 recompute=full recompute-layers=2",
	};
	char text[256];
	p4d_layout l;

	(void)state;
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		p4d_error err = {0};
		snprintf(text, sizeof(text), "model=mixtral-8x7b framework=megatron seq-len=4096 %s",
			 flags[i]);
		p4d_request r = asked(text, 64);
		assert_int_equal(built(&r, 8, &l, &err), -1);
		assert_int_equal(err.code, P4D_E_VALUE);
		assert_true(err.fix[0]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(layout_of_experts),
	    cmocka_unit_test(overlap_of_no_shared_experts),
	    cmocka_unit_test(ranks_of_no_experts),
	    cmocka_unit_test(experts_of_stages),
	    cmocka_unit_test(modules_say_selective),
	    cmocka_unit_test(options_without_effect),
	    cmocka_unit_test(numbers_that_work),
	    cmocka_unit_test(numbers_that_work_of_many),
	    cmocka_unit_test(dense_models_have_none),
	    cmocka_unit_test(imbalance_and_recomputation_count),
	    cmocka_unit_test(dispatchers_and_capacities_count),
	    cmocka_unit_test(deepep_receives_each_once),
	    cmocka_unit_test(dispatch_that_megatron_lacks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
