/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/wide.h"
#include "job/hostlist.h"
#include "job/job_internal.h"
#include "job/job_limits.h"

const p4d_cluster *p4d_job__lazy(p4d_job_lazy_cluster *lazy)
{
	if (!lazy->asked && lazy->source)
		lazy->cluster = lazy->source(lazy->context);
	lazy->asked = true;
	return lazy->cluster;
}

bool p4d_job__next_name(const char **at, char *name, size_t size)
{
	for (;;) {
		*at += strspn(*at, ", ");
		size_t length = strcspn(*at, ", ");
		if (!length)
			return false;
		const char *start = *at;
		*at += length;
		if (length >= size)
			continue; /* a name that is longer than all names p4d knows */
		memcpy(name, start, length);
		name[length] = '\0';
		return true;
	}
}

static int read_one(const char *text, bool bare, uint32_t *count, p4d_job_wish *out, p4d_error *err)
{
	char type[sizeof(out->type)];

	if (!text || !*text)
		return 0;
	int rc = p4d_gres__parse_gpus(text, bare, type, sizeof(type), count, err);
	if (rc > 0 && !out->type[0])
		memcpy(out->type, type, sizeof(type));
	return rc < 0 ? -1 : 0;
}

static int read_p4d_job_wish(const p4d_job *job, p4d_job_wish *out, p4d_error *err)
{
	*out = (p4d_job_wish){0};
	if (read_one(job->gres, false, &out->per_node, out, err) < 0 ||
	    read_one(job->gpus, true, &out->total, out, err) < 0 ||
	    read_one(job->gpus_per_task, true, &out->per_task, out, err) < 0 ||
	    read_one(job->gpus_per_socket, true, &out->per_socket, out, err) < 0)
		return -1;
	if (job->gpu_type)
		snprintf(out->type, sizeof(out->type), "%s", job->gpu_type);
	return 0;
}

bool p4d_job_is_expandable(char *const environment[])
{
	static const char *const names[] = {P4D_ALLOCATOR_VARIABLES};

	for (; *environment; environment++)
		for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
			if (!strncmp(*environment, names[i], strlen(names[i])) &&
			    strstr(*environment, P4D_EXPANDABLE_SEGMENTS))
				return true;
	return false;
}

bool p4d_job_wants_gpus(const p4d_job *job)
{
	p4d_job_wish wants;

	return read_p4d_job_wish(job, &wants, NULL) < 0 || wants.per_node || wants.total || wants.per_task ||
	       wants.per_socket;
}

bool p4d_job_gets_gpus(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context)
{
	p4d_job_placement p = {.site = site, .job = job, .lazy = {.source = source, .context = context}};

	if (p4d_job_check_limits(job, NULL) < 0 || p4d_job_wants_gpus(job) ||
	    p4d_job__candidates(site, job, "", &p.lazy, &p.all) < 0)
		return true;
	/*
	 * the job gets whole nodes if one of its partitions gives whole nodes, because Slurm may choose that
	 * partition
	 */
	for (size_t i = 0; i < p.all.count; i++)
		if (p4d_job__gives_whole_nodes(&p, &p.all.at[i]))
			return true;
	return false;
}

/*
 * Fills the number of nodes, or a lower bound of it: from a list of nodes, or from tasks that do not fit on
 * one node.
 */
static int read_nodes(p4d_job_placement *p, p4d_error *err)
{
	const p4d_job *job = p->job;

	p->nodes = job->max_nodes;
	p->listed = job->nodelist ? p4d_hostlist__count(job->nodelist) : 0;
	p->least = p->listed > job->min_nodes ? p->listed : job->min_nodes ? job->min_nodes : 1;
	/* since 24.11, slurmctld raises the minimum to the length of the node list, not sbatch */
	if (job->min_nodes && job->max_nodes > p->least) {
		p4d_fail(err, P4D_E_GEOMETRY,
			 "-N %u-%u leaves the number of nodes open, and a plan needs a fixed number",
			 p->least, job->max_nodes);
		return p4d_fix(err, "--nodes=%u", p->least);
	}
	/*
	 * a job with fewer tasks than --ntasks-per-node may have run on one node. With --gpus-per-task, Slurm
	 * itself sets how many tasks a node may have
	 */
	if (p->nodes || !job->tasks || !job->tasks_per_node || job->tasks < job->tasks_per_node)
		return 0;
	if (job->tasks % job->tasks_per_node) {
		p4d_fail(err, P4D_E_GEOMETRY, "%u tasks do not fill nodes of %u tasks evenly", job->tasks,
			 job->tasks_per_node);
		return p4d_fix(err, "--nodes=%u --ntasks-per-node=%u",
			       (job->tasks - 1) / job->tasks_per_node + 1, job->tasks_per_node);
	}
	if (job->tasks / job->tasks_per_node > p->least)
		p->least = job->tasks / job->tasks_per_node;
	return 0;
}

