/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/*
 * Results of `p4d rehearse` for a program, in a file that belongs to the user. sbatch and `p4d check` find
 * them by the command that a job script starts. Users can forge or damage their file, so p4d accepts only
 * records in exactly its own format.
 *
 * A record is found by the command (rehearsals_key.h). It is valid as long as these files do not change: the
 * program, its configuration, the user's modules that it imported, and the files that tell the releases of
 * PyTorch and other libraries.
 */

typedef enum p4d_rehearsal_verdict {
	P4D_REHEARSAL_PASS,
	P4D_REHEARSAL_WARN,   /* it ran; `reason` has a remark about it */
	P4D_REHEARSAL_REJECT, /* it ran out of the GPU's memory */
	P4D_REHEARSAL_VERDICTS
} p4d_rehearsal_verdict;

enum { P4D_REHEARSAL_TRAIN = 1, P4D_REHEARSAL_EVAL = 2, P4D_REHEARSAL_SAVE = 4, P4D_REHEARSAL_PHASES = 7 };

/* A rehearsal on GPUs of one kind. */
typedef struct p4d_rehearsal {
	uint32_t nodes, ranks_per_node, gpus_per_node;
	char gpu[48]; /* name in `p4d gpus` */
	p4d_rehearsal_verdict verdict;
	int64_t when;                        /* seconds since 1970 */
	uint64_t device_bytes, usable_bytes; /* at the peak of the fullest rank; and the GPU's memory */
	char reason[160];
	char ranks[24];  /* the rehearsed ranks, if not the first and the last: "0" or "3,5"; "": these two */
	unsigned phases; /* P4D_REHEARSAL_TRAIN ...; 0: not known */
	/* the script itself passes these numbers to its launcher, so the job may have other nodes and GPUs */
	bool nodes_said, gpus_said;
	bool unsure; /* the job may run another Python or another number of ranks; p4d cannot tell */
} p4d_rehearsal;

/* Rehearsals of the commands that one job script starts. */
enum { P4D_REHEARSALS_RUNS = 16, P4D_REHEARSALS_LOOKUPS = 256 };
typedef struct p4d_rehearsals {
	unsigned count;
	unsigned lookups; /* number of commands looked up; at most P4D_REHEARSALS_LOOKUPS */
	uint64_t reread;  /* bytes of files read again because they are newer than their records */
	p4d_rehearsal run[P4D_REHEARSALS_RUNS];
} p4d_rehearsals;

/* $XDG_CACHE_HOME/p4d/rehearsals, else ~/.cache/p4d/rehearsals. False: neither variable is set, or the
 * path is too long. */
bool p4d_rehearsals_directory(char *path, size_t size);

/*
 * Whether the user has rehearsed any program. If this directory does not exist, p4d reads no script for
 * rehearsals.
 */
bool p4d_rehearsals_any(void);

enum { P4D_REHEARSALS_KEY_TEXT = 33 };

/* A command to look up. */
typedef struct p4d_rehearsals_command {
	const char *key;
	const char *directory;   /* directory in which it starts */
	const char *python;      /* directory of the Python environment that runs it; NULL: unknown */
	uint32_t nodes;          /* from the launcher's options; 0: not given */
	uint32_t ranks_per_node; /* 0: not known */
	bool ranks_said;         /* the launcher's options give the ranks */
	bool ranks_are_gpus;     /* there is one rank per GPU */
} p4d_rehearsals_command;

/* Adds the rehearsals that are valid for a command. */
void p4d_rehearsals_find(p4d_rehearsals *found, const p4d_rehearsals_command *command);

/* What a record describes. Paths are absolute. */
enum { P4D_REHEARSALS_FILES = 256 };
typedef struct p4d_rehearsals_subject {
	const char *key;       /* key of the command */
	const char *program;   /* name of the program, for people */
	const char *directory; /* where it was started */
	const char *python;    /* directory of the Python environment; NULL: no Python program */
	const char *const *files;
	size_t count;
} p4d_rehearsals_subject;

/*
 * Writes a rehearsal into the record of its command. Rehearsals with other GPUs and geometries stay if no
 * file has changed since. Keeps only the newest records. Errors: IO, NO_MEMORY, VALUE (the record cannot hold
 * it).
 */
int p4d_rehearsals_put(const p4d_rehearsals_subject *subject, const p4d_rehearsal *run, p4d_error *err);
