/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of architectures.def: the number of parameters of one published model per row, and the
 * frameworks that support the row. */
#include "support/support.h"

#include "model/model.h"
#include "request/architecture.h"
#include "request/framework.h"
#include "request/model_size.h"

/* Number of parameters that the transformers library counts for the model's config.json. */
static const struct {
	const char *flags;
	uint64_t parameters;
} models[] = {
    /* gpt2 */
    {"architecture=gpt2 layers=12 hidden=768 ffn=3072 heads=12 vocab=50257 max-seq-len=1024", 124439808},
    /* phi-2 */
    {"architecture=phi layers=32 hidden=2560 ffn=10240 heads=32 vocab=51200", 2779683840},
    /* gemma-2b */
    {"architecture=gemma layers=18 hidden=2048 ffn=16384 heads=8 kv-heads=1 head-dim=256 vocab=256000",
     2506172416},
    /* gemma-2-2b */
    {"architecture=gemma2 layers=26 hidden=2304 ffn=9216 heads=8 kv-heads=4 head-dim=256 vocab=256000",
     2614341888},
    /* pythia-70m */
    {"architecture=gpt-neox tied=off layers=6 hidden=512 ffn=2048 heads=8 vocab=50304", 70426624},
    /* opt-125m */
    {"architecture=opt layers=12 hidden=768 ffn=3072 heads=12 vocab=50272 max-seq-len=2048", 125239296},
    /* falcon-7b */
    {"architecture=falcon layers=32 hidden=4544 ffn=18176 heads=71 kv-heads=1 vocab=65024", 6921720704},
    /* bloom-560m */
    {"architecture=bloom layers=24 hidden=1024 ffn=4096 heads=16 vocab=250880", 559214592},
    /* t5-small */
    {"architecture=t5 layers=6 hidden=512 ffn=2048 heads=8 vocab=32128", 60506624},
    /* bert-base-uncased, with the masked-language-model head */
    {"architecture=bert layers=12 hidden=768 ffn=3072 heads=12 vocab=30522 max-seq-len=512", 109514298},
    /* vit-base-patch16-224 */
    {"architecture=vit layers=12 hidden=768 ffn=3072 heads=12 vocab=1000 max-seq-len=196", 86567656},
};

static p4d_request custom(const char *flags)
{
	p4d_request r = {.model = "custom"};
	p4d_error err = {0};

	set_all(&r, flags);
	if (p4d_model_resolve(&r, NULL, NULL, &err) < 0)
		fail_msg("%s: %s", flags, err.text);
	return r;
}

static void rows_have_published_parameters(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(models) / sizeof(*models); i++) {
		const p4d_request r = custom(models[i].flags);
		if (p4d_model_parameters(&r) != models[i].parameters)
			fail_msg("%s: %llu, counted %llu", models[i].flags,
				 (unsigned long long)models[i].parameters,
				 (unsigned long long)p4d_model_parameters(&r));
	}
}

static void every_row_is_whole(void **state)
{
	char name[32];

	(void)state;
	for (int i = 0; i < P4D_ARCHITECTURES; i++) {
		const p4d_architecture *a = &p4d_architectures[i];
		assert_string_equal(a->name,
				    p4d_request_choice_name(P4D_ARCHITECTURE, i, name, sizeof(name)));
		assert_true(a->attentions && a->mlps && a->norms);
		assert_int_equal(a->place == P4D_NORMS_AROUND, a->norms == 4);
		assert_true(a->final_norms || a->place == P4D_NORMS_AFTER);
	}
}

/* Options of the user override the row's defaults. */
static void options_win(void **state)
{
	const p4d_request r = custom("architecture=gemma2 layers=2 hidden=64 ffn=128 heads=4 vocab=100 "
				     "tied=off norm=layernorm activation=gelu");
	p4d_layout l;

	(void)state;
	p4d_layout_of_model(&r, &l);
	assert_int_equal(l.norm_tensors, 2);
	assert_false(l.tied || l.glu);
	assert_int_equal(l.architecture->norms, 4);
	assert_int_equal((uint64_t)p4d_size_of_layer(&l), 4 * 64 * 64 + 2 * 64 * 128 + 4 * 2 * 64);
}

