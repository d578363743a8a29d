/* SPDX-License-Identifier: Apache-2.0 */
/* Takes options from the job's script into the request, and finds contradictions between script and
 * request. */
#include "guard/script_request.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "guard/script_words.h"
#include "guard/verdict.h"
#include "model/model.h"
#include "request/framework.h"

/* Options without which p4d cannot judge a program that does not follow the plan. */
static const p4d_option required[] = {P4D_LAYERS, P4D_HIDDEN,  P4D_FFN,         P4D_HEADS,
				      P4D_VOCAB,  P4D_SEQ_LEN, P4D_MICRO_BATCH, P4D_GLOBAL_BATCH};
/* A message names at most REASONS missing values, and has a fix for at most FIXES. */
enum { REASONS = 2, FIXES = 3 };

/* Whether the option follows from the job itself (its number of nodes and GPUs). */
static bool is_size(int option)
{
	return option == P4D_NODES || option == P4D_GPUS_PER_NODE;
}

static bool is_in_plan(p4d_option option)
{
	return p4d_request_option_info(option)->where & P4D_WHERE_PLAN && !is_size(option);
}

bool p4d_guard__script_runs(const p4d_reading *r)
{
	return r && r->reader && r->certain && r->named && r->commands == 1 && !r->incomplete;
}

const char *p4d_guard__script_place(const p4d_reading *r, char *buf, size_t size)
{
	const char *program = p4d_file_name(r->program);

	if (r->line)
		snprintf(buf, size, "%.80s:%" PRIu32 " (%.80s)", r->file, r->line, program);
	else
		snprintf(buf, size, "%.80s", program);
	return buf;
}

/* ---- unknown values ---- */

typedef struct reasons {
	p4d_text list, fix;
	unsigned count;
	bool no_fix; /* some of the values are no options that users can type */
} reasons;

static void add_reason(reasons *all, const char *name, const char *why)
{
	const int option = p4d_request_option_find(name);
	const p4d_option_info *info = option < 0 ? NULL : p4d_request_option_info((p4d_option)option);

	if (all->count++ < REASONS)
		p4d_text_entry(&all->list, ", ", "%s (%s)", name, why);
	if (info && info->where & P4D_WHERE_SLURM)
		p4d_text_entry(&all->fix, " ", "--p4d-%s=%s", name, p4d_option_argument(info));
	else
		all->no_fix = true;
}

static bool is_unknown(const p4d_reading *r, const char *name)
{
	for (unsigned i = 0; i < r->unknowns; i++)
		if (!strcmp(r->unknown[i].name, name))
			return true;
	return false;
}

/* Whether p4d could not read a configuration file, so that the program has more values than p4d knows. */
static bool lacks_file(const p4d_reading *r)
{
	for (unsigned i = 0; i < r->unknowns; i++)
		if (!r->unknown[i].doubt &&
		    (!strcmp(r->unknown[i].name, "file") || !strcmp(r->unknown[i].name, "arguments")))
			return true;
	return false;
}

/* Whether the program reads the plan, so that missing values have p4d's own defaults. */
static bool reads_plan(const p4d_reading *r)
{
	for (int i = 0; i < P4D_FRAMEWORKS; i++)
		if (!strcmp(p4d_framework_of(i)->name, r->value[P4D_FRAMEWORK].text))
			return !p4d_framework_of(i)->arguments;
	return false;
}

/* Whether the script starts an inference engine, which derives missing values from the model and the GPU. */
static bool serves(const p4d_reading *r)
{
	return r->value[P4D_WORKLOAD].file && !strcmp(r->value[P4D_WORKLOAD].text, "serve");
}

/*
 * Whether the option may be missing. For reinforcement learning and preference training, p4d assumes one
 * micro-batch per rank.
 */
static bool may_lack(const p4d_reading *r, p4d_option option)
{
	const char *workload = r->value[P4D_WORKLOAD].text;

	return option == P4D_GLOBAL_BATCH && (!strcmp(workload, "rl") || !strcmp(workload, "preference"));
}

