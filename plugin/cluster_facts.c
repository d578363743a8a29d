/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster_facts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "slurm_compat.h"

/* The value of one entry in a list of JobDefaults; 0: the list does not have it. */
static uint64_t job_default(void *list, uint16_t type)
{
	void *at = list ? slurm_list_iterator_create(list) : NULL;
	uint64_t value = 0;

	for (const job_defaults_t *one; at && (one = slurm_list_next(at));)
		if (one->type == type)
			value = one->value;
	if (at)
		slurm_list_iterator_destroy(at);
	return value;
}

static p4d_gpu_defaults gpu_defaults(void *list)
{
	return (p4d_gpu_defaults){.mebibytes = job_default(list, JOB_DEF_MEM_PER_GPU),
				  .cpus = job_default(list, JOB_DEF_CPU_PER_GPU)};
}

/*
 * Finds the partition's defaults for jobs: memory, if Slurm allocates it, and CPUs per GPU. slurm.conf's list
 * is read only in a process that does not free it.
 */
static p4d_default_memory default_memory(const partition_info_t *partition, const p4d_cluster_conf *from)
{
	const slurm_conf_t *conf = from->conf;
	const uint64_t own = partition->def_mem_per_cpu, others = conf ? conf->def_mem_per_cpu : 0;
	const bool has_own = own && own != NO_VAL64, stays = conf && from->stays;
	const uint64_t mebibytes = has_own ? own : others;

	return p4d_cluster_default_memory(&(p4d_memory_defaults){
	    .mebibytes = mebibytes & ~MEM_PER_CPU,
	    .per_cpu = mebibytes & MEM_PER_CPU,
	    .of_partition = has_own,
	    .partition = gpu_defaults(partition->job_defaults_list),
	    .everywhere = stays ? gpu_defaults(conf->job_defaults_list) : (p4d_gpu_defaults){0},
	    .everywhere_unknown = !conf || (!stays && conf->job_defaults_list),
	    .no_memory = !conf || !(conf->select_type_param & P4D_SELECT_MEMORY),
	});
}

/* Adds a node. Slurm's records have memory in MiB; max_share 0 means OverSubscribe=EXCLUSIVE. */
static int add_node(p4d_cluster *cluster, const partition_info_t *partition, const node_info_t *node,
		    const p4d_cluster_conf *conf)
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

/* Replaces "h1,h2,h3" by "h[1-3]", which is shorter, and faster to search. */
static void fold_names(p4d_cluster *cluster)
{
	for (size_t i = 0; i < cluster->count; i++) {
		char **names = &cluster->row[i].nodes;
		__auto_type list = slurm_hostlist_create(*names); /* its type changed in 23.11 */
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
			 const node_info_msg_t *nodes, const p4d_cluster_conf *conf)
{
	if (!partition->name)
		return 0;
	/* node_inx has pairs of first and last index, and ends with -1 */
	for (const int32_t *range = partition->node_inx; range && range[0] >= 0; range += 2) {
		for (int32_t i = range[0]; i <= range[1] && (uint32_t)i < nodes->record_count; i++)
			if (nodes->node_array[i].name &&
			    add_node(cluster, partition, &nodes->node_array[i], conf) < 0)
				return -1;
	}
	return 0;
}

int p4d_cluster_load(p4d_cluster *cluster, const p4d_cluster_conf *conf)
{
	partition_info_msg_t *partitions = NULL;
	node_info_msg_t *nodes = NULL;
	p4d_cluster fresh = {0};
	int rc = 0, why = 0;

	if (slurm_load_partitions(0, &partitions, SHOW_ALL) || slurm_load_node(0, &nodes, SHOW_ALL)) {
		why = errno;
		rc = -1;
	}
	for (uint32_t i = 0; !rc && i < partitions->record_count; i++)
		if (add_partition(&fresh, &partitions->partition_array[i], nodes, conf) < 0)
			rc = -1;
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
