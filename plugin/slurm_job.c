/* SPDX-License-Identifier: Apache-2.0 */
#include "slurm_job.h"

#include <string.h>

#include "base/number.h"

#include "job/script.h"
#include "job_environment.h"

/*
 * The texts of a p4d_job: TEXT(p4d's field, Slurm's field in a description, Slurm's field in a record). An
 * empty text in an update removes the job's text (`scontrol update jobid=8 Features=`).
 */
#define JOB_TEXTS(TEXT) \
	TEXT(partition, partition, partition) \
	TEXT(qos, qos, qos) \
	TEXT(account, account, account) \
	TEXT(reservation, reservation, resv_name) \
	TEXT(constraint, features, features) \
	TEXT(nodelist, req_nodes, req_nodes) \
	TEXT(exclude, exc_nodes, exc_nodes) \
	TEXT(gres, tres_per_node, tres_per_node) \
	TEXT(gpus, tres_per_job, tres_per_job) \
	TEXT(gpus_per_task, tres_per_task, tres_per_task) \
	TEXT(gpus_per_socket, tres_per_socket, tres_per_socket)

static void set_text(const char **field, const char *text)
{
	if (text)
		*field = *text ? text : NULL;
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

/* The text after the last colon of a text of at most Slurm's length; NULL: none. */
static const char *behind_colon(const char *text)
{
	enum { MOST = 1024 };
	const char *colon = text && strnlen(text, MOST + 1) <= MOST ? strrchr(text, ':') : NULL;

	return colon ? colon + 1 : NULL;
}

/* mebibytes: per node or (with MEM_PER_CPU) per CPU; 0 requests all memory of the node */
static void set_memory(p4d_job *job, uint64_t mebibytes, const char *per_tres)
{
	const char *per_gpu = behind_colon(per_tres);
	uint64_t bytes;

	if (mebibytes != NO_VAL64 && (mebibytes & ~MEM_PER_CPU) < UINT64_MAX >> 20) {
		bool per_cpu = mebibytes & MEM_PER_CPU;
		bytes = (mebibytes & ~MEM_PER_CPU) << 20;
		job->mem_per_cpu_bytes = per_cpu ? bytes : 0;
		job->mem_per_node_bytes = per_cpu ? 0 : bytes;
		job->mem_is_all = !bytes;
	}
	/* --mem-per-gpu: "gpu:2048", "gres:gpu:2048", "gres/gpu:2048" */
	if (per_gpu && !p4d_gres_parse_mem(per_gpu, &bytes, NULL))
		job->mem_per_gpu_bytes = bytes;
}

/* Reads "gres:gpu:4" or "gres/gpu:4", which is the form of --cpus-per-gpu in 22.05 and later. */
static void set_per_gpu(uint32_t *field, const char *per_tres)
{
	const char *text = behind_colon(per_tres);
	uint64_t number;

	if (text && p4d_number_whole(text, 1, UINT32_MAX, &number))
		*field = (uint32_t)number;
}

/*
 * Whether the user typed --gpus-per-node and not --gres. The description does not tell, but sbatch sets a
 * variable for --gpus-per-node.
 */
static bool says_gpus_per_node(const job_desc_msg_t *desc)
{
	static const char name[] = "SLURM_GPUS_PER_NODE=";

	if (!desc->tres_per_node)
		return false;
	/* searches a text of any length that Slurm accepts; the result only decides how a fix is written */
	if (desc->submit_line &&
	    memmem(desc->submit_line, strnlen(desc->submit_line, 1 << 16), "--gpus-per-n", 12))
		return true;
	for (uint32_t i = 0; desc->environment && i < desc->env_size && i < P4D_ENVIRONMENT_SIZE; i++)
		if (desc->environment[i] && !strncmp(desc->environment[i], name, sizeof(name) - 1))
			return true;
	return false;
}

void p4d_job_from_desc(p4d_job *job, const job_desc_msg_t *desc)
{
#define TEXT(ours, desc_field, info_field) set_text(&job->ours, desc->desc_field);
	JOB_TEXTS(TEXT)
#undef TEXT
	set_number(&job->min_nodes, desc->min_nodes);
	set_number(&job->max_nodes, desc->max_nodes);
	set_number(&job->tasks, desc->num_tasks);
	set_number16(&job->tasks_per_node, desc->ntasks_per_node);
	set_number16(&job->tasks_per_gpu, desc->ntasks_per_tres);
	set_number16(&job->cpus_per_task, desc->cpus_per_task);
	set_number16(&job->min_cpus, desc->pn_min_cpus);
	set_number16(&job->sockets_per_node, desc->sockets_per_node);
	set_number16(&job->threads_per_core, desc->threads_per_core);
	set_number16(&job->tasks_per_core, desc->ntasks_per_core);
	set_per_gpu(&job->cpus_per_gpu, desc->cpus_per_tres);
	set_memory(job, desc->pn_min_memory, desc->mem_per_tres);
	if (desc->shared != NO_VAL16)
		job->exclusive = desc->shared == JOB_SHARED_NONE;
	if (desc->overcommit != NO_VAL8)
		job->overcommit = desc->overcommit;
	job->per_node_option = job->per_node_option || says_gpus_per_node(desc);
	if (desc->script) {
		job->script = desc->script;
		job->script_length = strnlen(desc->script, P4D_SCRIPT_BYTES);
	}
}

bool p4d_desc_touches_job(const job_desc_msg_t *desc)
{
	p4d_job job = {0};

	p4d_job_from_desc(&job, desc);
#define TEXT(ours, desc_field, info_field) desc->desc_field ||
	return JOB_TEXTS(TEXT) job.min_nodes || job.max_nodes || job.tasks || job.tasks_per_node ||
	       job.tasks_per_gpu || job.cpus_per_task || job.min_cpus || job.cpus_per_gpu ||
	       job.sockets_per_node || job.threads_per_core || job.tasks_per_core || job.mem_per_node_bytes ||
	       job.mem_per_cpu_bytes || job.mem_per_gpu_bytes || job.mem_is_all || desc->shared != NO_VAL16 ||
	       desc->overcommit != NO_VAL8;
#undef TEXT
}

void p4d_job_from_info(p4d_job *job, const job_info_t *info)
{
#define TEXT(ours, desc_field, info_field) set_text(&job->ours, info->info_field);
	JOB_TEXTS(TEXT)
#undef TEXT
	set_number(&job->min_nodes, info->num_nodes);
	set_number(&job->max_nodes, info->num_nodes);
	set_number(&job->tasks, info->num_tasks);
	set_number16(&job->tasks_per_node, info->ntasks_per_node);
	set_number16(&job->tasks_per_gpu, info->ntasks_per_tres);
	set_number16(&job->cpus_per_task, info->cpus_per_task);
	set_number16(&job->min_cpus, info->pn_min_cpus);
	set_number16(&job->sockets_per_node, info->sockets_per_node);
	set_number16(&job->threads_per_core, info->threads_per_core);
	set_number16(&job->tasks_per_core, info->ntasks_per_core);
	set_memory(job, info->pn_min_memory, info->mem_per_tres);
	job->exclusive = info->shared == JOB_SHARED_NONE;
}
