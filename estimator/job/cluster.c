/* SPDX-License-Identifier: Apache-2.0 */
#include "job/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/choice.h"
#include "base/text.h"

/* The row of (partition, type), added when it is new; NULL without memory. */
static p4d_partition_facts *row_of(p4d_cluster *cluster, const char *partition, bool is_default,
				   const char *type)
{
	for (size_t i = cluster->count; i-- > 0;)
		if (!strcmp(cluster->row[i].gpu_type, type) && !strcmp(cluster->row[i].partition, partition))
			return &cluster->row[i];
	p4d_partition_facts *grown = reallocarray(cluster->row, cluster->count + 1, sizeof(*grown));
	if (!grown)
		return NULL;
	cluster->row = grown;
	p4d_partition_facts *row = &grown[cluster->count++];
	*row = (p4d_partition_facts){
	    .is_default = is_default, .gpus_per_node = UINT32_MAX, .mem_bytes = UINT64_MAX};
	snprintf(row->partition, sizeof(row->partition), "%s", partition);
	snprintf(row->gpu_type, sizeof(row->gpu_type), "%s", type);
	return row;
}

static void add_features(p4d_partition_facts *row, const char *features)
{
	p4d_text list = {.at = row->features, .size = sizeof(row->features), .length = strlen(row->features)};

	for (const char *at = features; at && *at; at += *at == ',') {
		size_t length = strcspn(at, ",");
		if (length && p4d_choice_index(row->features, ',', at, length) < 0)
			p4d_text_entry(&list, ",", "%.*s", (int)length, at);
		list.truncated = false; /* a shorter one may fit */
		at += length;
	}
}

/* Copies the next entry and moves on; false at the end. Commas in parentheses do not end one. */
static bool next_entry(const char **at, char *entry, size_t size)
{
	const char *start = *at;
	unsigned depth = 0;

	if (!start || !*start)
		return false;
	while (**at && (depth || **at != ',')) {
		depth += **at == '(';
		depth -= depth && **at == ')';
		++*at;
	}
	snprintf(entry, size, "%.*s", (int)(*at - start), start);
	*at += **at == ',';
	return true;
}

int p4d_cluster_add(p4d_cluster *cluster, const char *partition, bool is_default, const char *gres,
		    const char *features, uint64_t mem_bytes)
{
	char entry[256], type[sizeof(cluster->row->gpu_type)];
	uint32_t gpus;

	while (next_entry(&gres, entry, sizeof(entry))) {
		if (p4d_gres_parse(entry, type, sizeof(type), &gpus, NULL) <= 0 || !gpus)
			continue;
		p4d_partition_facts *row = row_of(cluster, partition, is_default, type);
		if (!row)
			return -1;
		row->gpus_per_node = gpus < row->gpus_per_node ? gpus : row->gpus_per_node;
		row->mem_bytes = mem_bytes < row->mem_bytes ? mem_bytes : row->mem_bytes;
		add_features(row, features);
	}
	return 0;
}

void p4d_cluster_free(p4d_cluster *cluster)
{
	free(cluster->row);
	*cluster = (p4d_cluster){0};
}
