/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config_library.h"
#include "request/request.h"
#include "shell/shell.h"

/*
 * What a job script says about the training it starts, without a word about p4d: the options of p4d that mean
 * the same as the arguments of its program. Nothing is executed, and nothing is guessed: what cannot be read
 * is listed with the reason.
 */

enum { P4D_READ_UNKNOWNS = 32, P4D_READ_EXTRAS = 60 };

typedef struct p4d_read_value {
	char text[256];       /* the value as one would type it for p4d's option */
	const char *file;     /* or "$NAME", a variable of the environment; NULL: not read */
	uint32_t line;        /* 0: none */
	const char *argument; /* the program's argument, "--num-layers"; NULL: it has none for this */
	bool unknown;         /* it is given, but p4d cannot tell the value */
} p4d_read_value;

typedef struct p4d_read_unknown {
	char name[64]; /* name of the option, or of the program's argument */
	char why[160];
	bool doubt; /* a doubt about the script, see p4d_reading_doubt; not an option */
} p4d_read_unknown;

struct p4d_reader;

typedef struct p4d_command_option {
	p4d_value name, value;
} p4d_command_option;

/* A command that starts a program; borrowed from the shell. */
enum { P4D_COMMAND_OPTIONS = 24 };
typedef struct p4d_command_run {
	const p4d_value *words; /* [0]: the program, without srun, torchrun, python and their like */
	size_t count;
	bool module;        /* it is one of Python's */
	bool container;     /* it runs in an image */
	const char *python; /* directory of the environment that runs it; NULL: not known */
	uint64_t nodes;     /* from a launcher's options; 0: not given */
	/* How the ranks are started: one process; a launcher with a number of ranks per node; a launcher that
	 * takes all GPUs; or tasks of Slurm or MPI, whose numbers the launcher's options may give. */
	enum {
		P4D_RANKS_ONE,
		P4D_RANKS_TOLD,
		P4D_RANKS_OF_GPUS,
		P4D_RANKS_OF_TASKS,
		P4D_RANKS_UNKNOWN
	} ranks;
	uint64_t ranks_per_node;        /* P4D_RANKS_TOLD */
	uint64_t tasks, tasks_per_node; /* with P4D_RANKS_OF_TASKS: from srun's options; 0: not given */
	p4d_command_option
	    option[P4D_COMMAND_OPTIONS]; /* options of launchers that matter for the training */
	unsigned options;
} p4d_command_run;

typedef struct p4d_reading {
	const struct p4d_reader *reader; /* whose arguments the program takes; NULL: no training was found */
	const char
	    *kind; /* the method of a program that was named, "dpo"; NULL: its file's name may say it */
	char program[128]; /* without a reader the first that torchrun or its like start; "": none */
	const char *file;  /* file with the command that starts it */
	uint32_t line;
	uint32_t program_line; /* where its own arguments may follow: another one if its launcher takes
				  several lines */
	bool one_node;         /* a launcher starts it, on one node by default */
	bool certain;          /* no test that p4d cannot decide is before it */
	bool named;            /* by the program's name */
	bool alike;            /* it is not, but the arguments are like those of the reader's programs */
	bool told;             /* the user or the site says which program it is */
	bool launches;         /* it takes the options of accelerate launch itself */
	bool more_arguments;   /* some arguments are not known, so options without one may not have their
				  defaults either */
	unsigned commands;     /* with another training than the first, which is read; 1: none */
	unsigned serving;      /* how many of these only serve a model */
	bool saves_on_host;    /* with ZeRO-3, saving gathers the 16-bit weights on one rank's host */
	/* A comment of the script that p4d cannot take: "job.sh:3: program=x: ..."; "": none */
	char comment[240];
	const char *incomplete; /* why the script was not read to its end; NULL: it was */
	bool by_task;           /* it asks for the number of its array's task */
	uint64_t work;          /* work done, out of the limit */
	/* The exit that ends the script before its last command; file NULL: none does. */
	p4d_read_value left;
	p4d_read_value value[P4D_OPTIONS];
	bool by_default[P4D_OPTIONS];          /* the value is the framework's default */
	p4d_read_value extra[P4D_READ_EXTRAS]; /* the reader's own values */
	unsigned unknowns;
	bool many_unknowns; /* more than these; the last one then says so */
	p4d_read_unknown unknown[P4D_READ_UNKNOWNS];
} p4d_reading;

/* A launcher in front of a program: its words are words[at] up to words[next], where the command that it
 * starts begins. */
typedef struct p4d_launcher {
	const char *name, *subcommand; /* "accelerate" "launch"; subcommand NULL: none */
	size_t at, next;
	bool module; /* words[next] is a module of Python */
	bool shell;  /* words[next] is for a shell: its script, text or argument */
} p4d_launcher;

enum { P4D_LAUNCHERS = 12 };

typedef struct p4d_launchers {
	p4d_launcher at[P4D_LAUNCHERS]; /* the outermost first */
	unsigned count;
	size_t program; /* its index among the words; their number: none */
	bool shell;     /* the program is a script, a text or the input of a shell */
	bool container; /* it runs in an image, with a Python of its own */
} p4d_launchers;

