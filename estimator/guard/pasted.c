/* SPDX-License-Identifier: Apache-2.0 */
/* Applies a fix that consists of options, as if the user had pasted it into the command line. */
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "guard/guard_internal.h"

typedef struct pasting {
	p4d_job *job;
	p4d_request *request;
	char *gres;
} pasting;

static bool take_count(const char *text, uint32_t *count)
{
	uint64_t number;

	if (!p4d_number_digits(text, &number) || number > UINT32_MAX)
		return false;
	*count = (uint32_t)number;
	return true;
}

static bool take_memory(const pasting *p, const char *text, uint64_t *bytes)
{
	p4d_job *job = p->job;

	job->mem_per_node_bytes = job->mem_per_gpu_bytes = job->mem_per_cpu_bytes = 0;
	job->mem_is_all = false;
	return p4d_gres_parse_mem(text, bytes, NULL) == 0;
}

/* Applies the Slurm options that fixes consist of. */
static bool take_slurm(const pasting *p, const char *name, const char *value)
{
	p4d_job *job = p->job;

	if (!strcmp(name, "nodes"))
		return take_count(value, &job->min_nodes) && take_count(value, &job->max_nodes);
	if (!strcmp(name, "ntasks"))
		return take_count(value, &job->tasks);
	if (!strcmp(name, "ntasks-per-node"))
		return take_count(value, &job->tasks_per_node);
	if (!strcmp(name, "ntasks-per-gpu"))
		return take_count(value, &job->tasks_per_gpu);
	if (!strcmp(name, "mem"))
		return take_memory(p, value, &job->mem_per_node_bytes);
	if (!strcmp(name, "mem-per-gpu"))
		return take_memory(p, value, &job->mem_per_gpu_bytes);
	if (!strcmp(name, "mem-per-cpu"))
		return take_memory(p, value, &job->mem_per_cpu_bytes);
	if (!strcmp(name, "gpus"))
		job->gpus = value;
	else if (!strcmp(name, "gpus-per-task"))
		job->gpus_per_task = value;
	else if (!strcmp(name, "gres"))
		job->gres = value;
	else if (!strcmp(name, "gpus-per-node")) {
		snprintf(p->gres, P4D_PASTED_GRES, "gpu:%s", value);
		job->gres = p->gres;
		job->per_node_option = true;
	} else
		return false;
	return true;
}

static bool take_word(const pasting *p, char *word)
{
	char *value = strchr(word, '=');

	if (strncmp(word, "--", 2) != 0 || !value)
		return false;
	*value++ = '\0';
	if (strncmp(word, "--p4d-", 6) != 0)
		return take_slurm(p, word + 2, value);
	const int option = p4d_request_option_find(word + 6);
	return option >= 0 && p4d_request_set(p->request, (p4d_option)option, value, P4D_BY_USER, NULL) == 0;
}

bool p4d_guard__paste(p4d_pasted *room, const char *options, p4d_job *job, p4d_request *request)
{
	const pasting p = {job, request, room->gres};
	char *rest = room->words;

	snprintf(room->words, sizeof(room->words), "%s", options);
	for (char *word; (word = strsep(&rest, " "));)
		if (*word && !take_word(&p, word))
			return false;
	return true;
}
