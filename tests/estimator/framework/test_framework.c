/* SPDX-License-Identifier: Apache-2.0 */
/* The table of frameworks: every entry is complete and consistent. */
#include "support/support.h"

#include "job/export.h"
#include "job/script.h"
#include "model/model.h"
#include "plan/plan.h"
#include "request/defaults.h"
#include "request/framework.h"

#define LEARNED \
	"model=gpt layers=24 hidden=2048 ffn=8192 heads=16 kv-heads=16 head-dim=128 vocab=50257 " \
	"norm=layernorm " \
	"glu=off tied=on positions=learned bias=all qk-norm=off max-seq-len=2048 "

static unsigned choices(p4d_option option)
{
	unsigned count = 1;

	for (const char *at = p4d_option_choices(p4d_request_option_info(option)); *at; at++)
		count += *at == '|';
	return count;
}

/* Builds a request, without degrees of parallelism that the framework does not have. */
static void build(const char *flags, int framework, p4d_request *r)
{
	static const p4d_option degrees[] = {P4D_TP, P4D_PP, P4D_CP};

	memset(r, 0, sizeof(*r));
	set_all(r, flags);
	p4d_request_put(r, P4D_FRAMEWORK, framework, P4D_BY_USER);
	for (size_t i = 0; i < sizeof(degrees) / sizeof(*degrees); i++)
		if (p4d_framework_fixed_of(r, degrees[i]))
			r->origin[degrees[i]] = P4D_UNSET;
	p4d_request_complete(r, 1024, 16);
}

static void refused(p4d_request *r, p4d_code code, const char *what, p4d_error *err)
{
	*err = (p4d_error){.code = P4D_OK};
	assert_int_equal(p4d_framework_check(r, err), -1);
	assert_int_equal(err->code, code);
	assert_non_null(strstr(err->text, what));
}

static void entries_are_complete(void **state)
{
	char name[32];

	(void)state;
	assert_int_equal(choices(P4D_FRAMEWORK), P4D_FRAMEWORKS);
	for (int i = 0; i < P4D_FRAMEWORKS; i++) {
		const p4d_framework *f = p4d_framework_of(i);
		assert_non_null(f);
		assert_string_equal(f->name, p4d_request_choice_name(P4D_FRAMEWORK, i, name, sizeof(name)));
		assert_true(f->program && *f->program);
		assert_true(f->check_model && f->write_rows && f->groups_bytes);
		assert_true(f->recomputes >> P4D_RECOMPUTE_NONE & 1 &&
			    f->recomputes >> P4D_RECOMPUTE_FULL & 1);
		assert_true(f->vocab_multiple > 0);
		assert_true(f->alignment > 0 && !(f->alignment & (f->alignment - 1)));
		assert_true(f->limit >= 0 && f->limit < 1);
		assert_true(f->cost.step_seconds > 0);
		assert_true(f->script_words && f->script_words[0]);
		assert_false(f->allocates_plan && f->fragmentation[P4D_ALLOCATOR_DEFAULT]);
		const unsigned all = (1u << choices(P4D_SCHEDULE)) - 1;
		assert_true(f->schedules >> P4D_1F1B & 1); /* the default schedule */
		assert_true((f->no_schedule == NULL) == ((f->schedules & all) == all));
	}
}

/* Applies the options of an error's fix to the request. */
static void apply_fix(p4d_request *r, const p4d_error *err)
{
	char text[sizeof(err->fix)];

	assert_true(err->fix[0]);
	snprintf(text, sizeof(text), "%s", err->fix);
	for (char *flag = strtok(text, " "); flag; flag = strtok(NULL, " ")) {
		char *equals = strchr(flag, '=');
		assert_true(equals && !strncmp(flag, "--p4d-", 6));
		*equals = '\0';
		int option = p4d_request_option_find(flag + 6);
		assert_true(option >= 0);
		assert_int_equal(p4d_request_set(r, (p4d_option)option, equals + 1, P4D_BY_USER, NULL), 0);
	}
}

static void refused_then_fixed(p4d_request *r, p4d_code code, const char *what)
{
	p4d_error err;

	refused(r, code, what, &err);
	apply_fix(r, &err);
	assert_int_equal(p4d_framework_check(r, &err), 0);
}

