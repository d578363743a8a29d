/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/number.h"
#include "command.h"
#include "command_pages.h"
#include "job/export.h"
#include "plan/memory_played.h"
#include "plan/plan_line.h"
#include "report/advice.h"
#include "report/places.h"
#include "report/plan_groups.h"
#include "report/report.h"
#include "report/serving_plan.h"
#include "report/table.h"
#include "report/unfit.h"
#include "request/defaults.h"
#include "request/framework.h"
#include "search/search.h"

enum { USUAL_TOP = 5, USUAL_PLACES = 20, TP_COLUMN = 1, CP_COLUMN = 2 };

static const double usual_tokens = 1e9;

typedef struct plans {
	p4d_plan_memo memo;
	p4d_search_space space;
	p4d_candidate *found;
	size_t count;
	p4d_search_counts counts;
	double seconds; /* seconds that the search took */
	bool timed;     /* the cost model covers the GPU */
	size_t *group;  /* for each layout, see p4d_plan_groups */
	bool apart; /* true: each layout has a row; false: layouts that p4d cannot tell apart share a row */
} plans;

/* The figures of a candidate that are printed. */
typedef struct described {
	p4d_layout layout;
	p4d_estimate estimate;
	uint64_t least_bytes, most_bytes; /* bytes on the device: minimum and maximum over the stages */
	p4d_timed timed;
} described;

/* Computes layout, memory and step time of a candidate that fits. */
static int describe(const p4d_subject *subject, const p4d_candidate *candidate, described *d, p4d_error *err)
{
	if (p4d_layout_build(&candidate->request, subject->nodes, subject->gpus_per_node, &d->layout, err) <
		0 ||
	    p4d_report_timed_of(&d->layout, subject->capacity.gpu, &candidate->step, &d->timed, err) < 0)
		return -1;
	if (candidate->has_memory)
		d->estimate = candidate->memory;
	else if (p4d_memory_estimate(&d->layout, subject->method, &subject->capacity, &d->estimate, err) < 0)
		return -1;
	else
		p4d_memory_play(&d->layout, &subject->capacity, &d->estimate);
	d->most_bytes = d->estimate.peak.device_bytes;
	return p4d_memory_least_of_estimate(&d->layout, &d->estimate, &d->least_bytes, err);
}

/* Makes the plan line of a candidate, with its GPUs. */
static int write_line(const p4d_subject *subject, const p4d_candidate *candidate, const p4d_layout *layout,
		      p4d_request *placed, char *text, size_t size, p4d_error *err)
{
	const p4d_gpu *gpu = subject->capacity.gpu;

	*placed = candidate->request;
	p4d_plan_place(placed, subject->nodes, subject->gpus_per_node, gpu ? gpu->name : NULL);
	if (p4d_plan_add_checksum(placed, layout, gpu, err) < 0)
		return -1;
	return p4d_plan_write(placed, text, size, err);
}

/* Prints an export for a shell. The value needs no escaping, because it contains no quotes: the plan line
 * encodes quotes, and other values are numbers and flags. */
static void print_export(const char *name, const char *value, void *context)
{
	(void)context;
	printf("export %s='%s'\n", name, value);
}

static int print_env(const p4d_subject *subject, const plans *p, p4d_error *err)
{
	described d;
	p4d_request placed;
	const char *lacks;
	char text[P4D_PLAN_MAX];

	if (describe(subject, &p->found[0], &d, err) < 0 ||
	    write_line(subject, &p->found[0], &d.layout, &placed, text, sizeof(text), err) < 0)
		return -1;
	p4d_export(&placed, &d.layout, text, print_export, NULL);
	if (!p4d_export_arguments(&placed, &d.layout, &lacks))
		printf("unset P4D_MEGATRON_ARGS # Megatron-LM has no %s\n", lacks);
	fflush(stdout);
	p4d_report_messages(subject->messages, subject->message);
	return 0;
}

