/* SPDX-License-Identifier: Apache-2.0 */
/* Layer patterns: the meaning of each letter, the number of layers of each kind, and options that a
 * pattern requires. */
#include "support/support.h"

#include <inttypes.h>

#include "model/model.h"
#include "request/defaults.h"
#include "request/layers.h"
#include "request/model_size.h"

static p4d_request preset(const char *name)
{
	p4d_request r = {0};
	p4d_error err = {0};

	assert_int_equal(p4d_request_set(&r, P4D_MODEL, name, P4D_BY_USER, &err), 0);
	if (p4d_model_resolve(&r, NULL, NULL, &err) < 0)
		fail_msg("%s", err.text);
	return r;
}

static p4d_layout layout_of(const char *name)
{
	const p4d_request r = preset(name);
	p4d_layout l;

	p4d_layout_of_model(&r, &l);
	return l;
}

/* The number of layers of each kind in a range equals a loop over the layers, for any position and length.
 * So does the number of layers with experts. */
static void counts_are_those_of_layers(void **state)
{
	static const char *const names[] = {"nemotron-h-47b",     "nemotron-3-nano-30b-a3b", "jamba-1.5-mini",
					    "qwen3-next-80b-a3b", "granite-4.0-h-tiny",      "deepseek-v3",
					    "llama3-8b"};

	(void)state;
	for (size_t k = 0; k < sizeof(names) / sizeof(*names); k++) {
		const p4d_layout l = layout_of(names[k]);
		for (uint64_t from = 0; from < l.layers; from += 3)
			for (uint64_t n = 0; from + n <= l.layers; n += 5) {
				const p4d_layer_counts c = p4d_layers_count(&l, from, n);
				uint64_t all = 0, experts = 0, sum[P4D_MIXERS][P4D_FEEDS] = {{0}};
				for (uint64_t i = from; i < from + n; i++) {
					const p4d_layer_kind kind = p4d_layer_at(&l, i);
					sum[kind.mixer][kind.feed]++;
				}
				for (int m = 0; m < P4D_MIXERS; m++)
					for (int f = 0; f < P4D_FEEDS; f++) {
						assert_int_equal(c.of[m][f], sum[m][f]);
						all += c.of[m][f];
						experts += f == P4D_FEED_EXPERTS ? c.of[m][f] : 0;
					}
				assert_int_equal(all, n);
				assert_int_equal(experts, p4d_expert_layers_before(&l, from + n) -
							      p4d_expert_layers_before(&l, from));
				assert_true(p4d_size_of_layers(&l, 0, from) +
						p4d_size_of_layers(&l, from, n) ==
					    p4d_size_of_layers(&l, 0, from + n));
			}
	}
}

static void letters(void **state)
{
	const p4d_layout single = layout_of("nemotron-3-nano-30b-a3b"), jamba = layout_of("jamba-1.5-mini");

	(void)state;
	assert_int_equal(p4d_layer_at(&single, 0).mixer, P4D_MIX_MAMBA2);
	assert_int_equal(p4d_layer_at(&single, 0).feed, P4D_FEED_NONE);
	assert_int_equal(p4d_layer_at(&single, 1).mixer, P4D_MIX_NONE);
	assert_int_equal(p4d_layer_at(&single, 1).feed, P4D_FEED_EXPERTS);
	assert_int_equal(p4d_layer_at(&single, 5).mixer, P4D_MIX_ATTENTION);
	assert_int_equal(p4d_layer_at(&jamba, 4).mixer, P4D_MIX_ATTENTION);
	assert_int_equal(p4d_layer_at(&jamba, 12).mixer, P4D_MIX_ATTENTION);
	assert_int_equal(p4d_layer_at(&jamba, 4).feed, P4D_FEED_DENSE);
	assert_int_equal(p4d_layer_at(&jamba, 5).feed, P4D_FEED_EXPERTS);
	assert_string_equal(p4d_layers_state("**G*"), "gated delta nets");
	assert_null(p4d_layers_state("*-*E"));
}