static void refusals_say_what_helps(void **state)
{
	char what[32], name[16];
	p4d_request r;

	(void)state;
	for (int i = 0; i < P4D_FRAMEWORKS; i++) {
		const p4d_framework *f = p4d_framework_of(i);
		for (unsigned schedule = 0; schedule < choices(P4D_SCHEDULE); schedule++) {
			build(MODEL_70B "tp=4 pp=4", i, &r);
			p4d_request_put(&r, P4D_SCHEDULE, schedule, P4D_BY_USER);
			snprintf(what, sizeof(what), "schedule=%s ",
				 p4d_request_choice_name(P4D_SCHEDULE, schedule, name, sizeof(name)));
			if (f->schedules >> schedule & 1)
				assert_int_equal(p4d_framework_check(&r, NULL), 0);
			else
				refused_then_fixed(&r, P4D_E_SCHEDULE, what);
		}
		build(MODEL_70B "tp=4 pp=4 vocab-parallel=vocab-2", i, &r);
		if (f->no_vocab_parallel)
			refused_then_fixed(&r, P4D_E_SCHEDULE, "vocab-parallel ");
		else
			assert_int_equal(p4d_framework_check(&r, NULL), 0);
		for (int option = 0; option < P4D_OPTIONS; option++) {
			build(MODEL_70B "tp=4 pp=4", i, &r);
			const p4d_heeds_reason *fixed = p4d_framework_fixed_of(&r, (p4d_option)option);
			if (!fixed)
				continue;
			char why[160];
			const int64_t other = fixed->value ? 0 : 1;
			p4d_request_put(&r, (p4d_option)option, other, P4D_BY_SITE);
			assert_int_equal(p4d_framework_check(&r, NULL), 0);
			const bool any = fixed->value != P4D_NO_MEANING;
			assert_int_equal(p4d_framework_value(&r, (p4d_option)option), any ? fixed->value : 0);
			p4d_request_put(&r, (p4d_option)option, other, P4D_BY_USER);
			p4d_heeds__why(fixed, i, why, sizeof(why));
			if (any) {
				refused_then_fixed(&r, P4D_E_VALUE, why);
				continue;
			}
			if (p4d_framework_states_nothing(&r, (p4d_option)option)) {
				assert_int_equal(p4d_framework_check(&r, NULL), 0);
				continue;
			}
			p4d_error err;
			refused(&r, P4D_E_VALUE, why, &err);
			assert_non_null(strstr(err.fix, "leave out --p4d-"));
		}
		build(LEARNED "tp=4 pp=4", i, &r);
		if (f->check_model(&r, NULL) < 0)
			refused_then_fixed(&r, P4D_E_UNMODELLED, f->name);
		else
			assert_int_equal(p4d_framework_check(&r, NULL), 0);
	}
}

/* The default is the first framework of the list that can train the model. */
static void first_that_can_is_default(void **state)
{
	static const char *const models[] = {MODEL_13B, MODEL_70B, LEARNED};

	(void)state;
	for (size_t m = 0; m < sizeof(models) / sizeof(*models); m++) {
		p4d_request r = {.model = ""};
		set_all(&r, models[m]);
		const int chosen = p4d_framework_default(&r);
		assert_int_equal(p4d_framework_of(chosen)->check_model(&r, NULL), 0);
		for (int i = 0; i < chosen; i++)
			assert_int_equal(p4d_framework_of(i)->check_model(&r, NULL), -1);
		p4d_request_complete(&r, 1024, 16);
		assert_int_equal(r.value[P4D_FRAMEWORK], chosen);
		assert_int_equal(r.value[P4D_CROSS_ENTROPY], p4d_framework_of(chosen)->fuses_cross_entropy);
	}
	p4d_request r = {.model = ""};
	set_all(&r, MODEL_13B);
	assert_int_equal(p4d_framework_default(&r), P4D_FRAMEWORK_P4D);
	set_all(&r, LEARNED);
	assert_int_equal(p4d_framework_default(&r), P4D_FRAMEWORK_P4D);
	set_all(&r, LEARNED "activation=relu2 glu=off");
	assert_int_equal(p4d_framework_default(&r), P4D_FRAMEWORK_MEGATRON);
}

