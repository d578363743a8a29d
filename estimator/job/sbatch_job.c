/* SPDX-License-Identifier: Apache-2.0 */
/* Interprets the option values that sbatch.c has collected. */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"
#include "job/job_internal.h"
#include "job/hostlist.h"
#include "job/sbatch.h"

static const char *const field_names[P4D_SBATCH_FIELDS] = {
    [P4D_SBATCH_CORES_PER_SOCKET] = "cores-per-socket", [P4D_SBATCH_CPUS_PER_GPU] = "cpus-per-gpu",
    [P4D_SBATCH_CPUS_PER_TASK] = "cpus-per-task",       [P4D_SBATCH_NTASKS] = "ntasks",
    [P4D_SBATCH_NTASKS_PER_GPU] = "ntasks-per-gpu",     [P4D_SBATCH_NTASKS_PER_NODE] = "ntasks-per-node",
    [P4D_SBATCH_SOCKETS_PER_NODE] = "sockets-per-node", [P4D_SBATCH_THREADS_PER_CORE] = "threads-per-core",
    [P4D_SBATCH_NTASKS_PER_CORE] = "ntasks-per-core",
};

static int read_number(const p4d_sbatch *sbatch, p4d_sbatch_field field, uint32_t *number, p4d_error *err)
{
	const char *text = sbatch->value[field];
	uint64_t value;

	if (!text)
		return 0;
	if (!p4d_number_whole(p4d_gres__sign(text), 1, INT32_MAX, &value))
		return p4d_fail(err, P4D_E_VALUE, "--%s=%.64s: not a whole number from 1 to %d",
				field_names[field], text, INT32_MAX);
	*number = (uint32_t)value;
	return 0;
}

/* --mem, --mem-per-cpu and --mem-per-gpu are mutually exclusive; a typed one overrides one from the
 * environment. */
static int read_memory(p4d_sbatch *sbatch, p4d_job *job, p4d_error *err)
{
	static const p4d_sbatch_field fields[] = {P4D_SBATCH_MEM, P4D_SBATCH_MEM_PER_CPU,
						  P4D_SBATCH_MEM_PER_GPU};
	uint64_t *const sizes[] = {&job->mem_per_node_bytes, &job->mem_per_cpu_bytes,
				   &job->mem_per_gpu_bytes};
	unsigned typed = 0, from_environment = 0;

	for (int i = 0; i < 3; i++)
		if (sbatch->value[fields[i]]) {
			bool inherited = sbatch->source[fields[i]] == P4D_FROM_ENVIRONMENT;
			typed += !inherited;
			from_environment += inherited;
		}
	if (typed > 1 || (!typed && from_environment > 1))
		return p4d_fail(err, P4D_E_USAGE,
				"--mem, --mem-per-cpu and --mem-per-gpu are mutually exclusive");
	for (int i = 0; i < 3; i++) {
		const char *text = sbatch->value[fields[i]];
		if (!text || (typed && sbatch->source[fields[i]] == P4D_FROM_ENVIRONMENT))
			continue;
		if (p4d_gres_parse_mem(text, sizes[i], err) < 0)
			return -1;
		/* in Slurm, --mem-per-cpu=0 also means all memory of the node */
		job->mem_is_all = fields[i] != P4D_SBATCH_MEM_PER_GPU && !*sizes[i];
	}
	return 0;
}

/*
 * Appends the text of --gpus ("4", "h100:4", "a100:1,h100:1") in the syntax of --gres: "gpu:4", ... NULL: no
 * memory.
 */
static char *append_gres(char *gres, const char *text, const char *prefix)
{
	const size_t used = gres ? strlen(gres) : 0;
	p4d_text grown = {.at = gres, .size = gres ? used + 1 : 0, .length = used, .grows = true};

	for (const char *at = text;; at++) {
		size_t length = strcspn(at, ",");
		p4d_text_entry(&grown, ",", "%s%.*s", prefix, (int)length, at);
		at += length;
		if (!*at)
			break;
	}
	if (!grown.truncated)
		return grown.at;
	free(grown.at);
	return NULL;
}

