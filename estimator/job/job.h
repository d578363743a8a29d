/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "gpu/gpu.h"
#include "site/site.h"

/*
 * A job in sbatch's syntax, not yet parsed. The SPANK plugin, job_submit and `p4d check` fill it from their
 * own sources. Strings are borrowed and NULL if unset; numbers are 0 if unset.
 */
typedef struct p4d_job {
	const char *partition; /* one name or a comma-separated list */
	const char *qos, *account, *user, *reservation;
	const char *constraint; /* -C */
	const char
	    *gres; /* --gres, --gpus-per-node, tres_per_node: "gpu:h100:4", "gres:gpu:4", "gres/gpu:4" */
	const char *gpus;          /* --gpus, tres_per_job */
	const char *gpus_per_task; /* tres_per_task */
	const char *gpus_per_socket;
	const char *gpu_type; /* replaces the GPU type in the members above (p4d check --gpu); NULL: no */
	const char *nodelist, *exclude; /* -w, -x */
	const char *clusters;           /* -M: other clusters, about which p4d knows nothing here */
	const char *array;              /* -a: "0-5,9%2" */
	/* All texts except script precede this member, because slurmctld's plugin compares that range. */
	const p4d_associations *associations; /* NULL: unknown */
	/* The limits that Slurm enforces, and the user of the job. p4d calls this only if a fix needs more
	 * nodes. NULL: no limits. */
	const p4d_associations *(*limits)(void *context, const char **user);
	void *limits_context;
	uint32_t min_nodes,
	    max_nodes; /* both are N with `-N N`; if only min_nodes is set, it is a lower bound */
	uint32_t tasks, tasks_per_node, tasks_per_gpu;
	uint32_t cpus_per_task, cpus_per_gpu;
	uint32_t min_cpus; /* minimum CPUs of a node; 0: not given */
	uint32_t sockets_per_node;
	uint32_t threads_per_core; /* threads per core that are used as CPUs, at most */
	uint32_t tasks_per_core;   /* tasks per core, at most */
	bool overcommit;           /* several tasks may share a CPU */
	bool per_node_option;      /* gres comes from --gpus-per-node: a fix uses that option */
	bool both_options;         /* gres comes from --gpus-per-node and --gres: a fix replaces both */
	uint64_t mem_per_node_bytes, mem_per_cpu_bytes, mem_per_gpu_bytes;
	bool mem_is_all; /* --mem=0: all memory of the node */
	bool exclusive;
	bool expandable;        /* its environment sets PyTorch's allocator to expandable segments */
	const p4d_gpu *assumed; /* the GPU if neither the site nor the cluster names one; NULL: having
				 * none is an error */
	bool asks_for_memory;   /* ask the cluster what memory the job gets, even if the job requests none */
	bool cpu;               /* trains on the host: each task is a rank, and no GPU is needed */
	const char *script;     /* text of the batch script; NULL for srun and salloc */
	size_t script_length;
	const struct p4d_reading *reading; /* the reading of the script; NULL: nobody read it */
	/* rehearsals of the commands that the script starts; NULL: p4d did not look for any */
	const struct p4d_rehearsals *rehearsals;
	const char *export;      /* --export; NULL: not given */
	bool loads_environment;  /* --export-file, --get-user-env: variables that are not in sbatch's
				  * environment */
	const char *rehearsable; /* the script's path, if it has one and p4d rehearse is installed; else NULL
				  */
	const char *const *script_arguments; /* arguments of the script, NULL-terminated; NULL: none */
	struct p4d_job_tasks *array_tasks; /* readings of the array's tasks; NULL: all tasks train the same */
	/* Reads the script again as if the user had typed these options. The result is valid until the
	 * next call. NULL: the caller cannot read scripts again. */
	const struct p4d_reading *(*read_as)(void *context, const p4d_request *typed);
	void *read_context;
} p4d_job;

enum { P4D_PARTITION_NAME = 64 };

/* The host memory of a job without --mem, if Slurm enforces memory: per GPU, otherwise per node, otherwise
 * per allocated CPU. Bytes; 0: all memory of the node, or unknown. */
typedef struct p4d_default_memory {
	uint64_t per_gpu, per_node, per_cpu;
	uint64_t cpus_per_gpu; /* for a job without --cpus-per-gpu and --cpus-per-task; 0: no default */
	bool cpus_unknown;     /* p4d does not know cpus_per_gpu */
} p4d_default_memory;

/* One pair of partition and GPU type of the live cluster. Each number is the minimum over its nodes. */
typedef struct p4d_partition_facts {
	char partition[P4D_PARTITION_NAME];
	char gpu_type[48]; /* GRES type, "" when untyped */
	char features[128];
	uint32_t gpus_per_node; /* 0: nodes without GPUs */
	uint64_t mem_bytes;
	bool is_default;
	bool whole_nodes;   /* OverSubscribe=EXCLUSIVE: a job gets all of its nodes */
	uint32_t cpus;      /* 0 unknown */
	uint32_t cores;     /* 0 unknown */
	uint32_t max_nodes; /* limit of a job; 0: none */
	char *nodes;        /* hostlist; NULL unknown */
	p4d_default_memory memory;
} p4d_partition_facts;

