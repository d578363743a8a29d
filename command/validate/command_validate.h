/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <json-c/json.h>

#include "line/line.h"
#include "report/table.h"
#include "validate/measured.h"

/* p4d validate: functions that the commands for all kinds of files share. */

/* Errors of predictions: predicted divided by measured, minus 1. */
typedef struct p4d_validate_errors {
	unsigned count;
	double sum, worst;
} p4d_validate_errors;

/* Adds one error and returns it. */
double p4d_validate__collect(p4d_validate_errors *all, double predicted, double measured);

/* "what: mean absolute error ..."; nothing if there are no errors. */
void p4d_validate__print_errors(const char *what, const p4d_validate_errors *all);

/* A member `name` with rows, mean_absolute_error and worst_error. */
void p4d_validate__add_errors(struct json_object *object, const char *name, const p4d_validate_errors *all);

/* Counts of runs that ran out of memory. */
typedef struct p4d_validate_deaths {
	p4d_table table;
	struct json_object *rows;
	unsigned judged, passed; /* runs that ran out of memory: those compared, and those predicted to
				  * pass */
} p4d_validate_deaths;

void p4d_validate__begin_deaths(p4d_validate_deaths *deaths);

/* Adds a member `oom` with rows, judged and false_passes. */
void p4d_validate__add_deaths(struct json_object *object, const p4d_validate_deaths *deaths);

/*
 * Prints the table and the number of false passes, unless there are no such runs. which: the kind of runs;
 * "": all.
 */
int p4d_validate__print_deaths(p4d_validate_deaths *deaths, const char *which, p4d_error *err);

void p4d_validate__free_deaths(p4d_validate_deaths *deaths);

/* Rows that p4d cannot use, with the reasons. Zero before use. */
typedef struct p4d_validate_untaken {
	unsigned count;
	struct json_object *rows; /* list of {"line", "row", "why"}; owned */
	p4d_error first;
} p4d_validate_untaken;

/*
 * Records a row that p4d cannot use, with the reason from *err; id: its name, "": unknown. 0: continue with
 * the next row; -1: stop, because memory ran out.
 */
int p4d_validate__leave(p4d_validate_untaken *untaken, const p4d_measured_file *file, const char *id,
			const p4d_error *err);

/* Fails with the reason of the first row if no row could be used. */
int p4d_validate__none_taken(const p4d_validate_untaken *untaken, p4d_error *err);

/* Prints "2 rows that p4d cannot use:" and the reasons, unless there are none. */
void p4d_validate__print_untaken(const p4d_validate_untaken *untaken);
/* Adds a member not_taken. */
void p4d_validate__add_untaken(struct json_object *object, const p4d_validate_untaken *untaken);
void p4d_validate__free_untaken(p4d_validate_untaken *untaken);

/* The layout of a row. Errors: those of p4d_layout_build, with the row's name. */
int p4d_validate__layout(const p4d_measured *row, const p4d_gpus *gpus, p4d_layout *layout, p4d_error *err);

/* One function for each kind of file: reads the remaining rows and prints the result. */
int p4d_validate__memory(p4d_measured_file *file, const p4d_gpus *gpus, bool json, p4d_error *err);
int p4d_validate__runs(p4d_measured_file *file, const p4d_gpus *gpus, bool json, p4d_error *err);
int p4d_validate__throughput(p4d_measured_file *file, const p4d_gpus *gpus, bool json, p4d_error *err);

/* Runs p4d validate. */
int p4d_command_validate(const p4d_line *line, p4d_error *err);
