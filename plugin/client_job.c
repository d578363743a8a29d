/* SPDX-License-Identifier: Apache-2.0 */
#include "client_job.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client_option.h"
#include "slurm_compat.h"

/* The options that decide where a job runs, by Slurm's names. */
static const struct {
	const char *name;
	p4d_sbatch_field field;
} job_options[] = {
    {"account", P4D_SBATCH_ACCOUNT},
    {"array", P4D_SBATCH_ARRAY},
    {"clusters", P4D_SBATCH_CLUSTERS},
    {"constraint", P4D_SBATCH_CONSTRAINT},
    {"cores-per-socket", P4D_SBATCH_CORES_PER_SOCKET},
    {"cpus-per-gpu", P4D_SBATCH_CPUS_PER_GPU},
    {"cpus-per-task", P4D_SBATCH_CPUS_PER_TASK},
    {"exclude", P4D_SBATCH_EXCLUDE},
    {"exclusive", P4D_SBATCH_EXCLUSIVE},
    {"export", P4D_SBATCH_EXPORT},
    {"export-file", P4D_SBATCH_EXPORT_FILE},
    {"extra-node-info", P4D_SBATCH_EXTRA_NODE_INFO},
    {"get-user-env", P4D_SBATCH_GET_USER_ENV},
    {"gpus", P4D_SBATCH_GPUS},
    {"gpus-per-node", P4D_SBATCH_GPUS_PER_NODE},
    {"gpus-per-socket", P4D_SBATCH_GPUS_PER_SOCKET},
    {"gpus-per-task", P4D_SBATCH_GPUS_PER_TASK},
    {"gres", P4D_SBATCH_GRES},
    {"hint", P4D_SBATCH_HINT},
    {"mem", P4D_SBATCH_MEM},
    {"mem-per-cpu", P4D_SBATCH_MEM_PER_CPU},
    {"mem-per-gpu", P4D_SBATCH_MEM_PER_GPU},
    {"mincpus", P4D_SBATCH_MINCPUS},
    {"nodelist", P4D_SBATCH_NODELIST},
    {"nodes", P4D_SBATCH_NODES},
    {"ntasks", P4D_SBATCH_NTASKS},
    {"ntasks-per-core", P4D_SBATCH_NTASKS_PER_CORE},
    {"ntasks-per-gpu", P4D_SBATCH_NTASKS_PER_GPU},
    {"ntasks-per-node", P4D_SBATCH_NTASKS_PER_NODE},
    {"ntasks-per-tres", P4D_SBATCH_NTASKS_PER_GPU},
    {"overcommit", P4D_SBATCH_OVERCOMMIT},
    {"partition", P4D_SBATCH_PARTITION},
    {"qos", P4D_SBATCH_QOS},
    {"sockets-per-node", P4D_SBATCH_SOCKETS_PER_NODE},
    {"reservation", P4D_SBATCH_RESERVATION},
    {"threads-per-core", P4D_SBATCH_THREADS_PER_CORE},
    {"tres-per-task", P4D_SBATCH_TRES_PER_TASK},
};

/* Converts an option's value to the form that p4d_sbatch_job understands; false: the value has no effect. */
static bool mend(p4d_sbatch_field field, char *text)
{
	const slurm_conf_t *conf = p4d_client_slurm_conf();
	size_t length = strlen(text);

	switch (field) {
	case P4D_SBATCH_EXCLUSIVE: /* --exclusive=user shares the node with the user's own jobs */
		return !strcmp(text, "exclusive");
	case P4D_SBATCH_CLUSTERS: /* --clusters with the name of this cluster selects no other cluster */
		return !conf || !conf->cluster_name || strcmp(text, conf->cluster_name) != 0;
	case P4D_SBATCH_CORES_PER_SOCKET: /* --hint resets these options, and "*" in -B means no value */
	case P4D_SBATCH_SOCKETS_PER_NODE:
	case P4D_SBATCH_THREADS_PER_CORE:
		return *text && strcmp(text, "-2") != 0;
	default: /* Slurm prints a size of zero, as in --mem=0, with a wrong unit: "0?" */
		if (length && text[length - 1] == '?')
			text[length - 1] = '\0';
		return true;
	}
}

/* Stores the value of an option. If two options set the same field, the first one is used. */
static void take_option(const char *name, char *text, void *context)
{
	p4d_sbatch *sbatch = context;

	for (size_t i = 0; text && i < sizeof(job_options) / sizeof(job_options[0]); i++) {
		const p4d_sbatch_field field = job_options[i].field;
		if (strcmp(job_options[i].name, name) != 0)
			continue;
		if (!sbatch->value[field] && mend(field, text)) {
			sbatch->value[field] = text;
			return;
		}
		break;
	}
	free(text);
}

int p4d_client_job(p4d_sbatch *sbatch, p4d_error *err)
{
	p4d_client_options(take_option, sbatch);
	/* a list from --nodefile does not appear as a set option */
	if (!sbatch->value[P4D_SBATCH_NODELIST])
		take_option("nodelist", p4d_client_option("nodelist"), sbatch);
	/* If a list has more nodes than the job has tasks, sbatch uses one node per task. Otherwise it
	 * sets no maximum: "1-0". */
	char *nodes = sbatch->value[P4D_SBATCH_NODES] ? NULL : p4d_client_option("nodes");
	if (nodes && !strchr(nodes, '-') && sbatch->value[P4D_SBATCH_NODELIST])
		take_option("nodes", nodes, sbatch);
	else
		free(nodes);
	for (size_t i = 0; i < sizeof(job_options) / sizeof(job_options[0]); i++)
		sbatch->source[job_options[i].field] = P4D_FROM_COMMAND_LINE;
	sbatch->job.expandable = p4d_job_is_expandable(environ);
	return p4d_sbatch_job(sbatch, err);
}

int p4d_client_request(p4d_sbatch *sbatch, const p4d_given *given, p4d_error *err)
{
	sbatch->prefix = given->prefix;
	for (int i = 0; i < P4D_OPTIONS; i++) {
		int at = P4D_SBATCH_FIELDS + i;
		if (!given->text[i])
			continue;
		sbatch->value[at] = strdup(given->text[i]);
		if (!sbatch->value[at])
			return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for an option");
		sbatch->source[at] =
		    given->from_environment[i] ? P4D_FROM_ENVIRONMENT : P4D_FROM_COMMAND_LINE;
	}
	return p4d_sbatch_request(sbatch, err);
}