static void check_row(const p4d_framework *f, const p4d_plan *plan, const p4d_tensor *row)
{
	static const unsigned size[] = {[P4D_DT_BF16] = 2, [P4D_DT_FP16] = 2,  [P4D_DT_FP32] = 4,
					[P4D_DT_FP64] = 8, [P4D_DT_INT32] = 4, [P4D_DT_BYTES] = 1};
	uint64_t bytes = size[row->dtype];

	for (unsigned i = 0; i < row->dims; i++)
		bytes *= row->shape[i];
	assert_true(row->bytes >= bytes);
	assert_int_equal(row->bytes % f->alignment, 0);
	for (const p4d_tensor *other = plan->tensor; other < row; other++)
		assert_string_not_equal(other->name, row->name);
	assert_false(row->at_first_step && row->lifetime != P4D_LIVES_ALWAYS);
}

static void check_stage(const p4d_framework *f, const p4d_layout *l, uint32_t stage)
{
	const unsigned of_pipelines = l->pp > 1 ? f->pipeline_fragmentation[l->allocator] : 0,
		       share = of_pipelines ? of_pipelines : f->fragmentation[l->allocator];
	static p4d_plan plan;
	p4d_stage s;
	uint64_t parts = 0, always = 0, later = 0;

	assert_int_equal(p4d_plan_build(l, NULL, stage, &plan, NULL), 0);
	assert_within(plan.count, 5, P4D_TENSORS);
	for (unsigned i = 0; i < plan.count; i++) {
		const p4d_tensor *row = &plan.tensor[i];
		check_row(f, &plan, row);
		always += row->lifetime == P4D_LIVES_ALWAYS ? row->bytes : 0;
		later += row->at_first_step ? row->bytes : 0;
	}
	for (int i = 0; i < P4D_PART_COUNT; i++)
		parts += plan.part[i];
	assert_int_equal(parts, plan.arena_bytes);
	assert_int_equal(always, plan.persistent_bytes);
	assert_int_equal(plan.phase_bytes[P4D_INIT], always - later);
	const uint64_t train = plan.phase_bytes[P4D_TRAIN], evaluation = plan.phase_bytes[P4D_EVALUATION];
	const uint64_t passes = evaluation > train ? evaluation : train, step = plan.phase_bytes[P4D_STEP];
	/* the update needs more memory than the passes only if all gradients still exist in it */
	assert_true(f->frees_gradients || step <= passes);
	assert_int_equal(plan.phase, step > passes        ? P4D_STEP
				     : evaluation > train ? P4D_EVALUATION
							  : P4D_TRAIN);
	assert_int_equal(plan.arena_bytes, step > passes ? step : passes);
	assert_true(evaluation > always);
	/* evaluation with the micro-batch of training needs no more memory than training */
	if (l->eval_micro_batch == l->micro_batch)
		assert_true(evaluation <= train);
	else
		assert_true(stage < l->pp - 1 || evaluation > train);
	assert_true(f->checkpoints_are_modelled == (plan.phase_bytes[P4D_SAVE] != P4D_NOT_MODELLED));
	assert_int_equal(p4d_memory_of_stage(l, P4D_METHOD_PLAN, NULL, stage, &s, NULL), 0);
	assert_int_equal(s.allocated_bytes, plan.arena_bytes);
	assert_int_equal(s.part[P4D_PART_COMM], f->groups_bytes(l, stage));
	assert_int_equal(s.part[P4D_PART_FRAGMENTATION],
			 plan.idle_bytes + (uint64_t)((__uint128_t)plan.arena_bytes * share / 1000));
}

static void rows_add_up(void **state)
{
	static const char *const flags[] = {
	    MODEL_70B "tp=8",
	    MODEL_70B "tp=4 pp=4 recompute=full",
	    MODEL_70B "tp=4 pp=4 recompute=full eval-micro-batch=16",
	    MODEL_70B "tp=2 pp=4 cp=2 cp-comm=all-gather recompute=selective",
	    MODEL_70B "tp=4 pp=4 schedule=interleaved vpp=5 recompute=mlp attention=unfused",
	    MODEL_13B "tp=2 pp=2 precision=fp32 optimizer-sharding=off",
	    MODEL_13B "pp=4 schedule=zbv",
	    MODEL_13B "tp=2 pp=4 schedule=v-half vocab-parallel=vocab-1",
	    LEARNED "tp=2 pp=4",
	    MODEL_13B "micro-batch=2",
	    MODEL_13B "recompute=full",
	    MODEL_70B "recompute=full global-batch=16",
	};
	static p4d_layout l;
	p4d_request r;

	(void)state;
	for (int i = 0; i < P4D_FRAMEWORKS; i++) {
		unsigned checked = 0;
		for (size_t k = 0; k < sizeof(flags) / sizeof(*flags); k++) {
			build(flags[k], i, &r);
			if (p4d_layout_build(&r, 2, 8, &l, NULL) < 0)
				continue;
			checked++;
			assert_int_equal(l.vocab % (p4d_framework_of(i)->vocab_multiple * l.tp), 0);
			for (uint32_t stage = 0; stage < l.pp; stage++)
				check_stage(p4d_framework_of(i), &l, stage);
		}
		assert_true(checked >= 5);
	}
}

