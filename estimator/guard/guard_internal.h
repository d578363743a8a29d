/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "guard/verdict.h"
#include "search/search.h"

/* State shared by the steps of guard.c. */
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
	p4d_plan_memo memo; /* cache of plans for the searches about this job */
	bool by_script;     /* the user typed no p4d options */
	bool as_written;    /* the program runs with the script's values, so p4d neither chooses nor rewrites
			       options */
	bool searches;
	char gpu_type[48]; /* the GRES type with which a fix requests another GPU; "": the fix keeps the
			    * GPU */
} p4d_guard_work;

/* Search budgets: for the layout of a job, for a fix, and for each way out that needs its own layout. A unit
 * is about 10 ns. Together they take at most 50 ms (tests/bench/worst_completion); usual models need less. */
enum { P4D_GUARD_SEARCH_UNITS = 3000000, P4D_GUARD_FIX_UNITS = 2000000, P4D_GUARD_WAY_UNITS = 400000 };

/*
 * Called if nothing fits with the user's choices (*err has the reason). Finds a layout that fits. If p4d may
 * rewrite the request (`rewrites`, and the site allows it), stores the layout in the request and returns 0.
 * Otherwise adds the layout to *err as a fix and returns -1.
 */
int p4d_guard__correct(p4d_guard_work *work, const p4d_request *asked, bool rewrites, p4d_error *err);

/*
 * For a job on MIG: sets a fix that uses one instance, unless the job does not fit there either. Returns -1.
 */
int p4d_guard__correct_mig(p4d_guard_work *work, const p4d_request *asked, p4d_error *err);

/* If a fix requests more --nodes than the job can have, removes the fix and says so in *err. */
void p4d_guard__limit_nodes(const p4d_guard_work *work, p4d_error *err);

/* Whether a launcher starts another number of processes than the job has GPUs. If so, *err says it. *err
 * has a fix if p4d accepts the job with that fix. */
bool p4d_guard__starts_others(const p4d_guard_work *work, p4d_error *err);

/*
 * For a job about which p4d only warns, because only unvalidated formulas say that it does not fit: adds a
 * layout that fits as the warning's fix.
 */
void p4d_guard__suggest(p4d_guard_work *work, const p4d_request *asked);

/* Storage for the texts of a fix that is applied. */
enum { P4D_PASTED_GRES = 200 };
typedef struct p4d_pasted {
	char words[480], gres[P4D_PASTED_GRES];
} p4d_pasted;

/* Applies blank-separated options to the job and the request, whose texts then point into `room`. False:
 * the text contains anything else than options. */
bool p4d_guard__paste(p4d_pasted *room, const char *options, p4d_job *job, p4d_request *request);
