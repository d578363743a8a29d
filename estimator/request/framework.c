/* SPDX-License-Identifier: Apache-2.0 */
#include "request/framework.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void p4d_framework_put_defaults(p4d_request *r)
{
	const int framework = (int)r->value[P4D_FRAMEWORK];
	const p4d_framework_choice *c = p4d_framework_of(framework)->defaults;
	const bool adapters = p4d_is_set(r, P4D_FINETUNE) && r->value[P4D_FINETUNE] != P4D_TUNE_FULL;
	const bool copies = p4d_framework_of(framework)->sharing == P4D_SHARES_NOTHING;
	const bool set = p4d_is_set(r, P4D_PRECISION), fp8 = set && r->value[P4D_PRECISION] == P4D_FP8;
	const bool bf16 = !set || fp8 || r->value[P4D_PRECISION] == P4D_BF16;

	/* without --param-dtype, transformers decides; quantized parameters have other types */
	const bool quantized = adapters && r->value[P4D_FINETUNE] != P4D_TUNE_LORA;
	const bool loads_fp32 = copies && p4d_is_set(r, P4D_TRANSFORMERS) &&
				r->value[P4D_TRANSFORMERS] < 5 * P4D_RELEASE_UNIT && !quantized;

	const bool flat = p4d_is_set(r, P4D_FSDP_VERSION) && r->value[P4D_FSDP_VERSION] == 1;

	for (; c && c->option != P4D_OPTIONS; c++) {
		const int64_t code = p4d_is_set(r, P4D_MODEL_CODE) ? r->value[P4D_MODEL_CODE] : -1;
		int64_t value = c->value;
		if (c->option == P4D_MODEL_CODE &&
		    (adapters || flat)) /* torchtitan's modules support neither adapters nor FSDP1 */
			value = P4D_MODEL_CODE_TRANSFORMERS;
		else if (c->option == P4D_CHUNKED_LOSS && code != P4D_MODEL_CODE_TORCHTITAN)
			value = 0; /* without Liger, other frameworks have no fused loss */
		else if (c->option == P4D_AUTOCAST && code == P4D_MODEL_CODE_LITGPT)
			value = 0; /* LitGPT's recipes use bf16-true */
		else if (c->option == P4D_PARAM_DTYPE && !bf16 && copies)
			value = P4D_PARAM_FP32; /* fp32, because GradScaler cannot unscale fp16 gradients */
		else if (c->option == P4D_PARAM_DTYPE && loads_fp32 && code != P4D_MODEL_CODE_LITGPT)
			value = P4D_PARAM_FP32;
		else if (c->option == P4D_OVERLAP_DP)
			value = r->value[P4D_ZERO_STAGE] == 3; /* the default in DeepSpeed's zero/config.py */
		else if ((c->option == P4D_GRAD_DTYPE && !bf16) || (c->option == P4D_FP8_RECIPE && !fp8))
			continue; /* unset: parameters have the type of the precision */
		p4d_request_default(r, c->option, value, P4D_BY_P4D);
	}
}

/* Whether the framework can train the model with its defaults. */
static int takes(int framework, const p4d_request *r, p4d_error *err)
{
	const p4d_framework *f = p4d_framework_of(framework);
	p4d_request with = *r;

	p4d_request_put(&with, P4D_FRAMEWORK, framework, P4D_BY_P4D);
	p4d_framework_put_defaults(&with);
	p4d_request_default(&with, P4D_ATTENTION, p4d_request_option_info(P4D_ATTENTION)->number, P4D_BY_P4D);
	return f->check_model(&with, err);
}

int p4d_framework_default(const p4d_request *r)
{
	int first = 0;

	while (first < P4D_FRAMEWORKS - 1 && takes(first, r, NULL) < 0)
		first++;
	return first;
}

const char *p4d_framework_unvalidated(const p4d_layout *l)
{
	const p4d_framework *f = p4d_framework_of(l->framework);
	const char *what = f->unvalidated ? f->unvalidated(l) : NULL;

	return what ? what : l->architecture->unvalidated ? "the architecture" : NULL;
}