/* Whether the user typed the option. */
static bool says(const p4d_request *typed, int option)
{
	return typed && option >= 0 && p4d_is_set(typed, (p4d_option)option);
}

/* Whether a value is unknown because its configuration file was not read. */
static bool of_file(const p4d_read_unknown *u)
{
	return !strcmp(u->why, "the value is in a configuration file that p4d did not read");
}

/* Whether the unknown value is an optional configuration file that names no model. */
static bool is_default_file(const p4d_read_unknown *u)
{
	static const char start[] = "accelerate's default configuration";

	return !strncmp(u->why, start, sizeof(start) - 1);
}

/* Whether the unknown value does not matter: without a model there is nothing to check. */
static bool is_idle(const p4d_reading *r, const p4d_request *typed, const p4d_read_unknown *u)
{
	return is_default_file(u) && !r->value[P4D_MODEL].file && !is_unknown(r, "model") &&
	       !says(typed, P4D_MODEL);
}

/*
 * Adds a missing option to the reasons, except a batch, which follows from the micro-batches and the number
 * of processes.
 */
static void add_not_given(const p4d_reading *r, p4d_option option, reasons *all)
{
	const bool follows =
	    option == P4D_GLOBAL_BATCH && r->value[P4D_MICRO_BATCH].file && !r->value[P4D_GPUS_PER_NODE].file;
	const char *processes = follows ? p4d_reading_processes(r) : NULL;
	char why[96] = "not given";

	if (processes)
		snprintf(why, sizeof(why), "%.40s does not say how many processes start on a node",
			 processes);
	all->no_fix = all->no_fix || processes;
	add_reason(all, p4d_request_option_info(option)->name, why);
}

static void list_reasons(const p4d_reading *r, const p4d_request *typed, reasons *all)
{
	/* the missing value may be in a file that p4d could not read; that file is already a reason */
	const bool lacks = lacks_file(r);
	const bool defaults = reads_plan(r) || serves(r) || lacks, named = says(typed, P4D_MODEL);
	const bool custom = !named && !strcmp(r->value[P4D_MODEL].text, "custom");

	if (r->incomplete)
		add_reason(all, "the rest of the script", r->incomplete);
	if (!r->certain)
		add_reason(all, "whether it runs", "a condition before it decides");
	for (unsigned i = 0; i < r->unknowns; i++) { /* includes only values that prevent a verdict; a mere
							doubt only turns a refusal into advice */
		const int option = p4d_request_option_find(r->unknown[i].name);
		const bool of_model =
		    option >= 0 && p4d_request_option_info((p4d_option)option)->where & P4D_WHERE_MODEL;
		/* the number of GPUs follows from the job's size, which this function does not know */
		const bool of_server = p4d_reading_has_server(r) && !strcmp(r->unknown[i].name, "commands");
		if (!r->unknown[i].doubt && !of_server && !is_size(option) && !says(typed, option) &&
		    !(named && of_model) && !(lacks && of_file(&r->unknown[i])) &&
		    !is_idle(r, typed, &r->unknown[i]))
			add_reason(all, r->unknown[i].name, r->unknown[i].why);
	}
	for (size_t i = 0; !defaults && i < sizeof(required) / sizeof(*required); i++) {
		const p4d_option_info *info = p4d_request_option_info(required[i]);
		if (!r->value[required[i]].file && !is_unknown(r, info->name) && !may_lack(r, required[i]) &&
		    !says(typed, required[i]) && (custom || !(info->where & P4D_WHERE_MODEL)))
			add_not_given(r, required[i], all);
	}
	if (serves(r) && !named && !r->value[P4D_MODEL].file && !is_unknown(r, "model"))
		add_reason(all, "model", "not given");
	if (!defaults && custom && strcmp(r->value[P4D_POSITIONS].text, "rope") != 0 &&
	    !r->value[P4D_MAX_SEQ_LEN].file && !is_unknown(r, "max-seq-len") && !says(typed, P4D_MAX_SEQ_LEN))
		add_reason(all, "max-seq-len", "not given");
	if (all->count > REASONS)
		p4d_text_print(&all->list, ", and %u more", all->count - REASONS);
}

