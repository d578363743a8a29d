/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "config/config_library.h"
#include "guard/guard.h"
#include "model/model.h"
#include "request/request.h"
#include "site/site.h"

/* A parsed command line. */
typedef struct p4d_line {
	p4d_request request;    /* its values have the origin P4D_BY_USER */
	const char *conf;       /* --conf */
	const char *svg;        /* --svg */
	const char *trace;      /* --trace */
	const char *partitions; /* --partitions */
	const char *since;      /* --since */
	const char *html;       /* --html */
	double tokens;          /* --tokens; 0: not given */
	p4d_site_job job;       /* --partition, --qos, --account, --user, --reservation */
	bool json, csv, env, help, all, quiet, verbose, finds;
	bool read_output;   /* --read-output */
	bool quick;         /* libp4d asks for a quick answer: reads no file, and searches no layouts */
	p4d_option largest; /* the option that has the value "auto" (--micro-batch or --seq-len);
			     * P4D_OPTIONS: none */
	uint32_t top;       /* --top */
	uint64_t mem_bytes; /* --mem, per node; 0: unset */
	uint64_t gpus;      /* --gpus, of the whole job; 0: unset */
	int operands;
	char **operand;
} p4d_line;

typedef struct p4d_subcommand {
	const char *name, *synopsis, *help;
	unsigned takes; /* P4D_TAKES_* */
	int operands;   /* maximum number of operands */
	int (*run)(const p4d_line *line, p4d_error *err);
	/* for commands that parse their own command line; run is then NULL */
	int (*run_raw)(const struct p4d_subcommand *self, int argc, char *argv[], p4d_error *err);
	const char *options; /* and the help for those options */
} p4d_subcommand;

enum {
	P4D_TAKES_JOB = 1, /* the options of options.def, and --mem */
	P4D_TAKES_TOP = 2,
	P4D_TAKES_CONF = 4,
	P4D_TAKES_JSON = 8,
	P4D_TAKES_SVG = 16,
	P4D_TAKES_TRACE = 128,
	P4D_TAKES_POLICY = 32,    /* options that decide which policy applies to the job */
	P4D_TAKES_PLACES = 64,    /* --partitions, --tokens */
	P4D_TAKES_HELP = 512,     /* --all */
	P4D_TAKES_HISTORY = 1024, /* options that select ended jobs, and --read-output */
	P4D_TAKES_PAGE = 2048,    /* --html */
	P4D_TAKES_ANY = 0,        /* options that every command takes */
	P4D_TAKES_LENGTH = 256,   /* --quiet and --verbose, and the value "auto" for a size */
};

/* An option of own_options.def. */
typedef struct p4d_line_option {
	const char *name, *argument; /* argument NULL: it has none */
	unsigned takes;              /* the commands that take it */
	int id;
	const char *help;
} p4d_line_option;
extern const p4d_line_option p4d_line_own[]; /* all options of own_options.def; ends with a NULL name */

/* line.c: reads argv[1..] of a subcommand. Errors: USAGE, VALUE. */
int p4d_line_parse(p4d_line *line, const p4d_subcommand *command, int argc, char *argv[], p4d_error *err);

/* help.c: prints the options of a command. all: also the less usual options that describe jobs. */
void p4d_line_help(const p4d_subcommand *command, bool all);
/* Prints the options under one heading ("memory"). False: there is no such heading. */
bool p4d_line_help_heading(const char *word, const p4d_subcommand *command);
/* Whether a command takes an option of options.def. */
bool p4d_line__takes(const p4d_subcommand *command, int option);

/*
 * synonyms.c: words of Slurm and of training programs ("--batch-size", "--num-gpus=4") for which p4d has
 * another option. word: without the dashes, up to a '='. value: the option's value; NULL: none. True: err has
 * p4d's own option as its fix.
 */
bool p4d_line_synonym(const char *word, const char *value, p4d_error *err);

/*
 * site_open.c: opens the configuration: --conf; else the p4d.conf that p4d_site_find finds for $SLURM_CONF
 * (default: /etc/slurm/slurm.conf); else the built-in defaults. Their mode is enforce, because the caller
 * wants to know whether the job fits. path receives the file's path; "" for the defaults.
 */
