/* SPDX-License-Identifier: Apache-2.0 */
/* Typed options next to a script that p4d reads: which of them agree with the script, which do not reach
 * its program, and which describe values that the script leaves open. */
#include "base/file.h"
#include "guard/script_request.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "job/script.h"
#include "model/model.h"
#include "request/defaults.h"
#include "request/framework.h"

/*
 * Features that a program has only if an argument asks for them. If the script has no such argument, p4d also
 * assumes that the feature is off.
 */
static const p4d_option told[] = {P4D_TP,           P4D_CP,
				  P4D_PP,           P4D_VPP,
				  P4D_EP,           P4D_ETP,
				  P4D_CP_COMM,      P4D_RECOMPUTE,
				  P4D_ZERO_STAGE,   P4D_OPTIMIZER_SHARDING,
				  P4D_QUANT,        P4D_SHARD_DEGREE,
				  P4D_OFFLOAD,      P4D_SEQUENCE_PARALLEL,
				  P4D_FINETUNE,     P4D_COMPILE,
				  P4D_CHUNKED_LOSS, P4D_PACKING};

/*
 * Properties of a program's code and libraries that no argument sets. The user may know them, so the typed
 * value replaces p4d's default.
 */
static const p4d_option described[] = {P4D_MODEL_CODE,    P4D_TRANSFORMERS, P4D_AUTOCAST,  P4D_GLOBAL_BATCH,
				       P4D_ADAPTER_DTYPE, P4D_ORIG_PARAMS,  P4D_ALLOCATOR, P4D_CHUNKED_LOSS};

/* Sizes by which two models differ. */
static const p4d_option sizes[] = {P4D_LAYERS, P4D_HIDDEN, P4D_FFN, P4D_HEADS, P4D_KV_HEADS};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static bool is_among(const p4d_option *list, size_t count, p4d_option option)
{
	for (size_t i = 0; i < count; i++)
		if (list[i] == option)
			return true;
	return false;
}

static bool is_typed(const p4d_request *request, p4d_option option)
{
	return request->origin[option] == P4D_BY_USER;
}

static bool is_model(p4d_option option)
{
	return p4d_request_option_info(option)->where & P4D_WHERE_MODEL;
}

const char *p4d_guard__script_framework(const p4d_reading *r)
{
	const p4d_read_value *v = &r->value[P4D_FRAMEWORK];

	return v->file ? v->text : NULL;
}

bool p4d_guard__gives_arguments(const p4d_reading *r)
{
	const p4d_read_value *model = &r->value[P4D_MODEL];

	return r->value[P4D_LAYERS].file || (model->file && strcmp(model->text, "custom") != 0);
}

/* Whether the framework of this name reads the plan. */
static bool reads_plan(const char *name)
{
	for (int i = 0; i < P4D_FRAMEWORKS; i++)
		if (!strcmp(name, p4d_framework_of(i)->name))
			return !p4d_framework_of(i)->arguments;
	return false;
}

bool p4d_guard__script_binds(const p4d_reading *r, const p4d_job *job)
{
	const char *framework = r ? p4d_guard__script_framework(r) : NULL;

	if (!p4d_guard__script_runs(r) || r->more_arguments || !p4d_guard__gives_arguments(r) ||
	    (framework && reads_plan(framework)))
		return false;
	return !job->script || !p4d_script_scan(job->script, job->script_length, NULL).uses_plan;
}

typedef struct typed {
	const p4d_reading *reading;
	const char *datadir;
	p4d_request *request;
	p4d_request full;    /* the request, with the sizes of its model */
	p4d_request written; /* the values of the script alone, completed */
	p4d_request *without;
	char flags[400];
	p4d_text fix;
	p4d_error *err;
	bool of_framework; /* p4d knows which framework the program uses */
	unsigned contradictions;
} typed;

static void take_sizes(typed *t, p4d_request *request)
{
	p4d_preset preset;
	p4d_error err;

	if (p4d_is_set(request, P4D_MODEL))
		p4d_model_resolve(request, t->datadir, &preset, &err);
}

/*
 * Whether a typed option describes data within the script's upper bound: a shorter sequence length, or
 * padding to that bound.
 */
