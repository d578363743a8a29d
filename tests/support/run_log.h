/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What p4d-train's --log says of a run, or of several that continue each other. */
#include <stdbool.h>
#include <stdint.h>

enum { RUN_LOG_STEPS = 256 };

/* "loss":..,"gradient_norm":.. of each step, as printed. */
typedef struct run_curve {
	char step[RUN_LOG_STEPS + 1][80];
} run_curve;

typedef struct run_log {
	uint64_t starts;
	uint64_t resumed; /* by the last start */
	uint64_t step;    /* number of the last one; 0: none */
	uint64_t saved;   /* the last checkpoint of all; 0: none */
	uint64_t steps;   /* in all, those that were made twice too */
	uint64_t differ;  /* from the curve, in any digit */
	double off;       /* and by so much: relative difference of the loss */
} run_log;

/* Fills the curve. A log that is not there is empty. */
run_log run_log_keep(const char *path, run_curve *curve);
/* Compares with it. */
run_log run_log_compare(const char *path, const run_curve *curve);
