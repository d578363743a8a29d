/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>

#include "job/read_job.h"
#include "job/sbatch.h"
#include "rehearse/launch_ranks.h"

/* A job script, and its command that trains. Zero before use, except `sbatch`. */
typedef struct p4d_read_command {
	const char *script;     /* its path */
	char *const *arguments; /* the script's arguments, NULL-terminated */
	p4d_sbatch *sbatch;     /* options, including typed ones */
	p4d_site *site;
	const p4d_gpu *assumed; /* the GPU to assume if neither the site nor the cluster has a GPU for the
				 * job */
	p4d_words_memory *memory;
	const p4d_player
	    *player; /* has the variables of a rank; NULL: rank 0 of a job that is not yet known */
	uint64_t rank;
	/* Results. If the script is read again for another rank, the members about the job (from ranks to
	 * name) do not change. */
	p4d_words words;
	p4d_rehearse_ranks ranks;
	const p4d_gpu *gpu;  /* NULL: unknown */
	uint64_t host_bytes; /* host memory of a node in bytes; 0: unknown */
	char directory[2 * PATH_MAX], name[64];
	char place[PATH_MAX + 16]; /* place of the command in the script: "job.sh:12" */
	unsigned others;           /* number of other commands that may be the training */
	p4d_words notes; /* differences between this environment and the job's environment that the program
			  * would notice, one in each word */
} p4d_read_command;

/*
 * Finds the command that trains, with its words, environment and directory, and the job's nodes and GPUs. p4d
 * may not know the program. Errors: IO, USAGE, VALUE; UNMODELLED if the script starts nothing.
 */
int p4d_read_command__find(p4d_read_command *c, p4d_error *err);

/* The key under which sbatch finds this rehearsal. It is computed as in sbatch, from the job's options
 * alone. Returns false if a part of the command is unknown from these options. */
bool p4d_read_command__key(p4d_read_command *c, char key[P4D_REHEARSALS_KEY_TEXT]);

/* Finds only the job's nodes, GPUs and directory, because a shell will run the script. */
int p4d_read_command__open(p4d_read_command *c, p4d_error *err);

/* Whether the words of a command with a launcher show that it starts a training. */
bool p4d_read_command__trains(const p4d_words *words);
