/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "job/job_internal.h"

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

bool p4d_job_wants_gpus(const p4d_job *job)
{
	wish wants;

	return read_wish(job, &wants, NULL) < 0 || wants.per_node || wants.total || wants.per_task ||
	       wants.per_socket;
}

/*
 * GPUs per node of the job's partitions: the smallest, and whether they differ. 0 when unknown. For
 * partitions that p4d.conf does not describe, the cluster is asked.
 */
static uint32_t partition_gpus(const p4d_site *site, const p4d_job *job, p4d_job_lazy_cluster *lazy,
			       bool *differ)
{
	uint32_t least = 0;
	const char *at = job->partition ? job->partition : "";
	char name[64];
	bool named = p4d_job__next_name(&at, name, sizeof(name));

	*differ = false;
	do {
		const p4d_site_partition *section = p4d_site_partition_of(site, named ? name : NULL);
		uint32_t here = section ? section->gpus_per_node : 0;
		const char *wanted = named ? name : section ? section->name : NULL;
		const p4d_cluster *cluster = here ? NULL : p4d_job__lazy(lazy);
		for (size_t i = 0; cluster && i < cluster->count; i++) {
			const p4d_partition_facts *row = &cluster->row[i];
			if (row->gpus_per_node &&
			    (wanted ? !strcmp(row->partition, wanted) : row->is_default) &&
			    (!here || row->gpus_per_node < here))
				here = row->gpus_per_node;
		}
		*differ = *differ || (least && here && here != least);
		if (here && (!least || here < least))
			least = here;
	} while (named && p4d_job__next_name(&at, name, sizeof(name)));
	return least;
}

/*
 * Nodes that hold `total` GPUs evenly: at most per_node on each, and as full as that allows; where the number
 * of nodes was given, as many of them as possible.
 */
static int fix_even(uint32_t total, uint32_t per_node, uint32_t max_nodes, p4d_error *err)
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
		return p4d_fix(err, "--nodes=%u --gpus-per-node=%u", total / best, best);
	return p4d_fix(err, "--nodes=%u --gpus-per-node=%u", (total - 1) / per_node + 1, per_node);
}

/* Nodes from -N and the tasks; 0: open. */
static int read_nodes(const p4d_job *job, uint32_t *nodes, p4d_error *err)
{
	*nodes = job->min_nodes ? job->min_nodes : job->max_nodes;
	if (job->min_nodes && job->max_nodes > job->min_nodes) {
		p4d_fail(err, P4D_E_GEOMETRY,
			 "-N %u-%u leaves the number of nodes open, and a plan needs a fixed number",
			 job->min_nodes, job->max_nodes);
		return p4d_fix(err, "--nodes=%u", job->min_nodes);
	}
	if (*nodes || !job->tasks || !job->tasks_per_node)
		return 0;
	if (job->tasks % job->tasks_per_node) {
		p4d_fail(err, P4D_E_GEOMETRY, "%u tasks do not fill nodes of %u tasks evenly", job->tasks,
			 job->tasks_per_node);
		return p4d_fix(err, "--nodes=%u --ntasks-per-node=%u",
			       (job->tasks - 1) / job->tasks_per_node + 1, job->tasks_per_node);
	}
	*nodes = job->tasks / job->tasks_per_node;
	return 0;
}

/* Spreads a total over nodes. */
static int spread(const p4d_site *site, const p4d_job *job, uint32_t total, p4d_job_lazy_cluster *lazy,
		  p4d_geometry *out, p4d_error *err)
{
	bool differ;

	if (out->nodes) {
		if (total % out->nodes) {
			p4d_fail(err, P4D_E_GEOMETRY, "%u GPUs cannot be spread evenly over %u nodes", total,
				 out->nodes);
			return fix_even(total, 1024, out->nodes, err);
		}
		out->gpus_per_node = total / out->nodes;
		return 0;
	}
	uint32_t per_node = partition_gpus(site, job, lazy, &differ);
	if (!per_node) {
		p4d_fail(err, P4D_E_GEOMETRY,
			 "%u GPUs on an open number of nodes: the GPUs per node of the partition are unknown",
			 total);
		return p4d_fix(err, "--nodes=1 --gpus-per-node=%u", total);
	}
	if (total <= per_node) {
		out->nodes = 1;
		out->gpus_per_node = total;
		return 0;
	}
	if (differ || total % per_node) {
		p4d_fail(err, P4D_E_GEOMETRY, "%u GPUs do not fill nodes of %u GPUs evenly%s", total,
			 per_node, differ ? ", and the partitions of the job have different nodes" : "");
		return fix_even(total, per_node, 0, err);
	}
	out->nodes = total / per_node;
	out->gpus_per_node = per_node;
	return 0;
}

static int too_many(p4d_error *err)
{
	p4d_fail(err, P4D_E_OVERFLOW, "--gpus-per-task times the number of tasks does not fit 32 bits");
	return p4d_fix(err, "--nodes=N --gpus-per-node=G");
}

