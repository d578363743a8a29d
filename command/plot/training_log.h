/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "picture/charts.h"

/* The log that p4d-train wrote with --log: a value per step for each measured quantity. */

typedef enum p4d_log_kind {
	P4D_LOG_LOSS,
	P4D_LOG_VALIDATION, /* one curve for each validation set */
	P4D_LOG_SPEED,      /* tokens per second */
	P4D_LOG_MEMORY,     /* GiB */
	P4D_LOG_KINDS,
} p4d_log_kind;

typedef struct p4d_log_curve {
	p4d_log_kind kind;
	char name[64];          /* name of the validation set, if it has one */
	p4d_chart_point *point; /* steps ascending, values finite; owned */
	size_t count, room;
} p4d_log_curve;

typedef struct p4d_training_log {
	p4d_log_curve *curve;
	size_t curves;
} p4d_training_log;

/*
 * Reads a log; "-": standard input. If a run went back to a checkpoint, only the last value of a step
 * counts. If a file has several runs, the last run counts. An incomplete last line is ignored. Errors: IO;
 * JSON, with the line; VALUE, if the log has no step; NO_MEMORY.
 */
int p4d_training_log__read(p4d_training_log *log, const char *path, p4d_error *err);
void p4d_training_log__free(p4d_training_log *log);

/* The curve of a kind with the i-th name; NULL: there are fewer names. */
const p4d_log_curve *p4d_training_log__find(const p4d_training_log *log, p4d_log_kind kind, size_t i);