static int add_plan(const p4d_subject *subject, const plans *p, size_t number, struct json_object *list,
		    p4d_error *err)
{
	const p4d_candidate *candidate = &p->found[number];
	char flags[1024], text[P4D_PLAN_MAX];
	p4d_request placed;
	described d;

	if (describe(subject, candidate, &d, err) < 0 ||
	    write_line(subject, candidate, &d.layout, &placed, text, sizeof(text), err) < 0)
		return -1;
	struct json_object *plan = json_object_new_object(), *stages = json_object_new_object();
	p4d_subject_flags(&candidate->request, "--p4d-", flags, sizeof(flags));
	json_object_object_add(stages, "min_device_bytes", p4d_report_json_bytes(d.least_bytes));
	json_object_object_add(stages, "max_device_bytes", p4d_report_json_bytes(d.most_bytes));
	json_object_object_add(plan, "layout", p4d_report_json_layout(&d.layout, subject->nodes));
	json_object_object_add(plan, "peak", p4d_report_json_peak(&d.estimate));
	json_object_object_add(plan, "unvalidated",
			       p4d_report_json_unvalidated(p4d_framework_unvalidated(&d.layout)));
	json_object_object_add(plan, "stages", stages);
	json_object_object_add(plan, "step", p4d_report_json_step(&d.timed));
	json_object_object_add(plan, "losses", p4d_report_json_breakdown(&d.timed));
	json_object_object_add(plan, "group", json_object_new_uint64(p->group[number] + 1));
	json_object_object_add(plan, "flags", json_object_new_string(flags));
	json_object_object_add(plan, "plan", json_object_new_string(text));
	json_object_array_add(list, plan);
	return 0;
}

static int print_json(const p4d_subject *subject, const plans *p, p4d_error *err)
{
	struct json_object *object = json_object_new_object(), *list = json_object_new_array();
	p4d_advice advice = {0};

	p4d_advice_on_size(&advice, subject->site, &subject->request, &p->space);
	p4d_advice_on_overlap(&advice, &p->found[0], &p->space);
	for (size_t i = 0; i < p->count; i++)
		if (add_plan(subject, p, i, list, err) < 0)
			return -1;
	json_object_object_add(object, "model", json_object_new_string(subject->model));
	json_object_object_add(object, "gpu", p4d_report_json_gpu(subject->capacity.gpu));
	json_object_object_add(object, "global_batch", p4d_report_json_batch(&p->found[0].request));
	json_object_object_add(object, "plans", list);
	json_object_object_add(object, "considered", json_object_new_uint64(p->counts.considered));
	json_object_object_add(object, "seconds", p4d_report_json_seconds(p->seconds));
	json_object_object_add(object, "messages",
			       p4d_report_json_messages(subject->messages, subject->message));
	json_object_object_add(object, "advice", p4d_advice_json(&advice));
	return p4d_report_json_print(object, err);
}

static bool has_experts(const plans *p)
{
	return p4d_is_set(&p->found[0].request, P4D_EXPERTS);
}

static void add_columns(p4d_table *table, const plans *p)
{
	static const char *const numbers[] = {"rank", "tp", "cp", "pp", "vpp", "dp", "micro-batch"};
	static const char *const times[] = {"step", "tokens/s/GPU", "MFU", "bubble"};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		p4d_table_column(table, numbers[i], P4D_RIGHT);
	if (has_experts(p)) {
		p4d_table_columns(table, {"ep", P4D_RIGHT}, {"etp", P4D_RIGHT});
	}
	p4d_table_columns(table, {"schedule", P4D_LEFT}, {"recompute", P4D_LEFT}, {"GiB", P4D_RIGHT},
			  {"fraction", P4D_RIGHT});
	for (size_t i = 0; p->timed && i < sizeof(times) / sizeof(times[0]); i++)
		p4d_table_column(table, times[i], P4D_RIGHT);
	if (p->timed)
		p4d_table_column(table, "limited by", P4D_LEFT);
}

static void add_layout(p4d_table *table, size_t rank, const p4d_layout *l)
{
	const uint64_t numbers[] = {rank, p4d_tp_ranks(l), l->cp, l->pp, l->vpp, l->dp, l->micro_batch};
	const char *gathered = l->cp_comm == P4D_CP_ALL_GATHER ? " all-gather" : "";
	char schedule[32], vocabulary[32], recompute[32], grid[P4D_TP_TEXT];

	p4d_layout_tp_text(l, grid);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (i == TP_COLUMN)
			p4d_table_cell(table, P4D_PLAIN, "%s", grid);
		else
			p4d_table_cell(table, P4D_PLAIN, "%" PRIu64 "%s", numbers[i],
				       i == CP_COLUMN ? gathered : "");
	for (size_t i = 0; i < 2 && l->experts; i++)
		p4d_table_cell(table, P4D_PLAIN, "%" PRIu64, i ? l->etp : l->ep);
	p4d_request_choice_name(P4D_SCHEDULE, l->schedule, schedule, sizeof(schedule));
	p4d_request_choice_name(P4D_VOCAB_PARALLEL, l->vocab_parallel, vocabulary, sizeof(vocabulary));
	if (l->pp == 1)
		p4d_table_cell(table, P4D_PLAIN, "-");
	else if (l->slices > 1)
		p4d_table_cell(table, P4D_PLAIN, "%s of %" PRIu64 " slices", schedule, l->slices);
	else if (l->vocab_parallel == P4D_VOCAB_OFF)
		p4d_table_cell(table, P4D_PLAIN, "%s", schedule);
	else
		p4d_table_cell(table, P4D_PLAIN, "%s+%s", schedule, vocabulary);
	p4d_table_cell(table, P4D_PLAIN, "%s",
		       p4d_request_choice_name(P4D_RECOMPUTE, l->recompute, recompute, sizeof(recompute)));
}

