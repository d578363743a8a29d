/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config_library.h"
#include "request/request.h"
#include "shell/shell.h"

/*
 * Facts about the training that a job script starts. The values of the program's arguments are stored as
 * p4d options with the same meaning. The script need not mention p4d. p4d executes nothing and guesses
 * nothing: it lists values that it cannot read, with the reason.
 */

enum { P4D_READ_UNKNOWNS = 32, P4D_READ_EXTRAS = 64 };

typedef struct p4d_read_value {
	char text[256];   /* the value as users would type it for p4d's option */
	const char *file; /* file, or "$NAME" for a variable of the environment; NULL: not read */
	uint32_t line;    /* line number; 0: none */
	/*
	 * The place of the argument's name. It differs from `file` and `line` if the value is that of a
	 * variable, which may also be the value of another argument. NULL: the name is at `file` and
	 * `line`.
	 */
	const char *named_file;
	uint32_t named_line;
	const char *argument; /* the program's argument, "--num-layers"; NULL: no argument gives this value */
	bool unknown;         /* the script gives it, but p4d cannot tell the value */
} p4d_read_value;

typedef struct p4d_read_unknown {
	char name[64]; /* name of the option, or of the program's argument */
	char why[160];
	bool doubt;           /* a doubt about the whole script (see p4d_reading_doubt), not an option */
	const char *argument; /* the program's argument whose value is unknown; NULL: it is about no value */
} p4d_read_unknown;

struct p4d_reader;

typedef struct p4d_command_option {
	p4d_value name, value;
} p4d_command_option;

/* A command that starts a program; borrowed from the shell. */
enum { P4D_COMMAND_OPTIONS = 24 };
typedef struct p4d_command_run {
	const p4d_value *words; /* [0] is the program, without srun, torchrun, python and similar words */
	size_t count;
	bool module;        /* the program is a Python module */
	bool container;     /* the program runs in a container image */
	const char *python; /* directory of the Python environment that runs it; NULL: unknown */
	uint64_t nodes;     /* from a launcher's options; 0: not given */
	/*
	 * How the ranks are started: as one process; by a launcher with a number of ranks per node; by a
	 * launcher that starts one rank on every GPU; or as tasks of Slurm or MPI, whose numbers may be in
	 * the launcher's options.
	 */
	enum {
		P4D_RANKS_ONE,
		P4D_RANKS_TOLD,
		P4D_RANKS_OF_GPUS,
		P4D_RANKS_OF_TASKS,
		P4D_RANKS_UNKNOWN
	} ranks;
	uint64_t ranks_per_node;        /* P4D_RANKS_TOLD */
	uint64_t tasks, tasks_per_node; /* with P4D_RANKS_OF_TASKS: from srun's options; 0: not given */
	p4d_command_option option[P4D_COMMAND_OPTIONS]; /* options of launchers that affect the training */
	unsigned options;
} p4d_command_run;

