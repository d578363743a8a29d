/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rehearsals/rehearsals_internal.h"

/* Whether the job runs another Python environment than the rehearsal did. Its path does not matter. */
static bool is_other_python(const char *of_job, const char *rehearsed)
{
	char real[PATH_MAX];

	return strcmp(of_job, rehearsed) != 0 && (!realpath(of_job, real) || strcmp(real, rehearsed) != 0);
}

/* Whether the rehearsal had as many ranks on each node as the command. */
static bool is_for(const p4d_rehearsal *run, const p4d_rehearsals_command *command)
{
	if (command->nodes && command->nodes != run->nodes)
		return false;
	if (command->ranks_are_gpus)
		return run->ranks_per_node == run->gpus_per_node;
	return !command->ranks_per_node || command->ranks_per_node == run->ranks_per_node;
}

static void take(p4d_rehearsals *found, const p4d_rehearsals_command *command,
		 const p4d_rehearsals_record *record)
{
	const bool unsure = record->python && !command->python;

	for (unsigned i = 0; i < record->runs && found->count < P4D_REHEARSALS_RUNS; i++) {
		p4d_rehearsal run = record->run[i];
		if (!is_for(&run, command))
			continue;
		run.nodes_said = command->nodes;
		run.gpus_said = command->ranks_said;
		run.unsure = unsure;
		found->run[found->count++] = run;
	}
}

void p4d_rehearsals_find(p4d_rehearsals *found, const p4d_rehearsals_command *command)
{
	p4d_rehearsals_record *record = malloc(sizeof(*record));
	if (!record)
		return;
	record->text = NULL;
	const bool is_there = p4d_rehearsals__open(command->key, record);
	const bool other =
	    is_there && record->python && command->python && is_other_python(command->python, record->python);
	if (is_there && !other && p4d_rehearsals__is_current(record, command->directory, &found->reread))
		take(found, command, record);
	free(record->text);
	free(record);
}