static int too_much(p4d_error *err)
{
	p4d_fail(err, P4D_E_OVERFLOW, "the memory that the job asks for per node does not fit 64 bits");
	return p4d_fix(err, "--mem=0");
}

/* Memory of the smallest node in the first partition, for ranks on the host; 0: unknown. */
static uint64_t partition_memory(p4d_job_placement *p, const char *name)
{
	const p4d_cluster *cluster = p4d_job__lazy(&p->lazy);
	uint64_t least = 0;

	for (size_t i = 0; cluster && i < cluster->count; i++) {
		const p4d_partition_facts *row = &cluster->row[i];
		if ((name ? !strcmp(row->partition, name) : row->is_default) && row->mem_bytes &&
		    (!least || row->mem_bytes < least))
			least = row->mem_bytes;
	}
	return least;
}

/* Memory of the smallest node that the job may get; 0: unknown. No job gets more than a node has. */
static uint64_t node_memory(p4d_job_placement *p)
{
	const p4d_job *job = p->job;
	const char *name = p->out->partition[0] ? p->out->partition : job->partition;
	const p4d_site_partition *section = p4d_site_partition_of(p->site, name);
	uint64_t least = 0;

	if (section && section->mem_per_node_bytes)
		return section->mem_per_node_bytes;
	if (job->cpu)
		return partition_memory(p, name);
	/*
	 * a job with --mem=0 gets all memory of a node. For a job without --mem these facts do not help,
	 * because they lack the default
	 */
	for (size_t i = 0; job->mem_is_all && i < p->all.count; i++) {
		const p4d_partition_facts *row = p4d_job__facts(p->site, &p->all.at[i], &p->lazy);
		if (row && row->mem_bytes && (!least || row->mem_bytes < least))
			least = row->mem_bytes;
	}
	return least;
}

/*
 * CPUs of a node that the job certainly gets; jobs do not share cores. 0: unknown. --mincpus counts if the
 * job does not give its tasks. Otherwise --mincpus may only select nodes, and the job need not get these
 * CPUs.
 */
static uint64_t cpus_of_node(const p4d_job_placement *p, const p4d_partition_facts *row, bool whole)
{
	const p4d_job *job = p->job;
	const bool says_tasks = job->tasks || p->out->tasks_per_node,
		   uneven = job->tasks && !p->out->tasks_per_node,
		   by_default = !job->cpus_per_gpu && !job->cpus_per_task;
	const uint64_t tasks = p->out->tasks_per_node ? p->out->tasks_per_node : 1,
		       threads = row->cores && row->cpus > row->cores ? row->cpus / row->cores : 1,
		       of_gpu = by_default ? row->memory.cpus_per_gpu : job->cpus_per_gpu,
		       of_gpus = of_gpu * p->out->gpus_per_node,
		       of_tasks = tasks * p4d_round_up(job->cpus_per_task ? job->cpus_per_task : 1, threads),
		       most = of_gpus > of_tasks ? of_gpus : of_tasks;

	if (whole)
		return row->cpus;
	if (uneven || (by_default && row->memory.cpus_unknown))
		return 0;
	if (job->min_cpus <= most)
		return most;
	return says_tasks ? 0 : p4d_round_up(job->min_cpus, threads);
}

/*
 * Memory on a node of one partition with this much memory per CPU; per_cpu 0: the partition's default.
 * Returns 0 if the job gets all memory, or if the memory is unknown.
 */
static uint64_t memory_of(p4d_job_placement *p, const p4d_job_candidate *one, const p4d_partition_facts *row,
			  uint64_t per_cpu)
{
	const p4d_default_memory stated = {.per_cpu = per_cpu}, m = per_cpu ? stated : row->memory;
	const uint64_t each = m.per_gpu ? m.per_gpu : m.per_node ? m.per_node : m.per_cpu;
	const uint64_t times = m.per_gpu    ? p->out->gpus_per_node
			       : m.per_node ? 1
					    : cpus_of_node(p, row, p4d_job__gives_whole_nodes(p, one));
	uint64_t bytes;

	return __builtin_mul_overflow(each, times, &bytes) ? 0 : bytes;
}

