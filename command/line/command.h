/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_COMMAND_H
#define P4D_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include <json-c/json.h>

#include "base/error.h"
#include "guard/guard.h"
#include "cost/losses.h"
#include "model/model.h"
#include "request/request.h"
#include "site/site.h"

/*
 * The command `p4d`. Each subcommand is a function that returns the exit status (0, or the number of a p4d
 * code), or -1 with *err filled; then main prints the error, as JSON where asked for, and exits with the
 * number of its code.
 */

/* A parsed command line. */
typedef struct p4d_line {
	p4d_request request; /* origin P4D_BY_USER */
	const char *conf;    /* --conf */
	const char *svg;     /* --svg */
	bool json, env, help;
	uint32_t top;       /* --top */
	uint64_t mem_bytes; /* --mem, per node; 0 unset */
	int operands;
	char **operand;
} p4d_line;

typedef struct p4d_subcommand {
	const char *name, *synopsis, *help;
	unsigned takes; /* P4D_TAKES_* */
	int operands;   /* at most */
	int (*run)(const p4d_line *line, p4d_error *err);
	/* for commands that read their own command line; then run is NULL */
	int (*run_raw)(int argc, char *argv[], p4d_error *err);
	const char *options; /* and what its help says of them */
} p4d_subcommand;

enum {
	P4D_TAKES_JOB = 1, /* the options of options.def, --mem */
	P4D_TAKES_TOP = 2,
	P4D_TAKES_CONF = 4,
	P4D_TAKES_JSON = 8,
	P4D_TAKES_SVG = 16,
};

/* command_*.c */
int p4d_command_estimate(const p4d_line *line, p4d_error *err);
int p4d_command_plan(const p4d_line *line, p4d_error *err);
int p4d_command_simulate(const p4d_line *line, p4d_error *err);
int p4d_command_check(int argc, char *argv[], p4d_error *err);
int p4d_command_data(int argc, char *argv[], p4d_error *err);
int p4d_command_job(const p4d_line *line, p4d_error *err);
int p4d_command_conf(const p4d_line *line, p4d_error *err);
int p4d_command_validate(const p4d_line *line, p4d_error *err);
int p4d_command_models(const p4d_line *line, p4d_error *err);
int p4d_command_gpus(const p4d_line *line, p4d_error *err);
int p4d_command_explain(const p4d_line *line, p4d_error *err);
int p4d_command_dump_features(const p4d_line *line, p4d_error *err);

extern const char p4d_check_options[], p4d_data_options[];

/* command_options.c: reads argv[1..] of a subcommand. Errors: USAGE, VALUE. */
int p4d_line_parse(p4d_line *line, const p4d_subcommand *command, int argc, char *argv[], p4d_error *err);
void p4d_line_help(const p4d_subcommand *command);
const p4d_subcommand *p4d_find_subcommand(const char *name); /* command.c; NULL when unknown */

/*
 * command_site.c: the site in force. --conf; else p4d.conf beside $SLURM_CONF; when that is not set,
 * /etc/slurm/p4d.conf, else SYSCONFDIR/p4d.conf; else the built-in defaults. path gets the file, "" for the
 * defaults.
 */
int p4d_find_conf(const char *option, char *path, size_t size, p4d_error *err);
p4d_site *p4d_open_site(const char *option, p4d_error *err);

/* $P4D_DATADIR, else where it was installed; p4d.conf may name another. */
const char *p4d_data_directory(void);

/* command_cluster.c: the live cluster as `sinfo` tells it, asked once; a p4d_cluster_source. NULL when there
 * is none. */
const p4d_cluster *p4d_live_cluster(void *unused);
void p4d_live_cluster_free(void);

/* What estimate and plan are about. Zero before use. */
typedef struct p4d_subject {
	p4d_site *site;
	p4d_request request; /* model numbers, site defaults, nodes and GPUs filled */
	p4d_preset preset;
	char model[256]; /* canonical name of a preset, else as typed */
	int method;
	uint64_t nodes, gpus_per_node;
	p4d_capacity capacity;
	p4d_policy policy;
	uint64_t mem_bytes; /* host memory per node; 0 unknown */
	unsigned messages;
	p4d_message message[P4D_MESSAGES];
} p4d_subject;