bool p4d_framework_states_nothing(const p4d_request *r, p4d_option option)
{
	static const struct {
		p4d_option option;
		int64_t value;
	} numbers[] = {{P4D_EP, 1},
		       {P4D_ETP, 1},
		       {P4D_TOKEN_SLICES, 1},
		       {P4D_CP_HEADS, 1},
		       {P4D_EXPERT_EVERY, 1},
		       {P4D_SHARED_FFN, 0},
		       {P4D_DENSE_LAYERS, 0},
		       {P4D_ZERO_STAGE, 0},
		       {P4D_MTP_LAYERS, 0},
		       {P4D_TOKEN_DISPATCHER, P4D_ALL_TO_ALL},
		       {P4D_STORED, P4D_STORED_FULL},
		       {P4D_VPP, 1},
		       {P4D_FINETUNE, P4D_TUNE_FULL},
		       {P4D_SCHEDULE, P4D_SCHEDULE_DEFAULT}};
	char text[64];

	/* even "off" says something: a program with an option of its own for this may do the opposite by
	 * default */
	static const p4d_option of_sharding[] = {P4D_OPTIMIZER_SHARDING, P4D_RESHARD, P4D_ORIG_PARAMS,
						 P4D_FORWARD_PREFETCH, P4D_BACKWARD_PREFETCH};

	for (size_t i = 0; i < sizeof(of_sharding) / sizeof(*of_sharding); i++)
		if (of_sharding[i] == option)
			return false;
	if (option == P4D_IMBALANCE)
		return p4d_request_real(r, option) == 1;
	if (option == P4D_EXPERT_CAPACITY || option == P4D_LORA_DROPOUT)
		return p4d_request_real(r, option) == 0;
	if (option == P4D_RECOMPUTE_MODULES) /* the default of Megatron-LM */
		return !strcmp(r->recompute_modules, "core_attn");
	if (option == P4D_TP_GRID) /* one-dimensional tensor parallelism */
		return strstr(r->tp_grid, ",1,1") != NULL;
	if (option == P4D_EVAL_MICRO_BATCH)
		return r->value[option] == r->value[P4D_MICRO_BATCH];
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (numbers[i].option == option)
			return r->value[option] == numbers[i].value;
	if (p4d_request_option_info(option)->kind != P4D_CHOICE_KIND)
		return false;
	p4d_request_choice_name(option, r->value[option], text, sizeof(text));
	return !strcmp(text, "off") || !strcmp(text, "none");
}

static const char *text_of(p4d_option option, int64_t value, char *buf, size_t size)
{
	if (p4d_request_option_info(option)->kind == P4D_CHOICE_KIND)
		return p4d_request_choice_name(option, value, buf, size);
	snprintf(buf, size, "%" PRId64, value);
	return buf;
}

bool p4d_framework_trains_pairs(const p4d_request *r)
{
	return r->value[P4D_WORKLOAD] == P4D_WORKLOAD_PREFERENCE && p4d_is_set(r, P4D_FRAMEWORK) &&
	       r->origin[P4D_FRAMEWORK] != P4D_BY_P4D &&
	       p4d_framework_of((int)r->value[P4D_FRAMEWORK])->allocates_plan;
}

int64_t p4d_framework_value(const p4d_request *r, p4d_option option)
{
	const unsigned bit = p4d_heeds__bit(r, (int)r->value[P4D_FRAMEWORK]);
	const int64_t otherwise = p4d_request_option_info(option)->number;

	if (p4d_heeds_by(bit, option))
		return r->value[option];
	const p4d_heeds_reason *f = p4d_heeds__reason_of(bit, option);
	if (f)
		return f->value == P4D_NO_MEANING ? 0 : f->value;
	return otherwise > 0 ? otherwise : 0;
}

/* The first option whose value differs from the framework's only possible value; P4D_OPTIONS: none. */
static p4d_option contradicted(const p4d_request *r, int framework)
{
	const unsigned bit = p4d_heeds__bit(r, framework);

	for (p4d_option option = p4d_request_next_stated(r, 0); option < P4D_OPTIONS;
	     option = p4d_request_next_stated(r, option + 1)) {
		const p4d_heeds_reason *f = p4d_heeds__reason_of(bit, option);
		if (f && !f->of_user && r->value[option] != f->value &&
		    !(f->value == P4D_NO_MEANING && p4d_framework_states_nothing(r, option)))
			return option;
	}
	return P4D_OPTIONS;
}

/* The first framework that supports the requested options, if p4d chose the framework; NULL: none does, or
 * the user chose. */
static const char *framework_for(const p4d_request *r)
{
	for (int i = 0; !p4d_is_stated(r, P4D_FRAMEWORK) && i < P4D_FRAMEWORKS; i++)
		if (contradicted(r, i) == P4D_OPTIONS && takes(i, r, NULL) == 0)
			return p4d_framework_of(i)->name;
	return NULL;
}

bool p4d_framework_suits(const p4d_request *r, int framework)
{
	p4d_request with = *r;

	p4d_request_put(&with, P4D_FRAMEWORK, framework, P4D_BY_P4D);
	p4d_framework_put_defaults(&with);
	return contradicted(r, framework) == P4D_OPTIONS && takes(framework, r, NULL) == 0 &&
	       (!p4d_is_set(r, P4D_RECOMPUTE) ||
		p4d_framework_recomputes(&with, (int)r->value[P4D_RECOMPUTE]));
}

