/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a job's requests as Slurm options. */
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "job/job_internal.h"

/*
 * The type part of a request, "h100:"; `other` replaces the type if it is not NULL. "" for a request without
 * a type.
 */
static const char *type_of(const char *text, const char *other, char *buf, size_t size)
{
	char type[48];
	uint32_t count;
	p4d_text out = p4d_text_in(buf, size);

	if (other)
		p4d_text_print(&out, "%s:", other);
	else if (p4d_gres__parse_gpus(text, true, type, sizeof(type), &count, NULL) > 0 && type[0] &&
		 strcasecmp(type, "shard") != 0 && strcasecmp(type, "mps") != 0)
		p4d_text_print(&out, "%s:", type);
	return buf;
}

/* Writes the entries of --gres that are not for GPUs, because a fix keeps these entries. */
static void write_others(const char *gres, p4d_text *out)
{
	for (const char *at = gres; *at; at += *at == ',') {
		size_t prefix = strncasecmp(at, "gres:", 5) && strncasecmp(at, "gres/", 5) ? 0 : 5;
		size_t length = strcspn(at, ",");
		const char *name = at + prefix;
		bool gpu = !strncasecmp(name, "gpu", 3) &&
			   (length == prefix + 3 || name[3] == ':' || name[3] == '=');
		/* Slurm does not accept shards or MPS together with GPUs */
		const bool parts = !strncasecmp(name, "shard", 5) || !strncasecmp(name, "mps", 3);
		if (length > prefix && !gpu && !parts)
			p4d_text_print(out, "%.*s,", (int)(length - prefix), name);
		at += length;
	}
}

static void write_per_node(const p4d_job *job, const char *type, uint64_t gpus, p4d_text *out)
{
	if (job->gres && !job->per_node_option) {
		p4d_text_print(out, " --gres=");
		write_others(job->gres, out);
		p4d_text_print(out, "gpu:%s%" PRIu64, type, gpus);
	}
	if (!job->gres || job->per_node_option || job->both_options)
		p4d_text_print(out, " --gpus-per-node=%s%" PRIu64, type, gpus);
}

/*
 * Writes the options with which each task has `each` GPUs, or one GPU if `each` does not divide the GPUs of a
 * node.
 */
static void write_per_task(const p4d_job *job, const char *other, uint32_t each, uint64_t nodes,
			   uint64_t gpus, p4d_text *out)
{
	char type[64];

	if (gpus % each)
		each = 1;
	p4d_text_print(out, " --ntasks=%" PRIu64 " --ntasks-per-node=%" PRIu64 " --gpus-per-task=%s%" PRIu32,
		       nodes * (gpus / each), gpus / each,
		       type_of(job->gpus_per_task, other, type, sizeof(type)), each);
}

const char *p4d_job_flags(const p4d_job *job, uint64_t nodes, uint64_t gpus_per_node, char *buf, size_t size)
{
	return p4d_job_flags_with(job, NULL, nodes, gpus_per_node, buf, size);
}

const char *p4d_job_flags_with(const p4d_job *job, const char *other, uint64_t nodes, uint64_t gpus_per_node,
			       char *buf, size_t size)
{
	p4d_text out = p4d_text_in(buf, size);
	char type[64];
	uint32_t each;

	p4d_text_print(&out, "--nodes=%" PRIu64, nodes);
	if (job->cpu) {
		if (job->tasks) /* --ntasks would have priority over the number of nodes */
			p4d_text_print(&out, " --ntasks=%" PRIu64, nodes * gpus_per_node);
		p4d_text_print(&out, " --ntasks-per-node=%" PRIu64, gpus_per_node);
		return buf;
	}
	/* Slurm gives a job at most as many nodes as tasks. With --ntasks-per-gpu, it derives the nodes from
	 * --ntasks first. */
	if (job->tasks && job->tasks_per_gpu)
		p4d_text_print(&out, " --ntasks=%" PRIu64, nodes * gpus_per_node * job->tasks_per_gpu);
	else if (job->tasks && job->tasks < nodes && !job->gpus_per_task)
		p4d_text_print(&out, " --ntasks=%" PRIu64, nodes);
	if (job->gpus)
		p4d_text_print(&out, " --gpus=%s%" PRIu64, type_of(job->gpus, other, type, sizeof(type)),
			       nodes * gpus_per_node);
	const bool per_task = job->gpus_per_task && p4d_gres__parse_gpus(job->gpus_per_task, true, type,
									 sizeof(type), &each, NULL) > 0;
	if (per_task)
		write_per_task(job, other, each, nodes, gpus_per_node, &out);
	if (job->gres || (!per_task && (!job->gpus || nodes > 1)))
		write_per_node(job, job->gres ? type_of(job->gres, other, type, sizeof(type)) : "",
			       gpus_per_node, &out);
	return buf;
}

const char *p4d_job_task_flags(const p4d_job *job, uint64_t nodes, uint64_t gpus_per_node, char *buf,
			       size_t size)
{
	p4d_text out = p4d_text_in(buf, size);

	p4d_text_print(&out, "--nodes=%" PRIu64, nodes);
	if (job->gpus_per_task) {
		write_per_task(job, NULL, 1, nodes, gpus_per_node, &out);
		return buf;
	}
	if (job->tasks)
		p4d_text_print(&out, " --ntasks=%" PRIu64, nodes * gpus_per_node);
	/* Slurm accepts only one of these options */
	if (job->tasks_per_gpu)
		p4d_text_add(&out, " --ntasks-per-gpu=1");
	else
		p4d_text_print(&out, " --ntasks-per-node=%" PRIu64, gpus_per_node);
	return buf;
}
