/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/digest.h"
#include "base/error.h"
#include "job/job.h"
#include "serve/colocated.h"
#include "plan/plan_line.h"
#include "serve/serving.h"
#include "plan/stage_memory.h"
#include "request/request.h"
#include "search/search.h"
#include "site/site.h"

/*
 * The decision about a job. These are pure functions of the site, the job and the request: no I/O, no
 * allocation, no global state. The same code therefore answers in sbatch, slurmctld, slurmstepd and `p4d
 * check`. sbatch's entry is in guard/submit.h.
 */

typedef enum p4d_action { P4D_PASS, P4D_WARN, P4D_REJECT } p4d_action;

typedef struct p4d_message {
	p4d_code code;
	char text[480];
	char fix[480];
} p4d_message;

enum { P4D_MESSAGES = 4 };

typedef struct p4d_verdict {
	p4d_action action; /* what p4d does with the job, according to the site's mode */
	bool would_reject; /* the job passes only because of the mode or an override; log it */
	bool only_warned;  /* the job passes only because of mode warn */
	bool judged;       /* false: not a p4d job, mode off, exempt, or p4d cannot check it; estimate is then
			    * zero */
	bool changed;      /* p4d completed or changed options */
	bool read;         /* the user typed no p4d options; p4d checked what the script says */
	bool assumed;      /* neither the user, the site nor the script names the framework */
	bool fault_of_site; /* p4d did not check the job, for a reason that the user cannot change */
	char model[64];     /* model in the request; "": the request has none */
	char unread[240]; /* why a job without options was not checked, if that is not the user's fault; else
			   * ""
			   */
	char digest[P4D_DIGEST_TEXT]; /* digest of the script's request, like p4d_plan_digest; "": p4d did not
					 judge the script */
	char engine[16];              /* engine that the script starts; "": none */
	p4d_policy policy;
	p4d_geometry geometry;
	p4d_layout layout;
	p4d_estimate estimate;
	p4d_colocated colocated; /* for a job with several models; capacity_bytes 0: there is no such job, or
				  * p4d did not judge it */
	p4d_serving serving;     /* for an inference job; max_model_len 0: there is no such job, or p4d did
				  * not judge it */
	bool starts;             /* the inference engine starts */
	unsigned tasks; /* number of compared tasks of an array whose tasks differ; 1: p4d compared fewer than
			   all; 0: the tasks do not differ */
	uint32_t task;  /* the worst of these tasks, which the verdict is about */
	unsigned messages;
	p4d_message message[P4D_MESSAGES];
	char plan[P4D_PLAN_MAX]; /* the plan line to export or approve; "" when there is none */
	p4d_request planned;     /* p4d_guard_verify read it from the plan line */
} p4d_verdict;

/*
 * For slurmctld: judges a job without p4d options or plan by its script, in bounded time. The verdict has no
 * plan and suggests no other layout. override_reason: the value of --p4d-override, the only p4d option that
 * such a job may have; NULL: none.
 */
void p4d_guard_verify_script(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
			     void *context, const char *override_reason, p4d_verdict *verdict);

/*
 * For slurmctld and slurmstepd: checks a plan line without changing it. options: the job's other p4d options
 * (may be NULL), which must agree with the plan. plan NULL or "": the job passes if it has no p4d options and
 * the partition does not require a plan; otherwise it is refused. For P4D_E_NO_PLAN, the fix is the command
 * that completes the plan.
 */
void p4d_guard_verify(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context,
		      const char *plan, const p4d_request *options, p4d_verdict *verdict);

/*
 * For p4d check: adds slurmctld's future verdict about the job's host memory to the verdict of
 * p4d_guard_submit. slurmctld knows how much memory a node gives the job; sbatch does not always ask the
 * cluster for it.
 */
void p4d_guard_foresee(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context,
		       p4d_verdict *verdict);

/*
 * Turns an error that prevented the check of a job (malformed option, unreadable model, ...) into a verdict
 * in the site's mode. Errors of the user cause a refusal; for errors of the site or of p4d, on_error decides.
 * override_reason: of --p4d-override, which lets the job pass where the site allows it, or NULL.
 */
