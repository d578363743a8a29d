/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-c/json.h>

#include "guard/guard.h"
#include "job/sbatch.h"
#include "search/search.h"

/* Advice about resources that are wasted although no message says so, and about smaller requests. It never
 * changes a verdict. Zero before use. */
enum { P4D_ADVICE_LINES = 8 };

typedef struct p4d_advice {
	unsigned count;
	struct {
		const char *about; /* the subject: "size", "tasks", ...; for JSON */
		char text[320];
	} line[P4D_ADVICE_LINES];
} p4d_advice;

/*
 * Advises about #SBATCH lines that sbatch ignores, and about a number of tasks that is not the number of
 * ranks.
 */
void p4d_advice_on_script(p4d_advice *advice, const p4d_job *job, const p4d_verdict *verdict);

/*
 * Advises about options in the script that p4d does not know, about --requeue and --mem-update. preempt_mode:
 * the partition's, as sinfo prints it; "": unknown.
 */
void p4d_advice_on_options(p4d_advice *advice, const p4d_sbatch *sbatch, const p4d_verdict *verdict,
			   const char *preempt_mode);

/*
 * Advises fewer GPUs, or smaller GPUs of the site, if the job stays below the safe fraction on them. request:
 * complete with its framework; a search may change options that p4d itself chose. space: the layouts in which
 * the job fits.
 */
void p4d_advice_on_size(p4d_advice *advice, const p4d_site *site, const p4d_request *request,
			const p4d_search_space *space);

/*
 * Advises --tp-comm-overlap=on, if the layout is p4d-train's, and the option was not given but would make the
 * step faster.
 */
void p4d_advice_on_overlap(p4d_advice *advice, const p4d_candidate *candidate, const p4d_search_space *space);

/*
 * Advises another partition in which the job takes no more time and fewer GPU-hours; or for a job that does
 * not fit, the cheapest partition in which it fits. partitions: "all", or names separated by commas.
 */
void p4d_advice_on_place(p4d_advice *advice, const p4d_site *site, const char *partitions,
			 const p4d_request *request, const p4d_search_space *space,
			 const p4d_verdict *verdict);

/* prefix: text before each line: "", or "1: " for a component of a heterogeneous job. */
void p4d_advice_print(const p4d_advice *advice, const char *prefix);
struct json_object *p4d_advice_json(const p4d_advice *advice);
