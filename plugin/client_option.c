/* SPDX-License-Identifier: Apache-2.0 */
#include "client_option.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "slurm_compat.h"

enum { LOG_LEVEL_INFO = 3 };

/* Symbols of sbatch, salloc and srun; NULL if the program does not export them. */
static struct {
	bool looked_up;
	void *options;
	bool (*is_set)(void *options, const char *name);
	char *(*get)(void *options, const char *name);
	bool (*next)(void *options, char **name, char **value, size_t *state);
} client;

static bool look_up(void)
{
	if (!client.looked_up) {
		client.looked_up = true;
		client.options = dlsym(RTLD_DEFAULT, "opt");
		*(void **)&client.is_set = dlsym(RTLD_DEFAULT, "slurm_option_isset");
		*(void **)&client.get = dlsym(RTLD_DEFAULT, "slurm_option_get");
		*(void **)&client.next = dlsym(RTLD_DEFAULT, "slurm_option_get_next_set");
	}
	return client.options && client.is_set && client.get && client.next;
}

/* Copies one of Slurm's texts into memory that the caller owns, and frees Slurm's original. */
static char *take(char *text)
{
	char *copy = text ? strdup(text) : NULL;

	if (text)
		slurm_xfree((void **)&text);
	return copy;
}

char *p4d_client_option(const char *name)
{
	if (!look_up())
		return NULL;
	/* If an option is not set, its value is garbage. These three names have values although they never
	 * count as set: argv, which is no option; a node list from --nodefile; and a number of nodes that
	 * sbatch derives itself. */
	if (strcmp(name, "argv") != 0 && strcmp(name, "nodelist") != 0 && strcmp(name, "nodes") != 0 &&
	    !client.is_set(client.options, name))
		return NULL;
	return take(client.get(client.options, name));
}

void p4d_client_options(void (*visit)(const char *name, char *value, void *context), void *context)
{
	char *name = NULL, *value = NULL;
	size_t state = 0;

	if (!look_up())
		return;
	while (client.next(client.options, &name, &value, &state)) {
		visit(name, take(value), context);
		slurm_xfree((void **)&name);
		value = NULL;
	}
}

static bool is_set(const char *name)
{
	return look_up() && client.is_set(client.options, name);
}

bool p4d_client_exports_all(void)
{
	char *names = p4d_client_option("export");
	const bool all = !names || !strcasecmp(names, "ALL");

	free(names);
	return all && !is_set("export-file") && !is_set("get-user-env");
}

const slurm_conf_t *p4d_client_slurm_conf(void)
{
	static const slurm_conf_t *conf;

	conf = conf ? conf : dlsym(RTLD_DEFAULT, "slurm_conf");
	return conf;
}

bool p4d_client_is_salloc(void)
{
	return !strcmp(program_invocation_short_name, "salloc");
}

uint32_t p4d_client_job_id(void)
{
	char *given = p4d_client_option("jobid");
	const char *text = given ? given : getenv("SLURM_JOB_ID");
	uint32_t job_id = text ? (uint32_t)strtoul(text, NULL, 10) : 0;

	free(given);
	return job_id;
}

static int log_level(void)
{
	int (*level)(void);

	*(void **)&level = dlsym(RTLD_DEFAULT, "slurm_get_log_level");
	return level ? level() : LOG_LEVEL_INFO;
}

bool p4d_client_talks(void)
{
	return log_level() >= LOG_LEVEL_INFO;
}

int p4d_client_hush(void)
{
	const int nowhere = log_level() > LOG_LEVEL_INFO ? -1 : open("/dev/null", O_WRONLY | O_CLOEXEC);
	int kept = -1;

	if (nowhere < 0)
		return -1;
	fflush(stderr);
	kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (kept >= 0)
		dup2(nowhere, STDERR_FILENO);
	close(nowhere);
	return kept;
}

void p4d_client_unhush(int kept)
{
	if (kept < 0)
		return;
	fflush(stderr);
	dup2(kept, STDERR_FILENO);
	close(kept);
}
