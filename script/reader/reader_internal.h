/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "config/config_tree.h"
#include "reader/reader.h"

/*
 * An argument of a program, or a value of its configuration file: "--lora.rank" is rank in the table lora.
 * what: the p4d option with the same meaning; P4D_READ_EXTRA(i) for an extra value of the reader; or one
 * of the constants below. value: the value that a switch sets; NULL: the argument is no switch and has a
 * value.
 */
typedef struct p4d_read_argument {
	const char *name; /* "": a word that belongs to no option; '-' and '_' are equal */
	int what;
	const char *value;
	/* Pairs of the program's word and p4d's, if they differ ("": p4d has no meaning for it). A word
	 * that is not listed is unknown. With P4D_READ_NOT_MODELLED: words that turn the feature off. For
	 * a switch: its meaning when it is turned off. Instead of pairs: p4d_reader__list, or
	 * p4d_reader__first. */
	const char *const *words;
} p4d_read_argument;

enum {
	P4D_READ_NOT_MODELLED = -1,
	P4D_READ_SAVES = -2,          /* p4d does not model the argument, which can only reduce memory. So p4d
				       * advises instead of refusing */
	P4D_READ_TRAINS_NOTHING = -3, /* a switch with which the program only evaluates */
	P4D_READ_FILE = -4, /* names a configuration file; value: prefix for the names in that file */
};
#define P4D_READ_EXTRA(i) ((int)P4D_OPTIONS + (i))
/* Like P4D_READ_FILE; also stores the file's path in extra value i. */
#define P4D_READ_FILE_IN(i) (P4D_READ_FILE - 1 - (i))

/* A value for `words`: the argument has several values, which are joined with commas. */
extern const char *const p4d_reader__list[];
/* A value for `words`: the argument names a file that the current file includes. Its path is relative to
 * the folder of the current file. */
extern const char *const p4d_reader__beside[];
/* A value for `words`: the argument's value does not matter; it means "on". */
extern const char *const p4d_reader__there[];
/* A value for `words` of the argument "": only the first word without an option counts. */
extern const char *const p4d_reader__first[];

typedef struct p4d_read_default {
	p4d_option option;
	const char *value;
} p4d_read_default;

/* Says that one extra value of the reader alone decides an option. */
typedef struct p4d_read_alias {
	p4d_option option;
	int extra;
} p4d_read_alias;

/* A name with its value, from a command line or a file. */
typedef struct p4d_read_given {
	const char *name;
	const char *value;   /* "": the argument has no value */
	const char *unknown; /* why the value is unknown; NULL: it is known */
	const char *file;
	uint32_t line;
	const char *named_file; /* see p4d_read_value */
	uint32_t named_line;
} p4d_read_given;

/* Where a variable counts. */
typedef enum p4d_read_set {
	P4D_SET_ANYWHERE,
	P4D_SET_IN_SCRIPT, /* in a script that starts the program, if p4d cannot read that script */
	P4D_SET_SELDOM,    /* hardly any login sets this variable. If only the job will know its value, p4d
			    * takes it for unset */
} p4d_read_set;

/* An environment variable that replaces an argument. */
typedef struct p4d_read_variable {
	const char *name, *argument;
	p4d_read_set set;
} p4d_read_variable;

/*
 * A value that decides whether sequences have the full length in the program's options. what: the option or
 * extra value, as in p4d_read_argument; P4D_READ_PROGRAM: the last word of the program's name, which is
 * compared with text.
 */
typedef struct p4d_read_filling {
	int what;
	const char *text;
	bool fills;
} p4d_read_filling;
enum { P4D_READ_PROGRAM = -1 };

enum { P4D_READ_PROGRAMS = 24, P4D_READ_TABLES = 5, P4D_READ_ALONE = 8 };

/* Release of transformers, from the environment's own file; major is 0 if unknown. */
typedef struct p4d_read_release {
	unsigned long major, minor;
	p4d_read_value place;
} p4d_read_release;