bool p4d_guard__script_lacks_vocabulary(const p4d_reading *r)
{
	char list[400], fix[240];
	reasons all = {.list = p4d_text_in(list, sizeof(list)), .fix = p4d_text_in(fix, sizeof(fix))};

	if (!r->value[P4D_FRAMEWORK].file || reads_plan(r))
		return false;
	list_reasons(r, NULL, &all);
	return all.count == 1 && !strncmp(list, "vocab ", 6);
}

/* Why a file that may contain the missing values was not read. NULL: all files were read. */
static const char *unread_file(const p4d_reading *r)
{
	for (unsigned i = 0; i < r->unknowns; i++)
		if (!strcmp(r->unknown[i].name, "file"))
			return r->unknown[i].why;
	return NULL;
}

/* Suggests to name the program, if its arguments give the two most important values of a training: its
 * model and its batch. */
static void fix_program(const p4d_reading *r, p4d_error *why)
{
	const char *program = r->alike ? r->alike : p4d_reading_framework(r);
	p4d_request probe = {.model = ""};
	p4d_error err;

	if (!r->more_arguments || r->incomplete || r->commands != 1 || !r->value[P4D_MICRO_BATCH].file ||
	    (!r->value[P4D_MODEL].file && !r->value[P4D_LAYERS].file) ||
	    p4d_request_set(&probe, P4D_PROGRAM, program, P4D_BY_P4D, &err) < 0)
		return;
	p4d_fix(why, "--p4d-program=%s", program);
}

/* Reports the most important gap first: the unread file, else the program, else the values. */
static void say_unread(const p4d_reading *r, const reasons *all, p4d_error *why)
{
	const char *slash = strrchr(r->program, '/'), *file = unread_file(r);
	char place[208];

	p4d_guard__script_place(r, place, sizeof(place));
	if (file) {
		p4d_fail(why, P4D_E_NOT_READ, "%.120s was not checked: %.160s", place, file);
		return;
	}
	if (!r->named) {
		p4d_fail(why, P4D_E_NOT_READ,
			 "p4d does not know the program %.80s; its memory was not checked%s%s%s",
			 slash ? slash + 1 : r->program, r->alike ? " (its arguments are like those of " : "",
			 r->alike ? r->alike : "", r->alike ? ")" : "");
		fix_program(r, why);
		return;
	}
	p4d_fail(why, P4D_E_NOT_READ, "%.120s was not checked: p4d cannot tell %.260s", place, all->list.at);
	if (!all->no_fix && !all->fix.truncated && all->count <= FIXES)
		p4d_fix(why, "%s", all->fix.at);
}

bool p4d_guard__script_unread(const p4d_reading *r, const p4d_request *typed, p4d_error *why)
{
	char list[400], fix[240], place[208];
	reasons all = {.list = p4d_text_in(list, sizeof(list)), .fix = p4d_text_in(fix, sizeof(fix))};

	p4d_guard__script_place(r, place, sizeof(place));
	list_reasons(r, typed, &all);
	/* p4d does not model a program that has no framework, unless a file that was not read may name the
	 * framework */
	if (r->named && !r->value[P4D_FRAMEWORK].file && !says(typed, P4D_FRAMEWORK) && !serves(r) &&
	    !lacks_file(r) && (is_unknown(r, "framework") || !all.count)) {
		p4d_fail(why, P4D_E_UNMODELLED,
			 "%.200s was not checked: p4d does not model this program of %.60s", place,
			 p4d_reading_framework(r));
		return true;
	}
	if (reads_plan(r) && !r->value[P4D_MODEL].file) {
		*why = (p4d_error){
		    .code = P4D_OK}; /* the program takes everything from a plan, and the job has none */
		return true;
	}
	if (!all.count)
		return false;
	say_unread(r, &all, why);
	return true;
}

/* ---- known values ---- */

