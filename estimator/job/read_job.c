/* SPDX-License-Identifier: Apache-2.0 */
#include "job/read_job.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/exported.h"
#include "job/array.h"
#include "job/job_internal.h"

/*
 * Maximum number of comparisons with names of other variables, so that a script with many look-ups is cheap.
 */
enum { COMPARISONS = 1 << 16 };

typedef struct lookup {
	const p4d_job_script *script;
	size_t compared;
	size_t folders;      /* number of folders listed so far */
	bool asked_for_task; /* the script used the number of the array task */
	char text[1024];
} lookup;

static const char *number(lookup *l, uint64_t value)
{
	if (!value)
		return p4d_shell_later;
	snprintf(l->text, sizeof(l->text), "%" PRIu64, value);
	return l->text;
}

static uint32_t gpus_of(const char *text, bool bare)
{
	char type[48];
	uint32_t count = 0;

	return text && p4d_gres__parse_gpus(text, bare, type, sizeof(type), &count, NULL) > 0 ? count : 0;
}

/*
 * A single task runs on one node if nothing requests more nodes, although the job's GPUs may be on several
 * nodes.
 */
uint32_t p4d_job__nodes(const p4d_job *job)
{
	const bool one = job->tasks <= 1 && job->tasks_per_node <= 1 && !job->nodelist &&
			 (!job->gpus || gpus_of(job->gpus, true) == 1);

	if (!job->min_nodes && !job->max_nodes)
		return one;
	return job->min_nodes == job->max_nodes ? job->min_nodes : 0;
}

static uint32_t tasks_of(const p4d_job *job)
{
	return job->tasks ? job->tasks : job->tasks_per_node * p4d_job__nodes(job);
}

/* Number of GPUs on a node; 0: not fixed, because with several nodes --gpus may be distributed unevenly. */
static uint32_t gpus_on_node_of(const p4d_job *job)
{
	const uint32_t gpus = gpus_of(job->gres, false), all = gpus_of(job->gpus, true);

	return gpus ? gpus : p4d_job__nodes(job) == 1 || all == 1 ? all : 0;
}

static uint32_t tasks_per_node_of(const p4d_job *job)
{
	return job->tasks_per_node;
}

static uint32_t cpus_per_task_of(const p4d_job *job)
{
	return job->cpus_per_task;
}

/* The value of SLURM_TASKS_PER_NODE: "8(x2)" or, on one node, "8". */
static const char *tasks_of_nodes(lookup *l)
{
	const p4d_job *job = l->script->job;
	const uint32_t nodes = p4d_job__nodes(job), tasks = tasks_of(job), each = nodes ? tasks / nodes : 0;

	if (!each || tasks % nodes || (nodes > 1 && each != job->tasks_per_node && each > 1))
		return p4d_shell_later;
	snprintf(l->text, sizeof(l->text), nodes > 1 ? "%" PRIu32 "(x%" PRIu32 ")" : "%" PRIu32, each, nodes);
	return l->text;
}

/* Variables that Slurm sets from options of the job. */
static const struct {
	const char *name;
	uint32_t (*value)(const p4d_job *job); /* 0: the value is not fixed */
} of_slurm[] = {
    {"SLURM_NNODES", p4d_job__nodes},
    {"SLURM_JOB_NUM_NODES", p4d_job__nodes},
    {"SLURM_NTASKS", tasks_of},
    {"SLURM_NPROCS", tasks_of},
    {"SLURM_NTASKS_PER_NODE", tasks_per_node_of},
    {"SLURM_GPUS_ON_NODE", gpus_on_node_of},
    {"SLURM_CPUS_PER_TASK", cpus_per_task_of},
};

/*
 * Value of a variable that has the text of an option as typed, "h100:8". Without that option it is unset:
 * SLURM_GPUS_PER_NODE comes only from --gpus-per-node, not from --gres. If a job has both options, the job's
 * gres starts with the text of --gpus-per-node.
 */
