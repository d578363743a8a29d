/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "job/job.h"

/* A node, or several identical ones, of a partition. Borrowed texts, NULL where there is nothing to say. */
typedef struct p4d_cluster_nodes {
	const char *partition;
	bool is_default, whole_nodes;
	const char *names;    /* hostlist */
	const char *gres;     /* "gpu:h100:8(S:0,1),lustre:1" */
	const char *features; /* "a,b" */
	uint32_t cpus, cores;
	uint32_t max_nodes; /* of a job; 0: no limit */
	uint64_t mem_bytes;
	p4d_default_memory memory;
} p4d_cluster_nodes;

/* Adds nodes to the rows of their partition, one row per GPU type and one for nodes without. -1: no memory.
 */
int p4d_cluster_add(p4d_cluster *cluster, const p4d_cluster_nodes *nodes);

/* Default memory of jobs as Slurm has it, in mebibytes: DefMemPerNode, or with per_cpu DefMemPerCPU, and
 * DefMemPerGPU; 0 or absurd: none. cpus_per_gpu: DefCpuPerGPU; 0: none. */
p4d_default_memory p4d_cluster_default_memory(uint64_t mebibytes, bool per_cpu, uint64_t per_gpu,
					      uint64_t cpus_per_gpu);

/* Nodes of a job in such a row at most; 0: not known. */
uint32_t p4d_cluster_most_nodes(const p4d_partition_facts *row);

void p4d_cluster_free(p4d_cluster *cluster); /* accepts a zeroed one */
