/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "job/hostlist.h"
#include "job/job_internal.h"
#include "job/job_limits.h"

/* The job's GPU request in the four ways Slurm has. 0: not used. */
typedef struct wish {
	uint32_t per_node, total, per_task, per_socket;
	char type[48];
} wish;

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
			continue; /* longer than any name p4d knows */
		memcpy(name, start, length);
		name[length] = '\0';
		return true;
	}
}

static int read_one(const char *text, bool bare, uint32_t *count, wish *out, p4d_error *err)
{
	char type[sizeof(out->type)];

	if (!text || !*text)
		return 0;
	int rc = p4d_gres__parse_gpus(text, bare, type, sizeof(type), count, err);
	if (rc > 0 && !out->type[0])
		memcpy(out->type, type, sizeof(type));
	return rc < 0 ? -1 : 0;
}

static int read_wish(const p4d_job *job, wish *out, p4d_error *err)
{
	*out = (wish){0};
	if (read_one(job->gres, false, &out->per_node, out, err) < 0 ||
	    read_one(job->gpus, true, &out->total, out, err) < 0 ||
	    read_one(job->gpus_per_task, true, &out->per_task, out, err) < 0 ||
	    read_one(job->gpus_per_socket, true, &out->per_socket, out, err) < 0)
		return -1;
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
	wish wants;

	return read_wish(job, &wants, NULL) < 0 || wants.per_node || wants.total || wants.per_task ||
	       wants.per_socket;
}

/* The job while it is being placed. */
typedef struct placement {
	const p4d_site *site;
	const p4d_job *job;
	wish wants;
	uint32_t listed; /* hosts of -w: the job gets all of them */
	uint32_t nodes;  /* of -N; 0: open */
	uint32_t least;  /* nodes it gets in any case, and more only as needed */
	p4d_job_lazy_cluster lazy;
	p4d_job_candidates all;
	p4d_geometry *out;
} placement;

/* GPUs per node: the smallest, and whether they differ. 0 when unknown. p4d.conf goes before the cluster. */
static uint32_t node_gpus(placement *p, bool *differ)
{
	uint32_t least = 0;

	*differ = false;
	for (size_t i = 0; i < p->all.count; i++) {
		const p4d_job_candidate *one = &p->all.at[i];
		const p4d_partition_facts *row =
		    one->gpus_per_node ? NULL : p4d_job__facts(p->site, one, &p->lazy);
		uint32_t here = row ? row->gpus_per_node : one->gpus_per_node;
		*differ = *differ || (least && here && here != least);
		if (here && (!least || here < least))
			least = here;
	}
	return least;
}

/* CPUs of the smallest node; 0 unknown. */
static uint32_t node_cpus(placement *p)
{
	uint32_t least = 0;

	for (size_t i = 0; i < p->all.count; i++) {
		const p4d_partition_facts *row = p4d_job__facts(p->site, &p->all.at[i], &p->lazy);
		if (row && row->cpus && (!least || row->cpus < least))
			least = row->cpus;
	}
	return least;
}

/* True when the job gets whole nodes there. */
static bool gives_whole_nodes(placement *p, const p4d_job_candidate *one)
{
	const p4d_partition_facts *row = p->job->exclusive ? NULL : p4d_job__facts(p->site, one, &p->lazy);

	return p->job->exclusive || (row && row->whole_nodes);
}

/* True when the job gets whole nodes, with all their GPUs, wherever it runs. */
static bool gets_whole_nodes(placement *p)
{
	for (size_t i = 0; i < p->all.count; i++)
		if (!gives_whole_nodes(p, &p->all.at[i]))
			return false;
	return p->job->exclusive || p->all.count;
}

bool p4d_job_gets_gpus(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context)
{
	placement p = {.site = site, .job = job, .lazy = {.source = source, .context = context}};

	if (p4d_job_check_limits(job, NULL) < 0 || p4d_job_wants_gpus(job) ||
	    p4d_job__candidates(site, job, "", &p.lazy, &p.all, NULL) < 0)
		return true;
	/* one partition of several is enough: Slurm may choose that */
	for (size_t i = 0; i < p.all.count; i++)
		if (gives_whole_nodes(&p, &p.all.at[i]))
			return true;
	return false;
}

static int fix_as(const p4d_job *job, uint64_t nodes, uint64_t gpus_per_node, p4d_error *err)
{
	char flags[400];

	return p4d_fix(err, "%s", p4d_job_flags(job, nodes, gpus_per_node, flags, sizeof(flags)));
}

/*
 * Nodes that hold `total` GPUs evenly: at most per_node on each, and as full as that allows; where the number
 * of nodes was given, as many of them as possible.
 */
