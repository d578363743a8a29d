/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "guard/guard.h"
#include "job/script.h"

/* Assembles a verdict; for guard.c and verify.c only. */

/* Users see at most this many lines of messages; a fix is one. */
enum { P4D_VERDICT_LINES = 4 };

/* Adds a message; the caller may add a fix to it. */
p4d_message *p4d_verdict__say(p4d_verdict *verdict, p4d_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Of a model of several parts: which one p4d counts. */
void p4d_verdict__say_partly(p4d_verdict *verdict, const p4d_request *request);

/* The job is refused for this reason; when the fault is the site's or p4d's own, on_error decides. */
void p4d_verdict__error(p4d_verdict *verdict, const p4d_error *err);

/* A job with a reading passes without a check, for this reason; of GPUs that the site does not know, without
 * a word. */
void p4d_verdict__leave_unread(p4d_verdict *verdict, const p4d_job *job, const p4d_error *why);

/* Notes which model the request is about. */
void p4d_verdict__name_model(p4d_verdict *verdict, const p4d_request *request);
/* What was judged by its script, for the record of the job. */
void p4d_verdict__identify(p4d_verdict *verdict, const p4d_request *request);

/* Errors that the user cannot fix: site information is missing, or p4d itself failed. */
bool p4d_verdict__is_fault_of_site(p4d_code code);

/* Applies the user's override, then the site's mode. Call last. */
void p4d_verdict__finish(p4d_verdict *verdict, const char *override_reason);

/*
 * The job in the partition that it gets without naming one, for the policies that apply there: where p4d.conf
 * marks none as the default, the cluster's. name keeps it.
 */
p4d_job p4d_guard__in_default(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
			      void *context, char name[P4D_PARTITION_NAME]);

/*
 * The job's geometry and the policy for it. The GPUs that it requests are what policies are about, also where
 * it trains on the host; where they are not known, the policy stays as it is.
 */
int p4d_guard__place(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context,
		     p4d_verdict *verdict, p4d_error *err);

/*
 * judge_weights.c. A training of which p4d cannot tell enough to check it: says if its weights, with their
 * gradients and optimizer states where these are certain, take more than a GPU has, whatever the rest is.
 * Refuses it if all of that is certain and the site refuses jobs by their scripts. Options of the job count
 * for nothing here. files: models may be read from files, and a fix is searched.
 */
void p4d_guard__judge_weights(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
			      void *context, bool files, p4d_verdict *verdict);

/* The same of a training that p4d does not model, by its weights alone. It refuses nothing. request: with
 * the numbers of its model. */
void p4d_guard__say_weights(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
			    void *context, const p4d_request *request, p4d_verdict *verdict);

/* script_request.c: the numbers of a preset, or of "custom"; reads no file. */
int p4d_guard__fill_model(const p4d_site *site, p4d_request *request, p4d_error *err);

/* judge_rehearsed.c: what rehearsals of the job's program found (job->rehearsals), on GPUs and in a geometry
 * like the job's. */
void p4d_guard__judge_rehearsed(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
				void *context, const char *override_reason, p4d_verdict *verdict);

/* What p4d_guard_submit and p4d_guard_verify_script are asked. */
typedef struct p4d_guard_asked {
	const p4d_site *site;
	const p4d_job *job;
	p4d_cluster_source source;
	void *context;
	p4d_request *request;
	uint32_t *published_batch;
	p4d_verdict *verdict;
	bool verifies;               /* for slurmctld */
	const char *override_reason; /* for that, which has no request; NULL: none */
} p4d_guard_asked;

/* submit.c: by the job's reading as it is; searches: as in p4d_guard__complete. */
void p4d_guard__judge_asked(const p4d_guard_asked *asked, bool searches);

/* judge_array.c: the same by the worst task of an array. */
void p4d_guard__judge_tasks(const p4d_guard_asked *asked);

/*
 * For the submitting side: completes the request (defaults, then a search over what is open, within the
 * site's rewrite policy), checks it and fills verdict->plan. The model must be resolved already
 * (p4d_model_resolve). On return *request is complete when verdict->plan is not "".
 * searches: for a layout, and for a fix.
 */
void p4d_guard__complete(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context,
			 uint32_t published_batch, bool searches, p4d_request *request, p4d_verdict *verdict);

/*
 * Shared checks of a complete request: layout, memory against the limit, host memory, tasks, script. Fills
 * the verdict's layout, estimate and messages. Returns 0 when the job may pass, -1 when it was refused
 * (reason in *err).
 */
int p4d_guard__judge(const p4d_site *site, const p4d_job *job, const p4d_request *request,
		     p4d_verdict *verdict, p4d_error *err);

/* Whether seq-len is the most that a sequence has, and not what all have. */
bool p4d_guard__is_bound(const p4d_request *request);

/*
 * A job that does not fit (*err) with sequences as long as seq-len. If that is only an upper bound and
 * shorter ones fit, it passes with a warning: true, and *err is empty. Otherwise *err also says how much it
 * needs with sequences of any length. doubt: what of it was not compared with measurements; NULL: nothing.
 */
bool p4d_guard__say_length(const p4d_job *job, const p4d_request *request, const p4d_capacity *capacity,
			   const char *doubt, p4d_verdict *verdict, p4d_error *err);

/* releases.c. A release that the job may have and with which it fits, though not with the one that p4d took;
 * NULL: none is known. */
const char *p4d_guard__release_that_fits(const p4d_job *job, const p4d_request *request, const p4d_verdict *v,
					 const p4d_capacity *capacity);
/*
 * A job with experts that Megatron-Core trains by a recipe that p4d does not see: recipes differ in the type
 * of gradients and in the loss. Why it may fit if nothing says which it has; NULL: it does not, or that is
 * said.
 */
const char *p4d_guard__recipe_that_fits(const p4d_job *job, const p4d_request *request, const p4d_verdict *v,
					const p4d_capacity *capacity);
/* Warns of releases that the job may have and with which it does not fit. */
void p4d_guard__say_releases(const p4d_job *job, const p4d_request *request, p4d_verdict *v,
			     const p4d_capacity *capacity);

/* The same of preference training. */
void p4d_guard__say_releases_of_pairs(const p4d_job *job, const p4d_request *request,
				      uint32_t published_batch, p4d_verdict *verdict);

/* Whether what is offloaded is more than the memory that the job asked for, beyond which its cgroup kills it.
 * host_bytes: that memory, of a node; 0: not known. */
bool p4d_guard__is_killed(const p4d_job *job, uint64_t host_bytes, const p4d_estimate *estimate);

/* Of a job with too little host memory (HOST_MEMORY; need: bytes of a node): the --mem, in its own words,
 * that a node has and that is enough, in place of any other fix. */
void p4d_guard__fix_memory(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context,
			   const p4d_verdict *v, uint64_t need, p4d_error *err);

/*
 * The program that the script starts, if p4d does not model it; NULL: it does, or cannot tell. A user who
 * names the framework knows better than words of a script, and a site does where these leave it open.
 */
const char *p4d_guard__other(const p4d_script *script, const p4d_request *request);

/*
 * A job that serves: what its engine would say when it starts, which is not validated: said where it does not
 * fit, -1 where the site refuses what is not modelled. The model and the GPUs are known.
 */
int p4d_guard__judge_serving(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
			     void *context, const p4d_request *request, p4d_verdict *verdict, p4d_error *err);

/* Reinforcement learning and preference training, which are advised and never refused: what does not fit, or
 * is no layout, is said. */
void p4d_guard__judge_colocated(const p4d_request *request, uint32_t published_batch, p4d_verdict *verdict);

static inline bool p4d_guard__holds_several_models(const p4d_request *request)
{
	return request->value[P4D_WORKLOAD] == P4D_WORKLOAD_RL ||
	       request->value[P4D_WORKLOAD] == P4D_WORKLOAD_PREFERENCE;
}

static inline bool p4d_guard__serves(const p4d_request *request)
{
	return request->value[P4D_WORKLOAD] == P4D_WORKLOAD_SERVE;
}

/*
 * An architecture or program without a formula: the site decides. Says so where the job passes; -1: refused.
 * program: of the script; NULL: what request->unmodelled names.
 */
int p4d_guard__judge_unmodelled(const p4d_request *request, const char *program, p4d_verdict *verdict,
				p4d_error *err);

/* True when p4d, not the user, decided the option. */
static inline bool p4d_is_chosen(const p4d_request *request, p4d_option option)
{
	return request->origin[option] == P4D_BY_P4D;
}