typedef struct p4d_reading {
	const struct p4d_reader *reader; /* the reader whose arguments the program has; NULL: p4d found no
					  * training */
	const char *kind;  /* the method of a program that the user named, such as "dpo"; NULL: the file
			    * name of the program may show the method */
	char program[128]; /* without a reader: the first program that torchrun or a similar launcher
			    * starts; "": none */
	const char *file;  /* file with the command that starts the program */
	uint32_t line;
	uint32_t program_line; /* line where the program's own arguments may follow; differs from `line`
				* if its launcher occupies several lines */
	bool one_node;         /* a launcher starts the program, by default on one node */
	/* The launcher's option that gives value[P4D_GPUS_PER_NODE], "--nproc_per_node"; "": no such option
	 */
	char processes[32];
	bool processes_of_all; /* the launcher's option counts the processes of all nodes */
	bool names_gpus;       /* the script says which GPUs of a node, or how many, its program gets */
	bool alone;            /* no launcher starts the program: it is one process on one GPU */
	bool certain;        /* p4d knows that the program runs: no test with an unknown result precedes it */
	bool named;          /* p4d recognized the program by its name */
	const char *alike;   /* the name by which users call the program, if p4d recognized it only by its
			      * arguments; NULL: p4d recognized it by its name, or not at all */
	bool told;           /* the user or the site named the program */
	bool trains_nothing; /* the program's arguments make it evaluate or predict, without training */
	bool adapts;         /* the user says that the program trains adapters */
	bool launches;       /* the program itself takes the options of accelerate launch */
	bool more_arguments; /* some arguments are unknown. So an option without an argument may not have
			      * its default */
	unsigned commands;   /* number of commands with different trainings, of which p4d reads the first */
	unsigned serving;    /* number of these commands that only serve a model */
	bool saves_on_host;  /* with ZeRO-3, saving gathers the 16-bit weights on one rank's host */
	/* A comment of the script that p4d cannot use: "job.sh:3: program=x: ..."; "": none */
	char comment[240];
	const char *incomplete; /* why p4d did not read the script to its end; NULL: it did */
	bool by_task;           /* the script uses the number of its array task */
	uint64_t work;          /* work done for this reading; counts against the limit */
	/* The exit that ends the script before its last command; file NULL: there is none. */
	p4d_read_value left;
	p4d_read_value value[P4D_OPTIONS];
	bool by_default[P4D_OPTIONS];          /* the value is the framework's default */
	p4d_read_value extra[P4D_READ_EXTRAS]; /* the reader's own values */
	unsigned unknowns;
	bool many_unknowns; /* there were more unknown values than the table has entries; the last entry then
			       says so */
	p4d_read_unknown unknown[P4D_READ_UNKNOWNS];
} p4d_reading;

/* A launcher before a program: words[at] up to words[next], where the command that it starts begins. */
typedef struct p4d_launcher {
	const char *name, *subcommand; /* "accelerate" "launch"; subcommand NULL: none */
	size_t at, next;
	bool module; /* words[next] is a Python module */
	bool shell;  /* words[next] is a script, a text or an argument of a shell */
} p4d_launcher;

enum { P4D_LAUNCHERS = 12 };

typedef struct p4d_launchers {
	p4d_launcher at[P4D_LAUNCHERS]; /* the outermost launcher first */
	unsigned count;
	size_t program; /* index of the program among the words; the number of words if there is no program */
	bool shell;     /* the program is a script, a text or the input of a shell */
	bool container; /* the program runs in a container image with its own Python */
} p4d_launchers;

/* The launchers at the start of a command. */
void p4d_reader_launchers(p4d_launchers *to, const p4d_value *words, size_t count);

/* A command of a script that starts a program. */
typedef struct p4d_started {
	const struct p4d_started *around; /* launcher words around the script or text that contains the
					   * command: "srun bash"; NULL: none */
	const p4d_value *words;
	size_t count;
	bool known; /* p4d recognized its program by its name */
	bool aside; /* the program's name says that it does not train: it generates, evaluates or converts */
	bool certain;               /* no test with an unknown result is before it */
	const p4d_command_run *run; /* the command's program; NULL: the command is a script for a shell */
} p4d_started;

typedef struct p4d_reader_host {
	p4d_shell_host shell; /* the callbacks `command` and `unread` in it are the reader's own */
	/* Returns the parser of a format; NULL: there is none. If this member is NULL, p4d reads no
	 * configuration files. */
	p4d_config_read *(*config)(void *context, p4d_config_format format);
	const p4d_request *typed; /* the job's p4d options; NULL: none */
	/* The program that the site names for a file or module; NULL: none. */
	const char *(*program)(void *context, const char *path);
	/* Called for a command "sbatch", with its arguments. NULL: not needed. context: as in shell. */
	void (*submits)(void *context, p4d_shell *shell, const p4d_value *words, size_t count);
	/* Called for every other command. NULL: not needed. */
	void (*starts)(void *context, p4d_shell *shell, const p4d_started *command);
} p4d_reader_host;

