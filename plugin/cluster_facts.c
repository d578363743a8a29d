/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster_facts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slurm_compat.h"

/* The row of (partition, type), added if new; NULL: no memory. */
static p4d_partition_facts *row_of(p4d_cluster *cluster, const partition_info_t *partition, const char *type)
{
	for (size_t i = cluster->count; i-- > 0;)
		if (!strcmp(cluster->row[i].gpu_type, type) &&
		    !strcmp(cluster->row[i].partition, partition->name))
			return &cluster->row[i];

	p4d_partition_facts *grown = realloc(cluster->row, (cluster->count + 1) * sizeof(*grown));
	if (!grown)
		return NULL;
	cluster->row = grown;
	p4d_partition_facts *row = &grown[cluster->count++];
	memset(row, 0, sizeof(*row));
	snprintf(row->partition, sizeof(row->partition), "%s", partition->name);
	snprintf(row->gpu_type, sizeof(row->gpu_type), "%s", type);
	row->is_default = partition->flags & PART_FLAG_DEFAULT;
	row->gpus_per_node = UINT32_MAX;
	row->mem_bytes = UINT64_MAX;
	return row;
}

/* True when `feature` (of this length) is one of the comma-separated features of the row. */
static bool has_feature(const p4d_partition_facts *row, const char *feature, size_t length)
{
	for (const char *at = row->features; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
		if (strcspn(at, ",") == length && !strncmp(at, feature, length))
			return true;
	}
	return false;
}

static void add_features(p4d_partition_facts *row, const char *features)
{
	for (const char *at = features; at && *at;) {
		size_t length = strcspn(at, ",");
		size_t used = strlen(row->features);
		if (length && used + length + 2 <= sizeof(row->features) && !has_feature(row, at, length))
			snprintf(row->features + used, sizeof(row->features) - used, "%s%.*s",
				 used ? "," : "", (int)length, at);
		at += length;
		at += *at == ',';
	}
}

/* Copies the next entry of "gpu:h100:8(S:0,1),lustre:1" and moves on; false at the end. */
static bool next_gres(const char **at, char *entry, size_t size)
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

static int add_node(p4d_cluster *cluster, const partition_info_t *partition, const node_info_t *node)
{
	const char *at = node->gres;
	char entry[256], type[48];
	uint32_t gpus;

	while (next_gres(&at, entry, sizeof(entry))) {
		if (p4d_gres_parse(entry, type, sizeof(type), &gpus, NULL) <= 0 || !gpus)
			continue;
		p4d_partition_facts *row = row_of(cluster, partition, type);
		if (!row)
			return -1;
		if (gpus < row->gpus_per_node)
			row->gpus_per_node = gpus;
		uint64_t mem_bytes = (uint64_t)node->real_memory << 20;
		if (mem_bytes < row->mem_bytes)
			row->mem_bytes = mem_bytes;
		add_features(row, node->features);
	}
	return 0;
}

static int add_partition(p4d_cluster *cluster, const partition_info_t *partition,
			 const node_info_msg_t *nodes)
{
	if (!partition->name)
		return 0;
	/* node_inx: pairs of first and last index, ended by -1 */
	for (const int32_t *range = partition->node_inx; range && range[0] >= 0; range += 2) {
		for (int32_t i = range[0]; i <= range[1] && (uint32_t)i < nodes->record_count; i++)
			if (add_node(cluster, partition, &nodes->node_array[i]) < 0)
				return -1;
	}
	return 0;
}

int p4d_cluster_load(p4d_cluster *cluster, p4d_error *err)
{
	partition_info_msg_t *partitions = NULL;
	node_info_msg_t *nodes = NULL;
	p4d_cluster fresh = {0};
	int rc = 0;

	if (slurm_load_partitions(0, &partitions, SHOW_ALL) || slurm_load_node(0, &nodes, SHOW_ALL))
		rc = p4d_fail(err, P4D_E_IO, "cannot get the GPUs of the partitions from slurmctld: %s",
			      slurm_strerror(errno));
	for (uint32_t i = 0; !rc && i < partitions->record_count; i++)
		if (add_partition(&fresh, &partitions->partition_array[i], nodes) < 0)
			rc = p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the partitions of the cluster");
	if (partitions)
		slurm_free_partition_info_msg(partitions);
	if (nodes)
		slurm_free_node_info_msg(nodes);
	if (rc < 0)
		p4d_cluster_free(&fresh);
	else
		*cluster = fresh;
	return rc;
}

void p4d_cluster_free(p4d_cluster *cluster)
{
	free(cluster->row);
	cluster->row = NULL;
	cluster->count = 0;
}