/* Fails because an option contradicts the framework: "tp=2: with DDP every GPU has a copy of the model". */
static void say_contradicted(const p4d_request *r, int framework, p4d_option option, p4d_code code,
			     p4d_error *err)
{
	const p4d_heeds_reason *f = p4d_heeds_instead(r, framework, option);
	char asked[64], why[160];

	p4d_fail(err, code, "%s=%s: %s", p4d_request_option_info(option)->name,
		 p4d_request_value_text(r, option, asked, sizeof(asked)),
		 p4d_heeds__why(f, framework, why, sizeof(why)));
}

bool p4d_framework_models(const p4d_request *r, p4d_error *err)
{
	const int framework =
	    p4d_is_set(r, P4D_FRAMEWORK) ? (int)r->value[P4D_FRAMEWORK] : p4d_framework_default(r);
	const p4d_option option = contradicted(r, framework);

	if (p4d_framework_of(framework)->allocates_plan)
		return true;
	if (takes(framework, r, err) < 0)
		return false;
	/* p4d does not suggest another value for a script's option, because the program may run with it */
	if (option == P4D_OPTIONS || r->origin[option] != P4D_BY_SCRIPT)
		return true;
	say_contradicted(r, framework, option, P4D_E_UNMODELLED, err);
	return false;
}

static int check_fixed(const p4d_request *r, p4d_error *err)
{
	const p4d_option option = contradicted(r, (int)r->value[P4D_FRAMEWORK]);
	char has[32];

	if (option == P4D_OPTIONS)
		return 0;
	const char *name = p4d_request_option_info(option)->name, *framework = framework_for(r);
	const int64_t value = p4d_framework_fixed_of(r, option)->value;
	say_contradicted(r, (int)r->value[P4D_FRAMEWORK], option, P4D_E_VALUE, err);
	if (framework)
		return p4d_fix(err, "--p4d-framework=%s", framework);
	if (value == P4D_NO_MEANING)
		return p4d_fix(err, "leave out --p4d-%s", name);
	return p4d_fix(err, "--p4d-%s=%s", name, text_of(option, value, has, sizeof(has)));
}

int p4d_framework_check(const p4d_request *r, p4d_error *err)
{
	const p4d_framework *f = p4d_framework_of((int)r->value[P4D_FRAMEWORK]);
	char name[16];

	if (!(f->schedules >> r->value[P4D_SCHEDULE] & 1)) {
		p4d_fail(err, P4D_E_SCHEDULE, "schedule=%s %s",
			 p4d_request_choice_name(P4D_SCHEDULE, r->value[P4D_SCHEDULE], name, sizeof(name)),
			 f->no_schedule);
		return p4d_fix(err, "--p4d-schedule=1f1b --p4d-vpp=1");
	}
	if (!p4d_framework_recomputes(r, (int)r->value[P4D_RECOMPUTE])) {
		const bool others = f->recomputes_of_others && p4d_framework_has_other_modules(r);
		p4d_fail(err, P4D_E_VALUE, "recompute=%s %s",
			 p4d_request_choice_name(P4D_RECOMPUTE, r->value[P4D_RECOMPUTE], name, sizeof(name)),
			 others ? "exists only in torchtitan; transformers has only none and full"
				: f->no_recompute);
		return p4d_fix(err, r->value[P4D_RECOMPUTE] == P4D_RECOMPUTE_KEEP ? "--p4d-recompute=none"
										  : "--p4d-recompute=full");
	}
	/* the site's default is meant for other frameworks, so only a stated value is refused */
	if (f->states_only && p4d_is_stated(r, P4D_OPTIMIZER_SHARDING) &&
	    r->value[P4D_OPTIMIZER_SHARDING] > P4D_SHARD_STATES) {
		p4d_fail(err, P4D_E_VALUE, "optimizer-sharding=%s %s",
			 p4d_request_choice_name(P4D_OPTIMIZER_SHARDING, r->value[P4D_OPTIMIZER_SHARDING],
						 name, sizeof(name)),
			 f->states_only);
		return p4d_fix(err, "--p4d-optimizer-sharding=states");
	}
	if (f->no_vocab_parallel && r->value[P4D_VOCAB_PARALLEL]) {
		p4d_fail(err, P4D_E_SCHEDULE, "vocab-parallel %s", f->no_vocab_parallel);
		return p4d_fix(err, "--p4d-vocab-parallel=off");
	}
	if (f->no_a2a && p4d_is_stated(r, P4D_CP_COMM) && r->value[P4D_CP_COMM] == P4D_CP_A2A) {
		p4d_fail(err, P4D_E_VALUE, "cp-comm=a2a %s", f->no_a2a);
		return p4d_fix(err, "--p4d-cp-comm=p2p");
	}
	if (check_fixed(r, err) < 0)
		return -1;
	if (f->check_model(r, err) == 0)
		return 0;
	const int other = p4d_framework_default(r);
	if (!(err && *err->fix) && contradicted(r, other) == P4D_OPTIONS && takes(other, r, NULL) == 0)
		p4d_fix(err, "--p4d-framework=%s", p4d_framework_of(other)->name);
	return -1;
}
