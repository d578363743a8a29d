/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rehearsals/rehearsals.h"

enum { P4D_REHEARSALS_LAUNCHED = 16 };

/*
 * The key of a command: a hash of its words and variables, except those that do not affect its memory.
 * Writers and readers of a record add the same things in the same order: the program, its words, the
 * variables.
 */
typedef struct p4d_rehearsals_key {
	uint64_t words[2], variables[2];
	uint64_t unknown_variables[2]; /* 0: all values are known */
	int launcher; /* state of rehearsals_launcher.c: the meaning of the previous word for the next one */
	/* variables set by words before the program; for each, a hash of its name and one of its name with
	 * its value */
	uint64_t launched[P4D_REHEARSALS_LAUNCHED][2];
	unsigned launched_count;
	char name[64];   /* variable whose value is the next word */
	bool skips;      /* the next word is the value of an option that does not affect memory */
	bool skips_path; /* only if it is a path */
	bool unknown;    /* a word that may affect memory is unknown */
} p4d_rehearsals_key;

void p4d_rehearsals_key_begin(p4d_rehearsals_key *key);

/* Adds the program: a file (its path, below the directory unless absolute) or, with `module`, a Python
 * module. A file is identified by its name and content, not by its directory. */
void p4d_rehearsals_key_program(p4d_rehearsals_key *key, const char *directory, const char *program,
				bool module);

/*
 * The path of a program's file; for a module, of its file below the directory. False: there is no such file.
 */
bool p4d_rehearsals_key_file(const char *directory, const char *program, bool module, char *path,
			     size_t size);

/* Adds a word after the program. known: false: some of its characters are unknown. */
void p4d_rehearsals_key_word(p4d_rehearsals_key *key, const char *word, bool known);

/* Adds an option of the launcher that affects the program: "mixed_precision", "bf16". */
void p4d_rehearsals_key_option(p4d_rehearsals_key *key, const char *name, const char *value, bool known);

/* Begins the words before a program, which set variables for it: "env MODEL=7b", "mpirun -x MODEL=7b",
 * "srun --export=ALL,MODEL=7b". */
void p4d_rehearsals_key_launchers(p4d_rehearsals_key *key);
/* Adds one of these words. known: false: some of its characters are unknown. */
void p4d_rehearsals_key_launcher(p4d_rehearsals_key *key, const char *word, bool known);

/* Adds --export of sbatch or srun, "ALL,MODEL=7b". known: false: a rehearsal does not set these variables. */
void p4d_rehearsals_key_export(p4d_rehearsals_key *key, const char *list, bool known);

/* Adds a variable with a known value, set by a word of a launcher. */
void p4d_rehearsals__key_launched(p4d_rehearsals_key *key, const char *name, const char *value);

/* Adds a variable that the script sets for its program, in any order. If a word before the program sets it
 * to another value, it counts as unknown. SLURM_EXPORT_ENV stands for any number of other variables. */
void p4d_rehearsals_key_variable(p4d_rehearsals_key *key, const char *name, const char *value);

/* Adds a variable of the program whose value p4d does not know. name "": any variable may be unknown. */
void p4d_rehearsals_key_unknown_variable(p4d_rehearsals_key *key, const char *name);

/* Names of variables that count wherever they are set; NULL after the last. */
extern const char *const p4d_rehearsals_variables[];

/* Computes the key. False: some part of the command is unknown, so that no command has this key. */
bool p4d_rehearsals_key_text(const p4d_rehearsals_key *key, char text[P4D_REHEARSALS_KEY_TEXT]);

/* The key of the same command without variables of unknown value. False: there are none, or the key is the
 * same. */
bool p4d_rehearsals_key_of_known(const p4d_rehearsals_key *key, char text[P4D_REHEARSALS_KEY_TEXT]);
