/* SPDX-License-Identifier: Apache-2.0 */
#include "job_submit_script.h"

#include <pthread.h>
#include <string.h>

#include "base/file.h"
#include "job/export.h"
#include "job/script.h"
#include "job/tasks.h"
#include "job_environment.h"
#include "reader/reader_words.h"

/*
 * WORK: the most steps for reading a script, about half a millisecond. VARIABLES: maximum number of variables
 * of a job's environment that are examined.
 */
enum { ARENA = 1 << 20, WORK = P4D_SHELL_WORK / 24, ARGUMENTS = 64, VARIABLES = 512 };

/* Held while a script is read. The next thread waits for less than a millisecond. */
static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER;
static _Alignas(max_align_t) char arena[ARENA];
static p4d_reading reading;
static p4d_job_tasks tasks;
static const char *arguments[ARGUMENTS + 1];

static const char *name_of(const job_desc_msg_t *desc)
{
	return p4d_file_name(desc->argc && desc->argv && desc->argv[0] ? desc->argv[0] : "script");
}

/* Whether the script may start a program for which p4d.conf has a section. */
static bool starts_program_of(const p4d_site *site, const char *script, size_t length)
{
	enum { MOST = 64 << 10, PROGRAMS = 64 };
	const char *name, *is;

	length = length < MOST ? length : MOST;
	for (size_t i = 0; i < PROGRAMS && (name = p4d_site_program_at(site, i, &is)); i++) {
		name = p4d_file_name(name);
		if (*name && memmem(script, length, name, strlen(name)))
			return true;
	}
	return false;
}

const p4d_reading *p4d_script_read(const p4d_site *site, p4d_job *job, const job_desc_msg_t *desc)
{
	const bool is_component = desc->het_job_offset != NO_VAL;

	pthread_mutex_lock(&busy);
	/* if the text is longer than that, its end is unknown */
	if (!job->script || job->script_length >= P4D_SCRIPT_BYTES || is_component ||
	    desc->argc > ARGUMENTS ||
	    !(p4d_reader_may_train(job->script, job->script_length) ||
	      starts_program_of(site, job->script, job->script_length)))
		return NULL;
	memset(arguments, 0, sizeof(arguments));
	for (uint32_t i = 1; i < desc->argc && desc->argv; i++)
		arguments[i - 1] = desc->argv[i];
	const p4d_job_script script = {.job = job,
				       .name = name_of(desc),
				       .arguments = arguments,
				       .program = p4d_site_program_of,
				       .site = (void *)site,
				       .environment = desc->environment,
				       .variables = !desc->environment           ? 0
						    : desc->env_size < VARIABLES ? desc->env_size
										 : VARIABLES,
				       .submitted = true};
	const p4d_shell_limits limits = {arena, sizeof(arena), WORK};
	job->array = desc->array_inx;
	p4d_job_read(&script, &limits, &reading);
	job->array_tasks = p4d_job_tasks_of(&tasks, &script, &limits, &reading);
	return reading.reader ? &reading : NULL;
}

void p4d_script_release(void)
{
	pthread_mutex_unlock(&busy);
}

static void remove_entry(char **entry, uint32_t *count, const char *name)
{
	const size_t length = strlen(name);

	for (uint32_t i = 0; entry && i < *count && i < P4D_ENVIRONMENT_SIZE; i++)
		if (entry[i] && !strncmp(entry[i], name, length) && entry[i][length] == '=') {
			slurm_xfree((void **)&entry[i]);
			memmove(entry + i, entry + i + 1, (*count - i - 1) * sizeof(*entry));
			entry[--*count] = NULL;
			return;
		}
}

void p4d_script_remove_note(job_desc_msg_t *desc)
{
	remove_entry(desc->spank_job_env, &desc->spank_job_env_size, P4D_EXPORT_VERDICT);
	remove_entry(desc->environment, &desc->env_size, P4D_EXPORT_VERDICT);
	remove_entry(desc->environment, &desc->env_size, "SLURM_SPANK_" P4D_EXPORT_VERDICT);
}
