/* SPDX-License-Identifier: Apache-2.0 */
#include "job/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/choice.h"
#include "base/text.h"
#include "job/hostlist.h"

/*
 * Returns the row of a GPU type or, if gpus is 0, of nodes without GPUs. Adds a row if there is none. NULL:
 * no memory.
 */
static p4d_partition_facts *row_of(p4d_cluster *cluster, const p4d_cluster_nodes *nodes, const char *type,
				   uint32_t gpus)
{
	for (size_t i = cluster->count; i-- > 0;) {
		p4d_partition_facts *row = &cluster->row[i];
		if (!strcmp(row->gpu_type, type) && !row->gpus_per_node == !gpus &&
		    !strcmp(row->partition, nodes->partition))
			return row;
	}
	p4d_partition_facts *grown = reallocarray(cluster->row, cluster->count + 1, sizeof(*grown));
	if (!grown)
		return NULL;
	cluster->row = grown;
	p4d_partition_facts *row = &grown[cluster->count++];
	*row = (p4d_partition_facts){.is_default = nodes->is_default,
				     .whole_nodes = nodes->whole_nodes,
				     .gpus_per_node = gpus,
				     .cpus = nodes->cpus,
				     .cores = nodes->cores,
				     .max_nodes = nodes->max_nodes,
				     .mem_bytes = nodes->mem_bytes,
				     .memory = nodes->memory};
	snprintf(row->partition, sizeof(row->partition), "%s", nodes->partition);
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
		list.truncated = false; /* continues after a truncated list, because a shorter list may fit */
		at += length;
	}
}

/*
 * Copies the next entry of a list and moves *at past it. Returns false at the end. Commas in parentheses do
 * not end an entry.
 */
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

static int add_names(p4d_partition_facts *row, const char *names)
{
	const size_t used = row->nodes ? strlen(row->nodes) : 0;
	p4d_text list = {.at = row->nodes, .size = row->nodes ? used + 1 : 0, .length = used, .grows = true};

	if (!names)
		return 0;
	p4d_text_entry(&list, ",", "%s", names);
	row->nodes = list.at;
	return list.truncated ? -1 : 0;
}

static int add_to_row(p4d_cluster *cluster, const p4d_cluster_nodes *nodes, const char *type, uint32_t gpus)
{
	p4d_partition_facts *row = row_of(cluster, nodes, type, gpus);

	if (!row)
		return -1;
	row->gpus_per_node = gpus < row->gpus_per_node ? gpus : row->gpus_per_node;
	row->cpus = nodes->cpus < row->cpus ? nodes->cpus : row->cpus;
	row->cores = nodes->cores < row->cores ? nodes->cores : row->cores;
	row->mem_bytes = nodes->mem_bytes < row->mem_bytes ? nodes->mem_bytes : row->mem_bytes;
	add_features(row, nodes->features);
	return add_names(row, nodes->names);
}

int p4d_cluster_add(p4d_cluster *cluster, const p4d_cluster_nodes *nodes)
{
	char entry[256], type[sizeof(cluster->row->gpu_type)];
	bool any = false;
	uint32_t gpus;

	for (const char *at = nodes->gres; next_entry(&at, entry, sizeof(entry));) {
		if (p4d_gres_parse(entry, type, sizeof(type), &gpus, NULL) <= 0)
			continue;
		any = true;
		if (add_to_row(cluster, nodes, type, gpus) < 0)
			return -1;
	}
	return any ? 0 : add_to_row(cluster, nodes, "", 0);
}

p4d_default_memory p4d_cluster_default_memory(const p4d_memory_defaults *d)
{
	static const uint64_t most = UINT64_C(1) << 40;
	const bool inherits = !d->partition.mebibytes, open = d->of_partition && d->everywhere.mebibytes;
	const uint64_t bytes = d->mebibytes < most ? d->mebibytes << 20 : 0,
		       per_gpu = inherits ? d->everywhere.mebibytes : d->partition.mebibytes,
		       cpus = d->partition.cpus ? d->partition.cpus : d->everywhere.cpus;
	p4d_default_memory to = {.cpus_per_gpu = cpus < UINT32_MAX ? cpus : 0,
				 .cpus_unknown = !cpus && d->everywhere_unknown};

	if (d->no_memory || (inherits && (open || d->everywhere_unknown)))
		return to;
	to.per_gpu = per_gpu < most ? per_gpu << 20 : 0;
	to.per_node = d->per_cpu ? 0 : bytes;
	to.per_cpu = d->per_cpu ? bytes : 0;
	return to;
}

uint32_t p4d_cluster_most_nodes(const p4d_partition_facts *row)
{
	const uint32_t nodes = row->nodes ? p4d_hostlist__count(row->nodes) : 0;

	return row->max_nodes && row->max_nodes < nodes ? row->max_nodes : nodes;
}

void p4d_cluster_free(p4d_cluster *cluster)
{
	for (size_t i = 0; i < cluster->count; i++)
		free(cluster->row[i].nodes);
	free(cluster->row);
	*cluster = (p4d_cluster){0};
}