/* When the TRL of an environment computes its loss in chunks, according to its sft_config.py. */
typedef enum p4d_read_trl {
	P4D_READ_TRL_UNKNOWN,
	P4D_READ_TRL_LOGITS,  /* before 1.4: never */
	P4D_READ_TRL_OFFERS,  /* 1.4 to 1.6: if --loss_type asks for it */
	P4D_READ_TRL_CHUNKED, /* 1.7 to 1.14: unless --loss_type selects another loss */
	P4D_READ_TRL_FUSED,   /* 1.15 and later: always, in tiles */
} p4d_read_trl;

/* A program whose configuration hydra composes. */
typedef struct p4d_read_hydra {
	const char *const *shipped; /* patterns of the configurations that the program ships, with * at the
				       end; the last is NULL */
	const char *folder, *name;  /* the program's default folder and file name: "config", "ppo_trainer" */
} p4d_read_hydra;

/* A word that has its meaning only if another argument has a value other than its default. */
typedef struct p4d_read_beside {
	const char *argument, *word;
	const char *other, *value;
} p4d_read_beside;

/* The words that make a program shard a model that it otherwise copies to every GPU. */
typedef struct p4d_read_shards {
	const char *framework; /* value of --framework */
	int zero_stage;        /* ZeRO stage; 0: none */
	const char *argument, *words;
	bool launcher; /* the words are arguments of accelerate launch */
} p4d_read_shards;

/* One training program. */
typedef struct p4d_reader {
	const char
	    *framework; /* value of --framework, or p4d's name for a program whose memory it does not model */
	/* file names or modules, with wildcards, or scripts that start them; "NAME SUBCOMMAND". "~NAME" or
	 * "~FOLDER/NAME": other projects use that name as well (evidence.h) */
	const char *programs[P4D_READ_PROGRAMS];
	/* "~NAME" needs one of these arguments; NULL: any known argument, except the path of a file */
	const char *const *typical;
	/* lists of all arguments of its parser, if that stops at others; NULL: it may accept any */
	const char *const *parser;
	const char *arguments_alone[P4D_READ_ALONE]; /* a command with one of these arguments runs this
							program, whatever its name */
	const p4d_read_argument *arguments[P4D_READ_TABLES]; /* arrays; each ends with a NULL name */
	const p4d_read_default *defaults;                    /* ends with a NULL value; NULL: none */
	const char *release; /* the release with these defaults, "TRL 1.10"; NULL: no release decides */
	/* reader of an earlier release, used if the command has one of its arguments_alone; NULL: p4d
	 * knows none */
	const struct p4d_reader *earlier;
	const p4d_read_variable *variables; /* ends with a NULL name; NULL: none */
	const p4d_read_alias *aliases;      /* ends with P4D_OPTIONS; NULL: none */
	const p4d_read_beside *beside;      /* NULL: no word depends on another argument */
	const p4d_read_shards *shards;      /* ends with a NULL framework; NULL: p4d has no words for it */
	/* Arguments of P4D_SEQ_LEN that are only an upper bound, because the program pads to the longest
	 * sequence of a micro-batch. "": its default is also a bound. NULL: none, or end of the list. */
	const char *const *bounds;
	const p4d_read_filling
	    *filling;           /* the first entry that applies overrides bounds; ends with a NULL text */
	const char *folders[2]; /* arguments that give the folder of the operands' files */
	const p4d_read_hydra *hydra; /* NULL: hydra does not compose its configuration */
	bool assignments;            /* the program also accepts NAME=VALUE */
	bool every_gpu;              /* the program itself starts on all GPUs of its node */
	bool accelerates;            /* "NAME SUBCOMMAND" runs accelerate launch and accepts its options */
	/* Reads a configuration that the program ships: false if p4d does not know it. NULL: it ships
	 * none. */
	bool (*shipped)(p4d_reading *reading, const p4d_read_argument *argument, const p4d_read_given *name);
	/* Turns values into options: products, and combinations of arguments. NULL: nothing to do. */
	void (*finish)(p4d_reading *reading);
	/* Sets options that depend on the release of transformers; called after finish. NULL: none. */
	void (*released)(p4d_reading *reading, const p4d_read_release *release);
	/* Sets options that depend on the release of TRL; called after finish. NULL: none. place: of the file
	 * that shows the release. */
	void (*trl)(p4d_reading *reading, p4d_read_trl trl, const p4d_read_value *place);
} p4d_reader;