static int read_gres(p4d_sbatch *sbatch, p4d_job *job, p4d_error *err)
{
	static const struct {
		p4d_sbatch_field field;
		const char *prefix;
		size_t owned;
	} from[] = {
	    /* in Slurm's order, because the last entry counts */
	    {P4D_SBATCH_GPUS_PER_NODE, "gpu:", offsetof(p4d_sbatch, gres)},
	    {P4D_SBATCH_GRES, "", offsetof(p4d_sbatch, gres)},
	    {P4D_SBATCH_GPUS, "gpu:", offsetof(p4d_sbatch, gpus)},
	    {P4D_SBATCH_GPUS_PER_TASK, "gpu:", offsetof(p4d_sbatch, gpus_per_task)},
	    {P4D_SBATCH_TRES_PER_TASK, "", offsetof(p4d_sbatch, gpus_per_task)},
	    {P4D_SBATCH_GPUS_PER_SOCKET, "gpu:", offsetof(p4d_sbatch, gpus_per_socket)},
	};

	for (size_t i = 0; i < sizeof(from) / sizeof(from[0]); i++) {
		const char *text = sbatch->value[from[i].field];
		if (!text)
			continue;
		char **owned = (char **)((char *)sbatch + from[i].owned);
		*owned = append_gres(*owned, text, from[i].prefix);
		if (!*owned)
			return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu characters", strlen(text));
	}
	job->gres = sbatch->gres;
	job->gpus = sbatch->gpus;
	job->gpus_per_task = sbatch->gpus_per_task;
	job->gpus_per_socket = sbatch->gpus_per_socket;
	job->gpu_type = sbatch->value[P4D_SBATCH_GPU];
	/* Slurm reads --gres last, so it wins over --gpus-per-node; newer releases accept only one of them */
	char type[48];
	uint32_t count;
	const bool per_node = sbatch->value[P4D_SBATCH_GPUS_PER_NODE];
	const bool in_gres =
	    sbatch->value[P4D_SBATCH_GRES] &&
	    p4d_gres_parse(sbatch->value[P4D_SBATCH_GRES], type, sizeof(type), &count, NULL) > 0;
	job->per_node_option = per_node && !in_gres;
	job->both_options = per_node && in_gres;
	return 0;
}

/*
 * Reads -B SOCKETS[:CORES[:THREADS]]. Each part is a number, a range ("2-4", of which the minimum counts), or
 * any ("*", which Slurm itself writes as "-1").
 */
static int read_node_info(p4d_sbatch *sbatch, p4d_error *err)
{
	static const p4d_sbatch_field fields[] = {P4D_SBATCH_SOCKETS_PER_NODE, P4D_SBATCH_CORES_PER_SOCKET,
						  P4D_SBATCH_THREADS_PER_CORE};
	const char *at = sbatch->value[P4D_SBATCH_EXTRA_NODE_INFO];

	for (size_t i = 0; at && i < sizeof(fields) / sizeof(fields[0]); i++) {
		char **value = &sbatch->value[fields[i]];
		const size_t length = strcspn(at, ":"), least = strcspn(at, "-:");
		if (!*value && *at != '*' && least && !(*value = strndup(at, least)))
			return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for an option");
		at = at[length] ? at + length + 1 : NULL;
	}
	return 0;
}

/*
 * The value of --hint; NULL: sbatch ignores it. sbatch ignores a hint if an option that excludes it is also
 * typed, or if both come from variables. A typed hint overrides variables. Since 25.11, --sockets-per-node
 * and --cores-per-socket exclude the hint as well; before, the hint resets them.
 */
static const char *hint_of(const p4d_sbatch *sbatch)
{
	static const p4d_sbatch_field others[] = {P4D_SBATCH_NTASKS_PER_CORE, P4D_SBATCH_THREADS_PER_CORE,
						  P4D_SBATCH_EXTRA_NODE_INFO, P4D_SBATCH_SOCKETS_PER_NODE,
						  P4D_SBATCH_CORES_PER_SOCKET};
	const size_t all = sizeof(others) / sizeof(others[0]),
		     count = sbatch->release >= 2511 ? all : all - 2;
	const bool typed = sbatch->source[P4D_SBATCH_HINT] != P4D_FROM_ENVIRONMENT;

	for (size_t i = 0; i < count; i++)
		if (sbatch->value[others[i]] && (!typed || sbatch->source[others[i]] != P4D_FROM_ENVIRONMENT))
			return NULL;
	return sbatch->value[P4D_SBATCH_HINT];
}

/* Fills the threads per core. Some hints mean one; without a hint, --threads-per-core has the number. */
static int read_threads(const p4d_sbatch *sbatch, const char *hint, p4d_job *job, p4d_error *err)
{
	if (!hint)
		return read_number(sbatch, P4D_SBATCH_THREADS_PER_CORE, &job->threads_per_core, err);
	job->tasks_per_core = 0;
	if (strstr(hint, "nomultithread") || strstr(hint, "compute_bound"))
		job->threads_per_core = 1;
	return 0;
}

