/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `scontrol update` of a job with an approved plan: p4d verifies the job as it would be after the update.
 * This applies to everybody, because an administrator's mistake costs as many GPUs as a user's.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "job_environment.h"
#include "job_submit.h"
#include "job_submit_metrics.h"
#include "job_submit_record.h"
#include "job_submit_watch.h"
#include "slurm_job.h"

/* The job's record as a public description; NULL: this slurmctld does not export the conversion. */
static job_desc_msg_t *describe(struct job_record *record)
{
	job_desc_msg_t *(*copy)(struct job_record *);

	*(void **)&copy = dlsym(RTLD_DEFAULT, "copy_job_record_to_job_desc");
	return copy && record ? copy(record) : NULL;
}

/* Frees a description. Its copied environment is one block, which slurm_free_job_desc_msg does not expect. */
static void free_description(job_desc_msg_t *desc)
{
	void (*release)(job_desc_msg_t *);

	if (desc->environment) {
		slurm_xfree((void **)&desc->environment[0]);
		slurm_xfree((void **)&desc->environment);
		desc->env_size = 0;
	}
	*(void **)&release = dlsym(RTLD_DEFAULT, "slurm_free_job_desc_msg");
	if (release)
		release(desc);
}

/* Adds to the verdict's messages that the update is the cause. */
static void blame_update(p4d_verdict *verdict)
{
	for (unsigned i = 0; i < verdict->messages; i++) {
		p4d_message *message = &verdict->message[i];
		char text[sizeof(message->text)];
		/* only for messages that would keep the job from running, not for remarks on jobs that
		 * pass */
		if (message->code >= P4D_E_CHOSE)
			continue;
		snprintf(text, sizeof(text), "after this update: %.*s", (int)sizeof(text) - 21,
			 message->text);
		snprintf(message->text, sizeof(message->text), "%s", text);
		message->code = P4D_E_MODIFY;
	}
}

static p4d_code reason(const p4d_verdict *verdict)
{
	for (unsigned i = 0; i < verdict->messages; i++)
		if (verdict->message[i].code < P4D_E_CHOSE)
			return verdict->message[i].code;
	return P4D_OK;
}

/*
 * The verdict's nodes and GPUs. If the verdict did not need them (the plan is missing or not readable), takes
 * them from the cluster's data. nodes 0: unknown.
 */
static p4d_geometry geometry_of(const p4d_site *site, const p4d_job *job, const p4d_verdict *verdict)
{
	p4d_geometry found = verdict->geometry;

	if (!found.nodes && p4d_job_geometry(site, job, p4d_watch_cluster, NULL, &found, NULL) < 0)
		found.nodes = 0;
	return found;
}

static bool same_partition(const p4d_job *a, const p4d_job *b)
{
	return !strcmp(a->partition ? a->partition : "", b->partition ? b->partition : "");
}

/*
 * True if p4d refuses the job for the same reason even without the change, and the job keeps its partition,
 * GPUs and number of nodes. Then the update is not the cause: the job was submitted under other rules, or was
 * changed while p4d was off.
 */
static bool was_refused(const p4d_site *site, const p4d_job *before, const p4d_job *job, const char *plan,
			const p4d_request *options, const p4d_verdict *after)
{
	p4d_verdict now;

	if (!same_partition(before, job))
		return false;
	const p4d_geometry is = geometry_of(site, job, after);
	if (!is.nodes) /* there is nothing to compare, so the second verdict is not needed */
		return false;
	p4d_guard_verify(site, before, p4d_watch_cluster, NULL, plan, options, &now);
	if (now.action != P4D_REJECT || reason(&now) != reason(after))
		return false;
	const p4d_geometry was = geometry_of(site, before, &now);
	return was.nodes == is.nodes && was.gpus_per_node == is.gpus_per_node && was.gpu == is.gpu &&
	       was.host_bytes == is.host_bytes;
}

static int judge_update(job_desc_msg_t *update, const job_desc_msg_t *current, uint32_t uid,
			p4d_metrics_call *call, char **err_msg)
{
	p4d_environment env = {0};
	p4d_request options = {0};
	p4d_job job = {0};
	p4d_verdict verdict = {0};
	int rc = SLURM_SUCCESS;

	/* reads the approved plan and an override, which nobody can change after submission */
	p4d_environment_scan(&env, current->environment, current->env_size);
	p4d_environment_scan(&env, current->spank_job_env, current->spank_job_env_size);
	p4d_environment_request(&env, &options, NULL);
	p4d_job_from_desc(&job, current);

	const p4d_site *site = p4d_watch_acquire(NULL);
	if (site) {
		p4d_watch_identify(&job, current->user_id);
		const p4d_job before = job;
		p4d_job_from_desc(&job, update);
		p4d_guard_verify(site, &job, p4d_watch_cluster, NULL, p4d_environment_plan(&env), &options,
				 &verdict);
		if (verdict.action == P4D_REJECT &&
		    was_refused(site, &before, &job, p4d_environment_plan(&env), &options, &verdict))
			verdict.action = P4D_PASS; /* would_reject stays set, for the log */
		blame_update(&verdict);
		p4d_verdict_record record = p4d_verdict_record_of(&verdict);
		if (record.verdict[0])
			p4d_record_name(&record);
		p4d_metrics_judged(call, site, job.partition, &verdict, &record);
		p4d_job_submit_log_verdict(site,
					   &(p4d_verdict_subject){.event = "update",
								  .source = "controller",
								  .name = current->name,
								  .job_id = update->job_id_str,
								  .record = &record,
								  .uid = uid,
								  .job = &job},
					   &verdict);
		if (verdict.action == P4D_REJECT) {
			rc = P4D_REFUSED;
			p4d_job_submit_say_verdict(&verdict, err_msg);
		} else {
			p4d_record_renew(site, update, current, &record);
		}
	}
	p4d_watch_release();
	return rc;
}

/* Handles an update that changes nothing that p4d judges, except Extra. */
static void keep_record(job_desc_msg_t *update, const job_desc_msg_t *current)
{
	const p4d_site *site = p4d_watch_acquire(NULL);

	if (site)
		p4d_record_renew(site, update, current, NULL);
	p4d_watch_release();
}

#if P4D_MODIFY_ERR_MSG
int job_modify(job_desc_msg_t *desc, struct job_record *record, uint32_t uid, char **err_msg)
#else
static char **const err_msg; /* before 23.02, Slurm passes no message to the user */
int job_modify(job_desc_msg_t *desc, struct job_record *record, uint32_t uid)
#endif
{
	const double since = p4d_clock_seconds();
	p4d_metrics_call call;
	int rc = SLURM_SUCCESS;

	p4d_metrics_begin(&call, P4D_METRICS_UPDATE);
	const bool judged = p4d_desc_touches_job(desc);
	job_desc_msg_t *current = judged || p4d_record_is_given(desc) ? describe(record) : NULL;
	if (current && judged)
		rc = judge_update(desc, current, uid, &call, err_msg);
	else if (current)
		keep_record(desc, current);
	if (current)
		free_description(current);
	p4d_metrics_count(&call, p4d_clock_seconds() - since);
	return rc;
}