#define READER(name) extern const p4d_reader p4d_reader__##name;
#define WORD(text)
#include "reader/readers.def"
#undef READER
#undef WORD
extern const p4d_reader p4d_reader__swift_2, p4d_reader__swift_2_rlhf;

/* Maximum length of a path. p4d reports longer paths. */
enum { P4D_READ_PATH = 512 };

static inline bool p4d_reader__is_file(const p4d_read_argument *argument)
{
	return argument->what <= P4D_READ_FILE;
}

/* The readers by number; NULL after the last one. */
const p4d_reader *p4d_reader__at(size_t index);

/* read_values.c: functions for `finish`. Whether the script gives the value: */
bool p4d_reader__set(const p4d_read_value *value);
/* A value as a number; 0: not read, or not a number. */
uint64_t p4d_reader__number(const p4d_read_value *value);
bool p4d_reader__is(const p4d_read_value *value, const char *text);
/* Whether the value is zero ("0", "0.0"). */
bool p4d_reader__is_zero(const p4d_read_value *value);
/* Sets an option that follows from another value. The option is reported at the place of that value. If
 * that value is unknown, the option becomes unknown. */
void p4d_reader__put(p4d_reading *reading, p4d_option option, const p4d_read_value *place, const char *format,
		     ...) __attribute__((format(printf, 4, 5)));
