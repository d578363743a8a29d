/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "guard/guard.h"
#include "job/script.h"
#include "request/framework.h"

/* Assembles a verdict; for guard.c and verify.c only. */

/* Users see at most this many lines of messages. A fix is one line. */
enum { P4D_VERDICT_LINES = 4 };

/* Adds a message; the caller may add a fix to it. */
p4d_message *p4d_verdict__say(p4d_verdict *verdict, p4d_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds P4D_E_PARTLY if the model has several parts: it names the part that p4d counts. */
void p4d_verdict__say_partly(p4d_verdict *verdict, const p4d_request *request);

/* Refuses the job for this reason. If the fault is the site's or p4d's own, on_error decides. */
void p4d_verdict__error(p4d_verdict *verdict, const p4d_error *err);

/*
 * Lets a job with a reading pass without a check, and adds the reason as a message. If the site does not know
 * the GPU, adds no message.
 */
void p4d_verdict__leave_unread(p4d_verdict *verdict, const p4d_job *job, const p4d_error *why);

/* Stores the name of the request's model in the verdict. */
void p4d_verdict__name_model(p4d_verdict *verdict, const p4d_request *request);
/* Stores a digest of the training in the record of a job that was judged by its script. */
void p4d_verdict__identify(p4d_verdict *verdict, const p4d_request *request);

/* Errors that the user cannot fix: information about the site is missing, or p4d itself failed. */
bool p4d_verdict__is_fault_of_site(p4d_code code);

/* Applies the user's override, then the site's mode. Call last. */
void p4d_verdict__finish(p4d_verdict *verdict, const char *override_reason);

/*
 * A copy of the job, for the policies of its partition. If the job has no -p and p4d.conf marks no partition
 * as the default, the copy names the default partition of the cluster. name: storage for that name.
 */
p4d_job p4d_guard__in_default(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
			      void *context, char name[P4D_PARTITION_NAME]);

/*
 * The job's geometry and the policy for the job. Policies depend on the requested GPUs, even if the job
 * trains on the host. If the GPUs are not known, the policy stays the same.
 */
int p4d_guard__place(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context,
		     p4d_verdict *verdict, p4d_error *err);

/*
 * judge_weights.c: for a training that p4d cannot check completely. Warns if the weights alone need more than
 * a GPU has. Gradients and optimizer states count if they are certain. Refuses the job if all these numbers
 * are certain and the site has scripts = judge. Ignores the job's p4d options. files: the function may read
 * model files, and searches for a fix.
 */
void p4d_guard__judge_weights(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
			      void *context, bool files, p4d_verdict *verdict);

/* Like p4d_guard__judge_weights, for a training that p4d does not model: counts only the weights and
 * refuses nothing. request: has the model's numbers. */
void p4d_guard__say_weights(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
			    void *context, const p4d_request *request, p4d_verdict *verdict);

/* script_request.c: the numbers of a preset, or of "custom". Reads no file. */
int p4d_guard__fill_model(const p4d_site *site, p4d_request *request, p4d_error *err);

/* judge_rehearsed.c: judges the job by rehearsals of its program (job->rehearsals) on GPUs like the job's
 * and in a geometry like the job's. */
void p4d_guard__judge_rehearsed(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
				void *context, const char *override_reason, p4d_verdict *verdict);

/* The arguments of p4d_guard_submit and p4d_guard_verify_script. */
typedef struct p4d_guard_asked {
	const p4d_site *site;
	const p4d_job *job;
	p4d_cluster_source source;
	void *context;
	p4d_request *request;
	uint32_t *published_batch;
	p4d_verdict *verdict;
	bool verifies;               /* set if slurmctld asks */
	const char *override_reason; /* --p4d-override, if slurmctld asks with an empty request; NULL: none */
} p4d_guard_asked;

/* submit.c: judges the job by the reading of its script. searches: as in p4d_guard__complete. */
void p4d_guard__judge_asked(const p4d_guard_asked *asked, bool searches);

/* judge_array.c: judges an array by its worst task. */
void p4d_guard__judge_tasks(const p4d_guard_asked *asked);

/*
 * For the submitting side: completes the request (with defaults, then by a search over the open options
 * within the site's rewrite policy), checks it and fills verdict->plan. The model must be resolved before
 * (p4d_model_resolve). *request is complete on return if verdict->plan is not "". searches: p4d may search
 * for a layout and for a fix.
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

/* Whether seq-len is only an upper bound of the sequences' lengths. */
bool p4d_guard__is_bound(const p4d_request *request);

/*
 * For a job that does not fit (*err) with sequences of seq-len tokens. If seq-len is only an upper bound and
 * shorter sequences fit, the job passes with a warning: returns true and clears *err. Otherwise *err also
 * gets the memory that the job needs with sequences of any length. doubt: the part of the prediction that was
 * not compared with measurements; NULL: none.
 */
bool p4d_guard__say_length(const p4d_job *job, const p4d_request *request, const p4d_capacity *capacity,
			   const char *doubt, p4d_verdict *verdict, p4d_error *err);

/* releases.c: for a job that does not fit with the release that p4d assumes. Returns another release that
 * the job may have and with which it fits; NULL: none is known. */
const char *p4d_guard__release_that_fits(const p4d_job *job, const p4d_request *request, const p4d_verdict *v,
					 const p4d_capacity *capacity);
/*
 * For a job with experts in Megatron-Core whose recipe p4d cannot see. Recipes differ in the type of
 * gradients and in the loss. Returns why the job may fit with another recipe; NULL: it fits with none, or the
 * job says which recipe it has.
 */
const char *p4d_guard__recipe_that_fits(const p4d_job *job, const p4d_request *request, const p4d_verdict *v,
					const p4d_capacity *capacity);
/* Warns about releases that the job may have and with which it would not fit. */
void p4d_guard__say_releases(const p4d_job *job, const p4d_request *request, p4d_verdict *v,
			     const p4d_capacity *capacity);

/* Like p4d_guard__say_releases, for preference training. */
void p4d_guard__say_releases_of_pairs(const p4d_job *job, const p4d_request *request,
				      uint32_t published_batch, p4d_verdict *verdict);

/*
 * Whether the job requests less host memory than offloaded tensors need, so that Slurm's cgroup would kill
 * it. host_bytes: the requested memory of a node; 0: unknown.
 */
bool p4d_guard__is_killed(const p4d_job *job, uint64_t host_bytes, const p4d_estimate *estimate);

/* Errors: HOST_MEMORY, if the ranks of a node need more host memory than the job gets. */
int p4d_guard__check_host_memory(const p4d_job *job, const p4d_verdict *verdict, p4d_error *err);

/*
 * Host memory, in bytes per node, that a fix requests for an estimate whose host_bytes is known. It counts
 * all tensors as pinned, and adds the same free share as on a GPU that may be filled up to `limit`.
 */
uint64_t p4d_guard__roomy(const p4d_estimate *estimate, double limit);

/*
 * Warns (UNVALIDATED) about a job that offloads and fills its host memory above the limit for GPU memory. The
 * host's part of an estimate was not measured, and the system, other processes and page tables need some of a
 * node.
 */
void p4d_guard__say_host_memory(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
				void *context, p4d_verdict *verdict);

/* For a job with too little host memory (HOST_MEMORY). need: bytes per node. Replaces the fix by a memory
 * request that is enough and that a node can grant, with the option that the job uses. */
void p4d_guard__fix_memory(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context,
			   const p4d_verdict *v, uint64_t need, p4d_error *err);

/*
 * The program that the script starts, if p4d does not model that program. NULL: p4d models it or does not
 * know it. The user's --p4d-framework overrides words of the script. If these words name no program, the
 * site's default counts.
 */
const char *p4d_guard__other(const p4d_script *script, const p4d_request *request);

/*
 * Predicts what the engine of an inference job reports at startup, and warns if the job does not fit. The
 * prediction is unvalidated. Returns -1 if the site refuses unmodelled jobs. The model and the GPUs must be
 * known.
 */
int p4d_guard__judge_serving(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
			     void *context, const p4d_request *request, p4d_verdict *verdict, p4d_error *err);

/* Reinforcement learning and preference training: warns if the job does not fit or has no valid layout;
 * never refuses the job. */
void p4d_guard__judge_colocated(const p4d_request *request, uint32_t published_batch, p4d_verdict *verdict);

static inline bool p4d_guard__holds_several_models(const p4d_request *request)
{
	return request->value[P4D_WORKLOAD] == P4D_WORKLOAD_RL ||
	       (request->value[P4D_WORKLOAD] == P4D_WORKLOAD_PREFERENCE &&
		!p4d_framework_trains_pairs(request));
}

static inline bool p4d_guard__serves(const p4d_request *request)
{
	return request->value[P4D_WORKLOAD] == P4D_WORKLOAD_SERVE;
}

/*
 * For an architecture or a program without formulas: the site's setting decides. If the job passes, adds a
 * message that p4d did not check it. -1: refused. program: the script's program; NULL: the architecture that
 * request->unmodelled names.
 */
int p4d_guard__judge_unmodelled(const p4d_request *request, const char *program, p4d_verdict *verdict,
				p4d_error *err);

/* True when p4d, not the user, decided the option. */
static inline bool p4d_is_chosen(const p4d_request *request, p4d_option option)
{
	return request->origin[option] == P4D_BY_P4D;
}