static int fix_even(const p4d_job *job, uint32_t total, uint32_t per_node, uint32_t max_nodes, p4d_error *err)
{
	uint32_t best = 0;

	for (uint32_t g = 1; g <= per_node && g <= 1024; g++) {
		if (total % g || (max_nodes && total / g > max_nodes))
			continue;
		best = g;
		if (max_nodes)
			break;
	}
	if (best)
		return fix_as(job, total / best, best, err);
	return fix_as(job, (total - 1) / per_node + 1, per_node, err);
}

/* The number of nodes, or the least one: of a list, and of tasks that are not together on one. */
static int read_nodes(placement *p, p4d_error *err)
{
	const p4d_job *job = p->job;

	p->nodes = job->max_nodes;
	p->listed = job->nodelist ? p4d_hostlist__count(job->nodelist) : 0;
	p->least = p->listed > job->min_nodes ? p->listed : job->min_nodes ? job->min_nodes : 1;
	if (job->min_nodes && job->max_nodes > job->min_nodes) {
		p4d_fail(err, P4D_E_GEOMETRY,
			 "-N %u-%u leaves the number of nodes open, and a plan needs a fixed number",
			 job->min_nodes, job->max_nodes);
		return p4d_fix(err, "--nodes=%u", job->min_nodes);
	}
	if (p->nodes || !job->tasks || !job->tasks_per_node)
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

/* Tasks for which a node has CPUs; 0: unknown, or no matter. */
static uint32_t tasks_that_fit(placement *p)
{
	const p4d_job *job = p->job;

	if (job->tasks < 2 || job->overcommit)
		return 0;
	return node_cpus(p) / (job->cpus_per_task ? job->cpus_per_task : 1);
}

/* The nodes of a job whose GPUs leave them open: as few as the CPUs of its tasks allow. */
static uint32_t fewest_nodes(placement *p)
{
	uint32_t each = tasks_that_fit(p), nodes = each ? (p->job->tasks - 1) / each + 1 : 1;

	return nodes > p->least ? nodes : p->least;
}

/* Every task has its GPUs, and no node takes more tasks than these. */
static bool tasks_are_even(const placement *p, uint32_t gpus)
{
	const uint32_t each = p->job->tasks_per_node;

	return p->wants.per_task && each && p->job->tasks / each == p->out->nodes &&
	       p->job->tasks % each == 0 && (uint64_t)p->wants.per_task * each == gpus;
}

/* Slurm fills one node after the other, so a total is even only on full nodes or with one GPU on each. */
static int check_filling(placement *p, uint32_t total, uint32_t per_node, p4d_error *err)
{
	const p4d_geometry *out = p->out;
	const p4d_job *job = p->job;
	bool differ;
	uint32_t most, units = total;

	if (out->nodes == 1)
		return 0;
	uint32_t full = per_node ? per_node : node_gpus(p, &differ);
	if (total % out->nodes) {
		p4d_fail(err, P4D_E_GEOMETRY, "%u GPUs cannot be spread evenly over %u nodes", total,
			 out->nodes);
		return fix_even(p->job, total, full ? full : 1024, out->nodes, err);
	}
	if (p->wants.per_task) {
		units = job->tasks ? job->tasks : out->nodes;
		most = tasks_that_fit(p);
		if (most && !__builtin_mul_overflow(most, p->wants.per_task, &most) && most < full)
			full = most;
	}
	if (units == out->nodes || total / out->nodes >= full || tasks_are_even(p, total / out->nodes) ||
	    gets_whole_nodes(p))
		return 0;
	p4d_fail(err, P4D_E_GEOMETRY,
		 "Slurm fills one node after the other: %u GPUs on %u nodes are not %u on each", total,
		 out->nodes, total / out->nodes);
	return fix_as(p->job, out->nodes, total / out->nodes, err);
}

/* Spreads a total over nodes. */
static int spread(placement *p, uint32_t total, p4d_error *err)
{
	p4d_geometry *out = p->out;
	bool differ = false;
	uint32_t per_node = 0;

	if (!out->nodes) {
		per_node = node_gpus(p, &differ);
		if (!per_node && !p->all.count && !p->all.believed)
			return 0; /* no GPU is known there at all, which is said below */
		uint32_t cpus = p->job->cpus_per_gpu ? node_cpus(p) : 0;
		if (cpus >= p->job->cpus_per_gpu && cpus && cpus / p->job->cpus_per_gpu < per_node)
			per_node = cpus / p->job->cpus_per_gpu;
		if (!per_node && p->least > 1)
			per_node = total / p->least + (total % p->least != 0);
		if (!per_node) {
			p4d_fail(err, P4D_E_GEOMETRY,
				 "%u GPUs on an open number of nodes: the GPUs per node of the partition are "
				 "unknown",
				 total);
			return fix_as(p->job, 1, total, err);
		}
		if (total > per_node && (differ || total % per_node)) {
			p4d_fail(err, P4D_E_GEOMETRY, "%u GPUs do not fill nodes of %u GPUs evenly%s", total,
				 per_node,
				 differ ? ", and the partitions of the job have different nodes" : "");
			return fix_even(p->job, total, per_node, 0, err);
		}
		uint32_t least = fewest_nodes(p);
		out->nodes = total > per_node ? total / per_node : 1;
		out->nodes = out->nodes < least ? least : out->nodes;
	}
	if (check_filling(p, total, per_node, err) < 0)
		return -1;
	out->gpus_per_node = total / out->nodes;
	return 0;
}

static int too_many(const p4d_job *job, p4d_error *err)
{
	p4d_fail(err, P4D_E_OVERFLOW, "--gpus-per-task times the number of tasks does not fit 32 bits");
	return fix_as(job, 1, 1, err);
}

static int too_much(p4d_error *err)
{
	p4d_fail(err, P4D_E_OVERFLOW, "the memory that the job asks for per node does not fit 64 bits");
	return p4d_fix(err, "--mem=0");
}

static int place_per_node(placement *p, p4d_error *err)
{
	uint32_t per_node = p->wants.per_node, total = p->wants.total;
	p4d_geometry *out = p->out;

	out->gpus_per_node = per_node;
	if (out->nodes)
		return 0;
	if (!total) {
		out->nodes = fewest_nodes(p);
		return 0;
	}
	if (total % per_node) {
		p4d_fail(err, P4D_E_GEOMETRY, "%u GPUs do not fill nodes of %u GPUs evenly", total, per_node);
		return fix_even(p->job, total, per_node, 0, err);
	}
	out->nodes = total / per_node;
	return 0;
}

static int place_per_task(placement *p, p4d_error *err)
{
	const p4d_job *job = p->job;
	p4d_geometry *out = p->out;
	uint32_t nodes = out->nodes ? out->nodes : fewest_nodes(p), total;

	if (job->tasks_per_node) {
		out->nodes = nodes;
		return __builtin_mul_overflow(p->wants.per_task, job->tasks_per_node, &out->gpus_per_node)
			   ? too_many(job, err)
			   : 0;
	}
	/* Slurm's default is one task per node */
	if (__builtin_mul_overflow(p->wants.per_task, job->tasks ? job->tasks : nodes, &total))
		return too_many(job, err);
	return spread(p, total, err);
}

/* Slurm gives the GPUs of those sockets whose CPUs the job has. */
static int place_per_socket(placement *p, p4d_error *err)
{
	const p4d_job *job = p->job;
	uint32_t sockets = job->sockets_per_node ? job->sockets_per_node : 1, per_node;

	if (__builtin_mul_overflow(p->wants.per_socket, sockets, &per_node))
		return too_many(job, err);
	if (sockets == 1 || gets_whole_nodes(p)) {
		p->out->gpus_per_node = per_node;
		return 0;
	}
	p4d_fail(
	    err, P4D_E_GEOMETRY,
	    "--gpus-per-socket=%u on %u sockets: Slurm gives only the GPUs of sockets whose CPUs the job has",
	    p->wants.per_socket, sockets);
	return fix_as(job, p->out->nodes ? p->out->nodes : 1, per_node, err);
}

static int place_gpus(placement *p, p4d_error *err)
{
	const wish *wants = &p->wants;
	p4d_geometry *out = p->out;
	bool differ;

	if (wants->per_node)
		return place_per_node(p, err);
	if (wants->total)
		return spread(p, wants->total, err);
	if (wants->per_task)
		return place_per_task(p, err);
	if (wants->per_socket)
		return place_per_socket(p, err);
	/* --ntasks-per-gpu alone is a request, too */
	const uint32_t asked = p->job->tasks_per_gpu ? p->job->tasks / p->job->tasks_per_gpu : 0;
	uint32_t has = node_gpus(p, &differ);
	if (has && gets_whole_nodes(p)) {
		const uint32_t full = asked / has + (asked % has != 0), fewest = fewest_nodes(p);
		out->gpus_per_node = has;
		if (!out->nodes)
			out->nodes = full > fewest ? full : fewest;
		return 0;
	}
	if (asked)
		return spread(p, asked, err);
	p4d_fail(err, P4D_E_NO_GPU, "the job requests no GPU from Slurm");
	return fix_as(p->job, out->nodes ? out->nodes : 1, has ? has : 1, err);
}

/* Memory of the smallest node of the first partition with ranks on the host; 0 unknown. */
static uint64_t partition_memory(placement *p, const char *name)
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

/* Memory of the smallest node that the job may get; 0 unknown. No job gets more than there is. */
static uint64_t node_memory(placement *p)
{
	const p4d_job *job = p->job;
	const char *name = p->out->partition[0] ? p->out->partition : job->partition;
	const p4d_site_partition *section = p4d_site_partition_of(p->site, name);
	uint64_t least = 0;

	if (section && section->mem_per_node_bytes)
		return section->mem_per_node_bytes;
	if (job->cpu)
		return partition_memory(p, name);
	/* what a job gets without --mem is not in the cluster's facts */
	for (size_t i = 0; job->mem_is_all && i < p->all.count; i++) {
		const p4d_partition_facts *row = p4d_job__facts(p->site, &p->all.at[i], &p->lazy);
		if (row && row->mem_bytes && (!least || row->mem_bytes < least))
			least = row->mem_bytes;
	}
	return least;
}

static int read_memory(placement *p, p4d_error *err)
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
		uint64_t cpus = (uint64_t)(job->cpus_per_task ? job->cpus_per_task : 1) * out->tasks_per_node;
		if (__builtin_mul_overflow(job->mem_per_cpu_bytes, cpus, &out->host_bytes))
			return too_much(err);
	} else {
		out->host_bytes = node_memory(p);
	}
	return 0;
}