/*
 * command_subject.c. search: parallel sizes are open, so a whole node is assumed where no GPUs were given;
 * else as many as tp*cp*pp need.
 */
int p4d_subject_open(p4d_subject *subject, const p4d_line *line, bool search, p4d_error *err);
void p4d_subject_close(p4d_subject *subject);
/* GPUs of a node of this kind, for advice on larger jobs. */
uint64_t p4d_subject_most_gpus(const p4d_subject *subject);

/* Adds a message; when there is no more room the last one is replaced. */
void p4d_subject_say(p4d_subject *subject, p4d_code code, const char *fix, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The flags that make a complete request reproducible: what the user set and the layout that was chosen. */
const char *p4d_layout_flags(const p4d_request *request, const char *prefix, char *buf, size_t size);
/* The same with the GPUs, as a command. */
const char *p4d_estimate_command(const p4d_request *request, uint64_t nodes, uint64_t gpus_per_node,
				 char *buf, size_t size);

/* report.c: text */
enum { P4D_SIZE_TEXT = 24 };
const char *p4d_gib(uint64_t bytes, char buf[P4D_SIZE_TEXT]);
const char *p4d_action_name(p4d_action action);
/* One line with the layout, and one with what was not set by the user. */
void p4d_report_layout(const char *model, const p4d_layout *layout, uint64_t nodes, const p4d_gpu *gpu,
		       int method);
void p4d_report_defaults(const p4d_request *request);
/* The table stage x class, the peak, its phases and host memory. safe and limit are fractions of the
 * capacity. */
int p4d_report_memory(const p4d_layout *layout, const p4d_estimate *estimate, double safe, double limit,
		      p4d_error *err);
/* Prints messages on stderr as a user of sbatch sees them. */
void p4d_report_messages(unsigned count, const p4d_message *messages);
void p4d_report_error(const p4d_error *err);

/* report_step.c. What the clock says of a layout; known is false where it does not know the GPU. */
typedef struct p4d_timed {
	bool known;
	p4d_step step;
	p4d_losses losses;
} p4d_timed;
/* gpu: may be NULL. Errors: NO_MEMORY. */
int p4d_time_step(const p4d_layout *layout, const p4d_gpu *gpu, p4d_timed *timed, p4d_error *err);
/* The same of a step that was predicted before; all 0: it is not known. */
int p4d_timed_of(const p4d_layout *layout, const p4d_gpu *gpu, const p4d_step *step, p4d_timed *timed,
		 p4d_error *err);
const char *p4d_seconds(double seconds, char buf[P4D_SIZE_TEXT]); /* "3.214 s", "87.0 ms" */
/* The two largest losses: "bubble 12 %, gemm 9 %". */
const char *p4d_limits_text(const p4d_timed *timed, char *buf, size_t size);
/* One line; none without a GPU. */
void p4d_report_step(const p4d_gpu *gpu, const p4d_timed *timed);
/* NULL (null) where the clock does not know the GPU. */
struct json_object *p4d_json_step(const p4d_timed *timed);
struct json_object *p4d_json_losses(const p4d_timed *timed);
struct json_object *p4d_json_seconds(double seconds);

/* report_json.c: as documented in p4d(1). NULL only when memory runs out. */
struct json_object *p4d_json_messages(unsigned count, const p4d_message *messages);
struct json_object *p4d_json_error(const p4d_error *err);
struct json_object *p4d_json_layout(const p4d_layout *layout, uint64_t nodes);
struct json_object *p4d_json_gpu(const p4d_gpu *gpu);
struct json_object *p4d_json_peak(const p4d_estimate *estimate);
int p4d_json_stages(const p4d_layout *layout, const p4d_estimate *estimate, struct json_object **stages,
		    p4d_error *err);
struct json_object *p4d_json_host(const p4d_estimate *estimate, uint64_t granted_bytes);
struct json_object *p4d_json_defaults(const p4d_request *request);
struct json_object *p4d_json_bytes(uint64_t bytes); /* null for P4D_NOT_MODELLED */
struct json_object *p4d_json_fraction(double fraction);
int p4d_json_print(struct json_object *object, p4d_error *err); /* and releases it */

#endif
