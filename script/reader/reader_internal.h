/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "config/config_tree.h"
#include "reader/reader.h"

/*
 * An argument of a program, or a value of its configuration file: "--lora.rank" is rank in the table lora.
 * what: the option of p4d that means the same, P4D_READ_EXTRA(i) for the reader itself, or one of those
 * below. value: what a switch means, NULL if it is followed by its value.
 */
typedef struct p4d_read_argument {
	const char *name; /* "": a word that belongs to no option; - and _ are the same */
	int what;
	const char *value;
	/* Pairs of the program's word and p4d's, where they differ ("": no meaning for p4d). A word that is
	 * not listed is unknown. With P4D_READ_NOT_MODELLED: words that turn the feature off. For a switch:
	 * its meaning when it is turned off. Or p4d_reader__list, or p4d_reader__first. */
	const char *const *words;
} p4d_read_argument;

enum {
	P4D_READ_NOT_MODELLED = -1,
	P4D_READ_SAVES = -2, /* not modelled either, but it can only take less: the verdict is advice */
	P4D_READ_FILE = -3,  /* a configuration file; value: a prefix for its names */
};
#define P4D_READ_EXTRA(i) ((int)P4D_OPTIONS + (i))
/* The same, with its path in an extra value. */
#define P4D_READ_FILE_IN(i) (P4D_READ_FILE - 1 - (i))

/* For arguments with several values, which commas join. */
extern const char *const p4d_reader__list[];
/* For a file that a file includes: its path is relative to the folder of that file. */
extern const char *const p4d_reader__beside[];
/* For arguments whose value does not matter: "on" if they are given. */
extern const char *const p4d_reader__there[];
/* For "": only the first word without an option. */
extern const char *const p4d_reader__first[];

typedef struct p4d_read_default {
	p4d_option option;
	const char *value;
} p4d_read_default;

/* A value of the reader's that an option follows from alone. */
typedef struct p4d_read_alias {
	p4d_option option;
	int extra;
} p4d_read_alias;

/* A name with its value, wherever it was written. */
typedef struct p4d_read_given {
	const char *name;
	const char *value;   /* "" none */
	const char *unknown; /* why it is not known; NULL: it is */
	const char *file;
	uint32_t line;
} p4d_read_given;

/* A variable of the environment that stands for an argument. */
typedef struct p4d_read_variable {
	const char *name, *argument;
	bool of_script; /* of a script that starts the program and that p4d cannot read */
} p4d_read_variable;

/*
 * A value that says whether sequences have the full length in the program's options. what: as in
 * p4d_read_argument, or P4D_READ_PROGRAM: text is the last word of the program's name.
 */
typedef struct p4d_read_filling {
	int what;
	const char *text;
	bool fills;
} p4d_read_filling;
enum { P4D_READ_PROGRAM = -1 };

enum { P4D_READ_PROGRAMS = 24, P4D_READ_TABLES = 5, P4D_READ_ALONE = 8 };

/* Release of transformers, from the environment's own file; major is 0 if it is not known. */
typedef struct p4d_read_release {
	unsigned long major, minor;
	p4d_read_value place;
} p4d_read_release;

/* The losses of the TRL in an environment, according to its sft_config.py. */
typedef enum p4d_read_trl {
	P4D_READ_TRL_UNKNOWN,
	P4D_READ_TRL_LOGITS,  /* before 1.4: no loss in chunks */
	P4D_READ_TRL_OFFERS,  /* 1.4 to 1.6: if --loss_type asks for it */
	P4D_READ_TRL_CHUNKED, /* 1.7 to 1.14: unless --loss_type says otherwise */
	P4D_READ_TRL_FUSED,   /* 1.15 and later: always, in tiles */
} p4d_read_trl;

/* For a program whose configuration hydra composes. */
typedef struct p4d_read_hydra {
	const char *const
	    *shipped; /* configurations that it brings along, patterns with * at the end; last NULL */
	const char *folder, *name; /* of the program: "config", "ppo_trainer" */
} p4d_read_hydra;

/* A word that has a meaning only together with another argument, whose default differs. */
typedef struct p4d_read_beside {
	const char *argument, *word;
	const char *other, *value;
} p4d_read_beside;

/* The words that make a program shard a model that it otherwise copies to every GPU. */
typedef struct p4d_read_shards {
	const char *framework; /* as in --framework */
	int zero_stage;        /* 0: it has none */
	const char *argument, *words;
	bool launcher; /* an argument of accelerate launch */
} p4d_read_shards;

