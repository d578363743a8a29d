/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "job/sbatch.h"

enum { P4D_REHEARSE_RANKS = 64, P4D_REHEARSE_TYPED = 128 };

/* The command line of p4d rehearse. Strings are the caller's words. */
typedef struct p4d_rehearse_options {
	const char *gpu; /* NULL: the job's GPU, or the default */
	const char *ranks;
	const char *phases;            /* a list of train, eval and save */
	const char *micro_batch;       /* the program's option of which the largest value is searched;
					* NULL: none */
	const char *svg;               /* file for the picture; NULL: none */
	uint64_t nodes, gpus_per_node; /* 0: not given */
	uint64_t steps, timeout;
	bool json, progress, verbose;
	bool shell;                      /* run the script with a real shell, up to its training */
	p4d_sbatch sbatch;               /* the job's options that the user typed */
	char *typed[P4D_REHEARSE_TYPED]; /* the same options as words */
	unsigned typed_count;
	const char *submit; /* partition in which the rehearsal runs as a job; "": the default partition;
			     * NULL: it runs here */
	char **program;     /* NULL-terminated */
	const char *script; /* path of a job script, whose arguments `program` has; NULL: `program` is the
			     * command */
	uint64_t rank[P4D_REHEARSE_RANKS];
	unsigned count; /* number of ranks to rehearse */
} p4d_rehearse_options;

/* Reads the command line into *o. The caller sets the defaults before, and calls p4d_sbatch_free at the end.
 * Errors: USAGE, VALUE, IO. */
int p4d_rehearse_options__parse(p4d_rehearse_options *o, int argc, char *argv[], p4d_error *err);

/*
 * Fills rank and count with the ranks that --ranks names. world: the number of ranks. fullest: the rank with
 * the most memory; 0: unknown. Errors: VALUE.
 */
int p4d_rehearse_options__ranks(p4d_rehearse_options *o, uint64_t world, uint64_t fullest, p4d_error *err);