typedef struct p4d_cluster {
	size_t count;
	p4d_partition_facts *row;
} p4d_cluster;

/* The job, parsed. */
typedef struct p4d_geometry {
	char partition[64];            /* the partition that decides; "": unknown */
	uint32_t nodes, gpus_per_node; /* with job.cpu, gpus_per_node is the number of tasks per node */
	uint32_t tasks_per_node;       /* 0: the job does not say */
	uint64_t host_bytes;           /* host memory per node granted to the job; 0 unknown */
	bool host_by_default;          /* the job requests no memory, and host_bytes is the default */
	const p4d_gpu *gpu;            /* the possible GPU with the least memory */
	unsigned gpu_types;            /* number of possible GPU types */
	unsigned ambiguous;            /* number of GPUs that the name matches; 1: it is unambiguous */
} p4d_geometry;

/*
 * Called for the live cluster's data, only if p4d.conf does not decide. NULL: there is none. The callee owns
 * the result, which is valid until the next call.
 */
typedef const p4d_cluster *(*p4d_cluster_source)(void *context);

/*
 * Parses the job: GPUs per node, nodes, GPU type, host memory. Errors: NO_GPU, GEOMETRY, GPU_OF_PARTITION,
 * UNKNOWN_GPU, VALUE (malformed GRES text), each with flags that would work. After an error, out->gpu may
 * still be set, if the job requests GPUs but not how many.
 */
int p4d_job_geometry(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context,
		     p4d_geometry *out, p4d_error *err);

/* The variables and the value that set PyTorch's allocator to expandable segments. */
#define P4D_ALLOCATOR_VARIABLES "PYTORCH_CUDA_ALLOC_CONF=", "PYTORCH_ALLOC_CONF="
#define P4D_EXPANDABLE_SEGMENTS "expandable_segments:True"
/* Whether this environment of NAME=VALUE strings sets them. */
bool p4d_job_is_expandable(char *const environment[]);

/* True if the job requests GPUs in any way (for require_plan). Also true for malformed text, because Slurm
 * may understand it. */
bool p4d_job_wants_gpus(const p4d_job *job);

/* True if the job gets GPUs: it requests some, or it gets whole nodes with GPUs. */
bool p4d_job_gets_gpus(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context);

/* The maximum that Slurm gives a job. 0: unknown, or no limit. */
typedef struct p4d_job_bounds {
	uint32_t nodes, gpus;
} p4d_job_bounds;

/* The bounds of a job: the number of nodes with its GPUs in the largest of its partitions, and the limits
 * of Slurm's accounting in that partition. */
p4d_job_bounds p4d_job_most(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
			    void *context);

/*
 * The options that request this many nodes and GPUs, in the job's own style: --gres=gpu:h100:8 stays --gres,
 * together with its other GRES. The options work before the script's name.
 */
const char *p4d_job_flags(const p4d_job *job, uint64_t nodes, uint64_t gpus_per_node, char *buf, size_t size);

/* Like p4d_job_flags, with GPUs of a GRES type; NULL: of the type that the job requests. */
const char *p4d_job_flags_with(const p4d_job *job, const char *gpu_type, uint64_t nodes,
			       uint64_t gpus_per_node, char *buf, size_t size);

/*
 * The smallest GPU that has more memory than `than` and that nodes of the job's partitions have, at least
 * per_node on each. NULL: none. type: gets the GRES type that requests this GPU.
 */
const p4d_gpu *p4d_job_larger_gpu(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
				  void *context, const p4d_gpu *than, uint32_t per_node, char type[48]);

/* The options that run one task on each of these GPUs. */
const char *p4d_job_task_flags(const p4d_job *job, uint64_t nodes, uint64_t gpus_per_node, char *buf,
			       size_t size);

/*
 * Parses GRES text for its GPU entry: "gpu", "gpu:4", "gpu:h100:4", "gres:gpu:h100:4",
 * "gres/gpu:a100:2(S:0)", among other entries ("lustre:1,gpu:2"). Numbers have Slurm's forms ("+4", " 4",
 * "1k"). Returns 1 and fills type ("" if untyped) and count; 0 if there is no GPU entry; -1 with P4D_E_VALUE
 * if it is malformed. If a type has several entries, the last one counts. If there are several types, count
 * is their sum and type is "".
 */
int p4d_gres_parse(const char *text, char *type, size_t size, uint32_t *count, p4d_error *err);

/*
 * Parses Slurm's memory sizes ("16G", "512000", "2TB"). Plain numbers are MiB; other sizes are rounded up to
 * MiB.
 */
int p4d_gres_parse_mem(const char *text, uint64_t *bytes, p4d_error *err);

/* Parses -N: "4", "2-4". */
int p4d_gres__parse_nodes(const char *text, uint32_t *min, uint32_t *max, p4d_error *err);