static void add_row(p4d_table *table, size_t rank, const described *d, const plans *p)
{
	const p4d_step *step = &d->timed.step;
	char least[P4D_SIZE_TEXT], most[P4D_SIZE_TEXT], limits[96];

	add_layout(table, rank, &d->layout);
	snprintf(least, sizeof(least), "%.1f", p4d_to_gib(d->least_bytes));
	snprintf(most, sizeof(most), "%.1f", p4d_to_gib(d->most_bytes));
	if (strcmp(least, most) != 0)
		p4d_table_cell(table, P4D_PLAIN, "%s-%s", least, most);
	else
		p4d_table_cell(table, P4D_PLAIN, "%s", most);
	p4d_table_cell(table, d->estimate.fraction > p->space.safe ? P4D_YELLOW : P4D_GREEN, "%.1f %%",
		       100 * d->estimate.fraction);
	if (!p->timed)
		return;
	p4d_table_cell(table, P4D_PLAIN, "%s", p4d_report_seconds(step->seconds, most));
	p4d_table_cell(table, P4D_PLAIN, "%.0f", step->tokens_per_second_per_gpu);
	p4d_table_cell(table, P4D_PLAIN, "%.1f %%", 100 * step->mfu);
	p4d_table_cell(table, P4D_PLAIN, "%.1f %%", 100 * step->bubble_fraction);
	p4d_table_cell(table, P4D_PLAIN, "%s", p4d_report_limits(&d->timed, limits, sizeof(limits)));
}

/* Why layouts are not in the order of their step times: some step times are too close to tell apart. NULL:
 * layouts are in this order. */
static const char *ties_of(const plans *p)
{
	bool slower = false;

	for (size_t i = 1; i < p->count; i++)
		slower = slower || p->found[i].step.seconds < p->found[i - 1].step.seconds;
	return p->timed && slower ? "Layouts whose step times differ by less than 1.5 % are sorted by memory."
				  : NULL;
}

/* Says which layout sbatch would choose: one below the safe fraction, even if it is slower. */
static void say_what_sbatch_chooses(const plans *p)
{
	char flags[1024];

	if (!p->counts.has_safe)
		return;
	printf("\nWithout these options, sbatch takes the best layout below %.0f %% of memory, above which "
	       "it warns:\n "
	       "     %s\n",
	       100 * p->space.safe,
	       p4d_subject_flags(&p->counts.safe.request, "--p4d-", flags, sizeof(flags)));
}

static const char *heading_of(const p4d_subject *subject, const plans *p, char *buf, size_t size)
{
	snprintf(buf, size,
		 "%s on %" PRIu64 " node%s of %" PRIu64 " x %s: the best of %" PRIu64
		 " layouts, below %.0f %% of memory",
		 subject->model, subject->nodes, subject->nodes == 1 ? "" : "s", subject->gpus_per_node,
		 subject->capacity.gpu ? subject->capacity.gpu->name : "CPU ranks", p->counts.considered,
		 100 * p->space.limit);
	return buf;
}

/* Whether a layout is part of the row of an earlier one. */
static bool is_folded(const plans *p, size_t i)
{
	return !p->apart && p->group[i] != i;
}

static bool folds(const plans *p)
{
	bool any = false;

	for (size_t i = 0; i < p->count; i++)
		any = any || is_folded(p, i);
	return any;
}

static void add_note(p4d_table *table, const plans *p, size_t i)
{
	char also[1024];

	if (!p->apart && *p4d_plan_group_text(p->found, p->count, p->group, i, also, sizeof(also)))
		p4d_table_note(table, also);
}

