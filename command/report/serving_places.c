/* SPDX-License-Identifier: Apache-2.0 */
/* p4d plan --workload serve --partitions: finds the GPUs of a site on which answers are cheapest. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/places.h"
#include "report/report.h"
#include "report/serving.h"
#include "report/serving_plan.h"
#include "report/table.h"
#include "serve/serving_search.h"

enum { KINDS = 256 };

typedef struct serving_place {
	const p4d_node_kind *kind;
	p4d_serving_found best;
} serving_place;

static double gpu_hours_per_million(const serving_place *p)
{
	const double hour = 3600, million = 1e6;

	return (double)p->best.gpus / p->best.speed.tokens_per_s * million / hour;
}

static int by_cost(const void *a, const void *b)
{
	const double x = gpu_hours_per_million(a), y = gpu_hours_per_million(b);

	return (x > y) - (x < y);
}

/* Finds a layout on one node, or on as many nodes as a request rate or a layout needs. */
static bool find(const p4d_subject *subject, const p4d_node_kind *kind, uint64_t nodes, serving_place *found,
		 p4d_error *why)
{
	p4d_request r = subject->request;
	p4d_serving_counts counts;
	p4d_serving_space space = p4d_serving_space_of(&r, kind->capacity.gpu, 1, kind->gpus_per_node);
	const uint64_t most = nodes ? nodes : kind->most_nodes ? kind->most_nodes : P4D_PLACEMENT_NODES;

	p4d_serving_complete(&r, space.gpu);
	found->kind = kind;
	for (space.nodes = nodes ? nodes : 1; space.nodes <= most; space.nodes *= 2)
		if (p4d_serving_search(&r, &space, &found->best, 1, &counts, why) == 1)
			return true;
	return false;
}

static int print_text(const p4d_subject *subject, const p4d_serving_load *load, const serving_place *found,
		      size_t count, p4d_error *err)
{
	static const char *const columns[] = {"partition",   "GPU",           "tp",       "pp",
					      "GPUs",        "in flight",     "tokens/s", "GPU-hours per 1M",
					      "first token", "between tokens"};
	p4d_table table = {0};

	printf("%s, prompts of %.0f tokens, answers of %.0f; least GPU-hours per million tokens first\n\n",
	       subject->model, load->prompt, load->answer);
	for (size_t i = 0; i < sizeof(columns) / sizeof(*columns); i++)
		p4d_table_column(&table, columns[i], i < 2 ? P4D_LEFT : P4D_RIGHT);
	for (size_t i = 0; i < count; i++) {
		const p4d_serving_found *f = &found[i].best;
		p4d_table_cell(&table, P4D_PLAIN, "%s", found[i].kind->partition);
		p4d_table_cell(&table, P4D_PLAIN, "%s", found[i].kind->capacity.gpu->name);
		p4d_table_cell(&table, P4D_PLAIN, "%" PRId64, f->request.value[P4D_TP]);
		p4d_table_cell(&table, P4D_PLAIN, "%" PRId64, f->request.value[P4D_PP]);
		p4d_table_cell(&table, P4D_PLAIN, "%" PRIu64, f->gpus);
		p4d_serving_plan_cells(&table, &f->speed, gpu_hours_per_million(&found[i]));
	}
	if (p4d_table_print(&table, true, err) < 0)
		return -1;
	fflush(stdout);
	p4d_report_messages(subject->messages, subject->message);
	return 0;
}

static int print_json(const p4d_subject *subject, const p4d_serving_load *load, const serving_place *found,
		      size_t count, p4d_error *err)
{
	struct json_object *object = json_object_new_object(), *places = json_object_new_array();

	for (size_t i = 0; i < count; i++) {
		struct json_object *one = p4d_serving_layout_json(&found[i].best, load);
		json_object_object_add(one, "partition", json_object_new_string(found[i].kind->partition));
		json_object_object_add(one, "gpu", json_object_new_string(found[i].kind->capacity.gpu->name));
		json_object_object_add(one, "gpu_hours_per_million_tokens",
				       json_object_new_double(gpu_hours_per_million(&found[i])));
		json_object_array_add(places, one);
	}
	json_object_object_add(object, "model", json_object_new_string(subject->model));
	json_object_object_add(object, "places", places);
	json_object_object_add(object, "messages",
			       p4d_report_json_messages(subject->messages, subject->message));
	return p4d_report_json_print(object, err);
}

static int find_and_print(p4d_subject *subject, const p4d_line *line, const p4d_places *places,
			  uint64_t nodes, serving_place found[KINDS], p4d_error *err)
{
	const p4d_serving_load load = p4d_serving_load_of(&subject->request);
	p4d_error why = {.code = P4D_OK};
	size_t count = 0;

	for (size_t i = 0; i < places->kinds && count < KINDS; i++)
		count += find(subject, &places->kind[i], nodes, &found[count], &why);
	/* an invalid load is an error on all kinds of nodes */
	if (!count && why.code == P4D_E_VALUE) {
		p4d_request_without_prefix(why.fix);
		*err = why;
		return -1;
	}
	if (!count)
		return p4d_fail(err, P4D_E_NO_LAYOUT,
				"no layout of %.100s starts and answers this load in these partitions",
				subject->model);
	qsort(found, count, sizeof(*found), by_cost);
	return (line->json ? print_json : print_text)(subject, &load, found, count, err);
}

int p4d_serving_places(p4d_subject *subject, const p4d_line *line, p4d_error *err)
{
	const p4d_request *typed = &line->request;
	p4d_places places = {.count = 0};
	serving_place *found = calloc(KINDS, sizeof(*found));
	const p4d_places_wanted wanted = {.partitions = line->partitions,
					  .request = &subject->request,
					  .gpus_per_node = p4d_is_set(typed, P4D_GPUS_PER_NODE)
							       ? (uint64_t)typed->value[P4D_GPUS_PER_NODE]
							       : 0};
	const uint64_t nodes = p4d_is_set(typed, P4D_NODES) ? (uint64_t)typed->value[P4D_NODES] : 0;
	int status = found ? p4d_places_open(&places, subject->site, &wanted, err)
			   : p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %d partitions", KINDS);

	/* if the user gave no length, layouts have the model's full length */
	if (status == 0)
		p4d_request_default(&subject->request, P4D_SEQ_LEN,
				    p4d_is_set(&subject->request, P4D_MAX_SEQ_LEN)
					? subject->request.value[P4D_MAX_SEQ_LEN]
					: 2048,
				    P4D_BY_P4D);
	if (status == 0)
		status = find_and_print(subject, line, &places, nodes, found, err);
	free(found);
	p4d_places_free(&places);
	return status;
}
