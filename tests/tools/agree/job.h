/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { COMPONENTS = 2, MAX_PIECES = 64, MAX_WORDS = 2 * MAX_PIECES + 16 };

typedef enum place { TYPED, LINE, VARIABLE, BODY } place;

/* An option in one of the places that sbatch reads, or a line of the script after its first command. */
typedef struct piece {
	place place;
	unsigned component;
	char text[200];
} piece;

typedef enum source { FROM_FILE, FROM_STDIN, FROM_WRAP } source;

typedef struct job {
	source source;
	char *script; /* path of the script; NULL: job.sh */
	unsigned components;
	bool typed_colon; /* true: ":" separates components on the command line; false: #SBATCH hetjob does */
	unsigned pieces;
	piece piece[MAX_PIECES];
} job;

/* seed_job sets the seed and the number of a job. They determine the job that `generate` makes. */
void seed_job(uint64_t seed, uint64_t number);
void generate(job *j);

/* Adds a piece; aborts if the job has no room for it. */
void add_piece(job *j, place where, unsigned component, const char *text, size_t length);

/* Writes job.sh in the current folder. */
void write_script(const job *j);

/* Appends the job's options and a NULL to words, whose first `at` entries are the command, such as
 * "sbatch". buffer holds the text of --wrap. */
void command_line(const job *j, char **words, unsigned at, char *buffer, size_t size);
