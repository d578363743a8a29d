/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reads a bash script as bash would run it, without running anything: which commands it starts, with which
 * words. Whatever depends on something that p4d cannot read (the output of a command, a variable of the job
 * that does not exist yet) is unknown and is carried along as unknown. p4d guesses no value.
 *
 * p4d assumes that commands succeed. If the result of a test is unknown, p4d reads both branches, and
 * variables set in them become unknown. The caller provides the memory, and the work is bounded for every
 * script.
 */

/* A character of a value, with the place it was written at. */
typedef struct p4d_cell {
	uint32_t line;
	uint16_t unknown : 15; /* stands for text that is not known: p4d_shell_unknown; 0 a character */
	uint16_t expanded : 1; /* from a variable or an output, which $IFS splits if it is not quoted */
	uint8_t file : 7;      /* p4d_shell_file_name; line is 0 if it is no file */
	uint8_t quoted : 1;
	char c;
} p4d_cell;

/* Borrowed from the shell. */
typedef struct p4d_value {
	const p4d_cell *at;
	uint32_t length;
} p4d_value;

typedef struct p4d_shell p4d_shell;

/* What a variable of the environment is that only the job itself will know. */
extern const char p4d_shell_later[];

typedef struct p4d_shell_host {
	void *context;
	/* A variable that the script has not set: its value, p4d_shell_later, or NULL if it is not set. */
	const char *(*variable)(void *context, const char *name);
	/* The text of a file that the script reads, which stays until the run is over; NULL: it cannot be. */
	const char *(*file)(void *context, const char *path, size_t *length);
	/*
	 * A file of commands that cannot be read, or "output of NAME" that is read as commands. True: it may
	 * set any variable; false: paths alone, as modules do. NULL: it may set any.
	 */
	bool (*unread)(void *context, const char *path);
	/* Called for a command that is not built into the shell. certain: no unknown test decides whether it
	 * runs. */
	void (*command)(void *context, p4d_shell *shell, const p4d_value *words, size_t count, bool certain);
	/* An exit before the script's end, which no test that is not known decides about. NULL: nobody asks.
	 */
	void (*left)(void *context, p4d_shell *shell, p4d_value exit);
	/* The script handles a failure of a command after the first `since` (p4d_shell_commands): `pip
	 * install x || pip install y`. p4d does not read that part. Not called for `|| exit`. NULL: not
	 * needed. */
	void (*otherwise)(void *context, uint32_t since);
} p4d_shell_host;

enum {
	P4D_SHELL_FILES = 127,    /* files that a script is made of, and variables of its environment */
	P4D_SHELL_UNKNOWNS = 256, /* most reasons that p4d distinguishes; later ones share the last number */
	P4D_SHELL_WORK = 7 << 16, /* default of `work`: characters read or copied; about 4 ms */
};

typedef struct p4d_shell_limits {
	void *memory; /* aligned for any type */
	size_t size;
	uint64_t work;
} p4d_shell_limits;

/*
 * Reads a script. name: as in messages, and $0. arguments: $1 and following, NULL-terminated. directory: the
 * job's. Returns NULL if it was read to its end, else the reason.
 */
const char *p4d_shell_read(const p4d_shell_host *host, const p4d_shell_limits *limits, const char *name,
			   const char *text, size_t length, const char *const *arguments,
			   const char *directory);

/* What is left of the limits' work after p4d_shell_read. */
uint64_t p4d_shell_work_left(const p4d_shell_limits *limits);

/* Only for use in p4d_shell_host.command, with the shell that it gets. */

/* How many commands the host has got, including this one. */
uint32_t p4d_shell_commands(const p4d_shell *shell);
/* Reads a script that a command runs: words[0] is its path, the others its arguments. False if it cannot be
 * read, or lies deeper than `levels` scripts. */
bool p4d_shell_script(p4d_shell *shell, const p4d_value *words, size_t count, int levels);
/* Reads a text that a command runs, as `bash -c` does: words[0]; the others are its $0, $1 ... */
void p4d_shell_text(p4d_shell *shell, const p4d_value *words, size_t count);
/* Reads what a command may be whose first word depends on a test: "$RUN", which one branch or both have set.
 * False: it may be anything. */
bool p4d_shell_may_run(p4d_shell *shell, const p4d_value *words, size_t count);
/* What the command reads from its standard input: a here-document, or the output of a pipe. False: the script
 * does not contain it. */
bool p4d_shell_input(p4d_shell *shell, p4d_value *text);
/* A file as the script would find it: one that it writes itself (*written), or one that is there (*text). */
bool p4d_shell_file(p4d_shell *shell, p4d_value path, p4d_value *written, const char **text, size_t *length);
/* A copy of a text that stays as long as the shell's memory does; "" where that is spent. */
const char *p4d_shell_keep(p4d_shell *shell, const char *text);
/* The value of a variable, as the script or the environment sets it; false: not set. */
bool p4d_shell_variable(p4d_shell *shell, const char *name, p4d_value *value);
/* The same for a variable in the environment of the command. */
bool p4d_shell_exported(p4d_shell *shell, const char *name, p4d_value *value);
/* What p4d could not read and may have set any variable: a file that is sourced, the text of an eval. NULL:
 * there is nothing. */
const char *p4d_shell_may_set(p4d_shell *shell);
/* Calls `take` with each variable that the script itself sets and exports, in any order; an array's value is
 * its first. */
void p4d_shell_each_exported(p4d_shell *shell, void (*take)(void *context, const char *name, p4d_value value),
			     void *context);

/*
 * Every variable of the command's environment that the script, or a file that it reads, has set or looked at.
 * value NULL: the script removes it. Others are as sbatch has them.
 */
void p4d_shell_environment(p4d_shell *shell,
			   void (*each)(void *context, const char *name, const p4d_value *value),
			   void *context);

/* Why text is not known: "$NODES is not set", "output of nproc". */
const char *p4d_shell_unknown(const p4d_shell *shell, uint16_t unknown);
/*
 * What a text that depends on a test may be, apart from empty: texts that are not split into words yet, and
 * last as long as the shell's memory. NULL: it may be anything.
 */
const p4d_value *p4d_shell_may_be(const p4d_shell *shell, uint16_t unknown, size_t *count);
/* "train.sh"; "$NAME" of a value that the environment has, "$1" of an argument. */
const char *p4d_shell_file_name(const p4d_shell *shell, uint8_t file);

/* What is not known of a value; 0: all is. */
uint16_t p4d_value_unknown(p4d_value value);
/* The text, cut off if it does not fit; unknown characters become "?". */
const char *p4d_value_text(p4d_value value, char *buf, size_t size);
bool p4d_value_is(p4d_value value, const char *text);
/* Whether the value starts with an unknown part that may be anything, including options (unlike the name of a
 * host). */
bool p4d_value_may_be_options(p4d_value value);
/* Whether it is nothing but a variable that neither the script nor the environment sets, without quotes. */
bool p4d_value_is_unset(p4d_value value);
/* Whether a character stands for the value of a variable that nothing sets. */
bool p4d_cell_is_unset(p4d_cell cell);