int p4d_guard__take_script(const p4d_reading *r, p4d_request *request, p4d_error *err)
{
	const bool typed_model = p4d_is_set(request, P4D_MODEL);
	/* Whether the program uses its default for each argument that the script does not have. p4d does not
	 * know that if some arguments are unknown. If the user typed the model and the script has no argument
	 * for it, the script may turn p4d's options into arguments. */
	const bool defaults = !r->more_arguments && (!typed_model || p4d_guard__gives_arguments(r));

	for (int i = 0; i < (int)P4D_OPTIONS; i++) {
		const p4d_option option = (p4d_option)i;
		const p4d_read_value *v = &r->value[i];
		if (!v->file || !is_in_plan(option) || p4d_is_set(request, option))
			continue;
		if (typed_model && p4d_request_option_info(option)->where & P4D_WHERE_MODEL)
			continue; /* the user has already said which program it is */
		if (r->by_default[i] && !defaults && option != P4D_FRAMEWORK)
			continue;
		if (p4d_request_set(request, option, v->text, P4D_BY_SCRIPT, err) < 0)
			return -1;
	}
	/* rotary positions need no table of positions */
	if (request->origin[P4D_POSITIONS] == P4D_BY_SCRIPT && request->value[P4D_POSITIONS] == P4D_ROPE)
		p4d_request_default(request, P4D_MAX_SEQ_LEN, request->value[P4D_SEQ_LEN], P4D_BY_SCRIPT);
	return 0;
}

/* ---- values that change with the job ---- */

static bool of_slurm(const p4d_read_value *v)
{
	return v->file && !strncmp(v->file, "$SLURM_", 7);
}

bool p4d_guard__script_follows(const p4d_reading *r)
{
	for (size_t i = 0; i < P4D_LAYOUT_OPTIONS; i++)
		if (of_slurm(&r->value[p4d_layout_options[i]]))
			return true;
	return false;
}

bool p4d_guard__script_stays(const p4d_reading *r, const p4d_request *candidate, const p4d_geometry *now,
			     const p4d_geometry *then)
{
	const bool same = now->nodes == then->nodes && now->gpus_per_node == then->gpus_per_node;
	const p4d_read_value *nodes_said = &r->value[P4D_NODES];

	/*
	 * false if the launcher has a fixed number of nodes, or has no such option and starts the program on
	 * one node
	 */
	if (now->nodes != then->nodes && (nodes_said->file ? !of_slurm(nodes_said) : r->one_node))
		return false;
	for (size_t i = 0; i < P4D_LAYOUT_OPTIONS && !same; i++) {
		const p4d_read_value *v = &r->value[p4d_layout_options[i]];
		const bool nodes = of_slurm(v) && (!strcmp(v->file, "$SLURM_NNODES") ||
						   !strcmp(v->file, "$SLURM_JOB_NUM_NODES"));
		if (of_slurm(v) && (!nodes || candidate->value[p4d_layout_options[i]] != then->nodes))
			return false;
	}
	return true;
}

bool p4d_guard__batch_follows(const p4d_reading *r)
{
	const p4d_read_value *batch = &r->value[P4D_GLOBAL_BATCH];

	return batch->file && (r->by_default[P4D_GLOBAL_BATCH] ||
			       (batch->argument && strstr(batch->argument, "accumulation")));
}

bool p4d_guard__script_starts(const p4d_reading *r, const p4d_geometry *now, const p4d_geometry *then,
			      p4d_text *fix)
{
	const p4d_read_value *gpus = &r->value[P4D_GPUS_PER_NODE];
	/* a program that is started without a launcher does not know how many processes it should have on
	 * several GPUs */
	const bool follows = of_slurm(gpus), alone = follows && r->alone && p4d_guard__batch_follows(r);
	char line[200];

	if (!gpus->file || (follows && !alone) ||
	    (now->gpus_per_node == then->gpus_per_node &&
	     (now->nodes == then->nodes || !(alone || r->processes_of_all))))
		return true;
	if (!p4d_guard__write_processes(r, then->nodes, then->gpus_per_node, line, sizeof(line)))
		return false;
	p4d_text_entry(fix, "; ", "%s", line);
	return true;
}

/* ---- contradictions ---- */