static int too_much(p4d_error *err)
{
	p4d_fail(err, P4D_E_OVERFLOW, "the memory that the job asks for per node does not fit 64 bits");
	return p4d_fix(err, "--mem=0");
}

static int place_gpus(const p4d_site *site, const p4d_job *job, const wish *wants, p4d_job_lazy_cluster *lazy,
		      p4d_geometry *out, p4d_error *err)
{
	uint32_t total = wants->total, tasks = job->tasks;
	bool differ;

	if (wants->per_node) {
		out->gpus_per_node = wants->per_node;
		if (out->nodes || !total)
			return 0;
		if (total % wants->per_node) {
			p4d_fail(err, P4D_E_GEOMETRY, "%u GPUs do not fill nodes of %u GPUs evenly", total,
				 wants->per_node);
			return fix_even(total, wants->per_node, 0, err);
		}
		out->nodes = total / wants->per_node;
		return 0;
	}
	if (total)
		return spread(site, job, total, lazy, out, err);
	if (wants->per_task) {
		uint32_t nodes = out->nodes ? out->nodes : 1;
		if (job->tasks_per_node) {
			out->nodes = nodes;
			return __builtin_mul_overflow(wants->per_task, job->tasks_per_node,
						      &out->gpus_per_node)
				   ? too_many(err)
				   : 0;
		}
		if (!tasks)
			tasks = nodes; /* Slurm's default: one task per node */
		if (__builtin_mul_overflow(wants->per_task, tasks, &total))
			return too_many(err);
		return spread(site, job, total, lazy, out, err);
	}
	if (wants->per_socket) {
		p4d_fail(err, P4D_E_GEOMETRY, "--gpus-per-socket leaves the number of GPUs per node open");
		return p4d_fix(err, "--gpus-per-node=%u", wants->per_socket);
	}
	if (job->exclusive)
		out->gpus_per_node =
		    partition_gpus(site, job, lazy, &differ); /* a whole node comes with its GPUs */
	if (out->gpus_per_node)
		return 0;
	uint32_t has = partition_gpus(site, job, lazy, &differ);
	p4d_fail(err, P4D_E_NO_GPU, "the job requests no GPU from Slurm");
	return p4d_fix(err, "--nodes=%u --gpus-per-node=%u", out->nodes ? out->nodes : 1, has ? has : 1);
}

/*
 * Memory of a node of the partition. The cluster is asked just for this only for training on the host, where
 * nothing else limits it: no job gets more than there is.
 */
static uint64_t node_memory(const p4d_site *site, const p4d_job *job, p4d_job_lazy_cluster *lazy,
			    const p4d_geometry *geometry)
{
	const char *name = geometry->partition[0] ? geometry->partition : job->partition;
	const p4d_site_partition *section = p4d_site_partition_of(site, name);
	uint64_t least = 0;

	if (section && section->mem_per_node_bytes)
		return section->mem_per_node_bytes;
	if (!job->mem_is_all && !job->cpu)
		return 0; /* what a job gets without --mem is not in the cluster's facts */
	const p4d_cluster *cluster = job->cpu ? p4d_job__lazy(lazy) : lazy->cluster;
	for (size_t i = 0; cluster && i < cluster->count; i++) {
		const p4d_partition_facts *row = &cluster->row[i];
		if ((name ? !strcmp(row->partition, name) : row->is_default) && row->mem_bytes &&
		    (!least || row->mem_bytes < least))
			least = row->mem_bytes;
	}
	return least;
}

static int read_memory(const p4d_site *site, const p4d_job *job, p4d_job_lazy_cluster *lazy,
		       p4d_geometry *out, p4d_error *err)
{
	if (job->mem_is_all) {
		out->host_bytes = node_memory(site, job, lazy, out);
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
		out->host_bytes = node_memory(site, job, lazy, out);
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

int p4d_job_geometry(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context,
		     p4d_geometry *out, p4d_error *err)
{
	p4d_job_lazy_cluster lazy = {.source = source, .context = context};
	p4d_geometry geometry = {.ambiguous = 1};
	wish wants;

	if (read_wish(job, &wants, err) < 0 || read_nodes(job, &geometry.nodes, err) < 0)
		return -1;
	if (!job->cpu && place_gpus(site, job, &wants, &lazy, &geometry, err) < 0)
		return -1;
	if (!geometry.nodes)
		geometry.nodes = 1;
	geometry.tasks_per_node = job->tasks_per_node;
	if (!geometry.tasks_per_node && job->tasks % geometry.nodes == 0)
		geometry.tasks_per_node = job->tasks / geometry.nodes;
	if (job->cpu)
		place_ranks(site, job, &geometry);
	else if (p4d_job__gpu(site, job, wants.type, &lazy, &geometry, err) < 0)
		return -1;
	if (read_memory(site, job, &lazy, &geometry, err) < 0)
		return -1;
	*out = geometry;
	return 0;
}
