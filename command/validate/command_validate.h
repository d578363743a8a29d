/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_COMMAND_VALIDATE_H
#define P4D_COMMAND_VALIDATE_H

#include <stdbool.h>

#include <json-c/json.h>

#include "line/command.h"
#include "validate/measured.h"
#include "report/table.h"

/* p4d validate: what its two kinds of files have in common. */

/* Predicted over measured, minus 1, collected. */
typedef struct p4d_errors {
	unsigned count;
	double sum, worst;
} p4d_errors;

/* Adds one and returns it. */
double p4d_collect(p4d_errors *all, double predicted, double measured);

double p4d_mean_error(const p4d_errors *all);

/* "what: mean absolute error ..." unless there are none. */
void p4d_print_errors(const char *what, const p4d_errors *all);

/* A member `name` with rows, mean_absolute_error and worst_error. */
void p4d_add_errors(struct json_object *object, const char *name, const p4d_errors *all);

/* The layout of a row. Errors: those of p4d_layout_build, with the row's name. */
int p4d_measured_layout(const p4d_measured *row, p4d_layout *layout, p4d_error *err);

/* The rest of a file of each kind, read and printed. */
int p4d_validate_memory(p4d_measured_file *file, const p4d_gpus *gpus, bool json, p4d_error *err);
int p4d_validate_throughput(p4d_measured_file *file, const p4d_gpus *gpus, bool json, p4d_error *err);

#endif