/* Training on the host: a rank is a task, and the partition is the first one requested. */
static void place_ranks(const p4d_site *site, const p4d_job *job, p4d_geometry *out)
{
	const p4d_site_partition *fallback = p4d_site_partition_of(site, NULL);
	const char *at = job->partition ? job->partition : fallback ? fallback->name : "";

	out->gpus_per_node = out->tasks_per_node ? out->tasks_per_node : 1;
	p4d_job__next_name(&at, out->partition, sizeof(out->partition));
}

static int place_once(placement *p, p4d_error *err)
{
	p->out->nodes = p->nodes;
	if (p4d_job__candidates(p->site, p->job, p->wants.type, &p->lazy, &p->all, err) < 0 ||
	    place_gpus(p, err) < 0)
		return -1;
	p->out->nodes = p->out->nodes ? p->out->nodes : fewest_nodes(p);
	return 0;
}

/* Nodes, GPUs and their type. With more nodes than -w lists, the others may be any. */
static int place(placement *p, p4d_error *err)
{
	const p4d_job *asked = p->job;
	p4d_job any = *asked;
	int rc = place_once(p, err);

	if (rc == 0 && any.nodelist && p->out->nodes > p->listed) {
		any.nodelist = NULL;
		p->job = &any;
		rc = place_once(p, err);
		p->job = asked; /* a refusal looks at it, too */
	}
	return rc < 0 ? -1 : p4d_job__gpu(p->site, asked, p->wants.type, &p->all, &p->lazy, p->out, err);
}

