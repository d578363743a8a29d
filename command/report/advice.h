/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-c/json.h>

#include "guard/guard.h"
#include "job/sbatch.h"
#include "search/search.h"

/* Advice about resources that users commonly waste without a message, and about smaller requests. It never
 * changes a verdict. Start with zero. */
enum { P4D_ADVICE_LINES = 8 };

typedef struct p4d_advice {
	unsigned count;
	struct {
		const char *about; /* "size", "tasks", ...: for JSON */
		char text[320];
	} line[P4D_ADVICE_LINES];
} p4d_advice;

/* #SBATCH lines that sbatch ignores, and a number of tasks that does not match the ranks of a judged job. */
void p4d_advice_on_script(p4d_advice *advice, const p4d_job *job, const p4d_verdict *verdict);

/* Options of the script that p4d does not know, --requeue and --mem-update. preempt_mode: of the
 * partition, as sinfo prints it; "": unknown. */
void p4d_advice_on_options(p4d_advice *advice, const p4d_sbatch *sbatch, const p4d_verdict *verdict,
			   const char *preempt_mode);

/*
 * Fewer GPUs, or smaller GPUs of the site, on which the job stays below the safe fraction. request: with its
 * framework; options that p4d itself chose stay open. space: where the job fits.
 */
void p4d_advice_on_size(p4d_advice *advice, const p4d_site *site, const p4d_request *request,
			const p4d_search_space *space);

/* --tp-comm-overlap=on, if the layout is p4d-train's, and the option was not given but would make the step
 * faster. */
void p4d_advice_on_overlap(p4d_advice *advice, const p4d_candidate *candidate, const p4d_search_space *space);

/*
 * Another partition in which the job takes no more time and fewer GPU-hours. For a job that does not fit: the
 * cheapest partition in which it fits. partitions: "all", or names separated by commas.
 */
void p4d_advice_on_place(p4d_advice *advice, const p4d_site *site, const char *partitions,
			 const p4d_request *request, const p4d_search_space *space,
			 const p4d_verdict *verdict);

/* prefix: text before each line: "", or "1: " for a component of a heterogeneous job. */
void p4d_advice_print(const p4d_advice *advice, const char *prefix);
struct json_object *p4d_advice_json(const p4d_advice *advice);