static const char *as_typed(lookup *l, const char *option)
{
	const p4d_job *job = l->script->job;

	if (!job->gres && !job->gpus && !job->gpus_per_task)
		return p4d_shell_later;
	if (!option)
		return NULL;
	if (!strncmp(option, "gpu:", 4))
		option += 4;
	snprintf(l->text, sizeof(l->text), "%.*s", (int)strcspn(option, ",("), option);
	return l->text;
}

static const char *of_environment(lookup *l, const char *name)
{
	const p4d_job_script *s = l->script;
	const size_t length = strlen(name);

	if (s->inherited)
		return s->inherited(s->context, name);
	for (size_t i = 0; i < s->variables && s->environment[i]; i++) {
		if (l->compared++ == COMPARISONS)
			return p4d_shell_later;
		if (!strncmp(s->environment[i], name, length) && s->environment[i][length] == '=')
			return s->environment[i] + length + 1;
	}
	return NULL;
}

/* Value of SLURM_ARRAY_TASK_ID, _COUNT, _MIN, _MAX or _STEP. */
static const char *of_array(lookup *l, const char *name)
{
	const p4d_job_script *s = l->script;
	p4d_array array;

	if (!s->job->array && s->submitted && !of_environment(l, name))
		return NULL;
	if (!strcmp(name, "SLURM_ARRAY_TASK_ID")) {
		l->asked_for_task = true;
		return s->task ? s->task : p4d_shell_later;
	}
	if (!p4d_array__read(s->job->array, &array))
		return p4d_shell_later;
	const struct {
		const char *name;
		uint32_t value;
		bool known;
	} numbers[] = {{"SLURM_ARRAY_TASK_COUNT", array.count, array.count},
		       {"SLURM_ARRAY_TASK_MIN", array.least, true},
		       {"SLURM_ARRAY_TASK_MAX", array.most, true},
		       {"SLURM_ARRAY_TASK_STEP", array.step, array.step}};
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (!strcmp(name, numbers[i].name) && numbers[i].known) {
			snprintf(l->text, sizeof(l->text), "%" PRIu32, numbers[i].value);
			return l->text;
		}
	return p4d_shell_later;
}

static const char *of_job(lookup *l, const char *name)
{
	const p4d_job *job = l->script->job;

	if (!strcmp(name, "SLURM_GPUS_PER_NODE"))
		return as_typed(l, job->per_node_option || job->both_options ? job->gres : NULL);
	if (!strcmp(name, "SLURM_GPUS"))
		return as_typed(l, job->gpus);
	if (!strcmp(name, "SLURM_GPUS_PER_TASK"))
		return as_typed(l, job->gpus_per_task);
	if (!strcmp(name, "SLURM_TASKS_PER_NODE"))
		return tasks_of_nodes(l);
	for (size_t i = 0; i < sizeof(of_slurm) / sizeof(of_slurm[0]); i++)
		if (!strcmp(of_slurm[i].name, name))
			return number(l, of_slurm[i].value(job));
	if (!strcmp(name, "SLURM_EXPORT_ENV")) /* the environment variable that stands for srun's --export */
		return of_environment(l, name);
	if (!strncmp(name, "SLURM_ARRAY_", 12))
		return of_array(l, name);
	if (!strcmp(name, "SLURM_JOB_PARTITION") && job->partition && !strchr(job->partition, ','))
		return job->partition;
	if (!strcmp(name, "SLURM_SUBMIT_DIR") && l->script->directory)
		return l->script->directory;
	return p4d_shell_later;
}

/* The value that an item of --export gives the variable. */
static const char *of_item(lookup *l, const char *name, const p4d_exported *item)
{
	if (!item->value)
		return of_environment(l, name);
	if (item->value_length >= sizeof(l->text))
		return p4d_shell_later;
	snprintf(l->text, sizeof(l->text), "%.*s", (int)item->value_length, item->value);
	return l->text;
}