/*
 * Adds a row for each layout, or for each group of them. bar: receives the step time of each, or its GiB.
 * unvalidated, accuracy: see unvalidated and error in p4d_timed.
 */
static int fill_table(const p4d_subject *subject, const plans *p, p4d_table *table, p4d_bar *bar,
		      const char **unvalidated, const char **accuracy, p4d_error *err)
{
	described d;

	add_columns(table, p);
	for (size_t i = 0; i < p->count; i++) {
		if (is_folded(p, i))
			continue;
		if (describe(subject, &p->found[i], &d, err) < 0) {
			p4d_table_free(table);
			return -1;
		}
		add_row(table, i + 1, &d, p);
		add_note(table, p, i);
		if (bar)
			bar[i].part[0] = p->timed ? d.timed.step.seconds : p4d_to_gib(d.most_bytes);
		*unvalidated = d.timed.known ? d.timed.unvalidated : NULL;
		*accuracy = d.timed.known ? d.timed.error : NULL;
	}
	return 0;
}

/* row and bar: arrays with an entry for each layout. */
static int fill_page(const p4d_subject *subject, const plans *p, p4d_plan_row *row, p4d_bar *bar,
		     const char *path, p4d_error *err)
{
	static const char *const keys[] = {""};
	p4d_table table = {0};
	char heading[640], batch[96], preferred[1024] = "";
	const p4d_bars bars = {.title = p->timed ? "Seconds per step" : "GiB of the fullest GPU",
			       .key = keys,
			       .keys = 1,
			       .bar = bar,
			       .count = p->count,
			       .decimals = p->timed ? 2 : 1};
	p4d_plan_page page = {.subject = subject,
			      .table = &table,
			      .bars = &bars,
			      .row = row,
			      .count = p->count,
			      .preferred = preferred,
			      .ties = ties_of(p),
			      .heading = heading_of(subject, p, heading, sizeof(heading)),
			      .batch =
				  p4d_defaults_batch_text(&p->found[0].request, "--", batch, sizeof(batch))};

	if (fill_table(subject, p, &table, bar, &page.unvalidated, &page.accuracy, err) < 0)
		return -1;
	for (size_t i = 0; i < p->count; i++) {
		p4d_subject_flags(&p->found[i].request, "--p4d-", row[i].flags, sizeof(row[i].flags));
		snprintf(row[i].name, sizeof(row[i].name), "rank %zu", i + 1);
		bar[i].label = row[i].name;
	}
	if (p->counts.has_safe)
		p4d_subject_flags(&p->counts.safe.request, "--p4d-", preferred, sizeof(preferred));
	const int rc = p4d_command__plan_page(&page, path, err);
	p4d_table_free(&table);
	return rc;
}

static int write_page(const p4d_subject *subject, const plans *p, const char *path, p4d_error *err)
{
	p4d_plan_row *row = calloc(p->count, sizeof(*row));
	p4d_bar *bar = calloc(p->count, sizeof(*bar));
	plans whole = *p;
	whole.apart = true;
	const int rc = row && bar ? fill_page(subject, &whole, row, bar, path, err)
				  : p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a page");

	free(row);
	free(bar);
	return rc;
}

static int print_text(const p4d_subject *subject, const plans *p, p4d_error *err)
{
	p4d_table table = {0};
	p4d_advice advice = {0};
	char flags[1024], batch[96], heading[640];
	const char *unvalidated = NULL, *accuracy = NULL;

	p4d_report_messages(subject->assumptions, subject->message);
	printf("%s\n%" PRId64 " tokens per sequence, global batch %s\n",
	       heading_of(subject, p, heading, sizeof(heading)), p->found[0].request.value[P4D_SEQ_LEN],
	       p4d_defaults_batch_text(&p->found[0].request, "--", batch, sizeof(batch)));
	p4d_subject_print_framework(&p->found[0].request, true);
	puts("");
	if (fill_table(subject, p, &table, NULL, &unvalidated, &accuracy, err) < 0 ||
	    p4d_table_print(&table, true, err) < 0)
		return -1;
	if (unvalidated)
		printf("\nStep times are unvalidated: %s\n", unvalidated);
	if (accuracy)
		printf("\nAccuracy of step times: %s\n", accuracy);
	if (ties_of(p))
		printf("\n%s\n", ties_of(p));
	if (folds(p))
		puts("\nLayouts with the same memory and step time share a row. --all prints a row for each "
		     "layout.");
	puts("\nFlags for sbatch:");
	for (size_t i = 0; i < p->count; i++)
		if (!is_folded(p, i))
			printf("%4zu  %s\n", i + 1,
			       p4d_subject_flags(&p->found[i].request, "--p4d-", flags, sizeof(flags)));
	say_what_sbatch_chooses(p);
	p4d_advice_on_size(&advice, subject->site, &subject->request, &p->space);
	p4d_advice_on_overlap(&advice, &p->found[0], &p->space);
	p4d_advice_print(&advice, "");
	fflush(stdout);
	p4d_report_messages(subject->messages - subject->assumptions,
			    subject->message + subject->assumptions);
	return 0;
}

