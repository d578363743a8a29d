/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads the log (--log) of a run of p4d-train, or of several runs that continue each other. */
#include <stdbool.h>
#include <stdint.h>

enum { RUN_LOG_STEPS = 256 };

/* The text "loss":..,"gradient_norm":.. of each step, with the digits of the log. */
typedef struct run_curve {
	char step[RUN_LOG_STEPS + 1][80];
} run_curve;

typedef struct run_log {
	uint64_t starts;
	uint64_t resumed; /* the step that the last start resumed */
	uint64_t step;    /* number of the last step; 0: none */
	uint64_t saved;   /* step of the newest checkpoint; 0: none */
	uint64_t steps;   /* number of logged steps; a repeated step counts twice */
	uint64_t differ;  /* number of steps whose digits differ from those of the curve */
	double off;       /* the largest relative difference of a loss */
} run_log;

/* Fills the curve. A missing log counts as empty. */
run_log run_log_keep(const char *path, run_curve *curve);
/* Compares a log with the curve. */
run_log run_log_compare(const char *path, const run_curve *curve);