/* One training program. */
typedef struct p4d_reader {
	const char *framework; /* as in --framework, or p4d's name for one without a model */
	/* file names or modules, with wildcards, or scripts that start them; "NAME SUBCOMMAND"; "~NAME" or
	 * "~FOLDER/NAME": other projects use that name too (evidence.h) */
	const char *programs[P4D_READ_PROGRAMS];
	/* arguments of which "~NAME" needs one; NULL: any known one, except the path of a file */
	const char *const *typical;
	/* lists of all arguments that its parser knows, where it stops at others; NULL: it may take any */
	const char *const *parser;
	const char *
	    arguments_alone[P4D_READ_ALONE]; /* one of these means the same, whatever the program's name is */
	const p4d_read_argument *arguments[P4D_READ_TABLES]; /* each ends with a name NULL */
	const p4d_read_default *defaults;                    /* last: value NULL; NULL: none */
	const char *release; /* with these defaults, "TRL 1.10"; NULL: no release decides */
	/* reader of an earlier release, used if the command has one of its arguments_alone; NULL: p4d knows
	 * none */
	const struct p4d_reader *earlier;
	const p4d_read_variable *variables; /* last: name NULL; NULL: none */
	const p4d_read_alias *aliases;      /* last: P4D_OPTIONS; NULL: none */
	const p4d_read_beside *beside;      /* NULL: no word is like that */
	const p4d_read_shards *shards;      /* last: framework NULL; NULL: p4d has no words for it */
	/* arguments of P4D_SEQ_LEN that are an upper bound, for the program pads to the longest sequence of a
	 * micro-batch; "": so is its default. NULL: none is, or the last */
	const char *const *bounds;
	const p4d_read_filling *filling; /* the first that applies decides instead; last: text NULL */
	const char *folders[2];          /* arguments that say where the files lie that it names */
	const p4d_read_hydra *hydra;     /* NULL: hydra does not compose its configuration */
	bool assignments;                /* NAME=VALUE is also an argument */
	bool every_gpu;                  /* it starts on all GPUs of its node by itself */
	bool accelerates;                /* "NAME SUBCOMMAND" is accelerate launch, with its options */
	/* A configuration that is no file, but shipped with the program: false if p4d does not know it. NULL:
	 * none is. */
	bool (*shipped)(p4d_reading *reading, const p4d_read_argument *argument, const p4d_read_given *name);
	/* turns the values into options: products, and what several arguments say together. NULL: nothing to
	 * do */
	void (*finish)(p4d_reading *reading);
	/* What follows from the release of transformers; called after finish; NULL: nothing. */
	void (*released)(p4d_reading *reading, const p4d_read_release *release);
	/* What follows from the release of TRL; called after finish; NULL: nothing. place: that of the file
	 * with the release. */
	void (*trl)(p4d_reading *reading, p4d_read_trl trl, const p4d_read_value *place);
} p4d_reader;

#define READER(name) extern const p4d_reader p4d_reader__##name;
#define WORD(text)
#include "reader/readers.def"
#undef READER
#undef WORD
extern const p4d_reader p4d_reader__swift_2, p4d_reader__swift_2_rlhf;

/* The most characters of a path; p4d reports a longer one. */
enum { P4D_READ_PATH = 512 };

static inline bool p4d_reader__is_file(const p4d_read_argument *argument)
{
	return argument->what <= P4D_READ_FILE;
}

/* The readers by number; NULL after the last. */
const p4d_reader *p4d_reader__at(size_t index);

/* read_values.c, for finish: */
bool p4d_reader__set(const p4d_read_value *value);
/* The number a value is; 0: not read, or none. */
uint64_t p4d_reader__number(const p4d_read_value *value);
bool p4d_reader__is(const p4d_read_value *value, const char *text);
/* "0", "0.0" */
bool p4d_reader__is_zero(const p4d_read_value *value);
/* Whether a value is "on"; `otherwise` is the program's default. */
bool p4d_reader__is_on(const p4d_read_value *value, bool otherwise);
/* An option that follows from another value, which was written in the same place, or is not known either. */
void p4d_reader__put(p4d_reading *reading, p4d_option option, const p4d_read_value *place, const char *format,
		     ...) __attribute__((format(printf, 4, 5)));
