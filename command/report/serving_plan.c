/* SPDX-License-Identifier: Apache-2.0 */
#include "report/serving_plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/number.h"
#include "report/report.h"
#include "report/serving.h"
#include "report/table.h"
#include "serve/serving_search.h"

typedef struct engine_plans {
	p4d_subject *subject;
	p4d_serving_found *found;
	size_t room, count;
	p4d_serving_counts counts;
	p4d_serving_load load;
} engine_plans;

static uint64_t engine_dp_of(const p4d_request *r)
{
	return p4d_is_set(r, P4D_ENGINE_DP) ? (uint64_t)r->value[P4D_ENGINE_DP] : 1;
}

static bool has_whole_experts(const p4d_request *r)
{
	return p4d_is_set(r, P4D_EXPERT_PARALLEL) && r->value[P4D_EXPERT_PARALLEL];
}

void p4d_serving_plan_cells(p4d_table *table, const p4d_serving_speed *v, double cost)
{
	const double amounts[] = {v->at_a_time, v->tokens_per_s, cost};
	const double times[] = {v->first_token_s, v->between_tokens_s};
	char text[P4D_SIZE_TEXT];

	for (size_t i = 0; i < sizeof(amounts) / sizeof(*amounts); i++)
		p4d_table_cell(table, P4D_PLAIN, "%s", p4d_serving_amount(amounts[i], text));
	for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++)
		p4d_table_cell(table, P4D_PLAIN, "%s", p4d_report_seconds(times[i], text));
}

static void add_row(p4d_table *table, size_t rank, const p4d_serving_found *f, bool sparse)
{
	const uint64_t numbers[] = {rank, (uint64_t)f->request.value[P4D_TP],
				    (uint64_t)f->request.value[P4D_PP]};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		p4d_table_cell(table, P4D_PLAIN, "%" PRIu64, numbers[i]);
	if (sparse) {
		p4d_table_cell(table, P4D_PLAIN, "%" PRIu64, engine_dp_of(&f->request));
		p4d_table_cell(table, P4D_PLAIN, "%s", has_whole_experts(&f->request) ? "on" : "off");
	}
	p4d_table_cell(table, P4D_PLAIN, "%" PRIu64, f->serving.replicas / engine_dp_of(&f->request));
	p4d_table_cell(table, P4D_PLAIN, "%" PRIu64, f->gpus);
	p4d_serving_plan_cells(table, &f->speed, f->speed.tokens_per_s / (double)f->gpus);
}

static int print_table(const engine_plans *p, p4d_error *err)
{
	static const char *const degrees[] = {"", "tp", "pp", "dp", "whole experts"};
	static const char *const figures[] = {"engines", "GPUs",        "in flight",     "tokens/s",
					      "per GPU", "first token", "between tokens"};
	const bool sparse = p4d_is_set(&p->subject->request, P4D_EXPERTS);
	p4d_table table = {0};

	for (size_t i = 0; i < sizeof(degrees) / sizeof(*degrees) - (sparse ? 0 : 2); i++)
		p4d_table_column(&table, degrees[i], P4D_RIGHT);
	for (size_t i = 0; i < sizeof(figures) / sizeof(*figures); i++)
		p4d_table_column(&table, figures[i], P4D_RIGHT);
	for (size_t i = 0; i < p->count; i++)
		add_row(&table, i + 1, &p->found[i], sparse);
	return p4d_table_print(&table, true, err);
}

/* Prints the flags of the engine for a layout. */
static void print_flags(const engine_plans *p, size_t i)
{
	const p4d_request *r = &p->found[i].request;
	const uint64_t tp = (uint64_t)r->value[P4D_TP], pp = (uint64_t)r->value[P4D_PP], dp = engine_dp_of(r);
	const bool sglang = r->value[P4D_ENGINE] == P4D_ENGINE_SGLANG;

	printf("%4zu  %s %" PRIu64, i + 1, sglang ? "--tp-size" : "--tensor-parallel-size", tp);
	if (pp > 1)
		printf(" %s %" PRIu64, sglang ? "--pp-size" : "--pipeline-parallel-size", pp);
	if (dp > 1)
		printf(" %s %" PRIu64, sglang ? "--dp-size" : "--data-parallel-size", dp);
	if (has_whole_experts(r) && !sglang)
		printf(" --enable-expert-parallel");
	puts("");
}