static bool describes(const typed *t, p4d_option option)
{
	const p4d_request *request = t->request, *written = &t->written;
	const bool bound = p4d_is_set(written, P4D_PADDING) && written->value[P4D_PADDING] == P4D_PAD_LONGEST;

	if (option == P4D_PADDING)
		return request->value[option] == P4D_PAD_MAX_LENGTH;
	return option == P4D_SEQ_LEN && bound && p4d_is_set(written, option) &&
	       request->value[option] <= written->value[option];
}

/* The value in the script, in p4d's words; NULL: unknown. */
static const char *written_value(const typed *t, p4d_option option, char *buf, size_t size)
{
	const p4d_read_value *v = &t->reading->value[option];
	const p4d_option_info *info = p4d_request_option_info(option);

	if (v->file)
		return v->text;
	if (v->unknown || !is_among(told, COUNT(told), option) || !t->of_framework)
		return NULL;
	if (p4d_is_set(&t->written, option))
		return p4d_request_value_text(&t->written, option, buf, size);
	if (info->kind == P4D_INTEGER_KIND)
		return "1";
	return p4d_request_choice_name(option, 0, buf, size);
}

/* Name of the program whose arguments the script has: Megatron-LM, or a program that uses another
 * framework. */
static const char *program_of(const typed *t)
{
	const p4d_framework *f = p4d_framework_of((int)t->written.value[P4D_FRAMEWORK]);

	if (!strcmp(p4d_reading_framework(t->reading), f->name))
		return f->program;
	return p4d_file_name(t->reading->program);
}

/* Reports that the typed model is not the script's model. */
static void contradict_model(typed *t)
{
	if (!is_typed(t->without, P4D_MODEL))
		return;
	p4d_text_entry(&t->fix, " ", "--p4d-model=%s", t->reading->value[P4D_MODEL].text);
	t->without->origin[P4D_MODEL] = P4D_UNSET;
}

static void contradict(typed *t, p4d_option option, const char *value)
{
	const p4d_reading *r = t->reading;
	const p4d_read_value *v = &r->value[option];
	const p4d_option_info *info = p4d_request_option_info(option);
	const char *known = p4d_reading_name(r, option);
	const char *argument = v->argument ? v->argument : known && known[0] == '-' ? known : NULL;
	const bool of_model = !is_typed(t->request, option);
	char mine[64], place[208];

	p4d_request_value_text(&t->full, option, mine, sizeof(mine));
	if (v->file && (v->line || v->argument))
		snprintf(place, sizeof(place), v->line ? "%.100s:%" PRIu32 : "%.100s", v->file, v->line);
	else
		p4d_guard__script_place(r, place, sizeof(place));
	if (t->contradictions++ == 0 && v->file && (v->line || v->argument))
		p4d_fail(t->err, P4D_E_CONTRADICTION,
			 "%s%s=%s does not reach the program: %s has %s %.40s, which %s uses",
			 of_model ? "" : "--p4d-", info->name, mine, place, argument ? argument : info->name,
			 v->text, program_of(t));
	else if (t->contradictions == 1)
		p4d_fail(t->err, P4D_E_CONTRADICTION,
			 "--p4d-%s=%s does not reach the program: %s%s%s%s takes %s=%.40s", info->name, mine,
			 place, argument ? " has no " : "", argument ? argument : "", argument ? " and" : "",
			 info->name, value);
	if (of_model) {
		contradict_model(t);
		return;
	}
	p4d_text_entry(&t->fix, " ", "--p4d-%s=%s", info->name, value);
	t->without->origin[option] = P4D_UNSET;
}

static void settle_option(typed *t, p4d_option option)
{
	char buf[64];
	const p4d_read_value *v = &t->reading->value[option];
	const bool of_model = !is_typed(t->request, option) && is_among(sizes, COUNT(sizes), option) &&
			      is_typed(t->request, P4D_MODEL) && v->argument &&
			      t->full.origin[option] == P4D_BY_MODEL;

	/* this is no argument but an installed release, which the user knows */
	if (option == P4D_TRANSFORMERS)
		return;
	/* the user named the program, and only the user knows what it does without an argument */
	if (t->reading->told && (!v->argument || t->reading->by_default[option]))
		return;
	if (t->reading->by_default[option] && is_among(described, COUNT(described), option))
		return;
	if ((!is_typed(t->request, option) && !of_model) ||
	    (is_model(option) && t->reading->by_default[option]))
		return;
	const char *value = written_value(t, option, buf, sizeof(buf));
	if (!value || describes(t, option))
		return;
	if (!p4d_guard__agrees(&t->full, option, value))
		contradict(t, option, value);
	else if (!of_model)
		t->request->origin[option] = t->without->origin[option] = P4D_UNSET;
}