/*
 * Memory on a node for a job without a memory request, or with a request per CPU: the minimum over its
 * partitions; 0: all memory, or unknown. If nothing else needs the cluster's data, only slurmctld looks here,
 * because sbatch would need an RPC.
 */
static uint64_t least_memory(p4d_job_placement *p, uint64_t per_cpu)
{
	uint64_t least = 0;

	if (p->job->asks_for_memory)
		p4d_job__lazy(&p->lazy);
	for (size_t i = 0; p->lazy.asked && i < p->all.count; i++) {
		const p4d_partition_facts *row = p4d_job__facts(p->site, &p->all.at[i], &p->lazy);
		const uint64_t bytes = row ? memory_of(p, &p->all.at[i], row, per_cpu) : 0;
		if (!bytes)
			return 0;
		least = !least || bytes < least ? bytes : least;
	}
	return least;
}

/* Memory on a node with --mem-per-cpu; 0: unknown. Only the cluster knows the number of CPUs: threads of a
 * core, DefCpuPerGPU and whole nodes add some. */
static uint64_t memory_per_cpu(p4d_job_placement *p)
{
	return p->out->tasks_per_node ? least_memory(p, p->job->mem_per_cpu_bytes) : 0;
}

static int read_memory(p4d_job_placement *p, p4d_error *err)
{
	const p4d_job *job = p->job;
	p4d_geometry *out = p->out;

	if (job->mem_is_all) {
		out->host_bytes = node_memory(p);
	} else if (job->mem_per_node_bytes) {
		out->host_bytes = job->mem_per_node_bytes;
	} else if (job->mem_per_gpu_bytes) {
		if (__builtin_mul_overflow(job->mem_per_gpu_bytes, (uint64_t)out->gpus_per_node,
					   &out->host_bytes))
			return too_much(err);
	} else if (job->mem_per_cpu_bytes) {
		out->host_bytes = memory_per_cpu(p);
	} else {
		out->host_bytes = node_memory(p);
		if (!out->host_bytes && !job->cpu) {
			out->host_bytes = least_memory(p, 0);
			out->host_by_default = out->host_bytes;
		}
	}
	return 0;
}

/* Places a training on the host: each task is a rank, and the partition is the first requested one. */
static void place_ranks(const p4d_site *site, const p4d_job *job, p4d_geometry *out)
{
	const p4d_site_partition *fallback = p4d_site_partition_of(site, NULL);
	const char *at = job->partition ? job->partition : fallback ? fallback->name : "";

	out->gpus_per_node = out->tasks_per_node ? out->tasks_per_node : 1;
	p4d_job__next_name(&at, out->partition, sizeof(out->partition));
}

/*
 * Number of nodes of a job that trains on the host. It may nevertheless request GPUs. sbatch derives the
 * number of nodes from --gpus and --gpus-per-node, and the number of tasks from --gpus and --gpus-per-task.
 */
static uint32_t nodes_of_host(const p4d_job_placement *p)
{
	const uint32_t per_node = p->wants.per_node,
		       filled = per_node && p->wants.total % per_node == 0 ? p->wants.total / per_node : 0;

	if (p->nodes)
		return p->nodes;
	return filled > p->least ? filled : p->least;
}

static uint32_t tasks_of_job(const p4d_job_placement *p)
{
	if (p->job->tasks || !p->job->cpu || !p->wants.per_task)
		return p->job->tasks;
	return p->wants.total / p->wants.per_task;
}

static uint32_t tasks_of_node(const p4d_job_placement *p)
{
	const p4d_job *job = p->job;
	const p4d_geometry *geometry = p->out;
	const uint32_t all = tasks_of_job(p);
	uint32_t gpus = geometry->gpus_per_node, tasks;

	if (job->tasks_per_node)
		return job->tasks_per_node;
	if (job->cpu) /* the job trains on the host, but requests GPUs */
		gpus = p->wants.per_node ? p->wants.per_node : p->wants.total / geometry->nodes;
	if (job->tasks_per_gpu && gpus && !__builtin_mul_overflow(job->tasks_per_gpu, gpus, &tasks))
		return tasks;
	return all % geometry->nodes ? 0 : all / geometry->nodes;
}