static int print_text(const engine_plans *p, p4d_error *err)
{
	const p4d_subject *s = p->subject;
	const bool rated = p->load.rate > 0;
	char engine[16], rate[P4D_SIZE_TEXT];

	p4d_request_choice_name(P4D_ENGINE, p->found[0].request.value[P4D_ENGINE], engine, sizeof(engine));
	printf("%s, served by %s on %" PRIu64 " node%s of %" PRIu64 " x %s: the best of %" PRIu64
	       " layouts\n",
	       s->model, engine, s->nodes, s->nodes == 1 ? "" : "s", s->gpus_per_node, s->capacity.gpu->name,
	       p->counts.considered);
	printf("prompts of %.0f tokens, answers of %.0f%s; ", p->load.prompt, p->load.answer,
	       rated                     ? ""
	       : p->load.concurrency > 0 ? ""
					 : ", as many as possible in flight");
	if (rated)
		printf("%s requests/s: fewest GPUs first\n\n", p4d_serving_amount(p->load.rate, rate));
	else
		printf("most tokens/s per GPU first\n\n");
	if (print_table(p, err) < 0)
		return -1;
	puts("\nSpeeds are predictions; p4d validate prints their errors. Options for the engine:");
	for (size_t i = 0; i < p->count; i++)
		print_flags(p, i);
	fflush(stdout);
	p4d_report_messages(s->messages, s->message);
	return 0;
}

struct json_object *p4d_serving_layout_json(const p4d_serving_found *f, const p4d_serving_load *load)
{
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "tp", json_object_new_int64(f->request.value[P4D_TP]));
	json_object_object_add(object, "pp", json_object_new_int64(f->request.value[P4D_PP]));
	json_object_object_add(object, "data_parallel_size",
			       json_object_new_uint64(engine_dp_of(&f->request)));
	json_object_object_add(object, "expert_parallel",
			       json_object_new_boolean(has_whole_experts(&f->request)));
	json_object_object_add(object, "gpus", json_object_new_uint64(f->gpus));
	json_object_object_add(object, "speed", p4d_serving_speed_json(load, &f->speed));
	return object;
}

static int print_json(const engine_plans *p, p4d_error *err)
{
	struct json_object *object = json_object_new_object(), *layouts = json_object_new_array();

	for (size_t i = 0; i < p->count; i++)
		json_object_array_add(layouts, p4d_serving_layout_json(&p->found[i], &p->load));
	json_object_object_add(object, "model", json_object_new_string(p->subject->model));
	json_object_object_add(object, "gpu", json_object_new_string(p->subject->capacity.gpu->name));
	json_object_object_add(object, "considered", json_object_new_uint64(p->counts.considered));
	json_object_object_add(object, "too_large", json_object_new_uint64(p->counts.too_large));
	json_object_object_add(object, "too_slow", json_object_new_uint64(p->counts.too_slow));
	json_object_object_add(object, "layouts", layouts);
	json_object_object_add(object, "messages",
			       p4d_report_json_messages(p->subject->messages, p->subject->message));
	return p4d_report_json_print(object, err);
}

/* The number of GPUs on which the same model fits; 0: on none of the numbers that are tried. */
static uint64_t gpus_that_do(const engine_plans *p, const p4d_serving_space *space)
{
	enum { MOST = 1024 };
	p4d_serving_space more = *space;
	p4d_serving_counts counts;
	p4d_serving_found one;

	for (uint64_t gpus = 2 * space->nodes * space->gpus_per_node; gpus <= MOST; gpus *= 2) {
		const uint64_t usual = p4d_gpu_usual_node(space->gpu), per_node = gpus < usual ? gpus : usual;
		more.gpus_per_node = per_node > space->gpus_per_node ? per_node : space->gpus_per_node;
		more.nodes = (gpus + more.gpus_per_node - 1) / more.gpus_per_node;
		if (p4d_serving_search(&p->subject->request, &more, &one, 1, &counts, NULL) == 1)
			return gpus;
	}
	return 0;
}

static int fix_gpus(const engine_plans *p, const p4d_serving_space *space, p4d_error *err)
{
	const uint64_t gpus = gpus_that_do(p, space);

	return gpus ? p4d_fix(err, "--gpus=%" PRIu64, gpus) : -1;
}