static uint32_t tasks_of_node(const placement *p)
{
	const p4d_job *job = p->job;
	const p4d_geometry *geometry = p->out;
	uint32_t gpus = geometry->gpus_per_node, tasks;

	if (job->tasks_per_node)
		return job->tasks_per_node;
	if (job->cpu) /* GPUs that it asks for all the same */
		gpus = p->wants.per_node ? p->wants.per_node : p->wants.total / geometry->nodes;
	if (job->tasks_per_gpu && gpus && !__builtin_mul_overflow(job->tasks_per_gpu, gpus, &tasks))
		return tasks;
	return job->tasks % geometry->nodes ? 0 : job->tasks / geometry->nodes;
}

/* Of a job whose number of GPUs is open. NULL: it asks for none, or they are not known. */
static const p4d_gpu *gpu_at_least(placement *p)
{
	p4d_geometry geometry = {.gpu = NULL};

	if (!p->wants.per_node && !p->wants.total && !p->wants.per_task && !p->wants.per_socket)
		return NULL;
	if (!p->all.count && p4d_job__candidates(p->site, p->job, p->wants.type, &p->lazy, &p->all, NULL) < 0)
		return NULL;
	p4d_job__gpu(p->site, p->job, p->wants.type, &p->all, &p->lazy, &geometry, NULL);
	return geometry.gpu;
}

int p4d_job_geometry(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context,
		     p4d_geometry *out, p4d_error *err)
{
	p4d_geometry geometry = {.ambiguous = 1};
	placement p = {
	    .site = site, .job = job, .lazy = {.source = source, .context = context}, .out = &geometry};

	*out = (p4d_geometry){.gpu = NULL};
	if (p4d_job_check_limits(job, err) < 0 || read_wish(job, &p.wants, err) < 0)
		return -1;
	if (read_nodes(&p, err) < 0 || (!job->cpu && place(&p, err) < 0)) {
		out->gpu = gpu_at_least(&p);
		return -1;
	}
	if (job->cpu)
		geometry.nodes = p.nodes ? p.nodes : p.least;
	geometry.tasks_per_node = tasks_of_node(&p);
	if (job->cpu)
		place_ranks(site, job, &geometry);
	if (read_memory(&p, err) < 0)
		return -1;
	*out = geometry;
	return 0;
}
