/* SPDX-License-Identifier: Apache-2.0 */
/* What was rehearsed of the commands of a job script. */
#include <string.h>

#include "job/job_internal.h"
#include "job/read_job.h"
#include "rehearsals/rehearsals_key.h"

/* A longer command is none that was rehearsed. */
enum { WORDS = 4096, WORD = 4096 };

static void add_variable(void *key, const char *name, p4d_value value)
{
	char text[1024];

	p4d_rehearsals_key_variable(key, name, p4d_value_text(value, text, sizeof(text)));
}

/* Those that count also if they are only in the environment, in the order of the table. */
static void add_environment(p4d_rehearsals_key *key, p4d_shell *shell)
{
	p4d_value value;

	for (const char *const *name = p4d_rehearsals_variables; *name; name++)
		if (p4d_shell_exported(shell, *name, &value) && value.length)
			add_variable(key, *name, value);
}

static void add_script(void *key, const char *name, p4d_value value)
{
	for (const char *const *known = p4d_rehearsals_variables; *known; known++)
		if (!strcmp(name, *known))
			return;
	add_variable(key, name, value);
}

static void add_options(p4d_rehearsals_key *key, const p4d_command_run *started)
{
	char name[128], value[WORD];

	for (unsigned i = 0; i < started->options; i++) {
		const p4d_value given = started->option[i].value;
		p4d_value_text(started->option[i].name, name, sizeof(name));
		p4d_rehearsals_key_option(key, name, p4d_value_text(given, value, sizeof(value)),
					  !p4d_value_unknown(given));
	}
}

static void add_words(p4d_rehearsals_key *key, const p4d_command_run *started)
{
	char word[WORD];

	for (size_t i = 1; i < started->count; i++) {
		const p4d_value value = started->words[i];
		p4d_rehearsals_key_word(key, p4d_value_text(value, word, sizeof(word)),
					value.length < sizeof(word) && !p4d_value_unknown(value));
	}
}

bool p4d_job_command_key(p4d_shell *shell, const p4d_command_run *started, p4d_job_command *to)
{
	char program[WORD];
	p4d_rehearsals_key key;
	p4d_value here;

	if (started->container || !started->count || started->count > WORDS ||
	    started->words[0].length >= sizeof(program) || p4d_value_unknown(started->words[0]) ||
	    !p4d_shell_variable(shell, "PWD", &here) || p4d_value_unknown(here) ||
	    here.length >= sizeof(to->directory))
		return false;
	p4d_value_text(started->words[0], program, sizeof(program));
	p4d_value_text(here, to->directory, sizeof(to->directory));
	p4d_rehearsals_key_begin(&key);
	p4d_rehearsals_key_program(&key, to->directory, program, started->module);
	add_options(&key, started);
	add_words(&key, started);
	add_environment(&key, shell);
	p4d_shell_each_exported(shell, add_script, &key);
	return p4d_rehearsals_key_text(&key, to->key);
}

/* Ranks on each node; 0: not known. all: where every GPU has one. */
static uint32_t ranks_of(const p4d_command_run *run, const p4d_job *job, bool *all)
{
	const uint64_t nodes = run->nodes ? run->nodes : p4d_job__nodes(job);
	const uint64_t each = run->tasks_per_node ? run->tasks_per_node
			      : run->tasks        ? 0
						  : job->tasks_per_node;
	const uint64_t tasks = run->tasks ? run->tasks : job->tasks;

	*all = run->ranks == P4D_RANKS_OF_GPUS;
	if (run->ranks == P4D_RANKS_ONE)
		return 1;
	if (run->ranks == P4D_RANKS_TOLD)
		return (uint32_t)run->ranks_per_node;
	if (run->ranks != P4D_RANKS_OF_TASKS || job->tasks_per_gpu)
		return 0;
	if (each || !tasks)
		return each ? (uint32_t)each : 1;
	return nodes && tasks % nodes == 0 ? (uint32_t)(tasks / nodes) : 0;
}

void p4d_job__find_rehearsals(p4d_rehearsals *found, const p4d_job *job, p4d_shell *shell,
			      const p4d_started *started)
{
	p4d_job_command command;
	const p4d_command_run *run = started->run;
	const unsigned first = found->count;
	bool all;

	if (!run || found->lookups++ >= P4D_REHEARSALS_LOOKUPS || !p4d_job_command_key(shell, run, &command))
		return;
	const uint32_t ranks = ranks_of(run, job, &all);
	p4d_rehearsals_find(found, &(p4d_rehearsals_command){.key = command.key,
							     .directory = command.directory,
							     .python = run->python,
							     .nodes = (uint32_t)run->nodes,
							     .ranks_per_node = ranks,
							     .ranks_are_gpus = all,
							     .ranks_said = run->ranks == P4D_RANKS_TOLD});
	for (unsigned i = first; i < found->count; i++)
		found->run[i].unsure = found->run[i].unsure || !started->certain || (!ranks && !all);
}