/* The index of the program among the words of a command, after srun, torchrun, python and similar words;
 * count: there is no program, or no memory. *module: it is a Python module. */
size_t p4d_reader_program(char *const *words, size_t count, bool *module);

/*
 * Reads a script with the host's variables and files. The reading borrows from the limits' memory. This never
 * fails: an unreadable script gives an empty reading that says why.
 */
void p4d_reader_read(p4d_reading *reading, const p4d_reader_host *host, const p4d_shell_limits *limits,
		     const char *name, const char *text, size_t length, const char *const *arguments,
		     const char *directory);

/*
 * Returns a message if p4d could not read a file of shell commands that may do more than set search paths:
 * "env.sh cannot be read, nor what it sets". p4d has values from the script, but that file may change them or
 * start another program. NULL: there is no such file.
 */
static inline const char *p4d_reading_doubt(const p4d_reading *reading)
{
	for (unsigned i = 0; i < reading->unknowns; i++)
		if (reading->unknown[i].doubt)
			return reading->unknown[i].why;
	return NULL;
}

/* Whether the script also starts an inference server, and no other training. */
static inline bool p4d_reading_has_server(const p4d_reading *reading)
{
	return reading->commands > 1 && reading->serving + 1 == reading->commands;
}

/* The text that shows the method if no argument gives it: the name that the user gave the program, or the
 * name of its file. */
static inline const char *p4d_reading_kind(const p4d_reading *reading)
{
	return reading->kind ? reading->kind : reading->program;
}

/* The value that the script gives an argument of the program; NULL: the script does not have the argument. */
const p4d_read_value *p4d_reading_argument(const p4d_reading *reading, const char *argument);

/* Whether the program has an argument of that name; the script need not use it. */
bool p4d_reading_takes(const p4d_reading *reading, const char *argument);

/* Whether p4d would read an argument with a value, "--tp" "8", if the script had it. value "": a switch. */
bool p4d_reading_knows(const p4d_reading *reading, const char *argument, const char *value);

/* The p4d option with the meaning of an argument; -1: none. */
int p4d_reading_option(const p4d_reading *reading, const char *argument);

/* The argument with the meaning of a p4d option; NULL: p4d knows none. */
const char *p4d_reading_name(const p4d_reading *reading, p4d_option option);
/* The variable that decides how many processes the program starts on a node; NULL: none. */
const char *p4d_reading_processes(const p4d_reading *reading);
/* Whether the program takes NAME=VALUE instead of --NAME VALUE. */
bool p4d_reading_assigns(const p4d_reading *reading);

/* The second argument, with its value, that this word of an argument requires, unless the script has it;
 * NULL: none. */
const char *p4d_reading_beside(const p4d_reading *reading, const char *argument, const char *word,
			       const char **value);

/*
 * Words that make the program shard a model that it otherwise replicates, using another framework:
 * "--deepspeed zero2". *launcher: the words belong after "accelerate launch". zero_stage 0: any. NULL: p4d
 * knows none, or the script already has that argument.
 */
const char *p4d_reading_shards(const p4d_reading *reading, const char *framework, int64_t zero_stage,
			       bool *launcher);

/*
 * The text of an argument for an option's value: "8", "selective"; for a switch "true" or "false". text: the
 * value as users type it for p4d's option. False: p4d does not know the program's words.
 */
bool p4d_reading_say(const p4d_reading *reading, const char *argument, p4d_option option, const char *text,
		     char *buf, size_t size);

/* The release whose defaults a reading assumes, "TRL 1.10"; NULL: the reading depends on no release. */
const char *p4d_reading_release(const p4d_reading *reading);

/* The framework's name, "megatron"; only for a reading with a reader. */
const char *p4d_reading_framework(const p4d_reading *reading);