/* The GPU of a job whose number of GPUs is open. NULL: the job requests none, or p4d does not know them. */
static const p4d_gpu *gpu_at_least(p4d_job_placement *p)
{
	p4d_geometry geometry = {.gpu = NULL};

	if (!p->wants.per_node && !p->wants.total && !p->wants.per_task && !p->wants.per_socket)
		return NULL;
	if (!p->all.count && p4d_job__candidates(p->site, p->job, p->wants.type, &p->lazy, &p->all) < 0)
		return NULL;
	p4d_job__gpu(p->site, p->job, p->wants.type, &p->all, &p->lazy, &geometry, NULL);
	return geometry.gpu;
}

int p4d_job_geometry(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context,
		     p4d_geometry *out, p4d_error *err)
{
	p4d_geometry geometry = {.ambiguous = 1};
	p4d_job_placement p = {
	    .site = site, .job = job, .lazy = {.source = source, .context = context}, .out = &geometry};

	*out = (p4d_geometry){.gpu = NULL};
	if (p4d_job_check_limits(job, err) < 0 || read_p4d_job_wish(job, &p.wants, err) < 0)
		return -1;
	if (read_nodes(&p, err) < 0 || (!job->cpu && p4d_job__place(&p, err) < 0)) {
		out->gpu = gpu_at_least(&p);
		return -1;
	}
	if (job->cpu)
		geometry.nodes = nodes_of_host(&p);
	geometry.tasks_per_node = tasks_of_node(&p);
	if (job->cpu)
		place_ranks(site, job, &geometry);
	if (read_memory(&p, err) < 0)
		return -1;
	*out = geometry;
	return 0;
}

/* Number of nodes that a partition has in all of these rows. A node with two GPU types is in two rows. */
static uint32_t nodes_of_partition(const p4d_partition_facts *const *row, size_t count, const char *partition,
				   uint32_t *budget)
{
	const char *before[P4D_JOB_CANDIDATES];
	size_t rows = 0;
	uint32_t nodes = 0;

	for (size_t i = 0; i < count; i++) {
		bool again = strcmp(row[i]->partition, partition) != 0;
		for (size_t k = 0; k < rows && !again; k++)
			again = before[k] == row[i]->nodes;
		if (again)
			continue;
		nodes += p4d_hostlist__count_outside(row[i]->nodes, before, rows, budget);
		before[rows++] = row[i]->nodes;
	}
	return nodes;
}

p4d_job_bounds p4d_job_most(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
			    void *context)
{
	p4d_job_placement p = {.site = site, .job = job, .lazy = {.source = source, .context = context}};
	const char *user = NULL;
	const p4d_associations *limits = job->limits ? job->limits(job->limits_context, &user) : NULL;
	const p4d_partition_facts *row[P4D_JOB_CANDIDATES];
	uint32_t budget = P4D_HOSTLIST_BUDGET;
	p4d_job_bounds most = {0};
	bool bounded = true;

	if (job->cpu || p4d_job_check_limits(job, NULL) < 0 || read_p4d_job_wish(job, &p.wants, NULL) < 0 ||
	    p4d_job__candidates(site, job, p.wants.type, &p.lazy, &p.all) < 0 || p.all.believed)
		return most;
	for (size_t i = 0; i < p.all.count; i++) {
		row[i] = p4d_job__facts(site, &p.all.at[i], &p.lazy);
		if (!row[i] || !row[i]->nodes)
			return most;
	}
	for (size_t i = 0; i < p.all.count; i++) {
		uint32_t nodes = nodes_of_partition(row, p.all.count, row[i]->partition, &budget);
		uint32_t granted[P4D_LIMITS];
		for (p4d_limit of = 0; of < P4D_LIMITS; of++)
			granted[of] = p4d_associations_most(limits, of, user, job->account, row[i]->partition,
							    job->qos);
		nodes = p4d_association_limit(nodes, row[i]->max_nodes);
		nodes = p4d_association_limit(nodes, granted[P4D_LIMIT_NODES]);
		most.nodes = nodes > most.nodes ? nodes : most.nodes;
		most.gpus = granted[P4D_LIMIT_GPUS] > most.gpus ? granted[P4D_LIMIT_GPUS] : most.gpus;
		bounded = bounded && granted[P4D_LIMIT_GPUS];
	}
	most.gpus = bounded ? most.gpus : 0;
	return most;
}
