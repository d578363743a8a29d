/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster_facts.h"

#include <errno.h>

#include "slurm_compat.h"

/* The memory of Slurm's records is in MiB. */
static int add_node(p4d_cluster *cluster, const partition_info_t *partition, const node_info_t *node)
{
	return p4d_cluster_add(cluster, partition->name, partition->flags & PART_FLAG_DEFAULT, node->gres,
			       node->features, (uint64_t)node->real_memory << 20);
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