/* Adds messages about the layouts. For instance, if step times are unknown, it says in which order the
 * layouts are. */
static int look_over(p4d_subject *subject, plans *p, p4d_error *err)
{
	const p4d_gpu *gpu = subject->capacity.gpu;
	described d;

	if (describe(subject, &p->found[0], &d, err) < 0)
		return -1;
	p->timed = d.timed.known;
	p4d_subject_say_precision(subject, &p->found[0].request);
	if (!p->timed && gpu && p4d_on_gpu(d.layout.device))
		p4d_subject_say(subject, P4D_E_NO_RATES, "",
				"%s has no %s: layouts are ranked by memory and communication, not by step "
				"time",
				gpu->name, d.timed.missing ? d.timed.missing : "performance data");
	return 0;
}

static const char *tokens_text(double tokens, char buf[P4D_SIZE_TEXT])
{
	static const char units[] = "KMBT";
	char number[P4D_NUMBER_TEXT];
	int unit = -1;

	for (; tokens >= 1000 && unit < 3; unit++)
		tokens /= 1000;
	snprintf(buf, P4D_SIZE_TEXT, "%s%.*s", p4d_number_text(tokens, 4, number), unit >= 0,
		 units + (unit > 0 ? unit : 0));
	return buf;
}

static bool one_batch(const p4d_places *places)
{
	const p4d_placement *first = &places->found[0];

	for (size_t i = 1; i < places->count; i++)
		if (places->found[i].best.request.value[P4D_GLOBAL_BATCH] !=
		    first->best.request.value[P4D_GLOBAL_BATCH])
			return false;
	return true;
}

static int print_places(const p4d_subject *subject, const p4d_line *line, const p4d_places *places,
			p4d_error *err)
{
	const double tokens = line->tokens > 0 ? line->tokens : usual_tokens;
	const p4d_request *best = &places->found[0].best.request;
	char amount[P4D_SIZE_TEXT], batch[96];

	if (line->json) {
		struct json_object *object = json_object_new_object();
		json_object_object_add(object, "model", json_object_new_string(subject->model));
		json_object_object_add(object, "global_batch", p4d_report_json_batch(best));
		json_object_object_add(object, "tokens", json_object_new_double(tokens));
		json_object_object_add(object, "places", p4d_places_json(places, tokens));
		json_object_object_add(object, "messages",
				       p4d_report_json_messages(subject->messages, subject->message));
		return p4d_report_json_print(object, err);
	}
	printf("%s, %s tokens, global batch %s%s; fastest first; rows that another row beats in time and "
	       "GPU-hours are left out\n\n",
	       subject->model, tokens_text(tokens, amount),
	       p4d_defaults_batch_text(best, "--", batch, sizeof(batch)),
	       one_batch(places) ? "" : ", smaller with fewer GPUs");
	if (p4d_places_print(places, tokens, line->top ? line->top : USUAL_PLACES, err) < 0)
		return -1;
	fflush(stdout);
	p4d_report_messages(subject->messages, subject->message);
	return 0;
}

/* Plans over the partitions of the site. */
static int plan_places(p4d_subject *subject, const p4d_line *line, p4d_error *err)
{
	const p4d_request *typed = &line->request;
	p4d_search_space space = {.published_batch = subject->preset.global_batch, .method = subject->method};
	p4d_places places = {.count = 0};

	if (p4d_is_set(typed, P4D_GPU) || !p4d_on_gpu(subject->request.value[P4D_DEVICE]) || line->env ||
	    line->gpus)
		return p4d_fail(err, P4D_E_USAGE,
				"--partitions cannot be combined with --gpu, --gpus, --device=cpu or --env");
	p4d_request_default(&subject->request, P4D_FRAMEWORK, p4d_framework_default(&subject->request),
			    P4D_BY_P4D);
	const p4d_places_wanted wanted = {
	    .partitions = line->partitions,
	    .request = &subject->request,
	    .space = &space,
	    .nodes = p4d_is_set(typed, P4D_NODES) ? (uint64_t)typed->value[P4D_NODES] : 0,
	    .gpus_per_node =
		p4d_is_set(typed, P4D_GPUS_PER_NODE) ? (uint64_t)typed->value[P4D_GPUS_PER_NODE] : 0,
	    .host_bytes = line->mem_bytes};
	int status = p4d_places_find(&places, subject->site, &wanted, err);
	if (status == 0)
		status = print_places(subject, line, &places, err);
	p4d_places_free(&places);
	return status;
}