/* Whether all sizes of the model in the script are those of the typed model. */
static bool same_numbers(const typed *t)
{
	for (int i = 0; i < (int)P4D_OPTIONS; i++)
		if (is_model((p4d_option)i) && t->written.origin[i] != t->full.origin[i] &&
		    (!p4d_is_set(&t->written, (p4d_option)i) || !p4d_is_set(&t->full, (p4d_option)i)))
			return false;
		else if (is_model((p4d_option)i) && p4d_is_set(&t->full, (p4d_option)i) &&
			 t->written.value[i] != t->full.value[i])
			return false;
	return !strcmp(t->written.unmodelled, t->full.unmodelled);
}

/* Decides, if both the user and the script name a model, whether these are equal, different, or unknown. */
static void settle_model(typed *t)
{
	const p4d_read_value *v = &t->reading->value[P4D_MODEL];
	char mine[128];

	if (!is_typed(t->request, P4D_MODEL) || !v->file)
		return;
	if (same_numbers(t) || (!strcmp(v->text, "custom") && !strcmp(t->request->model, "custom"))) {
		t->request->origin[P4D_MODEL] = t->without->origin[P4D_MODEL] = P4D_UNSET;
		return;
	}
	if (!strcmp(v->text, "custom") || !p4d_is_set(&t->written, P4D_LAYERS))
		return;
	for (size_t i = 0; i < COUNT(sizes); i++) {
		if (is_typed(t->request, sizes[i]) || t->full.value[sizes[i]] == t->written.value[sizes[i]])
			continue;
		snprintf(mine, sizeof(mine), "%.100s", t->request->model);
		if (t->contradictions++ == 0)
			p4d_fail(t->err, P4D_E_CONTRADICTION,
				 v->line ? "--p4d-model=%s does not reach the program: %.100s:%" PRIu32
					   " has %s %.100s"
					 : "--p4d-model=%s does not reach the program: %.100s%.0" PRIu32
					   " has %s %.100s",
				 mine, v->file, v->line, v->argument ? v->argument : "model", v->text);
		contradict_model(t);
		return;
	}
}

bool p4d_guard__settle_typed(const p4d_reading *r, const char *datadir, p4d_request *request,
			     p4d_request *without, p4d_error *err)
{
	typed t = {.reading = r,
		   .datadir = datadir,
		   .request = request,
		   .full = *request,
		   .written = {.model = ""},
		   .without = without,
		   .err = err};

	*without = *request;
	t.fix = p4d_text_in(t.flags, sizeof(t.flags));
	take_sizes(&t, &t.full);
	p4d_guard__take_script(r, &t.written, NULL);
	p4d_request_inherit(&t.written, request, P4D_FRAMEWORK, P4D_BY_SCRIPT);
	t.of_framework = p4d_is_set(&t.written, P4D_FRAMEWORK);
	take_sizes(&t, &t.written);
	settle_model(&t);
	/* options of the model are copied first, because p4d's defaults may follow from them */
	for (int i = 0; i < (int)P4D_OPTIONS; i++)
		if (is_model((p4d_option)i))
			p4d_request_inherit(&t.written, &t.full, (p4d_option)i, P4D_BY_MODEL);
	p4d_request_complete(&t.written, 0, 0);
	for (int i = 0; i < (int)P4D_OPTIONS; i++)
		if (i != P4D_MODEL && i != P4D_UNMODELLED &&
		    p4d_request_option_info((p4d_option)i)->where & P4D_WHERE_PLAN)
			settle_option(&t, (p4d_option)i);
	if (t.contradictions && !t.fix.truncated)
		p4d_fix(err, "%s", t.flags);
	return t.contradictions;
}
