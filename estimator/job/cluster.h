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

/* DefMemPerGPU (in mebibytes) and DefCpuPerGPU; 0 or absurd: not set. */
typedef struct p4d_gpu_defaults {
	uint64_t mebibytes, cpus;
} p4d_gpu_defaults;

/* What a partition or slurm.conf says of the memory of jobs that ask for none. */
typedef struct p4d_memory_defaults {
	uint64_t mebibytes; /* DefMemPerNode, or with per_cpu DefMemPerCPU; 0 or absurd: not set */
	bool per_cpu;
	bool of_partition; /* the partition says so itself */
	p4d_gpu_defaults partition, everywhere;
	bool everywhere_unknown; /* slurm.conf has some, which are not known */
	bool no_memory;          /* Slurm allocates none, or that is not known: CPUs are all that counts */
} p4d_memory_defaults;
/* What Slurm makes of these. Releases differ in whether DefMemPerGPU of slurm.conf goes before the
 * partition's DefMemPerNode or DefMemPerCPU: then nothing is known. */
p4d_default_memory p4d_cluster_default_memory(const p4d_memory_defaults *defaults);

/* Nodes of a job in such a row at most; 0: not known. */
uint32_t p4d_cluster_most_nodes(const p4d_partition_facts *row);

void p4d_cluster_free(p4d_cluster *cluster); /* accepts a zeroed one */
