/* SPDX-License-Identifier: Apache-2.0 */
#include "report/places.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/choice.h"
#include "base/suggest.h"
#include "base/text.h"
#include "job/cluster.h"
#include "line/line.h"
#include "report/report.h"
#include "report/table.h"

enum { KINDS = 256, PLACES = 1024, USUAL_GPUS_PER_NODE = 8 };

static const double hour = 3600, joules_per_kwh = 3.6e6;

/* gpu NULL: any GPU. */
static p4d_node_kind *find_kind(const p4d_places *places, const char *partition, const p4d_gpu *gpu)
{
	for (size_t i = 0; i < places->kinds; i++)
		if (!strcmp(places->kind[i].partition, partition) &&
		    (!gpu || places->kind[i].capacity.gpu == gpu))
			return &places->kind[i];
	return NULL;
}

static void add_kind(p4d_places *places, const p4d_node_kind *kind)
{
	if (places->kinds < KINDS && !find_kind(places, kind->partition, kind->capacity.gpu))
		places->kind[places->kinds++] = *kind;
}

/* Adds the partitions that are sections in p4d.conf. A section whose name is a pattern is not one
 * partition. */
static void add_sections(p4d_places *places, const p4d_site *site)
{
	const p4d_site_partition *section;

	for (unsigned i = 0; (section = p4d_site_partition_at(site, i)); i++)
		for (unsigned j = 0; j < section->gpus && !strpbrk(section->name, "*?"); j++)
			add_kind(places,
				 &(p4d_node_kind){.partition = section->name,
						  .capacity = {.gpu = section->gpu[j],
							       .host_bytes = section->mem_per_node_bytes},
						  .gpus_per_node = section->gpus_per_node,
						  .network = p4d_site_network(section)});
}

/* Adds the nodes that only the cluster knows, and the number of nodes for those that p4d.conf knows. */
static void add_cluster(p4d_places *places, const p4d_site *site, const p4d_cluster *cluster)
{
	for (size_t i = 0; cluster && i < cluster->count; i++) {
		const p4d_partition_facts *row = &cluster->row[i];
		const p4d_gpu *gpu = row->gpu_type[0]
					 ? p4d_site_gpu(site, row->gpu_type, NULL)
					 : p4d_site_least_gpu(p4d_site_partition_of(site, row->partition));
		if (!row->gpus_per_node || !gpu)
			continue;
		if (!find_kind(places, row->partition, NULL))
			add_kind(places,
				 &(p4d_node_kind){.partition = row->partition,
						  .capacity = {.gpu = gpu, .host_bytes = row->mem_bytes},
						  .network = p4d_site_network(
						      p4d_site_partition_of(site, row->partition))});
		p4d_node_kind *kind = find_kind(places, row->partition, gpu);
		if (!kind)
			continue;
		kind->most_nodes = p4d_cluster_most_nodes(row);
		kind->gpus_per_node = row->gpus_per_node;
	}
}

static int unknown_partition(const p4d_places *places, const char *name, p4d_error *err)
{
	p4d_suggest alike = {.wanted = name};

	for (size_t i = 0; i < places->kinds; i++)
		p4d_suggest_offer(&alike, places->kind[i].partition);
	p4d_fail(err, P4D_E_USAGE,
		 "--partitions=%.64s: neither p4d.conf nor the cluster says which GPUs this partition has%s",
		 name, p4d_suggest_text(&alike));
	return p4d_fix(err, "--partitions=all");
}

static int check_names(const p4d_places *places, const char *partitions, p4d_error *err)
{
	char name[P4D_PARTITION_NAME];

	for (const char *at = partitions; *at; at += strcspn(at, ","), at += *at == ',') {
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, ","), at);
		if (!find_kind(places, name, NULL))
			return unknown_partition(places, name, err);
	}
	return 0;
}

/* Whether a kind of node is wanted and can be used; fills in the site's values for it. */
static bool admit(p4d_node_kind *kind, const p4d_site *site, const p4d_places_wanted *wanted)
{
	const p4d_gpu *gpu = kind->capacity.gpu;
	const p4d_policy policy =
	    p4d_site_policy(site, &(p4d_site_job){.partition = kind->partition, .gpu = gpu->name});

	if (!kind->gpus_per_node)
		kind->gpus_per_node = gpu->gpus_per_node ? (uint64_t)gpu->gpus_per_node : USUAL_GPUS_PER_NODE;
	if ((strcmp(wanted->partitions, "all") != 0 &&
	     p4d_choice_index(wanted->partitions, ',', kind->partition, strlen(kind->partition)) < 0) ||
	    wanted->gpus_per_node > kind->gpus_per_node ||
	    (kind->capacity.host_bytes && wanted->host_bytes > kind->capacity.host_bytes))
		return false;
	if (wanted->gpus_per_node)
		kind->gpus_per_node = wanted->gpus_per_node;
	if (wanted->host_bytes)
		kind->capacity.host_bytes = wanted->host_bytes;
	kind->capacity.host_bytes_per_rank = p4d_site_host_bytes_per_rank(site);
	kind->safe = policy.safe;
	kind->limit = p4d_site_policy_limit(&policy, (int)wanted->request->value[P4D_FRAMEWORK]);
	return true;
}