/* If a framework does not model a family, its message says in what the family differs. p4d-train supports
 * some of these families. */
static void others_are_refused_by_name(void **state)
{
	static const struct {
		const char *flags, *difference;
		bool trained;
	} cases[] = {
	    {"architecture=gemma2", "norms before and after each block", true},
	    {"architecture=olmo2", "norms after each block", true},
	    {"architecture=olmo3", "norms after each block", false},
	    {"architecture=exaone4", "norms after each block", false},
	    {"architecture=falcon", "attention parallel to the feed-forward layer", false},
	    {"architecture=t5", "an encoder and a decoder", false},
	    {"architecture=granite", "factors on embeddings, residuals or logits", true},
	    {"architecture=smollm3", "layers without positions", true},
	    {"architecture=llama norm=layernorm-plain", "LayerNorm without parameters", false},
	    {"architecture=llama bias=mlp", "biases of some linear layers only", true},
	    {"architecture=llama qk-norm=wide", "query and key norms over all heads", true},
	    {"architecture=llama activation=relu", "ReLU", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char flags[200];
		p4d_error err = {0};
		snprintf(flags, sizeof(flags),
			 "%s layers=2 hidden=64 ffn=128 heads=4 vocab=100 max-seq-len=64", cases[i].flags);
		p4d_request r = custom(flags);
		assert_int_equal(p4d_framework_of(P4D_FRAMEWORK_P4D)->check_model(&r, &err),
				 cases[i].trained ? 0 : -1);
		assert_int_equal(p4d_framework_of(P4D_FRAMEWORK_MEGATRON)->check_model(&r, &err), -1);
		assert_int_equal(err.code, P4D_E_UNMODELLED);
		assert_non_null(strstr(err.text, cases[i].difference));
	}
	p4d_request llama = custom("layers=2 hidden=64 ffn=128 heads=4 vocab=100");
	assert_null(p4d_architecture_block_difference(&llama));
}

/* Families that differ from Llama in one thing. Megatron-LM accepts those with the same memory, and
 * p4d-train only those with the same computation. */
static void families_near_llama(void **state)
{
	static const struct {
		const char *architecture;
		int megatron;
	} cases[] = {{"arcee", 0}, {"hunyuan", 0}, {"ernie4.5", 0}, {"apertus", -1}, {"phimoe", -1}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char flags[160];
		p4d_error err = {0};
		snprintf(flags, sizeof(flags),
			 "architecture=%s layers=2 hidden=64 ffn=128 heads=4 vocab=100 max-seq-len=64",
			 cases[i].architecture);
		const p4d_request r = custom(flags);
		assert_int_equal(p4d_framework_of(P4D_FRAMEWORK_P4D)->check_model(&r, &err), -1);
		assert_int_equal(p4d_framework_of(P4D_FRAMEWORK_MEGATRON)->check_model(&r, &err),
				 cases[i].megatron);
	}
}

/* If the default framework does not model a family, p4d chooses another framework that does. The test
 * checks the request as p4d would complete it. */
static void the_default_framework_takes_the_model(void **state)
{
	const p4d_request gemma = custom("architecture=gemma2 layers=2 hidden=64 ffn=128 heads=4 vocab=100"),
			  olmo = custom("architecture=olmo3 layers=2 hidden=64 ffn=128 heads=4 vocab=100");
	p4d_request fixed;
	p4d_error err = {0};

	(void)state;
	assert_true(p4d_framework_models(&gemma, &err));
	fixed = gemma;
	p4d_request_put(&fixed, P4D_FRAMEWORK, P4D_FRAMEWORK_MEGATRON, P4D_BY_USER);
	assert_false(p4d_framework_models(&fixed, &err));
	assert_int_equal(err.code, P4D_E_UNMODELLED);
	assert_int_equal(p4d_framework_default(&gemma), P4D_FRAMEWORK_P4D);
	assert_true(p4d_framework_default(&olmo) > P4D_FRAMEWORK_MEGATRON);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rows_have_published_parameters),
	    cmocka_unit_test(every_row_is_whole),
	    cmocka_unit_test(options_win),
	    cmocka_unit_test(others_are_refused_by_name),
	    cmocka_unit_test(families_near_llama),
	    cmocka_unit_test(the_default_framework_takes_the_model),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
