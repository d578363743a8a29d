/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cost/breakdown.h"
#include "line/line.h"
#include "picture/bars.h"
#include "picture/pictures.h"
#include "report/report.h"
#include "report/table.h"

/* command_pages.c: the pages of p4d estimate --html and p4d plan --html. Errors: IO, NO_MEMORY. */

typedef struct p4d_estimate_page {
	const p4d_subject *subject;
	const p4d_picture *picture; /* its path is not used */
	const p4d_estimate *estimate;
	const p4d_timed *timed;
	const char *verdict;
	p4d_action action;
} p4d_estimate_page;

int p4d_command__estimate_page(const p4d_estimate_page *page, const char *path, p4d_error *err);

typedef struct p4d_plan_row {
	char flags[1024], name[32];
} p4d_plan_row;

typedef struct p4d_plan_page {
	const p4d_subject *subject;
	const char *heading, *batch;
	const char
	    *preferred; /* the flags that sbatch itself would choose; "": the flags of the first layout */
	const p4d_table *table;
	const p4d_bars *bars;
	const p4d_plan_row *row; /* array with `count` rows, one for each layout */
	size_t count;
	const char *unvalidated, *accuracy; /* `unvalidated` and `error` of p4d_timed */
	const char *ties; /* why layouts are not in the order of step times; NULL: they are */
} p4d_plan_page;

int p4d_command__plan_page(const p4d_plan_page *page, const char *path, p4d_error *err);
