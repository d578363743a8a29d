/* SPDX-License-Identifier: Apache-2.0 */
/* The programs that a script starts, including those that no reader knows. */
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "reader/reader_internal.h"

static uint64_t told(p4d_value value)
{
	enum { MOST = 1 << 20 };
	char text[32];
	uint64_t number = 0;

	if (value.length && value.length < sizeof(text) && !p4d_value_unknown(value))
		p4d_number_whole(p4d_value_text(value, text, sizeof(text)), 1, MOST, &number);
	return number;
}

/* Whether words are `python -m NAME`, where NAME is neither a path nor a Python file. */
static bool is_module(const p4d_launch *launch)
{
	char text[256];

	p4d_value_text(launch->words[0], text, sizeof(text));
	const size_t length = strlen(text);
	return launch->python && !strchr(text, '/') && !(length > 3 && !strcmp(text + length - 3, ".py"));
}

/*
 * The value of an srun option: "-n8", "-n" "8", "--ntasks=8". 0: the option is not given, or its value is
 * unknown; *unknown tells which.
 */
static uint64_t option_of(const p4d_value *words, size_t count, const char *name, bool *unknown)
{
	const size_t length = strlen(name);
	const bool is_short = name[1] != '-';
	char text[64];

	for (size_t i = 0; i < count; i++) {
		p4d_value_text(words[i], text, sizeof(text));
		if (strncmp(text, name, length) != 0)
			continue;
		const bool joined = text[length] == '=' || (is_short && text[length]);
		if (text[length] && !joined)
			continue;
		const uint32_t skip = (uint32_t)length + (text[length] == '=');
		const p4d_value value = joined ? (p4d_value){words[i].at + skip, words[i].length - skip}
					: i + 1 < count ? words[i + 1]
							: (p4d_value){0};
		const uint64_t number = told(value);
		*unknown = *unknown || !number;
		return number;
	}
	return 0;
}

/* Stores the tasks that srun or MPI starts. For MPI, p4d does not know how many tasks run on which node. */
static void take_tasks(p4d_command_run *run, const p4d_value *words, const p4d_launcher *l)
{
	static const char *const mpi[] = {"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "horovodrun",
					  "jsrun",  "ibrun",   "aprun",         "flux"};
	bool unknown = false;

	for (size_t i = 0; i < sizeof(mpi) / sizeof(mpi[0]); i++)
		if (!strcmp(l->name, mpi[i]))
			run->ranks = P4D_RANKS_UNKNOWN;
	if (strcmp(l->name, "srun") != 0)
		return;
	words += l->at + 1;
	const size_t count = l->next - l->at - 1;
	run->ranks = P4D_RANKS_OF_TASKS;
	run->tasks = option_of(words, count, "--ntasks", &unknown);
	if (!run->tasks)
		run->tasks = option_of(words, count, "-n", &unknown);
	run->tasks_per_node = option_of(words, count, "--ntasks-per-node", &unknown);
	run->ranks = unknown ? P4D_RANKS_UNKNOWN : P4D_RANKS_OF_TASKS;
}

static void take_ranks(p4d_command_run *run, const p4d_launch *launch, p4d_value gpus_per_node,
		       const p4d_value *words)
{
	for (unsigned i = 0; i < launch->launchers; i++)
		take_tasks(run, words, &launch->launcher[i]);
	run->ranks_per_node = told(gpus_per_node);
	if (run->ranks_per_node)
		run->ranks = P4D_RANKS_TOLD;
	else if (gpus_per_node.length)
		run->ranks = P4D_RANKS_UNKNOWN;
	else if (launch->every_gpu)
		run->ranks = P4D_RANKS_OF_GPUS;
	else if (launch->starts_ranks)
		run->ranks = P4D_RANKS_ONE;
}

void p4d_reader__run(p4d_command_run *run, const p4d_value *words, const p4d_launch *launch, p4d_value nodes,
		     p4d_value gpus_per_node, const char *python)
{
	*run = (p4d_command_run){.words = launch->words,
				 .count = launch->count,
				 .module = is_module(launch),
				 .container = launch->container,
				 .nodes = told(nodes),
				 .python = python};
	take_ranks(run, launch, gpus_per_node, words);
	for (unsigned i = 0; i < launch->options && i < P4D_COMMAND_OPTIONS; i++)
		run->option[run->options++] =
		    (p4d_command_option){launch->option[i].name, launch->option[i].value};
}

/* Converts words to values of the shell, in one allocation; NULL: no memory. */
static p4d_value *values_of(char *const *words, size_t count)
{
	size_t cells = 0;

	for (size_t i = 0; i < count; i++)
		cells += strlen(words[i]);
	p4d_value *values = calloc(1, count * sizeof(*values) + cells * sizeof(p4d_cell));
	p4d_cell *cell = (p4d_cell *)(values + count);
	for (size_t i = 0; values && i < count; i++) {
		values[i] = (p4d_value){cell, (uint32_t)strlen(words[i])};
		for (const char *c = words[i]; *c; c++, cell++)
			cell->c = *c;
	}
	return values;
}

size_t p4d_reader_program(char *const *words, size_t count, bool *module)
{
	p4d_value *values = values_of(words, count);
	p4d_launch launch = {.count = 0};

	*module = false;
	if (values)
		p4d_reader__launch(values, count, &launch);
	const size_t at = launch.count ? (size_t)(launch.words - values) : count;
	*module = launch.count && is_module(&launch);
	free(values);
	return at;
}

static uint64_t add_cells(uint64_t hash, p4d_value value)
{
	for (uint32_t i = 0; i < value.length; i++)
		hash = (hash ^ (unsigned char)value.at[i].c ^ (uint64_t)value.at[i].unknown << 8) *
		       0x100000001b3;
	return hash * 0x100000001b3;
}

/* Whether p4d does not need the word: it is an option, or NAME=VALUE, that the reader does not know, such
 * as a rank, a seed or a folder. *option: its value may be the next word. */
static bool is_of_no_plan(const p4d_reader *reader, p4d_value word, bool *option)
{
	char name[96];
	uint32_t equals = 0;

	while (equals < word.length && (word.at[equals].unknown || word.at[equals].c != '='))
		equals++;
	*option = word.length && !word.at[0].unknown && word.at[0].c == '-' && equals == word.length;
	p4d_value_text((p4d_value){word.at, equals}, name, sizeof(name));
	return (name[0] == '-' || equals < word.length) && !p4d_reader__find(reader, name);
}

uint64_t p4d_reader__plan_of(const p4d_launch *launch, const p4d_reader *reader, p4d_value nodes,
			     p4d_value gpus_per_node)
{
	uint64_t hash = 0xcbf29ce484222325;
	bool skips = false; /* the next word is the value of an option that p4d does not need */

	hash = add_cells(add_cells(add_cells(hash, launch->words[0]), nodes), gpus_per_node);
	for (size_t i = 1; i < launch->count; i++) {
		bool option;
		const bool of_none = is_of_no_plan(reader, launch->words[i], &option);
		const bool dash = launch->words[i].length && launch->words[i].at[0].c == '-';
		if (!of_none && (!skips || dash))
			hash = add_cells(hash, launch->words[i]);
		skips = of_none && option;
	}
	return hash;
}