int p4d_line_find_conf(const char *option, char *path, size_t size, p4d_error *err);
p4d_site *p4d_line_open_site(const char *option, p4d_error *err);

/* Sets *err to UNKNOWN_GPU with the most similar names. */
int p4d_line_unknown_gpu(const p4d_site *site, const char *name, p4d_error *err);

/* Returns the parser for a format of configuration files that a job script names; for p4d_job_read. */
p4d_config_read *p4d_line_config(p4d_config_format format);

/* $P4D_DATADIR; NULL: not set. p4d.conf may name another directory. */
const char *p4d_line_data_directory(void);

/* live_cluster.c: the live cluster according to `sinfo`, queried once; a p4d_cluster_source. NULL if there
 * is none. */
const p4d_cluster *p4d_live_cluster(void *unused);
void p4d_live_cluster_free(void);
/* Whether a command of Slurm did not answer within ten seconds. Verdicts then ignore the cluster. */
bool p4d_live_cluster_is_late(void);
/* The release of Slurm on the live cluster: 2511 for 25.11; 0: unknown. */
unsigned p4d_live_cluster_release(void);
/* Whether the live cluster has this name. */
bool p4d_live_cluster_is(const char *name);
/* The accounts or QOSes ("account", "qos") that slurmdbd knows, one per line; the caller frees the text.
 * NULL: it does not answer. */
char *p4d_live_names(const char *entity);
/* PreemptMode of a partition, such as "CANCEL"; "": unknown. */
const char *p4d_live_preempt_mode(const char *partition, char *buf, size_t size);

/* The job that estimate and plan are asked about. Zero before use. */
typedef struct p4d_subject {
	p4d_site *site;
	p4d_request request; /* the request, with the model's numbers, the site's defaults, nodes and GPUs
				filled in */
	p4d_preset preset;
	char model[520]; /* a preset's canonical name, else the name as typed; and the file that was read */
	int method;
	uint64_t nodes, gpus_per_node;
	p4d_capacity capacity;
	p4d_policy policy;
	uint64_t mem_bytes; /* host memory per node in bytes; 0: unknown */
	p4d_option largest; /* as in p4d_line */
	bool quick;         /* as in p4d_line */
	unsigned messages;
	unsigned assumptions; /* number of messages that are printed first: about the assumed GPU, or about
			       * values that p4d left out */
	p4d_message message[P4D_MESSAGES];
} p4d_subject;

/*
 * subject.c: fills the subject from the command line. search: a search may choose the parallel sizes. If
 * the user gives neither GPUs nor nodes, a search gets one whole node, and other commands get tp*cp*pp
 * GPUs.
 */
int p4d_subject_open(p4d_subject *subject, const p4d_line *line, bool search, p4d_error *err);
void p4d_subject_close(p4d_subject *subject);
/* The number of GPUs in a node of this kind, for advice on larger jobs. */
uint64_t p4d_subject_most_gpus(const p4d_subject *subject);

/* Adds a message; if there is no room, it replaces the last one. */
void p4d_subject_say(p4d_subject *subject, p4d_code code, const char *fix, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/*
 * Warns about an option that only inference engines use. Refuses workloads other than training; the fix is
 * the command that estimates them.
 */
int p4d_subject_trains(p4d_subject *subject, p4d_error *err);
/* Warns about an option that has no effect on the workload. */
void p4d_subject_say_unused(p4d_subject *subject);

/*
 * If p4d chose the framework of a complete request, prints one line that names it and the other frameworks.
 * search: the command is p4d plan, which chooses the same framework for every model.
 */
void p4d_subject_print_framework(const p4d_request *request, bool search);

/* Warns if the GPU lacks the precision of a complete request. */
void p4d_subject_say_precision(p4d_subject *subject, const p4d_request *request);

/* The flags that reproduce a complete request: the user's values and the chosen layout. */
const char *p4d_subject_flags(const p4d_request *request, const char *prefix, char *buf, size_t size);
/*
 * The command that estimates a complete request on its number of GPUs. It keeps "auto" from the user's
 * command line.
 */
const char *p4d_subject_command(const p4d_subject *subject, const p4d_request *request, uint64_t nodes,
				uint64_t gpus_per_node, char *buf, size_t size);