static int find_kinds(p4d_places *places, const p4d_site *site, const p4d_places_wanted *wanted,
		      p4d_error *err)
{
	size_t admitted = 0;

	add_sections(places, site);
	add_cluster(places, site, p4d_live_cluster(NULL));
	if (!places->kinds) {
		p4d_fail(err, P4D_E_GPU_OF_PARTITION,
			 "neither p4d.conf nor a cluster says which GPUs a partition has");
		return p4d_fix(err, "--conf FILE, with partition NAME { gpu = \"h100\" }");
	}
	if (strcmp(wanted->partitions, "all") != 0 && check_names(places, wanted->partitions, err) < 0)
		return -1;
	for (size_t i = 0; i < places->kinds; i++)
		if (admit(&places->kind[i], site, wanted))
			places->kind[admitted++] = places->kind[i];
	places->kinds = admitted;
	return 0;
}

/* A list of the kinds of nodes on which nothing fits: "a100 (a100-40gb), old (v100-32gb)". */
static const char *left_out(const p4d_places *places, char *buf, size_t size)
{
	p4d_text list = p4d_text_in(buf, size);
	bool placed[KINDS] = {false};

	for (size_t i = 0; i < places->count; i++)
		placed[places->found[i].kind - places->kind] = true;
	for (size_t i = 0; i < places->kinds; i++)
		if (!placed[i])
			p4d_text_entry(&list, ", ", "%s (%s)", places->kind[i].partition,
				       places->kind[i].capacity.gpu->name);
	return buf;
}

int p4d_places_open(p4d_places *places, const p4d_site *site, const p4d_places_wanted *wanted, p4d_error *err)
{
	places->kind = calloc(KINDS, sizeof(*places->kind));
	places->found = calloc(PLACES, sizeof(*places->found));
	if (!places->kind || !places->found)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %d placements", PLACES);
	return find_kinds(places, site, wanted, err);
}

int p4d_places_find(p4d_places *places, const p4d_site *site, const p4d_places_wanted *wanted, p4d_error *err)
{
	p4d_request request = *wanted->request;
	char text[300];

	if (p4d_places_open(places, site, wanted, err) < 0)
		return -1;
	request.origin[P4D_NODES] = request.origin[P4D_GPUS_PER_NODE] = request.origin[P4D_GPU] = P4D_UNSET;
	places->count = p4d_placement_search(&request, wanted->space, places->kind, places->kinds,
					     wanted->nodes, places->found, PLACES);
	if (places->count)
		return 0;
	return p4d_fail(err, P4D_E_NO_LAYOUT,
			"%.100s: in each partition, no layout fits on the allowed nodes, or p4d cannot "
			"predict step times: %s",
			request.model, left_out(places, text, sizeof(text)));
}

void p4d_places_free(p4d_places *places)
{
	free(places->kind);
	free(places->found);
}

/* Whether to list a placement. It is listed if no other placement beats it. If every placement on a kind
 * of node is beaten, the cheapest of them is listed too. */
static bool is_shown(const p4d_places *places, size_t at)
{
	const p4d_placement *one = &places->found[at];

	for (size_t i = 0; i < places->count && one->dominated; i++) {
		const p4d_placement *other = &places->found[i];
		if (i != at && other->kind == one->kind &&
		    (!other->dominated || other->gpu_seconds_per_token < one->gpu_seconds_per_token))
			return false;
	}
	return true;
}

static double seconds_of(const p4d_placement *one, double tokens)
{
	return tokens / one->tokens_per_second;
}

static double gpu_hours_of(const p4d_placement *one, double tokens)
{
	return tokens * one->gpu_seconds_per_token / hour;
}

/* Energy in kWh at the power limit of the boards, which is the maximum that they use; 0: unknown. */
static double kwh_of(const p4d_placement *one, double tokens)
{
	return tokens * one->gpu_seconds_per_token * one->kind->capacity.gpu->board_watts / joules_per_kwh;
}

static const char *duration(double seconds, char buf[P4D_SIZE_TEXT])
{
	const double hours = seconds / hour, days = hours / 24;

	if (hours < 1)
		return p4d_report_seconds(seconds, buf);
	snprintf(buf, P4D_SIZE_TEXT, "%.*f %s", days < 2 ? 1 : days < 100, days < 2 ? hours : days,
		 days < 2 ? "h" : "days");
	return buf;
}

