/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes of a job and the GPUs of each, as Slurm will give them. */
#include "job/hostlist.h"
#include "job/job_internal.h"

/*
 * Minimum number of GPUs per node; *differ: nodes have different numbers. 0: unknown. p4d.conf has priority
 * over the cluster.
 */
static uint32_t node_gpus(p4d_job_placement *p, bool *differ)
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

/* CPUs of the smallest node that the job may use; 0: unknown. */
static uint32_t node_cpus(p4d_job_placement *p)
{
	uint32_t least = 0, few;

	for (size_t i = 0; i < p->all.count; i++) {
		const p4d_partition_facts *row = p4d_job__facts(p->site, &p->all.at[i], &p->lazy);
		uint32_t cpus = row ? row->cpus : 0;
		if (cpus && row->cores && p->job->threads_per_core &&
		    !__builtin_mul_overflow(row->cores, p->job->threads_per_core, &few) && few < cpus)
			cpus = few;
		if (cpus && (!least || cpus < least))
			least = cpus;
	}
	return least;
}

bool p4d_job__gives_whole_nodes(p4d_job_placement *p, const p4d_job_candidate *one)
{
	const p4d_partition_facts *row = p->job->exclusive ? NULL : p4d_job__facts(p->site, one, &p->lazy);

	return p->job->exclusive || (row && row->whole_nodes);
}

/* True when the job gets whole nodes, with all their GPUs, wherever it runs. */
static bool gets_whole_nodes(p4d_job_placement *p)
{
	for (size_t i = 0; i < p->all.count; i++)
		if (!p4d_job__gives_whole_nodes(p, &p->all.at[i]))
			return false;
	return p->job->exclusive || p->all.count;
}

static int fix_as(const p4d_job *job, uint64_t nodes, uint64_t gpus_per_node, p4d_error *err)
{
	char flags[400];

	return p4d_fix(err, "%s", p4d_job_flags(job, nodes, gpus_per_node, flags, sizeof(flags)));
}

/*
 * The nodes on which `total` GPUs are distributed evenly: at most per_node on each, and as full as possible.
 * A job that sets a number of nodes gets as many of them as possible.
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

/*
 * Number of tasks that fit on the cores of the smallest node with --ntasks-per-core; 0: unknown, or any
 * number.
 */
static uint32_t tasks_on_cores(p4d_job_placement *p)
{
	uint32_t least = 0, tasks;

	for (size_t i = 0; p->job->tasks_per_core && i < p->all.count; i++) {
		const p4d_partition_facts *row = p4d_job__facts(p->site, &p->all.at[i], &p->lazy);
		if (row && row->cores &&
		    !__builtin_mul_overflow(row->cores, p->job->tasks_per_core, &tasks) &&
		    (!least || tasks < least))
			least = tasks;
	}
	return least;
}

/* Number of tasks for which a node has CPUs; 0: unknown, or irrelevant. */
static uint32_t tasks_that_fit(p4d_job_placement *p)
{
	const p4d_job *job = p->job;

	if (job->tasks < 2 || job->overcommit)
		return 0;
	const uint32_t cpus = node_cpus(p) / (job->cpus_per_task ? job->cpus_per_task : 1);
	const uint32_t cores = tasks_on_cores(p);
	return cores && cpus && cores < cpus ? cores : cpus;
}

/*
 * Whether the job says how its tasks are distributed. sbatch adds the number of tasks to --ntasks-per-node
 * alone, so slurmctld sees both.
 */
static bool says_tasks_of_nodes(const p4d_job *job)
{
	return job->tasks_per_node && job->tasks >= job->tasks_per_node;
}

/* The smallest number of nodes for a job whose GPUs leave it open: as few as the CPUs of its tasks allow. */
static uint32_t fewest_nodes(p4d_job_placement *p)
{
	const uint32_t each = says_tasks_of_nodes(p->job) ? 0 : tasks_that_fit(p);
	const uint32_t nodes = each ? (p->job->tasks - 1) / each + 1 : 1;

	return nodes > p->least ? nodes : p->least;
}

/* Whether every task has its own GPUs and each node gets only as many tasks as these GPUs allow. */
static bool tasks_are_even(const p4d_job_placement *p, uint32_t gpus)
{
	const uint32_t each = p->job->tasks_per_node;

	return p->wants.per_task && each && p->job->tasks / each == p->out->nodes &&
	       p->job->tasks % each == 0 && (uint64_t)p->wants.per_task * each == gpus;
}

/*
 * Slurm fills one node after the other, so a total is distributed evenly only on full nodes or with one GPU
 * per node.
 */
static int check_filling(p4d_job_placement *p, uint32_t total, uint32_t per_node, p4d_error *err)
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
	p4d_fail(
	    err, P4D_E_GEOMETRY,
	    "Slurm fills one node after the other, so with %u GPUs on %u nodes a node may not get exactly %u",
	    total, out->nodes, total / out->nodes);
	return fix_as(p->job, out->nodes, total / out->nodes, err);
}

/*
 * Number of a node's GPUs that have enough CPUs on the node (--cpus-per-gpu); 0: unknown. *few: this is below
 * the node's number of GPUs.
 */
static uint32_t node_gpus_with_cpus(p4d_job_placement *p, bool *differ, bool *few)
{
	const uint32_t each = p->job->cpus_per_gpu, gpus = node_gpus(p, differ),
		       cpus = each ? node_cpus(p) : 0;

	*few = cpus && cpus >= each && cpus / each < gpus;
	return *few ? cpus / each : gpus;
}

/* Without data about the cluster (on a laptop): the usual number of GPUs of a node with this GPU; 0:
 * unknown. */