/* Whether to compare the option: the user typed it, p4d chose it, or it is a size of a named model. */
static bool is_compared(const p4d_request *request, p4d_option option)
{
	static const p4d_option sizes[] = {P4D_LAYERS, P4D_HIDDEN, P4D_FFN, P4D_HEADS, P4D_KV_HEADS};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		if (option == sizes[i])
			return true;
	for (size_t i = 0; i < P4D_LAYOUT_OPTIONS; i++)
		if (option == p4d_layout_options[i])
			return true;
	return request->origin[option] == P4D_BY_USER && option != P4D_MODEL;
}

bool p4d_guard__agrees(const p4d_request *request, p4d_option option, const char *text)
{
	p4d_request script = {.model = ""};
	char mine[1024];

	if (p4d_request_set(&script, option, text, P4D_BY_SCRIPT, NULL) < 0)
		return true; /* the program itself reports this error */
	if (p4d_request_option_info(option)->kind != P4D_TEXT_KIND)
		return request->value[option] == script.value[option];
	return !strcmp(p4d_request_value_text(request, option, mine, sizeof(mine)), text);
}

/*
 * Reports a contradiction: p4d would judge the typed value, but the program runs with the value of its
 * argument.
 */
static int contradict(const p4d_reading *r, const p4d_request *request, int option, p4d_error *err)
{
	const p4d_framework *framework = p4d_framework_of((int)request->value[P4D_FRAMEWORK]);
	const p4d_read_value *v = &r->value[option];
	const char *name = p4d_request_option_info((p4d_option)option)->name;
	char mine[64], place[128];

	snprintf(place, sizeof(place), v->line ? "%.100s:%" PRIu32 : "%.100s", v->file, v->line);
	p4d_request_value_text(request, (p4d_option)option, mine, sizeof(mine));
	return p4d_fail(err, P4D_E_CONTRADICTION,
			"%s%s=%s does not reach the program: %s has %s %.40s, which %s uses",
			request->origin[option] == P4D_BY_USER ? "--p4d-" : "", name, mine, place,
			v->argument ? v->argument : name, v->text, framework->program);
}

int p4d_guard__compare_script(const p4d_reading *r, const p4d_request *request, p4d_error *err)
{
	const p4d_framework *framework = p4d_framework_of((int)request->value[P4D_FRAMEWORK]);
	char flags[400];
	p4d_text fix = p4d_text_in(flags, sizeof(flags));
	bool differs = false, chosen = false;

	const char *script = p4d_guard__script_framework(r);

	if (strcmp(script ? script : p4d_reading_framework(r), framework->name) != 0)
		return 0;
	for (int i = 0; i < (int)P4D_OPTIONS; i++) {
		const p4d_option option = (p4d_option)i;
		if (!r->value[i].file || r->by_default[i] || !is_in_plan(option) ||
		    !p4d_is_set(request, option) || request->origin[i] == P4D_BY_SCRIPT ||
		    !is_compared(request, option) || p4d_guard__agrees(request, option, r->value[i].text))
			continue;
		if (!differs)
			contradict(r, request, i, err);
		differs = true;
		if (request->origin[i] == P4D_BY_USER)
			p4d_text_entry(&fix, " ", "--p4d-%s=%s", p4d_request_option_info(option)->name,
				       r->value[i].text);
		else
			chosen = true;
	}
	if (!differs)
		return 0;
	if (!chosen)
		return p4d_fix(err, "%s", flags);
	return framework->arguments
		   ? p4d_fix(err, "in the script, replace the arguments of the layout by $%s",
			     framework->arguments->variable)
		   : -1;
}

int p4d_guard__fill_model(const p4d_site *site, p4d_request *request, p4d_error *err)
{
	const p4d_request *preset = p4d_site_preset(site, request->model);

	if (!strcasecmp(request->model, "custom"))
		return p4d_model_resolve(request, NULL, NULL, err);
	if (!preset)
		return p4d_fail(err, P4D_E_NOT_READ, "model %.100s is not one of p4d's presets",
				request->model);
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (p4d_request_option_info((p4d_option)i)->where & P4D_WHERE_MODEL)
			p4d_request_inherit(request, preset, (p4d_option)i, P4D_BY_MODEL);
	return 0;
}