static void add_amount(p4d_table *table, p4d_color color, double amount)
{
	if (amount > 0)
		p4d_table_cell(table, color, "%.*f", amount < 10 ? 2 : amount < 100, amount);
	else
		p4d_table_cell(table, color, "-");
}

static void add_row(p4d_table *table, const p4d_placement *one, double tokens)
{
	const p4d_request *r = &one->best.request;
	char text[P4D_SIZE_TEXT], recompute[32];

	p4d_table_cell(table, P4D_PLAIN, "%s", one->kind->partition);
	p4d_table_cell(table, P4D_PLAIN, "%" PRIu64, one->nodes);
	p4d_table_cell(table, P4D_PLAIN, "%" PRIu64 " x %s", one->kind->gpus_per_node,
		       one->kind->capacity.gpu->name);
	p4d_table_cell(table, P4D_PLAIN, "tp=%" PRId64 " cp=%" PRId64 " pp=%" PRId64 " micro-batch=%" PRId64,
		       r->value[P4D_TP], r->value[P4D_CP], r->value[P4D_PP], r->value[P4D_MICRO_BATCH]);
	p4d_table_cell(
	    table, P4D_PLAIN, "%s",
	    p4d_request_choice_name(P4D_RECOMPUTE, r->value[P4D_RECOMPUTE], recompute, sizeof(recompute)));
	p4d_table_cell(table, one->best.fraction > one->kind->safe ? P4D_YELLOW : P4D_GREEN, "%.0f %%",
		       100 * one->best.fraction);
	p4d_table_cell(table, P4D_PLAIN, "%s", duration(seconds_of(one, tokens), text));
	add_amount(table, one->dominated ? P4D_PLAIN : P4D_GREEN, gpu_hours_of(one, tokens));
	add_amount(table, P4D_PLAIN, kwh_of(one, tokens));
}

static void print_options(const p4d_placement *one)
{
	char flags[1024];

	printf("  --partition=%s --nodes=%" PRIu64 " --gpus-per-node=%" PRIu64 " %s\n", one->kind->partition,
	       one->nodes, one->kind->gpus_per_node,
	       p4d_subject_flags(&one->best.request, "--p4d-", flags, sizeof(flags)));
}

int p4d_places_print(const p4d_places *places, double tokens, uint32_t top, p4d_error *err)
{
	p4d_table table = {0};
	uint32_t shown = 0;
	char text[400];

	p4d_table_columns(&table, {"partition", P4D_LEFT}, {"nodes", P4D_RIGHT}, {"GPUs of a node", P4D_LEFT},
			  {"layout", P4D_LEFT}, {"recompute", P4D_LEFT}, {"memory", P4D_RIGHT},
			  {"time", P4D_RIGHT}, {"GPU-hours", P4D_RIGHT}, {"kWh, at most", P4D_RIGHT});
	for (size_t i = 0; i < places->count && shown < top; i++)
		if (is_shown(places, i)) {
			add_row(&table, &places->found[i], tokens);
			shown++;
		}
	if (p4d_table_print(&table, true, err) < 0)
		return -1;
	if (*left_out(places, text, sizeof(text)))
		printf("\nNo layout fits, or no step time is known: %s\n", text);
	puts("\nOptions of sbatch:");
	for (size_t i = 0; i < places->count && shown; i++)
		if (is_shown(places, i)) {
			print_options(&places->found[i]);
			shown--;
		}
	return 0;
}

struct json_object *p4d_places_json(const p4d_places *places, double tokens)
{
	struct json_object *list = json_object_new_array();
	char flags[1024];

	for (size_t i = 0; i < places->count; i++) {
		const p4d_placement *one = &places->found[i];
		const double kwh = kwh_of(one, tokens);
		struct json_object *place = json_object_new_object();
		json_object_object_add(place, "partition", json_object_new_string(one->kind->partition));
		json_object_object_add(place, "gpu", json_object_new_string(one->kind->capacity.gpu->name));
		json_object_object_add(place, "nodes", json_object_new_uint64(one->nodes));
		json_object_object_add(place, "gpus_per_node",
				       json_object_new_uint64(one->kind->gpus_per_node));
		json_object_object_add(place, "fraction", p4d_report_json_fraction(one->best.fraction));
		json_object_object_add(place, "step_seconds",
				       p4d_report_json_seconds(one->best.step.seconds));
		json_object_object_add(place, "seconds", p4d_report_json_seconds(seconds_of(one, tokens)));
		json_object_object_add(place, "gpu_hours", json_object_new_double(gpu_hours_of(one, tokens)));
		json_object_object_add(place, "kwh_at_most", kwh > 0 ? json_object_new_double(kwh) : NULL);
		json_object_object_add(place, "dominated", json_object_new_boolean(one->dominated));
		json_object_object_add(place, "flags",
				       json_object_new_string(p4d_subject_flags(&one->best.request, "--p4d-",
										flags, sizeof(flags))));
		json_object_array_add(list, place);
	}
	return list;
}