/* Counts tasks as sbatch does: one task per requested socket, core or thread, on that many nodes. */
static int count_tasks(const p4d_sbatch *sbatch, const char *hint, p4d_job *job, p4d_error *err)
{
	uint32_t cores = 1, sockets = job->sockets_per_node ? job->sockets_per_node : 1;
	uint32_t threads = job->threads_per_core ? job->threads_per_core : 1;

	if (hint) { /* the hint resets the numbers of sockets, cores and threads */
		job->sockets_per_node = 0;
		return 0;
	}

	if (read_number(sbatch, P4D_SBATCH_CORES_PER_SOCKET, &cores, err) < 0)
		return -1;
	if (job->tasks || job->tasks_per_node || job->min_nodes != job->max_nodes ||
	    (uint64_t)sockets * cores * threads == 1)
		return 0;
	if (__builtin_mul_overflow(sockets, cores, &cores) ||
	    __builtin_mul_overflow(cores, threads, &threads) ||
	    __builtin_mul_overflow(threads, job->min_nodes, &job->tasks))
		return p4d_fail(
		    err, P4D_E_OVERFLOW,
		    "the number of tasks, which follows from sockets and cores, does not fit 32 bits");
	return 0;
}

/*
 * Counts tasks as sbatch does: with --ntasks-per-gpu, the GPUs decide the number of tasks, and --ntasks is
 * ignored.
 */
static int count_tasks_of_gpus(const p4d_sbatch *sbatch, p4d_job *job, p4d_error *err)
{
	static const p4d_sbatch_field fields[] = {P4D_SBATCH_GPUS, P4D_SBATCH_GPUS_PER_NODE, P4D_SBATCH_GRES};
	char type[48];
	uint32_t tasks = 0;

	for (size_t i = 0; job->tasks_per_gpu && !tasks && i < sizeof(fields) / sizeof(fields[0]); i++) {
		const char *text = sbatch->value[fields[i]];
		const uint32_t nodes = fields[i] != P4D_SBATCH_GPUS && job->min_nodes ? job->min_nodes : 1;
		if (!text)
			continue;
		if (p4d_gres__parse_gpus(text, fields[i] != P4D_SBATCH_GRES, type, sizeof(type), &tasks,
					 err) < 0)
			return -1;
		if (__builtin_mul_overflow(tasks, nodes, &tasks) ||
		    __builtin_mul_overflow(tasks, job->tasks_per_gpu, &tasks))
			return p4d_fail(
			    err, P4D_E_OVERFLOW,
			    "the number of tasks, which follows from the GPUs, does not fit 32 bits");
	}
	if (tasks)
		job->tasks = tasks;
	return 0;
}

/*
 * Adjusts the nodes as sbatch does: at least the nodes named by -w, and at most as many nodes as tasks (then
 * the first named ones).
 */
static void fit_nodes(p4d_sbatch *sbatch, p4d_job *job)
{
	const uint32_t listed = job->nodelist ? p4d_hostlist__count(job->nodelist) : 0;

	if (listed > job->min_nodes)
		job->min_nodes = listed;
	if (!job->tasks)
		return;
	if (job->tasks < job->max_nodes)
		job->max_nodes = job->tasks;
	if (job->tasks < job->min_nodes)
		job->min_nodes = job->max_nodes = job->tasks;
	if (job->tasks < listed && (sbatch->nodelist = p4d_hostlist__first(job->nodelist, job->tasks)))
		job->nodelist = sbatch->nodelist;
}

/*
 * Whether the job's environment has expandable segments. sbatch's environment counts only if --export passes
 * it on.
 */
static bool is_expandable(const p4d_sbatch *sbatch)
{
	const char *at = sbatch->value[P4D_SBATCH_EXPORT];
	bool all = !at;
	char entry[256];

	while (at && p4d_job__next_name(&at, entry, sizeof(entry))) {
		char *const alone[] = {entry, NULL};
		if (!strncmp(entry, "PYTORCH_", 8) && strstr(entry, "ALLOC_CONF="))
			return p4d_job_is_expandable(alone);
		all = all || !strcasecmp(entry, "ALL");
	}
	return all && sbatch->job.expandable;
}

