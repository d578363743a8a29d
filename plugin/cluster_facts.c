/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster_facts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "slurm_compat.h"

/* One of the partition's JobDefaults; 0: it has none. */
static uint64_t job_default(const partition_info_t *partition, uint16_t type)
{
	void *at =
	    partition->job_defaults_list ? slurm_list_iterator_create(partition->job_defaults_list) : NULL;
	uint64_t value = 0;

	for (const job_defaults_t *one; at && (one = slurm_list_next(at));)
		if (one->type == type)
			value = one->value;
	if (at)
		slurm_list_iterator_destroy(at);
	return value;
}

/*
 * Of the partition, or else of slurm.conf; jobs are held to it if Slurm allocates memory. JobDefaults of
 * slurm.conf may give them more. Their list is not read, as slurmctld may free it: with it nothing is known.
 */
static p4d_default_memory default_memory(const partition_info_t *partition, const slurm_conf_t *conf)
{
	const uint64_t own = partition->def_mem_per_cpu, others = conf ? conf->def_mem_per_cpu : 0,
		       mebibytes = own && own != NO_VAL64 ? own : others,
		       per_gpu = job_default(partition, JOB_DEF_MEM_PER_GPU);

	if (!conf || !(conf->select_type_param & P4D_SELECT_MEMORY) || (conf->job_defaults_list && !per_gpu))
		return (p4d_default_memory){0};
	return p4d_cluster_default_memory(mebibytes & ~MEM_PER_CPU, mebibytes & MEM_PER_CPU, per_gpu,
					  job_default(partition, JOB_DEF_CPU_PER_GPU));
}

/* The memory of Slurm's records is in MiB; max_share 0 is OverSubscribe=EXCLUSIVE. */
static int add_node(p4d_cluster *cluster, const partition_info_t *partition, const node_info_t *node,
		    const slurm_conf_t *conf)
{
	const p4d_cluster_nodes one = {
	    .partition = partition->name,
	    .is_default = partition->flags & PART_FLAG_DEFAULT,
	    .whole_nodes = partition->max_share == 0,
	    .names = node->name,
	    .gres = node->gres,
	    .features = node->features,
	    .cpus = node->cpus,
	    .cores = (uint32_t)node->sockets * node->cores,
	    .mem_bytes = (uint64_t)node->real_memory << 20,
	    .max_nodes = partition->max_nodes == INFINITE ? 0 : partition->max_nodes,
	    .memory = default_memory(partition, conf),
	};

	return p4d_cluster_add(cluster, &one);
}

/* "h1,h2,h3" becomes "h[1-3]": short to keep, and quick to look something up in. */
static void fold_names(p4d_cluster *cluster)
{
	for (size_t i = 0; i < cluster->count; i++) {
		char **names = &cluster->row[i].nodes;
		__auto_type list = slurm_hostlist_create(*names); /* its type is another since 23.11 */
		char *folded = list ? slurm_hostlist_ranged_string_xmalloc(list) : NULL;
		char *copy = folded ? strdup(folded) : NULL;
		if (copy) {
			free(*names);
			*names = copy;
		}
		slurm_xfree((void **)&folded);
		if (list)
			slurm_hostlist_destroy(list);
	}
}

static int add_partition(p4d_cluster *cluster, const partition_info_t *partition,
			 const node_info_msg_t *nodes, const slurm_conf_t *conf)
{
	if (!partition->name)
		return 0;
	/* node_inx: pairs of first and last index, ended by -1 */
	for (const int32_t *range = partition->node_inx; range && range[0] >= 0; range += 2) {
		for (int32_t i = range[0]; i <= range[1] && (uint32_t)i < nodes->record_count; i++)
			if (nodes->node_array[i].name &&
			    add_node(cluster, partition, &nodes->node_array[i], conf) < 0)
				return -1;
	}
	return 0;
}

int p4d_cluster_load(p4d_cluster *cluster, const slurm_conf_t *conf, p4d_error *err)
{
	partition_info_msg_t *partitions = NULL;
	node_info_msg_t *nodes = NULL;
	p4d_cluster fresh = {0};
	int rc = 0, why = 0;

	if (slurm_load_partitions(0, &partitions, SHOW_ALL) || slurm_load_node(0, &nodes, SHOW_ALL)) {
		why = errno;
		rc = p4d_fail(err, P4D_E_IO, "cannot get the GPUs of the partitions from slurmctld: %s",
			      slurm_strerror(why));
	}
	for (uint32_t i = 0; !rc && i < partitions->record_count; i++)
		if (add_partition(&fresh, &partitions->partition_array[i], nodes, conf) < 0)
			rc = p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the partitions of the cluster");
	if (partitions)
		slurm_free_partition_info_msg(partitions);
	if (nodes)
		slurm_free_node_info_msg(nodes);
	if (rc < 0) {
		p4d_cluster_free(&fresh);
	} else {
		fold_names(&fresh);
		*cluster = fresh;
	}
	errno = why;
	return rc;
}
