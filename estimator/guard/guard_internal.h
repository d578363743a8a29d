/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "guard/verdict.h"
#include "search/search.h"

/* Parts of guard.c. */

/* What its steps share. */
typedef struct p4d_guard_work {
	const p4d_site *site;
	const p4d_job *job;
	p4d_cluster_source source;
	void *context;
	uint32_t published_batch;
	p4d_request *request;
	p4d_verdict *verdict;
	p4d_search_space space;
	p4d_search_budget budget;
	p4d_plan_memo memo; /* of its searches */
	bool by_script;     /* the user typed nothing */
	bool as_written;    /* the program does what the script says: nothing is chosen, nor rewritten */
	bool searches;
	char gpu_type[48]; /* by which a fix asks for another GPU, if it does */
} p4d_guard_work;

/* For the layout of a job, for a fix, and for each way out that needs a layout of its own. A unit is about 10
 * ns, and all are 50 ms at most (tests/bench/worst_completion), which models in use do not need. */
enum { P4D_GUARD_SEARCH_UNITS = 3000000, P4D_GUARD_FIX_UNITS = 2000000, P4D_GUARD_WAY_UNITS = 400000 };

/*
 * Nothing fits with the user's choices (err says what does not): suggests what would, as a fix of err (-1),
 * or takes it in place of the work's request where allowed (and rewrites; 0).
 */
int p4d_guard__correct(p4d_guard_work *work, const p4d_request *asked, bool rewrites, p4d_error *err);

/* For a job on MIG: the fix is one instance, unless the job does not fit there either. Returns -1. */
int p4d_guard__correct_mig(p4d_guard_work *work, const p4d_request *asked, p4d_error *err);

/* Takes a fix away that begins with more --nodes than the job can have, and says so. */
void p4d_guard__limit_nodes(const p4d_guard_work *work, p4d_error *err);

/* Whether a launcher starts other processes than the job has GPUs, as it was told or by default: says so, and
 * the fix, if the job is accepted with it. */
bool p4d_guard__starts_others(const p4d_guard_work *work, p4d_error *err);

/* What would fit, of a job that does not by formulas that refuse nobody: a fix of the message that says so.
 */
void p4d_guard__suggest(p4d_guard_work *work, const p4d_request *asked);

/* What the texts of a pasted fix are kept in. */
enum { P4D_PASTED_GRES = 200 };
typedef struct p4d_pasted {
	char words[480], gres[P4D_PASTED_GRES];
} p4d_pasted;

/* Puts options, separated by blanks, into the job and the request, which keep texts of room. False: they are
 * not options alone. */
bool p4d_guard__paste(p4d_pasted *room, const char *options, p4d_job *job, p4d_request *request);