/* Explains that no layout has room for a sequence. */
static int explain_size(const engine_plans *p, const p4d_serving_space *space, p4d_error *err)
{
	p4d_fail(err, P4D_E_NO_LAYOUT,
		 "%s on %" PRIu64 " x %s: none of %" PRIu64 " layouts holds a sequence of %" PRId64 " tokens",
		 p->subject->model, space->nodes * space->gpus_per_node, space->gpu->name,
		 p->counts.considered, p->subject->request.value[P4D_SEQ_LEN]);
	return fix_gpus(p, space, err);
}

/* Explains that engines start, but more requests arrive than they answer. */
static int explain_rate(const engine_plans *p, const p4d_serving_space *space, p4d_error *err)
{
	p4d_request unrated = p->subject->request;
	p4d_serving_counts counts;
	p4d_serving_found one;

	unrated.origin[P4D_RATE] = P4D_UNSET;
	char arrive[P4D_NUMBER_TEXT], answered[P4D_SIZE_TEXT];
	const bool some = p4d_serving_search(&unrated, space, &one, 1, &counts, NULL) == 1;
	p4d_fail(err, P4D_E_NO_LAYOUT,
		 "%s on %" PRIu64
		 " x %s: the best layout answers %s requests/s within the limits, but %s requests/s arrive",
		 p->subject->model, space->nodes * space->gpus_per_node, space->gpu->name,
		 p4d_serving_amount(some ? one.speed.requests_per_s : 0, answered),
		 p4d_number_text(p->load.rate, 6, arrive));
	return fix_gpus(p, space, err);
}

/* Explains that engines start, but even a single request waits longer than wanted. */
static int explain_bounds(const engine_plans *p, const p4d_serving_space *space, p4d_error *err)
{
	p4d_serving_space unbounded = *space;
	p4d_request alone = p->subject->request;
	p4d_serving_counts counts;
	double between = INFINITY, first = INFINITY;
	char soon[P4D_SIZE_TEXT], then[P4D_SIZE_TEXT];

	unbounded.first_token_s = unbounded.between_tokens_s = 0;
	p4d_request_put_real(&alone, P4D_CONCURRENCY, 1, P4D_BY_P4D);
	const size_t count = p4d_serving_search(&alone, &unbounded, p->found, p->room, &counts, NULL);
	for (size_t i = 0; i < count && count != SIZE_MAX; i++) {
		between = fmin(between, p->found[i].speed.between_tokens_s);
		first = fmin(first, p->found[i].speed.first_token_s);
	}
	return p4d_fail(err, P4D_E_NO_LAYOUT,
			"%s on %" PRIu64 " x %s: no layout is fast enough; a single request takes at least "
			"%s to the first token and %s between tokens",
			p->subject->model, space->nodes * space->gpus_per_node, space->gpu->name,
			p4d_report_seconds(first, soon), p4d_report_seconds(between, then));
}

static int explain(const engine_plans *p, const p4d_serving_space *space, p4d_error *err)
{
	if (!p->counts.too_slow)
		return explain_size(p, space, err);
	return (p->load.rate > 0 ? explain_rate : explain_bounds)(p, space, err);
}

static int plan(engine_plans *p, uint32_t top, bool json, p4d_error *err)
{
	p4d_request *r = &p->subject->request;
	const p4d_serving_space space =
	    p4d_serving_space_of(r, p->subject->capacity.gpu, p->subject->nodes, p->subject->gpus_per_node);

	p4d_serving_complete(r, space.gpu);
	p->load = p4d_serving_load_of(r);
	p->count = p4d_serving_search(r, &space, p->found, top, &p->counts, err);
	if (p->count == SIZE_MAX) {
		p4d_request_without_prefix(err->fix);
		return -1;
	}
	if (!p->count)
		return explain(p, &space, err);
	return (json ? print_json : print_text)(p, err);
}

int p4d_serving_plan(p4d_subject *subject, uint32_t top, bool json, p4d_error *err)
{
	engine_plans p = {.subject = subject, .room = top, .found = calloc(top, sizeof(*p.found))};

	if (!p.found)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %u layouts", top);
	if (!subject->capacity.gpu) {
		free(p.found);
		p4d_fail(err, P4D_E_USAGE, "without --gpu, p4d cannot rank layouts");
		return p4d_fix(err, "--gpu NAME (p4d gpus lists them)");
	}
	const int status = plan(&p, top, json, err);
	free(p.found);
	return status;
}
