/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "request/request.h"

/*
 * p4d's options and outputs in a job's environment. Slurm stores option X of plugin p4d as the variable
 * _SLURM_SPANK_OPTION_p4d_p4d_X in the environment and in spank_job_env. Variables of spank_job_env are
 * repeated in the job's environment with the prefix SLURM_SPANK_. Outputs (P4D_PLAN, P4D_TP, ...) are in the
 * same places. So a job has up to three copies of each, which must agree. P4D_X of any option X counts as an
 * output, although only some are exported.
 *
 * Outputs are numbered: first those of p4d_export_name, then, from P4D_ENVIRONMENT_EXPORTS on, the options.
 */
enum { P4D_ENVIRONMENT_EXPORTS = 32, P4D_ENVIRONMENT_OUTPUTS = P4D_ENVIRONMENT_EXPORTS + P4D_OPTIONS };

/* The key with which the ranks of p4d-train authenticate each other. */
#define P4D_JOB_KEY "P4D_JOB_KEY"

/*
 * Maximum number of variables with a prefix of p4d that are read. Users can hide options behind more
 * variables than that. They gain nothing, because they could also leave the options out. p4d.so also puts
 * its variables into spank_job_env, which never has so many.
 */
enum { P4D_ENVIRONMENT_MOST = 512 };

/* Maximum number of variables of any name that are read, for the same reason. */
enum { P4D_ENVIRONMENT_SIZE = 8192 };

typedef enum p4d_environment_entry_kind {
	P4D_ENTRY_OTHER,
	P4D_ENTRY_OPTION,
	P4D_ENTRY_OUTPUT,
	P4D_ENTRY_NOTE /* P4D_EXPORT_VERDICT */
} p4d_environment_entry_kind;

/* One "NAME=value" entry of an environment. */
typedef struct p4d_environment_entry {
	p4d_environment_entry_kind kind;
	int index;         /* the p4d_option, or the number of the output */
	bool prefixed;     /* SLURM_SPANK_: a copy of spank_job_env */
	bool named;        /* begins like one of p4d's variables, even if it is none */
	const char *value; /* points into the entry */
} p4d_environment_entry;

p4d_environment_entry p4d_environment_entry_of(const char *text);

/* Name of the variable of an option, without prefix. */
const char *p4d_environment_option_variable(p4d_option option, char *buf, size_t size);

/* p4d's variables in a job; values are borrowed from the scanned environments. */
typedef struct p4d_environment {
	unsigned options, outputs; /* number of each */
	const char *option[P4D_OPTIONS];
	const char *output[P4D_ENVIRONMENT_OUTPUTS];
	const char *note;   /* note of the submitting side; NULL: none */
	p4d_error conflict; /* PLAN_CHANGED: two copies differ */
} p4d_environment;

/* Scans another environment. It may be NULL, and its entries may be NULL. */
void p4d_environment_scan(p4d_environment *env, char *const *environment, size_t count);

static inline const char *p4d_environment_plan(const p4d_environment *env)
{
	return env->output[0]; /* P4D_PLAN is the first of p4d_export_name */
}

/* The options as a request, origin user. Errors: VALUE. */
int p4d_environment_request(const p4d_environment *env, p4d_request *request, p4d_error *err);
