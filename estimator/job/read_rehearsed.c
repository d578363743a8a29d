/* SPDX-License-Identifier: Apache-2.0 */
/* Finds rehearsals of the commands of a job script. */
#include <string.h>

#include "job/job_internal.h"
#include "job/read_job.h"
#include "rehearsals/rehearsals_key.h"

/* bounds of a command: words, and bytes of a word; nobody rehearsed a longer command */
enum { WORDS = 4096, WORD = 4096 };

/* Whether a value only identifies the job, node or rank, and so does not affect memory. */
static bool is_identity(const p4d_shell *shell, uint16_t unknown)
{
	static const char *const names[] = {"JOB_ID",  "JOBID",        "JOB_NODELIST", "NODELIST",
					    "NODEID",  "PROCID",       "STEPID",       "STEP_NODELIST",
					    "LOCALID", "ARRAY_JOB_ID", "TOPOLOGY_ADDR"};
	const char *why = p4d_shell_unknown(shell, unknown);

	if (!strncmp(why, "$SLURMD_NODENAME ", sizeof("$SLURMD_NODENAME ") - 1))
		return true;
	if (strncmp(why, "$SLURM_", sizeof("$SLURM_") - 1) != 0)
		return false;
	why += sizeof("$SLURM_") - 1;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(why, names[i], strlen(names[i])) && why[strlen(names[i])] == ' ')
			return true;
	return false;
}

/* Writes the text of a value. An unset variable is empty. False: a part of the value is unknown. */
static bool write_known(const p4d_shell *shell, p4d_value value, char text[WORD])
{
	uint32_t length = 0;

	for (uint32_t i = 0; i < value.length; i++) {
		const p4d_cell c = value.at[i];
		const bool unset = p4d_cell_is_unset(c);
		if (length + 1 >= WORD || (c.unknown && !unset && !is_identity(shell, c.unknown)))
			return false;
		if (!unset)
			text[length++] = c.unknown ? '?' : c.c;
	}
	text[length] = '\0';
	return true;
}

typedef struct variables {
	p4d_rehearsals_key *key;
	const p4d_shell *shell;
} variables;

static void add_variable(const variables *to, const char *name, p4d_value value)
{
	char text[WORD];

	if (value.length == 1 && value.at[0].unknown && is_identity(to->shell, value.at[0].unknown))
		return; /* a variable that only identifies the job, such as RUN=$SLURM_JOB_ID */
	if (write_known(to->shell, value, text))
		p4d_rehearsals_key_variable(to->key, name, text);
	else
		p4d_rehearsals_key_unknown_variable(to->key, name);
}

/* Adds the variables that count even if only the environment sets them, in the order of the table. */
static void add_environment(const variables *to, p4d_shell *shell)
{
	p4d_value value;

	for (const char *const *name = p4d_rehearsals_variables; *name; name++)
		if (p4d_shell_exported(shell, *name, &value) && value.length)
			add_variable(to, *name, value);
}

static void add_script(void *to, const char *name, p4d_value value)
{
	for (const char *const *known = p4d_rehearsals_variables; *known; known++)
		if (!strcmp(name, *known))
			return;
	add_variable(to, name, value);
}

/* Adds variables set by words before the program: "env MODEL=7b", "mpirun -x MODEL=7b". */
static void add_launchers(p4d_rehearsals_key *key, const p4d_shell *shell, const p4d_started *started)
{
	const p4d_value program = started->run ? started->run->words[0] : (p4d_value){0};
	char word[WORD];

	if (started->around)
		add_launchers(key, shell, started->around);
	p4d_rehearsals_key_launchers(key);
	for (size_t i = 0; i < started->count && started->words[i].at != program.at; i++) {
		const bool known = write_known(shell, started->words[i], word);
		if (!known)
			p4d_value_text(started->words[i], word, sizeof(word));
		p4d_rehearsals_key_launcher(key, word, known);
	}
}

/*
 * Adds variables that sbatch's --export sets for the program, and the variable with which the environment
 * stands for srun's --export.
 */
static void add_submitted(const variables *to, const p4d_job *job, p4d_shell *shell)
{
	static const char of_srun[] = "SLURM_EXPORT_ENV";
	p4d_value value;

	if (job->export)
		p4d_rehearsals_key_export(to->key, job->export, true);
	if (job->loads_environment)
		p4d_rehearsals_key_unknown_variable(to->key, "");
	if (p4d_shell_exported(shell, of_srun, &value) && value.length)
		add_variable(to, of_srun, value);
}

static void add_variables(p4d_rehearsals_key *key, const p4d_job *job, p4d_shell *shell)
{
	variables to = {key, shell};

	add_submitted(&to, job, shell);
	add_environment(&to, shell);
	p4d_shell_each_exported(shell, add_script, &to);
	if (p4d_shell_may_set(shell))
		p4d_rehearsals_key_unknown_variable(key, "");
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

bool p4d_job_command_key(const p4d_job *job, p4d_shell *shell, const p4d_started *command,
			 p4d_job_command *to)
{
	const p4d_command_run *started = command->run;
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
	add_launchers(&key, shell, command);
	add_variables(&key, job, shell);
	if (!p4d_rehearsals_key_of_known(&key, to->of_known))
		*to->of_known = '\0';
	return p4d_rehearsals_key_text(&key, to->key);
}

/* Number of ranks per node; 0: unknown. all: there is one rank per GPU. */
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

	if (!run || found->lookups++ >= P4D_REHEARSALS_LOOKUPS ||
	    !p4d_job_command_key(job, shell, started, &command))
		return;
	const uint32_t ranks = ranks_of(run, job, &all);
	p4d_rehearsals_command wanted = {.key = command.key,
					 .directory = command.directory,
					 .python = run->python,
					 .nodes = (uint32_t)run->nodes,
					 .ranks_per_node = ranks,
					 .ranks_are_gpus = all,
					 .ranks_said = run->ranks == P4D_RANKS_TOLD};
	p4d_rehearsals_find(found, &wanted);
	wanted.key = command.of_known;
	if (*wanted.key)
		p4d_rehearsals_find(found, &wanted);
	const bool unsure = !started->certain || (!ranks && !all) || *command.of_known;
	for (unsigned i = first; i < found->count; i++)
		found->run[i].unsure = found->run[i].unsure || unsure;
}