static int plan(p4d_subject *subject, const p4d_line *line, plans *p, p4d_error *err)
{
	const uint32_t top = line->top ? line->top : USUAL_TOP;

	if (p4d_subject_open(subject, line, true, err) < 0)
		return -1;
	if (line->html &&
	    (line->partitions || line->env || subject->request.value[P4D_WORKLOAD] != P4D_WORKLOAD_TRAIN))
		return p4d_fail(
		    err, P4D_E_USAGE,
		    "--html writes a page only for layouts of training, without --partitions and --env");
	if (p4d_is_set(&subject->request, P4D_WORKLOAD) &&
	    subject->request.value[P4D_WORKLOAD] == P4D_WORKLOAD_SERVE && !line->env)
		return line->partitions ? p4d_serving_places(subject, line, err)
					: p4d_serving_plan(subject, top, line->json, err);
	if (p4d_subject_trains(subject, err) < 0)
		return -1;
	if (line->partitions)
		return plan_places(subject, line, err);
	if (line->tokens > 0) {
		p4d_fail(err, P4D_E_USAGE, "--tokens has an effect only with --partitions");
		return p4d_fix(err, "--partitions=all");
	}
	if (!p4d_on_gpu(subject->request.value[P4D_DEVICE]) && !subject->mem_bytes) {
		p4d_fail(err, P4D_E_USAGE,
			 "p4d does not know the host memory per node, so p4d cannot rank layouts");
		return p4d_fix(err, "--mem=SIZE");
	}
	if (p4d_on_gpu(subject->request.value[P4D_DEVICE]) && !subject->capacity.gpu) {
		p4d_fail(err, P4D_E_USAGE, "without --gpu, p4d cannot rank layouts");
		return p4d_fix(err, "--gpu NAME (p4d gpus lists them)");
	}
	p4d_request_default(&subject->request, P4D_FRAMEWORK, p4d_framework_default(&subject->request),
			    P4D_BY_P4D);
	p->space = (p4d_search_space){
	    .nodes = subject->nodes,
	    .gpus_per_node = subject->gpus_per_node,
	    .published_batch = subject->preset.global_batch,
	    .capacity = subject->capacity,
	    .method = subject->method,
	    .memo = &p->memo,
	    .counts_ends = !line->env,
	    .safe = subject->policy.safe,
	    .limit = p4d_site_policy_limit(&subject->policy, (int)subject->request.value[P4D_FRAMEWORK])};
	p->found = calloc(top, sizeof(*p->found));
	p->group = calloc(top, sizeof(*p->group));
	p->apart = line->all;
	if (!p->found || !p->group)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %u layouts", top);
	p->seconds = p4d_clock_seconds();
	/* if the output is for a job's environment: only the layout that a submission would choose */
	p->count = line->env ? p4d_search_preferred(&subject->request, &p->space, p->found, &p->counts)
			     : p4d_search_run(&subject->request, &p->space, p->found, top, &p->counts);
	p->seconds = p4d_clock_seconds() - p->seconds;
	if (!p->count)
		return p4d_unfit_explain(subject, &p->space, &p->counts, err);
	p4d_plan_groups(p->found, p->count, p->group);
	if (look_over(subject, p, err) < 0)
		return -1;
	if (line->env)
		return print_env(subject, p, err);
	if (line->html && write_page(subject, p, line->html, err) < 0)
		return -1;
	return (line->json ? print_json : print_text)(subject, p, err);
}

int p4d_command_plan(const p4d_line *line, p4d_error *err)
{
	p4d_subject subject = {0};
	plans p = {.memo = p4d_plan_memo_of(P4D_SEARCH_MEMO)};
	int status = plan(&subject, line, &p, err);

	free(p.memo.entry);
	free(p.found);
	free(p.group);
	p4d_subject_close(&subject);
	return status;
}