static void scripts_name_their_framework(void **state)
{
	(void)state;
	for (int i = 0; i < P4D_FRAMEWORKS; i++) {
		const p4d_framework *f = p4d_framework_of(i);
		for (const char *const *word = f->script_words; *word; word++) {
			p4d_script script = p4d_script_scan(*word, strlen(*word), NULL);
			assert_int_equal(script.frameworks, 1u << i);
			assert_true(script.uses_plan == !f->arguments);
		}
	}
}

static void scripts_name_other_programs(void **state)
{
	(void)state;
	for (const p4d_framework_other *other = p4d_framework_others; other->name; other++)
		for (size_t i = 0; i < 4 && other->words[i]; i++) {
			p4d_script script = p4d_script_scan(other->words[i], strlen(other->words[i]), NULL);
			assert_string_equal(script.other->name, other->name);
			assert_int_equal(script.frameworks, 0);
		}
}

static bool is_exported(const char *variable)
{
	for (size_t i = 0; p4d_export_name(i); i++)
		if (!strcmp(p4d_export_name(i), variable))
			return true;
	return false;
}

static void arguments_follow_the_plan(void **state)
{
	p4d_framework_flag flags[P4D_FRAMEWORK_FLAGS];
	char text[3072];
	static p4d_layout l;
	p4d_request r;

	(void)state;
	for (int i = 0; i < P4D_FRAMEWORKS; i++) {
		const p4d_framework_arguments *arguments = p4d_framework_of(i)->arguments;
		if (!arguments)
			continue;
		assert_true(arguments->program && arguments->write && arguments->flags);
		assert_true(is_exported(arguments->variable));
		build(MODEL_70B "tp=2 pp=4 cp=2", i, &r);
		const bool evaluates = p4d_framework_evaluates(&r);
		build(evaluates ? MODEL_70B "tp=2 pp=4 cp=2 eval-micro-batch=4" : MODEL_70B "tp=2 pp=4 cp=2",
		      i, &r);
		assert_int_equal(p4d_layout_build(&r, 2, 8, &l, NULL), 0);
		assert_within(arguments->flags(&l, flags), 1, P4D_FRAMEWORK_FLAGS);
		arguments->write(&r, &l, text, sizeof(text));
		assert_non_null(strstr(text, flags[0].flag));
		assert_string_equal(p4d_script_scan(text, strlen(text), &l).contradiction, "");
		snprintf(text, sizeof(text), "%s %d", flags[0].flag, (int)flags[0].value + 1);
		p4d_script script = p4d_script_scan(text, strlen(text), &l);
		assert_string_equal(script.contradiction, text);
		assert_int_equal(script.planned, flags[0].value);
	}
}

/* If a part of a model was not compared with torchtitan's own code, p4d reports it as unvalidated. */
static void unvalidated_is_said(void **state)
{
	static p4d_layout l;
	p4d_request r;

	(void)state;
	build(MODEL_70B "tp=8 recompute=full", P4D_FRAMEWORK_FSDP, &r);
	assert_int_equal(p4d_layout_build(&r, 2, 8, &l, NULL), 0);
	assert_null(p4d_framework_unvalidated(&l));
	l.torch.compile = true;
	assert_null(p4d_framework_unvalidated(&l));
	l.pp = 2;
	assert_string_equal(p4d_framework_unvalidated(&l), "compiled pipelines");
	build(MODEL_70B "model-code=transformers", P4D_FRAMEWORK_FSDP, &r);
	assert_int_equal(p4d_layout_build(&r, 2, 8, &l, NULL), 0);
	assert_null(p4d_framework_unvalidated(&l));
}

