/* SPDX-License-Identifier: Apache-2.0 */
#include "job_record.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "slurm_job.h"

/* Fills in the user's name, which the site's policy may need, and which slurmctld does not always send. */
static void identify(p4d_record *record, const job_info_t *info)
{
	const struct passwd *entry = info->user_name ? NULL : getpwuid(info->user_id);

	record->user = entry ? strdup(entry->pw_name) : NULL;
	record->job.user = entry ? record->user : info->user_name;
	record->job.reservation = info->resv_name && *info->resv_name ? info->resv_name : NULL;
}

int p4d_record_load(p4d_record *record, uint32_t job_id, p4d_error *err)
{
	job_info_msg_t *reply = NULL;

	memset(record, 0, sizeof(*record));
	if (P4D_LOAD_JOB(&reply, job_id, SHOW_DETAIL))
		return p4d_fail(err, P4D_E_IO, "cannot get job %u from slurmctld: %s", job_id,
				slurm_strerror(errno));
	record->reply = reply;
	/* the reply for the leader of an array or of a heterogeneous job includes other tasks or
	 * components */
	for (uint32_t i = 0; i < reply->record_count; i++) {
		const job_info_t *info = &reply->job_array[i];
		if (info->job_id != job_id)
			continue;
		p4d_job_from_info(&record->job, info);
		identify(record, info);
		record->het_job_id = info->het_job_id;
		p4d_approval_read(info->admin_comment, &record->approved);
		return 0;
	}
	p4d_record_free(record);
	return p4d_fail(err, P4D_E_IO, "slurmctld has no job %u", job_id);
}

void p4d_record_free(p4d_record *record)
{
	if (record->reply)
		slurm_free_job_info_msg(record->reply);
	free(record->user);
	memset(record, 0, sizeof(*record));
}

static int differs(p4d_option option, const p4d_request *step, const p4d_request *approved, p4d_error *err)
{
	char mine[160], theirs[160] = "not set";
	const char *name = p4d_request_option_info(option)->name;

	if (p4d_is_set(approved, option))
		p4d_request_value_text(approved, option, theirs, sizeof(theirs));
	p4d_fail(
	    err, P4D_E_STEP_DIFFERS, "%s is %s in this step but %s in the plan approved for its job", name,
	    p4d_is_set(step, option) ? p4d_request_value_text(step, option, mine, sizeof(mine)) : "not set",
	    theirs);
	return p4d_fix(err, "submit a new job with --p4d-%s=%s, or leave the step's p4d options out", name,
		       p4d_is_set(step, option) ? mine : theirs);
}

int p4d_record_options_agree(const p4d_request *plan, const p4d_request *options, p4d_error *err)
{
	char mine[1024], theirs[1024];

	for (int i = 0; i < P4D_OPTIONS; i++) {
		p4d_option option = (p4d_option)i;
		if (!p4d_is_set(options, option) ||
		    !(p4d_request_option_info(option)->where & P4D_WHERE_PLAN))
			continue;
		if (!p4d_is_set(plan, option) ||
		    strcmp(p4d_request_value_text(options, option, mine, sizeof(mine)),
			   p4d_request_value_text(plan, option, theirs, sizeof(theirs))))
			return differs(option, options, plan, err);
	}
	return 0;
}

/* Fails because the step's plan differs from the approved one; if both are known, *err names the
 * difference. */
static int other_plan(const p4d_request *step, const p4d_approval *approved, p4d_error *err)
{
	p4d_request job = {0};
	p4d_option which;

	if (approved->plan[0] && !p4d_plan_read(approved->plan, &job, NULL) &&
	    p4d_plan_differs(step, &job, &which))
		return differs(which, step, &job, err);
	p4d_fail(err, P4D_E_STEP_DIFFERS,
		 "this step has another plan than the one that p4d approved for the job");
	return p4d_fix(err, "start the step inside the job, with the job's P4D_PLAN unchanged");
}

int p4d_record_step_agrees(const p4d_approval *approved, const char *line, const p4d_request *options,
			   p4d_error *err)
{
	p4d_request plan = {0};
	char digest[P4D_DIGEST_TEXT];

	if (!line && !approved->plan[0]) {
		p4d_fail(err, P4D_E_STEP_DIFFERS,
			 "this step has p4d options, but lacks its job's plan, so p4d cannot compare them");
		return p4d_fix(err, "start the step inside the job, or leave the step's p4d options out");
	}
	if (p4d_plan_read(line ? line : approved->plan, &plan, err) < 0)
		return -1;
	p4d_plan_digest(&plan, digest);
	if (strcmp(digest, approved->digest) != 0)
		return other_plan(&plan, approved, err);
	return p4d_record_options_agree(&plan, options, err);
}

bool p4d_record_step_agrees_with_any(uint32_t het_job_id, const char *line, const p4d_request *options)
{
	/* Slurm mixes the options of components, so if there is a plan, only the plan counts */
	static const p4d_request none;
	job_info_msg_t *reply = NULL;
	p4d_approval approved;
	bool agrees = false;

	if (P4D_LOAD_JOB(&reply, het_job_id, 0))
		return false;
	for (uint32_t i = 0; !agrees && i < reply->record_count; i++) {
		p4d_approval_read(reply->job_array[i].admin_comment, &approved);
		agrees = approved.digest[0] &&
			 !p4d_record_step_agrees(&approved, line, line ? &none : options, NULL);
	}
	slurm_free_job_info_msg(reply);
	return agrees;
}
