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

/* A character of a value, with the place where it was written. */
typedef struct p4d_cell {
	uint32_t line;
	uint16_t unknown : 15; /* reason why this part of the text is unknown (p4d_shell_unknown); 0: a
				* known character */
	uint16_t expanded : 1; /* the character is from a variable or an output; $IFS splits it unless it is
				  quoted */
	uint8_t file : 7;      /* index for p4d_shell_file_name; if it is no file, line is 0 */
	uint8_t quoted : 1;
	char c;
} p4d_cell;

/* A text, as characters with their places. Borrowed from the shell. */
typedef struct p4d_value {
	const p4d_cell *at;
	uint32_t length;
} p4d_value;

typedef struct p4d_shell p4d_shell;
typedef struct p4d_shell_scope p4d_shell_scope; /* the variables at one point of the script */

/* A variable of the environment, and its value. name NULL: value is the path of a file of NAME=VALUE lines.
 */
typedef struct p4d_shell_setting {
	const char *name;
	p4d_value value;
} p4d_shell_setting;

/* A variable of the environment whose value only the running job will have. */
extern const char p4d_shell_later[];

typedef struct p4d_shell_host {
	void *context;
	/* The value of a variable that the script has not set; p4d_shell_later; or NULL if it is unset. */
	const char *(*variable)(void *context, const char *name);
	/* The text of a file that the script reads, valid until the run is over; NULL: the file cannot be
	 * read. */
	const char *(*file)(void *context, const char *path, size_t *length);
	/* Gives `take` each entry of a folder in any order, except . and .. . False: the folder cannot be
	 * read, or has too many entries; `take` may have got some of them. NULL: no folder can be read. */
	bool (*list)(void *context, const char *folder,
		     void (*take)(void *taker, const char *name, bool folder), void *taker);
	/*
	 * Called for a file of commands that cannot be read, or for "output of NAME" that is read as
	 * commands. True: these commands may set any variable. False: they set only search paths, as
	 * modules do. If this member is NULL, they may set any variable.
	 */
	bool (*unread)(void *context, const char *path);
	/* Called for a command that is not built into the shell. certain: no unknown test decides whether it
	 * runs. */
	void (*command)(void *context, p4d_shell *shell, const p4d_value *words, size_t count, bool certain);
	/* Called for an exit before the script's end, unless an unknown test decides whether it runs.
	 * NULL: not needed. */
	void (*left)(void *context, p4d_shell *shell, p4d_value exit);
	/*
	 * Called if the script handles the failure of a command: `pip install x || pip install y`, `train
	 * && break`. Not called for `|| exit`. since: the command is one of those after the first `since`
	 * (p4d_shell_commands). True: the command may fail in a job that is meant to go on, such as a
	 * training that runs out of memory. What follows may then run, and the loop may go on. False: p4d
	 * assumes that the command succeeds. NULL: no command may fail.
	 */
	bool (*otherwise)(void *context, uint32_t since);
} p4d_shell_host;

enum {
	P4D_SHELL_FILES = 127,    /* maximum number of files that a script sources, and of variables of
				   * its environment */
	P4D_SHELL_UNKNOWNS = 256, /* maximum number of reasons that p4d distinguishes; later ones share
				   * the last number */
	P4D_SHELL_WORK = 7 << 16, /* default of `work`: characters read or copied; about 4 ms */
};

typedef struct p4d_shell_limits {
	void *memory; /* aligned for any type */
	size_t size;
	uint64_t work;
} p4d_shell_limits;

/*
 * Reads a script. name: for messages and $0. arguments: $1 and following, NULL-terminated. directory: the
 * job's. Returns NULL if it read the script to its end, otherwise the reason.
 */
const char *p4d_shell_read(const p4d_shell_host *host, const p4d_shell_limits *limits, const char *name,
			   const char *text, size_t length, const char *const *arguments,
			   const char *directory);

/* The remaining work of the limits after p4d_shell_read. */
uint64_t p4d_shell_work_left(const p4d_shell_limits *limits);

/* Only for use in p4d_shell_host.command, with the shell that it gets. */

/* Number of commands given to the host so far, including this one. */
uint32_t p4d_shell_commands(const p4d_shell *shell);
/* Reads a script that a command runs: words[0] is its path, the others are its arguments. False: it cannot
 * be read, or is nested deeper than `levels` scripts. */
