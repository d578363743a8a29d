/* SPDX-License-Identifier: Apache-2.0 */
#include "slurm_job.h"

#include <string.h>

#include "job/script.h"

static void set_text(const char **field, const char *text)
{
	if (text && *text)
		*field = text;
}

static void set_number(uint32_t *field, uint32_t number)
{
	if (number && number != NO_VAL && number != INFINITE)
		*field = number;
}

static void set_number16(uint32_t *field, uint16_t number)
{
	if (number && number != NO_VAL16 && number != INFINITE16)
		*field = number;
}

/* mebibytes, per node or (with the flag) per CPU; 0 asks for all of the node */
static void set_memory(p4d_job *job, uint64_t mebibytes, const char *per_tres)
{
	const char *colon = per_tres ? strrchr(per_tres, ':') : NULL;
	uint64_t bytes;

	if (mebibytes != NO_VAL64 && (mebibytes & ~MEM_PER_CPU) < UINT64_MAX >> 20) {
		bool per_cpu = mebibytes & MEM_PER_CPU;
		bytes = (mebibytes & ~MEM_PER_CPU) << 20;
		job->mem_per_cpu_bytes = per_cpu ? bytes : 0;
		job->mem_per_node_bytes = per_cpu ? 0 : bytes;
		job->mem_is_all = !bytes;
	}
	/* "gpu:2048", "gres:gpu:2048", "gres/gpu:2048" */
	if (colon && !p4d_gres_parse_mem(colon + 1, &bytes, NULL))
		job->mem_per_gpu_bytes = bytes;
}

void p4d_job_from_desc(p4d_job *job, const job_desc_msg_t *desc)
{
	set_text(&job->partition, desc->partition);
	set_text(&job->qos, desc->qos);
	set_text(&job->account, desc->account);
	set_text(&job->reservation, desc->reservation);
	set_text(&job->constraint, desc->features);
	set_text(&job->gres, desc->tres_per_node);
	set_text(&job->gpus, desc->tres_per_job);
	set_text(&job->gpus_per_task, desc->tres_per_task);
	set_text(&job->gpus_per_socket, desc->tres_per_socket);
	set_number(&job->min_nodes, desc->min_nodes);
	set_number(&job->max_nodes, desc->max_nodes);
	set_number(&job->tasks, desc->num_tasks);
	set_number16(&job->tasks_per_node, desc->ntasks_per_node);
	set_number16(&job->cpus_per_task, desc->cpus_per_task);
	set_memory(job, desc->pn_min_memory, desc->mem_per_tres);
	if (desc->shared != NO_VAL16)
		job->exclusive = desc->shared == JOB_SHARED_NONE;
	if (desc->script) {
		job->script = desc->script;
		job->script_length = strnlen(desc->script, P4D_SCRIPT_BYTES);
	}
}

bool p4d_desc_touches_job(const job_desc_msg_t *desc)
{
	p4d_job job = {0};

	p4d_job_from_desc(&job, desc);
	return job.partition || job.qos || job.account || job.reservation || job.constraint || job.gres ||
	       job.gpus || job.gpus_per_task || job.gpus_per_socket || job.min_nodes || job.max_nodes ||
	       job.tasks || job.tasks_per_node || job.mem_per_node_bytes || job.mem_per_cpu_bytes ||
	       job.mem_per_gpu_bytes || job.mem_is_all;
}

void p4d_job_from_info(p4d_job *job, const job_info_t *info)
{
	set_text(&job->partition, info->partition);
	set_text(&job->qos, info->qos);
	set_text(&job->account, info->account);
	set_text(&job->user, info->user_name);
	set_text(&job->reservation, info->resv_name);
	set_text(&job->constraint, info->features);
	set_text(&job->gres, info->tres_per_node);
	set_text(&job->gpus, info->tres_per_job);
	set_text(&job->gpus_per_task, info->tres_per_task);
	set_text(&job->gpus_per_socket, info->tres_per_socket);
	set_number(&job->min_nodes, info->num_nodes);
	set_number(&job->max_nodes, info->num_nodes);
	set_number(&job->tasks, info->num_tasks);
	set_number16(&job->tasks_per_node, info->ntasks_per_node);
	set_number16(&job->cpus_per_task, info->cpus_per_task);
	set_memory(job, info->pn_min_memory, info->mem_per_tres);
	job->exclusive = info->shared == JOB_SHARED_NONE;
}