static uint32_t usual_node_gpus(p4d_job_placement *p)
{
	const p4d_cluster *cluster = p4d_job__lazy(&p->lazy);

	if (p->all.count || !p->all.believed || (cluster && cluster->count))
		return 0;
	const p4d_gpu *gpu = p4d_site_gpu(p->site, p->wants.type, &(unsigned){0});
	return gpu ? p4d_gpu_usual_node(gpu) : 0;
}

/* Fills the number of nodes of a job that requests a total number of GPUs but no number of nodes. */
static int count_nodes(p4d_job_placement *p, uint32_t total, uint32_t *per_node, p4d_error *err)
{
	bool differ, few;

	*per_node = node_gpus_with_cpus(p, &differ, &few);
	if (few && p->job->threads_per_core && total > *per_node) {
		p4d_fail(err, P4D_E_GEOMETRY,
			 "Slurm does not spread %u GPUs with %u CPUs each evenly over the nodes "
			 "(--threads-per-core=%u)",
			 total, p->job->cpus_per_gpu, p->job->threads_per_core);
		return fix_even(p->job, total, *per_node, 0, err);
	}
	if (!*per_node && p->least > 1)
		*per_node = total / p->least + (total % p->least != 0);
	if (!*per_node)
		*per_node = usual_node_gpus(p);
	if (!*per_node) {
		p4d_fail(err, P4D_E_GEOMETRY,
			 "%u GPUs on an open number of nodes: the GPUs per node of the partition are unknown",
			 total);
		return fix_as(p->job, 1, total, err);
	}
	if (total > *per_node && (differ || total % *per_node)) {
		p4d_fail(err, P4D_E_GEOMETRY, "%u GPUs do not fill nodes of %u GPUs evenly%s", total,
			 *per_node, differ ? ", and the partitions of the job have different nodes" : "");
		return fix_even(p->job, total, *per_node, 0, err);
	}
	const uint32_t least = fewest_nodes(p), full = total > *per_node ? total / *per_node : 1;
	p->out->nodes = full < least ? least : full;
	return 0;
}

/* Distributes a total number of GPUs over nodes. */
static int spread(p4d_job_placement *p, uint32_t total, p4d_error *err)
{
	p4d_geometry *out = p->out;
	bool differ;
	uint32_t per_node = 0;

	/* if p4d knows none of the GPUs, a later check reports that */
	if (!out->nodes && !p->all.count && !p->all.believed && !node_gpus(p, &differ))
		return 0;
	if ((!out->nodes && count_nodes(p, total, &per_node, err) < 0) ||
	    check_filling(p, total, per_node, err) < 0)
		return -1;
	out->gpus_per_node = total / out->nodes;
	return 0;
}

static int too_many(const p4d_job *job, p4d_error *err)
{
	p4d_fail(err, P4D_E_OVERFLOW, "--gpus-per-task times the number of tasks does not fit 32 bits");
	return fix_as(job, 1, 1, err);
}

static int place_per_node(p4d_job_placement *p, p4d_error *err)
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

static int place_per_task(p4d_job_placement *p, p4d_error *err)
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

/* Places a job with --gpus-per-socket: Slurm gives it the GPUs of the sockets that its CPUs are on. */
static int place_per_socket(p4d_job_placement *p, p4d_error *err)
{
	const p4d_job *job = p->job;
	uint32_t sockets = job->sockets_per_node ? job->sockets_per_node : 1, per_node;

	if (__builtin_mul_overflow(p->wants.per_socket, sockets, &per_node))
		return too_many(job, err);
	if (sockets == 1 || gets_whole_nodes(p)) {
		p->out->gpus_per_node = per_node;
		return 0;
	}
	p4d_fail(err, P4D_E_GEOMETRY,
		 "--gpus-per-socket=%u on %u sockets: Slurm gives a job only the GPUs of sockets on which it "
		 "has CPUs",
		 p->wants.per_socket, sockets);
	return fix_as(job, p->out->nodes ? p->out->nodes : 1, per_node, err);
}

static int place_gpus(p4d_job_placement *p, p4d_error *err)
{
	const p4d_job_wish *wants = &p->wants;
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
	/* --ntasks-per-gpu alone also requests GPUs */
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

/* Places the job on the nodes that its node lists allow, among those that it could get without the lists. */
static int place_on(p4d_job_placement *p, const p4d_job *job, const p4d_job_candidates *anywhere,
		    uint32_t *budget, p4d_error *err)
{
	const p4d_job *asked = p->job;

	p->out->nodes = p->nodes;
	p->all = *anywhere;
	p->job = job;
	p4d_job__restrict_to_nodes(p->site, job, &p->lazy, &p->all, budget);
	const int rc = place_gpus(p, err);
	if (rc == 0 && !p->out->nodes)
		p->out->nodes = fewest_nodes(p);
	p->job = asked; /* restored, because a refusal also examines the job */
	return rc;
}

int p4d_job__place(p4d_job_placement *p, p4d_error *err)
{
	p4d_job_candidates anywhere;
	p4d_job any = *p->job;
	uint32_t budget = P4D_HOSTLIST_BUDGET; /* one budget for both lists */

	any.nodelist = NULL;
	if (p4d_job__anywhere(p->site, p->job, p->wants.type, &p->lazy, &anywhere, err) < 0 ||
	    place_on(p, p->job, &anywhere, &budget, err) < 0)
		return -1;
	if (p->job->nodelist && p->out->nodes > p->listed && place_on(p, &any, &anywhere, &budget, err) < 0)
		return -1;
	return p4d_job__gpu(p->site, p->job, p->wants.type, &p->all, &p->lazy, p->out, err);
}