/* Marks an option whose value p4d cannot tell. */
void p4d_reader__forget(p4d_reading *reading, p4d_option option);
/* Marks an option that has no effect in this program. */
void p4d_reader__leave_out(p4d_reading *reading, p4d_option option);
/* Call it after finish: a value that an option cannot have ("1,2,4" of a sweep) becomes unknown. */
void p4d_reader__check(p4d_reading *reading);
/* Behind finish: whether sequences have all of seq-len. */
void p4d_reader__padding(p4d_reading *reading);
/* Sets the framework's default. */
void p4d_reader__put_default(p4d_reading *reading, p4d_option option, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The entry, which may have been there; NULL: there is no room for it, and the reading will end with one that
 * says so.
 */
p4d_read_unknown *p4d_reader__unknown(p4d_reading *reading, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Call it after the last unknown: if some had no room, nothing can follow from the rest. */
void p4d_reader__end_unknowns(p4d_reading *reading);
/* Megatron-Core's graphs of CUDA: cuda_graph_impl, cuda_graph_scope. */
void p4d_reader__graphs(p4d_reading *r, const p4d_read_value *whose, const p4d_read_value *scope);
/* The place of an option's value, or of P4D_READ_EXTRA. */
p4d_read_value *p4d_reader__slot(p4d_reading *reading, int what);

/* One argument with its value. */
void p4d_reader__take(p4d_reading *reading, const p4d_read_argument *argument, const p4d_read_given *given);
/* One that is there or not: its value is not known. */
void p4d_reader__take_perhaps(p4d_reading *reading, const p4d_read_argument *argument, const char *why);
/* What it stands for, an option or P4D_READ_EXTRA, is not known any more. */
void p4d_reader__lose(p4d_reading *reading, const p4d_read_argument *argument);
/* Whether names are the same, apart from - and _. */
bool p4d_reader__same_name(const char *a, const char *b);
/* The row of a name; NULL: p4d does not ask for it. */
const p4d_read_argument *p4d_reader__find(const p4d_reader *reader, const char *name);

/* read_arguments.c */
enum { P4D_READ_CONFIG_VALUES = 1 << 13, P4D_READ_CONFIG_NS = 8000000 /* for all files together */ };

/* What arguments say of their program. */
typedef struct p4d_read_evidence {
	bool typical;     /* one is the program's own */
	bool file;        /* one names a configuration file, which may hold others */
	char foreign[64]; /* one that its parser does not know; "": there is none */
} p4d_read_evidence;

typedef struct p4d_read_context {
	p4d_reading *reading;
	bool weighs; /* uses the contents of configuration files as evidence of the program */
	p4d_read_evidence evidence;
	p4d_shell *shell;
	const p4d_reader_host *host;
	unsigned values;   /* how many more values of configuration files it may look at */
	uint64_t until_ns; /* time of p4d_config_clock at which it stops reading them; 0: it has read none */
	unsigned files;
	p4d_value folder;               /* folder of configuration files; length 0: the job's */
	const struct p4d_launch *hydra; /* its words choose parts of a configuration; NULL: none is read */
	const char *hydra_root;         /* the folder of its primary file */
	int hydra_depth;
	bool of_script;   /* the values are variables of a script that p4d cannot read */
	bool accelerates; /* options may be those of accelerate launch */
	/* room for a path that is composed. It is not on the stack, where nested files would add up; once a
	 * file is open, its path is not needed */
	p4d_cell path[P4D_READ_PATH];
} p4d_read_context;

/* Where a value was written: what its first character came from. */
void p4d_reader__place(const p4d_shell *shell, p4d_value value, p4d_read_given *to);

/* read_config.c: a file, or a configuration that the program brings along. */
void p4d_reader__follow(p4d_read_context *context, const p4d_read_argument *argument, p4d_value path,
			const p4d_read_given *given);
/* Like the function above, for a file of the user that the script does not name, and that may be missing. */
void p4d_reader__follow_if_there(p4d_read_context *context, const p4d_read_argument *argument,
				 const char *path);

/* A path as a value, which stays until the next one. */
p4d_value p4d_reader__path(p4d_read_context *context, const char *text);

/* launch.c: what starts a program, and the program. */
enum { P4D_LAUNCH_OPTIONS = 24 };

typedef struct p4d_launch_option {
	const char *prefix; /* prefix of the launcher: "--accelerate." */
	p4d_value name, value;
} p4d_launch_option;

typedef struct p4d_launch {
	const p4d_value *words; /* [0]: the program, script or module */
	size_t count;
	bool shell_script;              /* words are those of a script for a shell */
	bool shell_text;                /* words[0] is text for one */
	bool shell_input;               /* its text comes on standard input; words are arguments */
	bool every_gpu;                 /* a launcher starts it on all GPUs of its node */
	bool accelerates;               /* accelerate launch is among them */
	bool starts_ranks;              /* torchrun or its like is among them */
	bool torchrun;                  /* the launcher is torchrun, whose default is one node */
	bool container;                 /* it runs in an image */
	bool python;                    /* python or a launcher of its programs is among them */
	p4d_value nodes, gpus_per_node; /* from a launcher's options; length 0: not given */
	p4d_value step_nodes;           /* from srun -N */
	p4d_value included, excluded;   /* "worker-0:0,1@worker-1:0,1", from DeepSpeed's options */
	p4d_launch_option option[P4D_LAUNCH_OPTIONS]; /* options of launchers that matter for the training */
	unsigned options;
	p4d_launcher launcher[P4D_LAUNCHERS];
	unsigned launchers;
} p4d_launch;

/* Takes off srun, torchrun, python and their like. words must outlive the launch. */
void p4d_reader__launch(const p4d_value *words, size_t count, p4d_launch *launch);

/* programs.c: the program of a command. */
typedef struct p4d_read_program {
	const p4d_reader *reader; /* NULL: none that p4d knows */
	size_t words;             /* words of its name; 0: only its arguments are those of the reader */
	bool common;              /* other projects use the name also */
	bool placed;              /* but it is in a folder as in its own project */
	bool told;                /* by the user or the site */
	const char *kind;         /* as in p4d_reading */
} p4d_read_program;

/* Programs next to a training that take its arguments: they generate, evaluate, convert. */
bool p4d_reader__is_none(p4d_value program);

/* The most words of a script's commands that p4d weighs to tell programs of one name apart (evidence.h). */
enum { P4D_READ_WEIGHED = 4096 };

/* *left: the rest of P4D_READ_WEIGHED. */
void p4d_reader__find_program(p4d_shell *shell, const p4d_launch *launch, unsigned *left,
			      p4d_read_program *to);

/* read_hydra.c: the configuration that --config-path and --config-name name. */
void p4d_reader__hydra(p4d_read_context *context, const p4d_launch *launch, size_t first);
/* The files in its defaults list: those that a file's own values override, or (behind) those that override
 * them. below: the prefix of the file's names. */
void p4d_reader__compose(p4d_read_context *context, const p4d_config_node *root, const char *file,
			 const char *below, bool behind);

/* read_arguments.c: the words after the program, from words[first]. */
void p4d_reader__arguments(p4d_read_context *context, const p4d_launch *launch, size_t first);

/* launched.c: nodes and GPUs from the options of a launcher, or of the launchers around a script (nodes,
 * gpus_per_node; length 0: none), and PyTorch's allocator. */
void p4d_reader__launched(p4d_reading *reading, p4d_shell *shell, const p4d_launch *launch, p4d_value nodes,
			  p4d_value gpus_per_node);

/* What torchrun starts without --nnodes runs on one node, though the job has more: each of them may train by
 * itself. */
void p4d_reader__one_node(p4d_reading *reading, p4d_shell *shell, const p4d_launch *launch);

/* The nodes of the step around a training, if nothing else says on how many it runs. */
void p4d_reader__in_step(p4d_reading *reading, p4d_shell *shell, p4d_value nodes);
/* A value without text, of the place where this was written. */
p4d_read_value p4d_reader__place_of(const p4d_shell *shell, p4d_value value);

/* python.c: the virtual environment that a script activates. */
typedef struct p4d_read_python {
	char directory[256]; /* "": none was named */
	bool unknown;        /* several were, or one that is not known */
	bool changed;        /* a later command may have changed the release */
	/* release of transformers that the script installs. reinstalled: a command may install one that p4d
	 * does not know */
	p4d_read_release pinned;
	char pinned_in[256]; /* the environment whose pip it was; "": the active one */
	uint32_t pinned_at;  /* p4d_shell_commands */
	bool reinstalled;
	bool left; /* a command after the activation may choose another environment */
	bool sets; /* its activation sets VIRTUAL_ENV, which it has until it is left */
} p4d_read_python;

/* A file that the script reads (text NULL: it cannot be), one of commands that p4d cannot read, and a command
 * that it runs. */
void p4d_reader__python_file(p4d_read_python *python, const char *path, const char *text, size_t length);
void p4d_reader__python_unread(p4d_read_python *python, const char *path);
void p4d_reader__python_command(p4d_read_python *python, const p4d_value *words, size_t count);
/* `pip install transformers==4.57.1`; certain: it is run. False: it installs nothing. */
bool p4d_reader__python_install(p4d_read_python *python, p4d_shell *shell, const p4d_value *words,
				size_t count, bool certain);
/* The commands after the first `since` may have failed: the script says what happens then. */
void p4d_reader__python_otherwise(p4d_read_python *python, uint32_t since);
/* The directory of the environment that runs a program; false: not known. words: the whole command. */
bool p4d_reader__python_directory(p4d_shell *shell, const p4d_reader_host *host,
				  const p4d_read_python *python, const p4d_launch *launch,
				  const p4d_value *words, char *directory, size_t size);
/* started.c: the program of a command. words: the whole command; python: as in p4d_command_run. */
void p4d_reader__run(p4d_command_run *run, const p4d_value *words, const p4d_launch *launch, p4d_value nodes,
		     p4d_value gpus_per_node, const char *python);
/* The release of transformers that a DDP job runs, from transformers/__init__.py (a regular file of that
 * environment, read through host->shell.file). words: the whole command. Call it after finish. */
void p4d_reader__python_release(p4d_reading *reading, p4d_shell *shell, const p4d_reader_host *host,
				const p4d_read_python *python, const p4d_launch *launch,
				const p4d_value *words);