bool p4d_shell_script(p4d_shell *shell, const p4d_value *words, size_t count, int levels);
/* Reads a text that a command runs, as `bash -c` does: words[0] is the text; the others are its $0, $1 ... */
void p4d_shell_text(p4d_shell *shell, const p4d_value *words, size_t count);
/* Reads the possible commands if the first word depends on a test: "$RUN", set in one branch or in both.
 * False: it may be any command. */
bool p4d_shell_may_run(p4d_shell *shell, const p4d_value *words, size_t count);
/* The standard input of the command: a here-document, or the output of a pipe. False: the script does not
 * contain it. */
bool p4d_shell_input(p4d_shell *shell, p4d_value *text);
/*
 * Finds a file as the script would: one that the script itself writes (*written), or one that exists (*text).
 * False: neither.
 */
bool p4d_shell_file(p4d_shell *shell, p4d_value path, p4d_value *written, const char **text, size_t *length);
/* A copy of a text that is valid as long as the shell's memory; "" if that memory is used up. */
const char *p4d_shell_keep(p4d_shell *shell, const char *text);
/* The value of a variable, set by the script or the environment; false: unset. */
bool p4d_shell_variable(p4d_shell *shell, const char *name, p4d_value *value);
/* Whether the script itself has assigned or exported the variable; false: at most it has sbatch's value. */
bool p4d_shell_assigned(p4d_shell *shell, const char *name);
/* Like p4d_shell_variable, for a variable in the environment of the command. */
bool p4d_shell_exported(p4d_shell *shell, const char *name, p4d_value *value);
/*
 * Sets and exports variables, until p4d_shell_leave_environment gets the result; NULL: nothing changes.
 * without: the launcher that does not pass the script's own variables on, such as "docker"; they are unknown.
 * NULL: they are passed on.
 */
p4d_shell_scope *p4d_shell_enter_environment(p4d_shell *shell, const p4d_shell_setting *settings,
					     size_t count, const char *without);
void p4d_shell_leave_environment(p4d_shell *shell, const p4d_shell_scope *scope);
/* Name of an unread input that may have set any variable: a sourced file, the text of an eval. NULL: there
 * is none. */
const char *p4d_shell_may_set(p4d_shell *shell);
/* Calls `take` with each variable that the script itself sets and exports, in any order. The value of an
 * array is its first element. */
void p4d_shell_each_exported(p4d_shell *shell, void (*take)(void *context, const char *name, p4d_value value),
			     void *context);

/*
 * Calls `take` with every variable of the command's environment that the script, or a file that it sources,
 * has set or used. value NULL: the script removes it. All other variables have sbatch's values.
 */
void p4d_shell_environment(p4d_shell *shell,
			   void (*each)(void *context, const char *name, const p4d_value *value),
			   void *context);

/* Why a part of a text is unknown: "$NODES is not set", "output of nproc". */
const char *p4d_shell_unknown(const p4d_shell *shell, uint16_t unknown);
/*
 * The possible values of a text that depends on a test, except the empty text. They are not yet split into
 * words, and are valid as long as the shell's memory. NULL: it may be any text.
 */
const p4d_value *p4d_shell_may_be(const p4d_shell *shell, uint16_t unknown, size_t *count);
/* The name of a place: "train.sh"; "$NAME" for a value from the environment, "$1" for an argument. */
const char *p4d_shell_file_name(const p4d_shell *shell, uint8_t file);

/* The reason of the first unknown part of a value; 0: all of it is known. */
uint16_t p4d_value_unknown(p4d_value value);
/* The text, cut off if it does not fit. Unknown parts become "?". */
const char *p4d_value_text(p4d_value value, char *buf, size_t size);
bool p4d_value_is(p4d_value value, const char *text);
/* Whether the value starts with an unknown part that may be anything, including options (unlike an unknown
 * host name). */
bool p4d_value_may_be_options(p4d_value value);
/* Whether the value is a single unquoted variable that neither the script nor the environment sets. */
bool p4d_value_is_unset(p4d_value value);
/* Whether a character stands for the value of a variable that nothing sets. */
bool p4d_cell_is_unset(p4d_cell cell);
