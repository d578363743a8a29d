/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "job/job.h"
#include "reader/reader.h"
#include "rehearsals/rehearsals.h"

/* read_rehearsed.c: adds the rehearsals of one command of a script. */
void p4d_job__find_rehearsals(p4d_rehearsals *found, const p4d_job *job, p4d_shell *shell,
			      const p4d_started *started);

/* read_job.c: the number of nodes; 0: it is not fixed. */
uint32_t p4d_job__nodes(const p4d_job *job);

/* Shared by gres.c, job_gpu.c, job_place.c and job.c. */

/*
 * Like p4d_gres_parse. With `bare`, also parses the text of --gpus and similar options: "4", "h100:4",
 * "h100:2,a100:2".
 */
int p4d_gres__parse_gpus(const char *text, bool bare, char *type, size_t size, uint32_t *count,
			 p4d_error *err);

/* Skips the blanks and the plus sign that Slurm accepts before a number. */
const char *p4d_gres__sign(const char *text);

/* The live cluster's data, queried at most once and only if needed. */
typedef struct p4d_job_lazy_cluster {
	p4d_cluster_source source;
	void *context;
	bool asked;
	const p4d_cluster *cluster;
} p4d_job_lazy_cluster;
const p4d_cluster *p4d_job__lazy(p4d_job_lazy_cluster *lazy);

/*
 * Iterates over a comma-separated list: *at points to the rest, and name gets the next entry. False at the
 * end.
 */
bool p4d_job__next_name(const char **at, char *name, size_t size);

/* p4d refuses a job with more (partition, GPU type) pairs than this, instead of ignoring some. */
enum { P4D_JOB_CANDIDATES = 128 };

/* A GPU the job may get. */
typedef struct p4d_job_candidate {
	const p4d_gpu *gpu;             /* NULL: a type that is not in gpus.json */
	const char *type;               /* GRES type in the cluster; "" from p4d.conf */
	const char *features;           /* features of the cluster's nodes; "" from p4d.conf */
	const char *partition;          /* name of the partition up to a comma; borrowed from the job, the
					 * site or the cluster */
	const p4d_partition_facts *row; /* NULL: from p4d.conf */
	uint32_t gpus_per_node;         /* from p4d.conf; 0: see p4d_job__facts */
	unsigned ambiguous;
	bool match, group, kept; /* used while candidates are restricted */
} p4d_job_candidate;

typedef struct p4d_job_candidates {
	size_t count;
	p4d_job_candidate at[P4D_JOB_CANDIDATES];
	bool believed; /* no candidate has the type of the GRES request, so p4d looks up that type in
			  gpus.json */
} p4d_job_candidates;

/*
 * The GPUs of the job's partitions that its GRES type ("": untyped) and constraint allow. Finding none is no
 * error. Errors: GPU_OF_PARTITION (too many).
 */
int p4d_job__anywhere(const p4d_site *site, const p4d_job *job, const char *type, p4d_job_lazy_cluster *lazy,
		      p4d_job_candidates *all, p4d_error *err);

/* Removes candidates that the job's lists of nodes exclude. Call it last: these lists can exclude a GPU
 * type but not add one. budget: see hostlist.h. */
void p4d_job__restrict_to_nodes(const p4d_site *site, const p4d_job *job, p4d_job_lazy_cluster *lazy,
				p4d_job_candidates *all, uint32_t *budget);

/* p4d_job__anywhere, then p4d_job__restrict_to_nodes. */
int p4d_job__candidates(const p4d_site *site, const p4d_job *job, const char *type,
			p4d_job_lazy_cluster *lazy, p4d_job_candidates *all);

/* The live cluster's row for a candidate; NULL: unknown. */
const p4d_partition_facts *p4d_job__facts(const p4d_site *site, const p4d_job_candidate *one,
					  p4d_job_lazy_cluster *lazy);

/*
 * The GPU with the least memory that the job may get. Fills gpu, gpu_types, ambiguous and partition of out.
 */
int p4d_job__gpu(const p4d_site *site, const p4d_job *job, const char *type, const p4d_job_candidates *all,
		 p4d_job_lazy_cluster *lazy, p4d_geometry *out, p4d_error *err);

/* The job's GPU request, in Slurm's four forms. 0: not used. */
typedef struct p4d_job_wish {
	uint32_t per_node, total, per_task, per_socket;
	char type[48];
} p4d_job_wish;

/* The geometry of a job while p4d works it out. */
typedef struct p4d_job_placement {
	const p4d_site *site;
	const p4d_job *job;
	p4d_job_wish wants;
	uint32_t listed; /* hosts of -w: the job gets all of these */
	uint32_t nodes;  /* from -N; 0: open */
	uint32_t least;  /* nodes that the job always gets; Slurm gives it more only if it needs more */
	p4d_job_lazy_cluster lazy;
	p4d_job_candidates all;
	p4d_geometry *out;
} p4d_job_placement;

/* Fills nodes, GPUs per node and GPU type. If the job has more nodes than -w lists, the additional ones
 * may be any nodes. */
int p4d_job__place(p4d_job_placement *p, p4d_error *err);

/* True if the job gets whole nodes from this candidate. */
bool p4d_job__gives_whole_nodes(p4d_job_placement *p, const p4d_job_candidate *one);