/* Options that a model must have with its pattern. The fix names the missing one. */
static void what_is_missing(void **state)
{
	static const struct {
		const char *pattern, *says, *fix;
	} cases[] = {
	    {"*M", "the model has Mamba-2 layers, but no state-size or state-heads",
	     "--p4d-state-size=N --p4d-state-heads=N"},
	    {"*X", "layer-pattern: 'X' is none of the letters * M S G C K - E", ""},
	    {"*K", "memory layers need both memory-keys and a layer-pattern with K",
	     "--p4d-memory-keys=1024 --p4d-layer-pattern=***K"},
	    {"*-", "only architecture=nemotron-h has layers of the kind '-'", ""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		p4d_request r = {0};
		p4d_error err = {0};
		assert_int_equal(p4d_request_set(&r, P4D_MODEL, "llama3-8b", P4D_BY_USER, &err), 0);
		assert_int_equal(p4d_request_set(&r, P4D_LAYER_PATTERN, cases[i].pattern, P4D_BY_USER, &err),
				 0);
		assert_int_equal(p4d_model_resolve(&r, NULL, NULL, &err), -1);
		if (!strstr(err.text, cases[i].says))
			fail_msg("%s", err.text);
		assert_string_equal(err.fix, cases[i].fix);
	}
	p4d_request r = {0};
	p4d_error err = {0};
	assert_int_equal(p4d_request_set(&r, P4D_MODEL, "llama3-8b", P4D_BY_USER, &err), 0);
	assert_int_equal(p4d_request_set(&r, P4D_ARCHITECTURE, "nemotron-h", P4D_BY_USER, &err), 0);
	assert_int_equal(p4d_model_resolve(&r, NULL, NULL, &err), -1);
	assert_string_equal(err.fix, "--p4d-layer-pattern=LETTERS");
}

/* The kinds of layers that p4d models in Megatron-LM, and options without effect on them. */
static void what_megatron_has(void **state)
{
	static const struct {
		const char *options, *says, *fix;
	} cases[] = {
	    {"model=nemotron-h-8b cp=2",
	     "cp=2: p4d does not model it in Megatron-LM with state-space layers or delta nets", ""},
	    {"model=nemotron-h-8b recompute=full", "recompute=full has no effect in Megatron-LM's MambaModel",
	     "--p4d-recompute=none"},
	    {"model=jamba-1.5-mini",
	     "jamba-1.5-mini has Mamba layers, which p4d models in Megatron-LM only for",
	     "--p4d-framework=deepspeed"},
	    {"model=qwen3-next-80b-a3b", NULL, NULL},
	    {"model=qwen3-next-80b-a3b recompute=full", "recompute=full: p4d does not model it",
	     "--p4d-framework=deepspeed"},
	    {"model=nemotron-h-8b framework=ddp", NULL, NULL},
	    {"model=nemotron-h-8b framework=ddp finetune=lora", NULL, NULL},
	    {"model=jamba-1.5-mini framework=ddp finetune=lora",
	     "has adapters of experts in hybrid models, which p4d does not model in", "--p4d-finetune=full"},
	    {"model=nemotron-h-8b framework=ddp finetune=qlora",
	     "has quantized state-space layers, which p4d does not model in", "--p4d-finetune=full"},
	    {"model=bamba-9b framework=fsdp model-code=torchtitan",
	     "has state-space layers, which p4d does not model in", "--p4d-model-code=transformers"},
	    {"model=nemotron-h-8b framework=p4d", "trains models like Llama, GPT-2 and Gemma 2",
	     "--p4d-framework=megatron"},
	    {"model=nemotron-h-8b", NULL, NULL},
	    {"model=nemotron-3-nano-30b-a3b", NULL, NULL},
	    {"model=nemotron-3-nano-30b-a3b framework=deepspeed", NULL, NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		p4d_request r = {0};
		p4d_error err = {0};
		p4d_layout l;
		set_all(&r, cases[i].options);
		p4d_request_default(&r, P4D_FRAMEWORK, P4D_FRAMEWORK_MEGATRON, P4D_BY_USER);
		if (p4d_model_resolve(&r, NULL, NULL, &err) < 0)
			fail_msg("%s", err.text);
		p4d_request_complete(&r, 0, 8);
		const int rc = p4d_layout_build(&r, 1, 8, &l, &err);
		if (rc < 0 && (!cases[i].says || !strstr(err.text, cases[i].says)))
			fail_msg("%s: %s", cases[i].options, err.text);
		assert_int_equal(rc, cases[i].says ? -1 : 0);
		if (cases[i].says)
			assert_string_equal(err.fix, cases[i].fix);
	}
}

/* p4d refuses an incomplete plan line, which a user could write by hand. It does not complete the line
 * from a preset. */
static void a_pattern_of_no_model(void **state)
{
	p4d_request r = {0};
	p4d_error err = {0};
	p4d_layout l;

	(void)state;
	set_all(&r, "model=nemotron-h-8b framework=megatron");
	assert_int_equal(p4d_model_resolve(&r, NULL, NULL, &err), 0);
	p4d_request_complete(&r, 0, 8);
	assert_int_equal(p4d_layout_build(&r, 1, 8, &l, &err), 0);
	set_all(&r, "layer-pattern=ME");
	assert_int_equal(p4d_layout_build(&r, 1, 8, &l, &err), -1);
	assert_string_equal(err.text, "layer-pattern has layers with experts, but the model has no experts");
	/* p4d refuses this pattern, because slurmctld would have to visit 65,536 layers one by one */
	set_all(&r, "layer-pattern=M*- layers=65536");
	assert_int_equal(p4d_layout_build(&r, 1, 8, &l, &err), -1);
	assert_string_equal(err.text, "layers=65536: with a layer-pattern p4d accepts at most 256 layers");
	set_all(&r, "layers=256 pp=128");
	assert_int_equal(p4d_layout_build(&r, 128, 8, &l, &err), -1);
	assert_string_equal(err.text, "pp=128: p4d models at most 64 pipeline stages in Megatron-LM with "
				      "state-space layers or delta nets");
	p4d_request other = {0};
	set_all(&other, MODEL_13B "layers=65536 framework=fsdp model-code=transformers");
	p4d_request_complete(&other, 0, 8);
	assert_int_equal(p4d_layout_build(&other, 1, 8, &l, &err), -1);
	assert_string_equal(err.text, "layers=65536: p4d models up to 1024 in FSDP");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(counts_are_those_of_layers),
	    cmocka_unit_test(letters),
	    cmocka_unit_test(what_is_missing),
	    cmocka_unit_test(what_megatron_has),
	    cmocka_unit_test(a_pattern_of_no_model),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
