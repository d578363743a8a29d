/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>

#include "job/read_job.h"
#include "job/sbatch.h"
#include "rehearse/launch_ranks.h"

/* A job script, and the command of it that trains. Zero before use, except `sbatch`. */
typedef struct p4d_read_command {
	const char *script;     /* its path */
	char *const *arguments; /* of the script; NULL-terminated */
	p4d_sbatch *sbatch;     /* with the options that were typed */
	p4d_site *site;
	const p4d_gpu *assumed; /* GPU to assume if neither the site nor the cluster names one */
	p4d_words_memory *memory;
	const p4d_player *player; /* for variables of a rank; NULL: rank 0 of a job that is not known yet */
	uint64_t rank;
	/* out; if the script is read again for another rank, the members of the job, from ranks to name, stay
	 * as they are */
	p4d_words words;
	p4d_rehearse_ranks ranks;
	const p4d_gpu *gpu;  /* NULL: not known */
	uint64_t host_bytes; /* of a node; 0: not known */
	char directory[2 * PATH_MAX], name[64];
	char place[PATH_MAX + 16]; /* "job.sh:12" */
	unsigned others;           /* commands that may be the training as well */
	p4d_words notes;           /* what the program does not find as the job would, one a word */
} p4d_read_command;

/*
 * Finds the command that trains, with its words, environment and directory, and the job's nodes and GPUs. It
 * need not be one that p4d knows. Errors: IO, USAGE, VALUE, UNMODELLED where the script starts nothing.
 */
int p4d_read_command__find(p4d_read_command *c, p4d_error *err);

/* The key of the command that was found, as sbatch makes it without knowing more of the job than its options.
 * False: a part of the command is not known then. */
bool p4d_read_command__key(p4d_read_command *c, char key[P4D_REHEARSALS_KEY_TEXT]);

/* The job's nodes, GPUs and directory alone: a shell will run the script. */
int p4d_read_command__open(p4d_read_command *c, p4d_error *err);

/* Whether the words of a command with a launcher show that it starts a training. */
bool p4d_read_command__trains(const p4d_words *words);