/* The launchers at the start of a command. */
void p4d_reader_launchers(p4d_launchers *to, const p4d_value *words, size_t count);

/* A command of a script that starts a program. */
typedef struct p4d_started {
	const struct p4d_started *around; /* words of the launchers around the script or text that it stands
					     in: "srun bash"; NULL: none */
	const p4d_value *words;
	size_t count;
	bool known;   /* p4d knows its program, by its name */
	bool aside;   /* its name says that it does not train: it generates, evaluates, converts */
	bool certain; /* no test that p4d cannot decide is before it */
	const p4d_command_run *run; /* its program; NULL: a script for a shell */
} p4d_started;

typedef struct p4d_reader_host {
	p4d_shell_host shell; /* its command and unread are the reader's own */
	/* What parses a format; NULL: nothing does. NULL: configuration files are not read. */
	p4d_config_read *(*config)(void *context, p4d_config_format format);
	const p4d_request *typed; /* the job's p4d options; NULL: none */
	/* What the site says that a program is, by its file or module; NULL: nothing. */
	const char *(*program)(void *context, const char *path);
	/* Called for a command "sbatch" with its arguments. NULL: not needed. context: as in shell. */
	void (*submits)(void *context, p4d_shell *shell, const p4d_value *words, size_t count);
	/* Every other command. NULL: nobody asks. */
	void (*starts)(void *context, p4d_shell *shell, const p4d_started *command);
} p4d_reader_host;

/* The place of the program among the words of a command, after srun, torchrun, python and similar words;
 * count: there is no program, or no memory. *module: it is a Python module. */
size_t p4d_reader_program(char *const *words, size_t count, bool *module);

/*
 * Reads a script with the host's variables and files. The reading borrows from the limits' memory. Fails
 * never: an unreadable script gives an empty reading that says why.
 */
void p4d_reader_read(p4d_reading *reading, const p4d_reader_host *host, const p4d_shell_limits *limits,
		     const char *name, const char *text, size_t length, const char *const *arguments,
		     const char *directory);

/*
 * NULL, or a message that p4d could not read a file of commands that may do more than set search paths:
 * "env.sh cannot be read, nor what it sets". The values that p4d read are in the script, but that file may
 * change them, or start something else.
 */
static inline const char *p4d_reading_doubt(const p4d_reading *reading)
{
	for (unsigned i = 0; i < reading->unknowns; i++)
		if (reading->unknown[i].doubt)
			return reading->unknown[i].why;
	return NULL;
}

/* Whether a command next to the training serves a model, and no other one trains. */
static inline bool p4d_reading_has_server(const p4d_reading *reading)
{
	return reading->commands > 1 && reading->serving + 1 == reading->commands;
}

/* What says the method, if an argument does not: the name that the user gave the program, or its file's. */
static inline const char *p4d_reading_kind(const p4d_reading *reading)
{
	return reading->kind ? reading->kind : reading->program;
}

/* What the script gives as an argument of the program; NULL: it does not. */
const p4d_read_value *p4d_reading_argument(const p4d_reading *reading, const char *argument);

/* Whether the program has an argument of that name, which need not be in the script. */
bool p4d_reading_takes(const p4d_reading *reading, const char *argument);

/* Whether p4d would read an argument with a value, "--tp" "8", if the script had it. value: "": a switch. */
bool p4d_reading_knows(const p4d_reading *reading, const char *argument, const char *value);

/* The option of p4d that an argument is; -1: none. */
int p4d_reading_option(const p4d_reading *reading, const char *argument);

/* An argument that is an option of p4d; NULL: p4d knows none. */
const char *p4d_reading_name(const p4d_reading *reading, p4d_option option);
/* The variable that says how many processes the program starts on a node, and that is not set; NULL: none. */
const char *p4d_reading_processes(const p4d_reading *reading);
/* Whether the program takes NAME=VALUE instead of --NAME VALUE. */
bool p4d_reading_assigns(const p4d_reading *reading);

/* The second argument, with its value, that this word of an argument needs, unless the script has it; NULL:
 * none. */
const char *p4d_reading_beside(const p4d_reading *reading, const char *argument, const char *word,
			       const char **value);

/*
 * Words that make the program shard a model that it otherwise replicates, with another framework:
 * "--deepspeed zero2". *launcher: the words belong after "accelerate launch". zero_stage: 0: any. NULL: p4d
 * knows none, or the script has that argument already.
 */
const char *p4d_reading_shards(const p4d_reading *reading, const char *framework, int64_t zero_stage,
			       bool *launcher);

/*
 * What an argument says so that an option has a value: "8", "selective", of a switch "true" or "false". text:
 * the value as p4d's option would be typed. False: p4d does not know the words.
 */
bool p4d_reading_say(const p4d_reading *reading, const char *argument, p4d_option option, const char *text,
		     char *buf, size_t size);

/* The release whose defaults a reading assumes, "TRL 1.10"; NULL: it depends on no release. */
const char *p4d_reading_release(const p4d_reading *reading);

/* "megatron"; only for a reading with a reader. */
const char *p4d_reading_framework(const p4d_reading *reading);