int p4d_sbatch_job(p4d_sbatch *sbatch, p4d_error *err)
{
	p4d_job *job = &sbatch->job;
	const char *nodes = sbatch->value[P4D_SBATCH_NODES], *exclusive = sbatch->value[P4D_SBATCH_EXCLUSIVE];
	const char *hint = hint_of(sbatch);

	job->partition = sbatch->value[P4D_SBATCH_PARTITION];
	job->qos = sbatch->value[P4D_SBATCH_QOS];
	job->account = sbatch->value[P4D_SBATCH_ACCOUNT];
	job->reservation = sbatch->value[P4D_SBATCH_RESERVATION];
	job->constraint = sbatch->value[P4D_SBATCH_CONSTRAINT];
	job->nodelist = sbatch->value[P4D_SBATCH_NODELIST];
	job->exclude = sbatch->value[P4D_SBATCH_EXCLUDE];
	job->clusters = sbatch->value[P4D_SBATCH_CLUSTERS];
	job->array = sbatch->value[P4D_SBATCH_ARRAY];
	job->export = sbatch->value[P4D_SBATCH_EXPORT];
	job->loads_environment =
	    sbatch->value[P4D_SBATCH_EXPORT_FILE] || sbatch->value[P4D_SBATCH_GET_USER_ENV];
	job->expandable = is_expandable(sbatch);
	job->overcommit = sbatch->value[P4D_SBATCH_OVERCOMMIT];
	/* --exclusive=user and =mcs share the node with other jobs */
	job->exclusive = exclusive && (!*exclusive || !strcmp(exclusive, "exclusive"));
	if (read_node_info(sbatch, err) < 0)
		return -1;
	if (nodes && p4d_gres__parse_nodes(nodes, &job->min_nodes, &job->max_nodes, err) < 0)
		return -1;
	if (read_number(sbatch, P4D_SBATCH_NTASKS, &job->tasks, err) < 0 ||
	    read_number(sbatch, P4D_SBATCH_NTASKS_PER_NODE, &job->tasks_per_node, err) < 0 ||
	    read_number(sbatch, P4D_SBATCH_NTASKS_PER_CORE, &job->tasks_per_core, err) < 0 ||
	    read_number(sbatch, P4D_SBATCH_NTASKS_PER_GPU, &job->tasks_per_gpu, err) < 0 ||
	    read_number(sbatch, P4D_SBATCH_CPUS_PER_TASK, &job->cpus_per_task, err) < 0 ||
	    read_number(sbatch, P4D_SBATCH_CPUS_PER_GPU, &job->cpus_per_gpu, err) < 0 ||
	    read_number(sbatch, P4D_SBATCH_MINCPUS, &job->min_cpus, err) < 0 ||
	    read_number(sbatch, P4D_SBATCH_SOCKETS_PER_NODE, &job->sockets_per_node, err) < 0 ||
	    read_threads(sbatch, hint, job, err) < 0 || read_memory(sbatch, job, err) < 0)
		return -1;
	fit_nodes(sbatch, job);
	if (count_tasks(sbatch, hint, job, err) < 0 || read_gres(sbatch, job, err) < 0)
		return -1;
	return count_tasks_of_gpus(sbatch, job, err);
}

static bool has_defaults_only(const p4d_sbatch *sbatch)
{
	for (int i = P4D_SBATCH_FIELDS; i < P4D_SBATCH_VALUES; i++)
		if (sbatch->value[i] && sbatch->source[i] != P4D_FROM_ENVIRONMENT)
			return false;
	return !p4d_job_wants_gpus(&sbatch->job) || !sbatch->value[P4D_SBATCH_FIELDS + P4D_MODEL];
}

/* Adds the source to an error about an option that is not on the command line. */
static int say_source(const p4d_sbatch *sbatch, p4d_option option, p4d_error *err)
{
	char where[80] = "the batch script";
	p4d_error inner;

	if (!err || sbatch->source[P4D_SBATCH_FIELDS + option] == P4D_FROM_COMMAND_LINE)
		return -1;
	inner = *err;
	if (sbatch->source[P4D_SBATCH_FIELDS + option] == P4D_FROM_ENVIRONMENT)
		p4d_request_variable(sbatch->prefix ? sbatch->prefix : "SBATCH", option, where,
				     sizeof(where));
	p4d_fail(err, inner.code, "%.400s (from %s)", inner.text, where);
	return p4d_fix(err, "%s", inner.fix);
}

int p4d_sbatch_request(p4d_sbatch *sbatch, p4d_error *err)
{
	if (has_defaults_only(sbatch))
		return 0;
	for (int i = 0; i < P4D_OPTIONS; i++) {
		const char *text = sbatch->value[P4D_SBATCH_FIELDS + i];
		if (text && p4d_request_set(&sbatch->request, (p4d_option)i, text, P4D_BY_USER, err) < 0)
			return say_source(sbatch, (p4d_option)i, err);
	}
	return 0;
}

void p4d_sbatch_free(p4d_sbatch *sbatch)
{
	for (int i = 0; i < P4D_SBATCH_VALUES; i++)
		free(sbatch->value[i]);
	free(sbatch->gres);
	free(sbatch->gpus);
	free(sbatch->gpus_per_task);
	free(sbatch->gpus_per_socket);
	free(sbatch->nodelist);
	free(sbatch->foreign);
	memset(sbatch, 0, sizeof(*sbatch));
}
