/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "job/job.h"

/* A node of a partition, or several identical nodes. Texts are borrowed; NULL: none. */
typedef struct p4d_cluster_nodes {
	const char *partition;
	bool is_default, whole_nodes;
	const char *names;    /* hostlist */
	const char *gres;     /* "gpu:h100:8(S:0,1),lustre:1" */
	const char *features; /* "a,b" */
	uint32_t cpus, cores;
	uint32_t max_nodes; /* limit of a job; 0: none */
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

/*
 * Settings of a partition and of slurm.conf that decide how much memory a job without a memory request gets.
 */
typedef struct p4d_memory_defaults {
	uint64_t mebibytes; /* DefMemPerNode, or with per_cpu DefMemPerCPU; 0 or absurd: not set */
	bool per_cpu;
	bool of_partition; /* the setting is one of the partition itself */
	p4d_gpu_defaults partition, everywhere;
	bool everywhere_unknown; /* slurm.conf has defaults, but p4d does not know them */
	bool no_memory;          /* Slurm does not allocate memory, or p4d does not know whether it does;
				  * only CPUs count */
} p4d_memory_defaults;
/* The default memory that Slurm derives from these settings. In some releases, DefMemPerGPU of slurm.conf
 * has priority over the partition's DefMemPerNode or DefMemPerCPU, in others not: the result is then
 * unknown. */
p4d_default_memory p4d_cluster_default_memory(const p4d_memory_defaults *defaults);

/* The maximum number of nodes of a job in this row; 0: unknown. */
uint32_t p4d_cluster_most_nodes(const p4d_partition_facts *row);

void p4d_cluster_free(p4d_cluster *cluster); /* accepts a zeroed cluster */