/* Marks an option whose value p4d cannot determine. */
void p4d_reader__forget(p4d_reading *reading, p4d_option option);
/* Marks an option that has no effect in this program. */
void p4d_reader__leave_out(p4d_reading *reading, p4d_option option);
/* Call it after finish: a value that an option cannot have ("1,2,4" of a sweep) becomes unknown. */
void p4d_reader__check(p4d_reading *reading);
/* Call it after finish. Decides whether sequences have the full seq-len. */
void p4d_reader__padding(p4d_reading *reading);
/* Sets an option to the framework's default. */
void p4d_reader__put_default(p4d_reading *reading, p4d_option option, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The entry for an unknown, which may already exist. NULL: there is no room; the reading will then end
 * with an entry that says so. */
p4d_read_unknown *p4d_reader__unknown(p4d_reading *reading, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Notes a doubt about a value, or about a part of the program, for which p4d makes an assumption. p4d
 * still judges the job, and no site refuses it. */
void p4d_reader__doubt(p4d_reading *reading, const char *name, const char *why);
/* Removes the entries of an argument or option whose unknown value does not matter: "reward_model.enable". */
void p4d_reader__ignore_unknown(p4d_reading *reading, const char *name);
/* Call it after the last unknown value. If some unknown values have no entry in the table, p4d concludes
 * nothing from the values that it knows. */
void p4d_reader__end_unknowns(p4d_reading *reading);
/* Reports that the program trains nothing, because of this argument. why: p4d_reader__evaluates, for example.
 */
void p4d_reader__trains_nothing(p4d_reading *reading, const char *name, const char *why);
extern const char p4d_reader__evaluates[];
/* Replaces control characters in all texts of a reading. */
void p4d_reader__make_printable(p4d_reading *reading);
/* Sets the options of Megatron-Core's CUDA graphs from cuda_graph_impl and cuda_graph_scope. */
void p4d_reader__graphs(p4d_reading *r, const p4d_read_value *whose, const p4d_read_value *scope);
/* Where the reading stores the value of an option, or of a P4D_READ_EXTRA. */
p4d_read_value *p4d_reader__slot(p4d_reading *reading, int what);

/* Stores one argument with its value. */
void p4d_reader__take(p4d_reading *reading, const p4d_read_argument *argument, const p4d_read_given *given);
/* Stores an argument that may or may not be present: its value is unknown. */
void p4d_reader__take_perhaps(p4d_reading *reading, const p4d_read_argument *argument, const char *why);
/* Marks the option or P4D_READ_EXTRA of an argument as unknown. */
void p4d_reader__lose(p4d_reading *reading, const p4d_read_argument *argument);
/* Whether names are equal; '-' and '_' are the same. */
bool p4d_reader__same_name(const char *a, const char *b);
/* The row of a name; NULL: p4d does not use this argument. */
const p4d_read_argument *p4d_reader__find(const p4d_reader *reader, const char *name);

/* read_arguments.c */
enum { P4D_READ_CONFIG_VALUES = 1 << 13, P4D_READ_CONFIG_NS = 8000000 /* limits for all files together */ };

/* What the arguments of a command prove about its program. */
typedef struct p4d_read_evidence {
	bool typical; /* an argument that only this program has */
	bool file;    /* an argument names a configuration file, which may contain arguments that only this
			 program has */
	char foreign[64]; /* an argument that the program's parser does not know; "": there is none */
} p4d_read_evidence;

/* A value that refers to the value of another argument. */
typedef struct p4d_read_reference {
	const p4d_read_argument *argument, *target;
	const char *otherwise; /* applies if the target has no value; NULL: none */
	p4d_read_given given;  /* the place of the reference */
} p4d_read_reference;

typedef struct p4d_read_context {
	p4d_reading *reading;
	bool weighs; /* treat the contents of configuration files as evidence of the program */
	p4d_read_evidence evidence;
	p4d_shell *shell;
	const p4d_reader_host *host;
	unsigned values;   /* number of values in configuration files that may still be examined */
	uint64_t until_ns; /* value of p4d_config_clock at which reading stops; 0: no file was read yet */
	unsigned files;
	p4d_value folder;               /* folder of configuration files; length 0: the job's directory */
	const struct p4d_launch *hydra; /* hydra's arguments, which choose parts of a configuration; NULL:
					 * hydra reads none */
	const char *hydra_root;         /* folder of hydra's primary file */
	int hydra_depth;
	p4d_read_reference reference[8];
	unsigned references;
	bool of_script;   /* the values are variables of a script that p4d cannot read */
	bool accelerates; /* options may belong to accelerate launch */
	/* Room for a path under construction. It is not on the stack, because each nested file would take
	 * this room again. Once a file is open, its path is not needed any more. */
	p4d_cell path[P4D_READ_PATH];
} p4d_read_context;

/* Fills the place of a value: that of its first character. */
void p4d_reader__place(const p4d_shell *shell, p4d_value value, p4d_read_given *to);

/* read_config.c: reads a file, or a configuration that the program ships. */
void p4d_reader__follow(p4d_read_context *context, const p4d_read_argument *argument, p4d_value path,
			const p4d_read_given *given);
/* Like the function above, for a user's file that the script does not name and that may be missing. */
void p4d_reader__follow_if_there(p4d_read_context *context, const p4d_read_argument *argument,
				 const char *path);

/*
 * read_references.c: keeps a reference to another argument of the program for p4d_reader__resolve. False: the
 * text is none, or p4d does not read the other argument.
 */
bool p4d_reader__refer(p4d_read_context *context, const p4d_read_argument *argument, const char *text,
		       const p4d_read_given *given);
/* Stores the values of the references, after all files and words were read. */
void p4d_reader__resolve(p4d_read_context *context);

/* A path as a value, valid until the next call. */
p4d_value p4d_reader__path(p4d_read_context *context, const char *text);

/* launch.c: the launchers of a command, and its program. */
enum { P4D_LAUNCH_OPTIONS = 24, P4D_LAUNCH_SETTINGS = 24 };

typedef struct p4d_launch_option {
	const char *prefix; /* prefix of the launcher's options: "--accelerate." */
	p4d_value name, value;
} p4d_launch_option;

/* What a launcher sets for its command: NAME=VALUE, several of them with commas, or a file with one per line.
 */
typedef enum p4d_launch_variables { P4D_LAUNCH_ONE, P4D_LAUNCH_LIST, P4D_LAUNCH_FILE } p4d_launch_variables;
typedef struct p4d_launch_setting {
	p4d_value text;
	p4d_launch_variables kind;
} p4d_launch_setting;

typedef struct p4d_launch {
	const p4d_value *words; /* [0] is the program, script or module */
	size_t count;
	bool shell_script;              /* words are a script for a shell, with its arguments */
	bool shell_text;                /* words[0] is a text for a shell */
	bool shell_input;               /* the shell reads its text from standard input; words are
					 * arguments */
	bool every_gpu;                 /* a launcher starts the program on all GPUs of its node */
	bool accelerates;               /* accelerate launch is one of the launchers */
	bool starts_ranks;              /* torchrun or a similar program is one of the launchers */
	bool torchrun;                  /* the launcher is torchrun, whose default is one node */
	bool container;                 /* the program runs in a container image */
	bool python;                    /* python, or a launcher of Python programs, is one of the
					 * launchers */
	p4d_value nodes, gpus_per_node; /* from a launcher's options; length 0: not given */
	p4d_value gpus_option;          /* the option of gpus_per_node without dashes: "nproc_per_node" */
	p4d_value step_nodes;           /* from srun -N */
	p4d_value step_gpus;            /* from srun --gpus-per-node, --gres and the like */
	p4d_value included, excluded;   /* "worker-0:0,1@worker-1:0,1", from DeepSpeed's options */
	p4d_launch_option option[P4D_LAUNCH_OPTIONS]; /* options of launchers that affect the training */
	unsigned options;
	p4d_launch_setting setting[P4D_LAUNCH_SETTINGS];
	unsigned settings;
	p4d_value exports;  /* from srun --export: ALL,TP=8 */
	const char *cleans; /* launcher with a switch such as --cleanenv; NULL: none */
	p4d_launcher launcher[P4D_LAUNCHERS];
	unsigned launchers;
} p4d_launch;

/* Removes srun, torchrun, python and similar words. `words` must outlive the launch. */
void p4d_reader__launch(const p4d_value *words, size_t count, p4d_launch *launch);

/* environment.c: variables that launchers set. */

/* Stores an option of a launcher, if it sets variables. option: without dashes; NULL: NAME=VALUE before the
 * command. */
void p4d_reader__note_setting(p4d_launch *launch, const char *launcher, const char *option, p4d_value value);
/* Sets the variables of the launch, until p4d_shell_leave_environment gets the result. */
p4d_shell_scope *p4d_reader__enter_environment(p4d_shell *shell, const p4d_launch *launch);

/* programs.c: the program of a command. */
typedef struct p4d_read_program {
	const p4d_reader *reader; /* NULL: no reader knows the program */
	size_t words;             /* number of words in its name; 0: only its arguments match the reader */
	bool common;              /* other projects also use the name */
	bool placed; /* the name is common, but the file is in the same folder as in the project of the reader
		      */
	bool told;   /* the user or the site named the program */
	const char *kind; /* as in p4d_reading */
} p4d_read_program;

/* Whether the name belongs to a program that has arguments like those of a training, but generates,
 * evaluates or converts. */
bool p4d_reader__is_none(p4d_value program);
/* Whether a command has an argument that only programs of this reader have. */
bool p4d_reader__stands_alone(const p4d_launch *launch, const p4d_reader *reader);

/*
 * Maximum number of words in a script's commands that p4d weighs to distinguish programs of the same name
 * (evidence.h).
 */
enum { P4D_READ_WEIGHED = 4096 };

/* Finds the program of a command. *left: the rest of P4D_READ_WEIGHED. */
void p4d_reader__find_program(p4d_shell *shell, const p4d_launch *launch, unsigned *left,
			      p4d_read_program *to);

/* read_hydra.c: reads the configuration that --config-path and --config-name select. */
void p4d_reader__hydra(p4d_read_context *context, const p4d_launch *launch, size_t first);
/* Reads files of the defaults list of a hydra file. behind false: the files that the file's own values
 * override; true: the files that override the file. below: the prefix of the names in the file. */
void p4d_reader__compose(p4d_read_context *context, const p4d_config_node *root, const char *file,
			 const char *below, bool behind);

/* read_arguments.c: reads the words after the program, starting at words[first]. */
void p4d_reader__arguments(p4d_read_context *context, const p4d_launch *launch, size_t first);

/*
 * launched.c: sets nodes and GPUs from the options of a launcher, or of the launchers around a script (nodes,
 * gpus_per_node; length 0: none); and the setting of PyTorch's allocator.
 */
void p4d_reader__launched(p4d_reading *reading, p4d_shell *shell, const p4d_launch *launch, p4d_value nodes,
			  p4d_value gpus_per_node);

/* For a program that torchrun starts without --nnodes, so on one node. If the job has more nodes, the
 * program may run on each node as a separate training. */
void p4d_reader__one_node(p4d_reading *reading, p4d_shell *shell, const p4d_launch *launch);

/* Sets the nodes of the srun step that contains the training, if nothing else gives the number of nodes. */
void p4d_reader__in_step(p4d_reading *reading, p4d_shell *shell, p4d_value nodes);
/* A value without text, at the place of `value`. */
p4d_read_value p4d_reader__place_of(const p4d_shell *shell, p4d_value value);

/* python.c: the virtual environment that a script activates. */
typedef struct p4d_read_python {
	char directory[256]; /* directory of the environment; "": no command named one */
	bool unknown;        /* several environments were named, or one with an unknown name */
	bool changed;        /* a later command may have changed the release */
	/* Release of transformers that the script installs. reinstalled: some command may install a
	 * release that p4d does not know. */
	p4d_read_release pinned;
	char pinned_in[256]; /* the environment of the pip that installed it; "": the active one */
	uint32_t pinned_at;  /* value of p4d_shell_commands at that time */
	bool reinstalled;
	bool left; /* a command after the activation may have selected another environment */
	bool sets; /* the activation sets VIRTUAL_ENV, which stays set until the environment is left */
} p4d_read_python;

/*
 * These functions update the environment. In this order: for a file that the script sources (text NULL: it
 * cannot be read); for a file of commands that p4d cannot read; for a command that the script runs.
 */
void p4d_reader__python_file(p4d_read_python *python, const char *path, const char *text, size_t length);
void p4d_reader__python_unread(p4d_read_python *python, const char *path);
void p4d_reader__python_command(p4d_read_python *python, const p4d_value *words, size_t count);
/*
 * Handles `pip install transformers==4.57.1`. certain: the command certainly runs. False: it installs
 * nothing.
 */
bool p4d_reader__python_install(p4d_read_python *python, p4d_shell *shell, const p4d_value *words,
				size_t count, bool certain);
/* Says that commands may have failed if they come after the first `since` commands, because the script
 * handles their failure. */
void p4d_reader__python_otherwise(p4d_read_python *python, uint32_t since);
/* The directory of the environment that runs a program. False: unknown. words: the whole command. */
bool p4d_reader__python_directory(p4d_shell *shell, const p4d_reader_host *host,
				  const p4d_read_python *python, const p4d_launch *launch,
				  const p4d_value *words, char *directory, size_t size);
/*
 * started.c: a hash of the words of a command that p4d uses, and of its launchers' numbers of nodes and GPUs.
 * Commands of one program with the same hash have the same plan.
 */
uint64_t p4d_reader__plan_of(const p4d_launch *launch, const p4d_reader *reader, p4d_value nodes,
			     p4d_value gpus_per_node);
/*
 * started.c: fills a run from the launch of a command. words: the whole command; python: as in
 * p4d_command_run.
 */
void p4d_reader__run(p4d_command_run *run, const p4d_value *words, const p4d_launch *launch, p4d_value nodes,
		     p4d_value gpus_per_node, const char *python);
/*
 * Sets what depends on the release of transformers in a DDP job, from transformers/__init__.py (a regular
 * file of the environment, read through host->shell.file). words: the whole command. Call it after finish.
 */
void p4d_reader__python_release(p4d_reading *reading, p4d_shell *shell, const p4d_reader_host *host,
				const p4d_read_python *python, const p4d_launch *launch,
				const p4d_value *words);