void p4d_guard_fail(const p4d_site *site, const p4d_job *job, const p4d_error *err,
		    const char *override_reason, p4d_verdict *verdict);

/*
 * If the GPU lacks the precision or the FP8 recipe of a complete request (P4D_E_PRECISION): writes the
 * message into buf and returns an option that the GPU has instead ("precision=fp16"). NULL: the GPU lacks
 * nothing.
 */
const char *p4d_guard_lacks_precision(const p4d_request *request, const p4d_gpu *gpu, char *buf, size_t size);

/* Options that a fix may use: one way to shard, and one way to offload. */
enum { P4D_WAYS = 2 };

/* The fix of slurmctld, which searches for none. */
#define P4D_FIX_CHECK "p4d check JOB.sh"
/* In a message about a job that does not fit, separates the numbers from the ways out. */
#define P4D_WITHOUT_MORE_GPUS "; without more GPUs: "

/*
 * One or two options that make a job smaller without more GPUs. `option` is P4D_OPTIONS if there is no way;
 * `also` is P4D_OPTIONS if the first option is enough.
 */
typedef struct p4d_way {
	p4d_option option;
	int64_t value;
	p4d_option also;
	int64_t more;
} p4d_way;

/* Puts a way's options into the request. If the framework changes, options that the new framework lacks
 * are unset, except options that the user typed. */
void p4d_way_take(const p4d_way *way, p4d_request *request);
/* "--p4d-zero-stage=3 --p4d-offload=optimizer" */
const char *p4d_way_text(const p4d_way *way, const char *prefix, char *buf, size_t size);

/*
 * For a job that fits in no layout: lists ways out without more GPUs. Each of them alone is enough:
 * "--partition=b200 (b200-180gb), --p4d-offload=optimizer, LoRA (--p4d-finetune=lora, 24.0 GiB), shorter
 * sequences (--p4d-seq-len=4096)"; "": there is none. *best gets the ways that a fix may use and that do not
 * change what is trained. If p4d read the job's script, *best has only ways for which the script's program
 * has arguments. job: NULL for the command, whose options have another prefix. The function uses the budget
 * of the space.
 */
const char *p4d_guard_ways_out(const p4d_site *site, const p4d_job *job, const p4d_request *asked,
			       const p4d_search_space *space, const char *prefix, p4d_way best[P4D_WAYS],
			       char *buf, size_t size);

/* The policy for a job. geometry: NULL if it is not known (yet). */
p4d_policy p4d_guard_policy(const p4d_site *site, const p4d_job *job, const p4d_geometry *geometry);

/* Prints message i as users see it ("p4d: [P4D012] ...\np4d: fix: ..."), without trailing newline. */
const char *p4d_guard_message_text(const p4d_message *message, char *buf, size_t size);

/* All messages of a verdict, joined by newlines: at most four lines and, for a refusal, the site's message.
 * "": there are none. */
const char *p4d_verdict_text(const p4d_verdict *verdict, char *buf, size_t size);

/* Rank of a verdict from good to bad, to find the worst of several jobs or of an array's tasks. */
typedef struct p4d_rank {
	p4d_action action;
	bool would_reject;
	double fraction; /* share of the GPU's memory; negative: not judged */
} p4d_rank;

p4d_rank p4d_verdict_rank(const p4d_verdict *verdict);
bool p4d_rank_is_worse(const p4d_rank *a, const p4d_rank *b);

/* The job is refused (or would be) because it does not say what it trains. */
bool p4d_verdict_requires_plan(const p4d_verdict *verdict);

/*
 * Writes the memory of the fullest rank: "47.6 of 79.1 GiB (60 %)". For ranks on CPUs whose memory p4d does
 * not know: "0.012 GiB per rank". With offloading, ", host memory 93.1 GiB a node" follows.
 */
const char *p4d_verdict_memory(const p4d_verdict *verdict, char *buf, size_t size);
