/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory: what a job needs on a node, and what Slurm gives it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "guard/verdict.h"

/* Whether the job requests a fraction of the node's memory. */
static bool has_part(const p4d_job *job)
{
	return !job->mem_is_all &&
	       (job->mem_per_node_bytes || job->mem_per_gpu_bytes || job->mem_per_cpu_bytes);
}

/* Name of the option that sets the job's host memory. */
static const char *memory_option(const p4d_job *job)
{
	return job->mem_per_node_bytes  ? "--mem"
	       : job->mem_per_gpu_bytes ? "--mem-per-gpu"
	       : job->mem_per_cpu_bytes ? "--mem-per-cpu"
					: "--mem";
}

bool p4d_guard__is_killed(const p4d_job *job, uint64_t host_bytes, const p4d_estimate *estimate)
{
	return has_part(job) && host_bytes && estimate->offloaded_bytes > host_bytes;
}

/* In words, what decides the job's memory (such as Slurm's default); NULL: the job's own memory option. */
static const char *whose_memory(const p4d_job *job, const p4d_geometry *geometry)
{
	return geometry->host_by_default ? "without --mem, a job in this partition gets"
	       : has_part(job)           ? NULL
					 : "a node here has";
}

int p4d_guard__check_host_memory(const p4d_job *job, const p4d_verdict *v, p4d_error *err)
{
	uint64_t need = v->estimate.host_bytes, have = v->geometry.host_bytes;

	if (need == P4D_NOT_MODELLED || !have || need <= have)
		return 0;
	const char *whose = whose_memory(job, &v->geometry);
	p4d_fail(err, P4D_E_HOST_MEMORY,
		 "%" PRIu64 " ranks of a node need %.1f GiB of host memory (%s included), "
		 "%s%s %.1f GiB",
		 v->layout.gpus_per_node, p4d_to_gib(need),
		 v->layout.offload ? "offloaded tensors" : "checkpoint staging",
		 whose ? whose : memory_option(job), whose ? "" : " grants", p4d_to_gib(have));
	return -1;
}

/*
 * The value of a --mem option for `need` bytes per node, divided by `parts`; in units of 1 << shift bytes. 0:
 * a node has less memory.
 */
static uint64_t in_units(uint64_t need, uint64_t parts, unsigned shift, uint64_t has)
{
	const uint64_t each = parts ? ((need - 1) / parts >> shift) + 1 : 0;
	uint64_t all;

	return __builtin_mul_overflow(each << shift, parts, &all) || (has && all > has) ? 0 : each;
}

/* All memory of a node; 0: unknown. */
static uint64_t node_memory(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
			    void *context)
{
	p4d_job whole = *job;
	p4d_geometry node;

	whole.mem_per_node_bytes = whole.mem_per_gpu_bytes = whole.mem_per_cpu_bytes = 0;
	whole.mem_is_all = true;
	return p4d_job_geometry(site, &whole, source, context, &node, NULL) < 0 ? 0 : node.host_bytes;
}

/* In how many parts the job's memory option divides a node's memory. */
static uint64_t memory_parts(const p4d_job *job, const p4d_verdict *v)
{
	if (job->mem_per_node_bytes || !has_part(job))
		return 1;
	return job->mem_per_gpu_bytes
		   ? v->geometry.gpus_per_node
		   : (uint64_t)(job->cpus_per_task ? job->cpus_per_task : 1) * v->geometry.tasks_per_node;
}

uint64_t p4d_guard__roomy(const p4d_estimate *estimate, double limit)
{
	return (uint64_t)((double)(estimate->host_bytes + estimate->host.rounding) / limit);
}

/* Writes the job's memory option with this many bytes per node. False: a node has less. */
static bool write_memory(const p4d_job *job, const p4d_verdict *v, uint64_t need, uint64_t has, char *buf,
			 size_t size)
{
	const uint64_t parts = memory_parts(job, v);
	const uint64_t gib = in_units(need, parts, 30, has);
	const uint64_t mib = gib ? 0 : in_units(need, parts, 20, has);

	if (gib || mib)
		snprintf(buf, size, "%s=%" PRIu64 "%c", memory_option(job), gib ? gib : mib, gib ? 'G' : 'M');
	return gib || mib;
}

void p4d_guard__fix_memory(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context,
			   const p4d_verdict *v, uint64_t need, p4d_error *err)
{
	char fix[64];

	if (!err || err->code != P4D_E_HOST_MEMORY)
		return;
	err->fix[0] = '\0';
	if (job->mem_is_all || (!has_part(job) && !v->geometry.host_by_default))
		return;
	const uint64_t has = node_memory(site, job, source, context);
	const double limit = p4d_site_policy_limit(&v->policy, v->layout.framework);
	const bool offloads = v->judged && v->layout.offload;
	const uint64_t pinned = need + v->estimate.host.rounding;
	const uint64_t roomy = offloads ? p4d_guard__roomy(&v->estimate, limit) : pinned;
	if (write_memory(job, v, roomy, has, fix, sizeof(fix)) ||
	    write_memory(job, v, pinned, has, fix, sizeof(fix)) ||
	    write_memory(job, v, need, has, fix, sizeof(fix)))
		p4d_fix(err, "%s", fix);
	else
		p4d_text_print(
		    &(p4d_text){.at = err->text, .size = sizeof(err->text), .length = strlen(err->text)},
		    ", and a node of this partition has %.1f GiB", p4d_to_gib(has));
}

void p4d_guard__say_host_memory(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
				void *context, p4d_verdict *v)
{
	const p4d_estimate *e = &v->estimate;
	const double limit = p4d_site_policy_limit(&v->policy, v->layout.framework);
	const char *whose = whose_memory(job, &v->geometry);
	uint64_t have = v->geometry.host_bytes;
	char pinned[80] = "";

	/* a job that needs more than it gets was already refused or warned about */
	if (!v->judged || !v->layout.offload || e->host_bytes == P4D_NOT_MODELLED ||
	    (have && e->host_bytes > have))
		return;
	if (!have)
		have = node_memory(site, job, source, context);
	const uint64_t most = e->host_bytes + e->host.rounding;
	if (!have || (double)most <= limit * (double)have)
		return;
	if (e->host.rounding)
		snprintf(pinned, sizeof(pinned), ", or %.1f GiB if PyTorch pins each tensor",
			 p4d_to_gib(most));
	v->action = P4D_WARN;
	p4d_message *message = p4d_verdict__say(
	    v, P4D_E_UNVALIDATED,
	    "unvalidated (host memory of offloaded tensors): the ranks of a node need %.1f GiB of "
	    "host memory%s, %s%s %.1f GiB (%.0f %%, limit %.0f %%)",
	    p4d_to_gib(e->host_bytes), pinned, whose ? whose : memory_option(job), whose ? "" : " grants",
	    p4d_to_gib(have), 100 * (double)most / (double)have, 100 * limit);
	if (has_part(job) || v->geometry.host_by_default)
		write_memory(job, v, p4d_guard__roomy(e, limit), node_memory(site, job, source, context),
			     message->fix, sizeof(message->fix));
}