/*
 * Whether --export passes a variable on: "ALL,A=1,B" or "NONE"; the last item with its name wins. Without
 * ALL, the job also has the environment of a new login, which p4d does not know.
 */
static const char *of_export(lookup *l, const char *name)
{
	const char *at = l->script->export, *found = NULL;
	bool all = !at;
	p4d_exported item;

	while (at && p4d_exported_next(&at, &item)) {
		all = all || p4d_exported_is_all(&item);
		if (item.name_length == strlen(name) && !strncmp(item.name, name, item.name_length))
			found = of_item(l, name, &item);
	}
	if (found)
		return found;
	return all ? of_environment(l, name) : p4d_shell_later;
}

static const char *of_slurm_or_later(lookup *l, const char *name)
{
	const char *text = of_job(l, name);

	return text == p4d_shell_later && l->script->later ? l->script->later(l->script->context, name)
							   : text;
}

static const char *variable(void *context, const char *name)
{
	if (!strncmp(name, "SLURM", strlen("SLURM")))
		return of_slurm_or_later(context, name);
	if (!strncmp(name, "P4D_", 4)) /* variables that p4d itself exports */
		return p4d_shell_later;
	return of_export(context, name);
}

static const char *file(void *context, const char *path, size_t *length)
{
	const lookup *l = context;
	const char *text = l->script->left ? l->script->left(l->script->context, path, length) : NULL;

	if (text)
		return text;
	return p4d_read_files_open(l->script->files, path, length);
}

static bool list(void *context, const char *folder, void (*take)(void *taker, const char *name, bool folder),
		 void *taker)
{
	lookup *l = context;

	return ++l->folders <= P4D_READ_FOLDERS && p4d_read_files_list(folder, take, taker);
}

static p4d_config_read *config(void *context, p4d_config_format format)
{
	const lookup *l = context;
	p4d_config_read *const read = l->script->config(format);

	return read;
}

static const char *program(void *context, const char *path)
{
	const lookup *l = context;

	return l->script->program(l->script->site, path);
}

static void submits(void *context, p4d_shell *shell, const p4d_value *words, size_t count)
{
	const lookup *l = context;

	l->script->submits(l->script->context, shell, words, count);
}

static void starts(void *context, p4d_shell *shell, const p4d_started *command)
{
	const p4d_job_script *s = ((const lookup *)context)->script;

	if (s->rehearsals)
		p4d_job__find_rehearsals(s->rehearsals, s->job, shell, command);
	if (s->starts)
		s->starts(s->context, shell, command);
}

/* Whether the first line of the script names an interpreter that is no shell. */
static bool is_of_other_language(const char *text, size_t length)
{
	const char *end = memchr(text, '\n', length);
	const size_t line = end ? (size_t)(end - text) : length;

	return length > 2 && text[0] == '#' && text[1] == '!' && !memmem(text, line, "sh", 2);
}

void p4d_job_read(const p4d_job_script *script, const p4d_shell_limits *limits, p4d_reading *reading)
{
	lookup l = {.script = script};
	const p4d_reader_host host = {.shell = {.context = &l,
						.variable = variable,
						.file = script->files ? file : NULL,
						.list = script->files && !script->left ? list : NULL},
				      .config = script->config ? config : NULL,
				      .typed = script->typed,
				      .program = script->program ? program : NULL,
				      .submits = script->submits ? submits : NULL,
				      .starts = script->starts || script->rehearsals ? starts : NULL};

	if (is_of_other_language(script->job->script, script->job->script_length)) {
		*reading = (p4d_reading){.incomplete = "it is not a shell script"};
		return;
	}
	p4d_reader_read(reading, &host, limits, script->name, script->job->script, script->job->script_length,
			script->arguments, script->directory);
	reading->by_task = l.asked_for_task;
}