/* A row of architectures.def says which sharding of its experts was compared with measurements. */
static void unvalidated_experts_are_said(void **state)
{
	static p4d_layout l;
	p4d_request r;

	(void)state;
	build(MODEL_70B "zero-stage=3", P4D_FRAMEWORK_DEEPSPEED, &r);
	assert_int_equal(p4d_layout_build(&r, 2, 8, &l, NULL), 0);
	l.experts = 8;
	assert_null(p4d_framework_unvalidated(&l));
	l.architecture = &p4d_architectures[P4D_ARCHITECTURE_JAMBA];
	assert_string_equal(p4d_framework_unvalidated(&l), "the experts of this family with ZeRO-3");
	l.zero_stage = 2;
	assert_null(p4d_framework_unvalidated(&l));
	l.architecture = &p4d_architectures[P4D_ARCHITECTURE_GRANITE_HYBRID];
	assert_string_equal(p4d_framework_unvalidated(&l), "the experts of this family");
}

/* AdamW updates the embeddings if the optimizer is Muon. p4d does not count these second moments, so it
 * reports such a training as unvalidated. */
static void muon_is_unvalidated_with_the_trainer(void **state)
{
	static p4d_layout l;
	p4d_request r;

	(void)state;
	build(MODEL_70B "zero-stage=3 optimizer=muon", P4D_FRAMEWORK_DEEPSPEED, &r);
	assert_int_equal(p4d_layout_build(&r, 2, 8, &l, NULL), 0);
	assert_string_equal(p4d_framework_unvalidated(&l), "Muon with AdamW for embeddings");
}

/* The method is called "plan" if the framework allocates the plan's arena, and "closed" otherwise,
 * although both use the same table. */
static void methods(void **state)
{
	(void)state;
	for (int i = 0; i < P4D_FRAMEWORKS; i++) {
		const char *name = p4d_memory_method_name(P4D_METHOD_PLAN, i);
		assert_string_equal(name, p4d_framework_of(i)->allocates_plan ? "plan" : "closed");
		assert_string_equal(p4d_memory_method_name(P4D_METHOD_PAPER, i), "paper");
	}
}

/*
 * Layouts of Megatron-LM's MambaModel. All releases have arguments for uneven first and last stages. Other
 * uneven stages need bars in the layer pattern, which releases from 2026-02 on read. The expected layers
 * of each stage come from Megatron-LM's own select_pipeline_segment.
 */
static void stages_of_hybrids(void **state)
{
	static const struct {
		const char *split, *has, *lacks;
	} cases[] = {
	    {"13,13,13,13", "--is-hybrid-model --hybrid-override-pattern M-M-M-M*-M-M-M-M-M*-M-M-", "|"},
	    {"12,14,14,12", "--decoder-first-pipeline-num-layers 12 --decoder-last-pipeline-num-layers 12",
	     "|"},
	    {"12,14,13,13", "--hybrid-layer-pattern M-M-M-M*-M-M|-M-M-M*-M-M-M-|M-M*-M-M-M-M-|M*-M-M-M-M-M-",
	     "override"},
	};
	static p4d_layout l;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		p4d_request r = {0};
		char text[4096];
		set_all(&r, "model=nemotron-h-8b framework=megatron tp=2 pp=4");
		assert_int_equal(p4d_request_set(&r, P4D_PIPELINE_SPLIT, cases[i].split, P4D_BY_USER, NULL),
				 0);
		assert_int_equal(p4d_model_resolve(&r, NULL, NULL, NULL), 0);
		p4d_request_complete(&r, 0, 8);
		assert_int_equal(p4d_layout_build(&r, 1, 8, &l, NULL), 0);
		p4d_framework_arguments_of(&l)->write(&r, &l, text, sizeof(text));
		if (!strstr(text, cases[i].has) || strstr(text, cases[i].lacks))
			fail_msg("%s: %s", cases[i].split, text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(entries_are_complete),
	    cmocka_unit_test(refusals_say_what_helps),
	    cmocka_unit_test(first_that_can_is_default),
	    cmocka_unit_test(rows_add_up),
	    cmocka_unit_test(scripts_name_their_framework),
	    cmocka_unit_test(scripts_name_other_programs),
	    cmocka_unit_test(arguments_follow_the_plan),
	    cmocka_unit_test(stages_of_hybrids),
	    cmocka_unit_test(unvalidated_is_said),
	    cmocka_unit_test(unvalidated_experts_are_said),
	    cmocka_unit_test(muon_is_unvalidated_with_the_trainer),
	    cmocka_unit_test(methods),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
