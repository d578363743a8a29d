/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_submit_p4d.so: the guard in slurmctld. It verifies a job's plan and never completes one. The hooks run
 * under slurmctld's locks, so they do no I/O and no RPC, never block, and use less than 256 KiB of a thread's
 * stack, for which slurmctld has 1 MiB (tests/plugin/test_fakehost_cost.c measures it).
 */
#include "job_submit.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "guard/note.h"
#include "job/export.h"
#include "job_environment.h"
#include "job_submit_kept.h"
#include "job_submit_metrics.h"
#include "job_submit_record.h"
#include "job_submit_script.h"
#include "job_submit_watch.h"
#include "slurm_job.h"

void p4d_job_submit_say_verdict(const p4d_verdict *verdict, char **err_msg)
{
	char text[4096], both[8192];

	if (!err_msg || !*p4d_verdict_text(verdict, text, sizeof(text)))
		return;
	if (*err_msg)
		snprintf(both, sizeof(both), "%.*s\n%s", (int)(sizeof(both) - sizeof(text) - 2), *err_msg,
			 text);
	else
		snprintf(both, sizeof(both), "%s", text);
	slurm_xfree((void **)err_msg);
	*err_msg = slurm_xstrdup(both);
}

void p4d_job_submit_log_verdict(const p4d_site *site, const p4d_verdict_subject *subject,
				const p4d_verdict *verdict)
{
	char line[P4D_VERDICT_LINE];

	if (p4d_verdict_is_logged(subject->record, p4d_site_log(site)))
		slurm_info("%s", p4d_verdict_line(subject, verdict, line, sizeof(line)));
}

/* The first output that contradicts the plan, because somebody edited it. */
typedef struct edited {
	const p4d_environment *env;
	const char *name, *found;
	char wanted[160];
} edited;

static void compare_output(const char *name, const char *value, void *context)
{
	edited *e = context;

	for (int i = 0; !e->name && i < P4D_ENVIRONMENT_EXPORTS && p4d_export_name((size_t)i); i++) {
		const char *found = e->env->output[i];
		if (!found || strcmp(p4d_export_name((size_t)i), name))
			continue;
		if (strcmp(found, value)) {
			e->name = name;
			e->found = found;
			snprintf(e->wanted, sizeof(e->wanted), "%s", value);
		}
		return;
	}
}

static int outputs_agree(const p4d_environment *env, const p4d_verdict *verdict, const char *plan,
			 p4d_error *err)
{
	edited e = {.env = env};

	p4d_export(&verdict->planned, &verdict->layout, plan, compare_output, &e);
	if (!e.name)
		return 0;
	p4d_fail(err, P4D_E_PLAN_CHANGED, "the job has %s=%.80s but its plan has %.80s", e.name, e.found,
		 e.wanted);
	return p4d_fix(err, "unset %s and submit with sbatch, salloc or srun and --p4d- options only",
		       e.name);
}

/* Variables that become a job's environment. */
typedef struct variable_list {
	char **entry;
	size_t count;
	char **output[P4D_ENVIRONMENT_EXPORTS]; /* entries that are the plan's variables; NULL: there is none
						   yet */
} variable_list;

/* Sets a variable: replaces its entry, or adds one. */
static void put_output(const char *name, const char *value, void *context)
{
	variable_list *list = context;
	const size_t length = strlen(name), size = strlen(value) + 1;
	char *entry = P4D_XCALLOC(length + 1 + size, 1);

	if (!entry)
		return;
	memcpy(entry, name, length);
	entry[length] = '=';
	memcpy(entry + length + 1, value, size);
	char ***at = &list->output[p4d_environment_entry_of(entry).index];
	*at = *at ? *at : &list->entry[list->count++];
	slurm_xfree((void **)*at);
	**at = entry;
}

static void move_variables(job_desc_msg_t *desc, variable_list *list)
{
	for (uint32_t i = 0; i < desc->env_size; i++) {
		char *text = desc->environment[i];
		if (!text)
			continue;
		const p4d_environment_entry is = p4d_environment_entry_of(text);
		if (is.kind == P4D_ENTRY_OUTPUT && is.index < P4D_ENVIRONMENT_EXPORTS && !is.prefixed)
			list->output[is.index] = &list->entry[list->count];
		list->entry[list->count++] = text;
	}
}

/*
 * Puts the plan's variables into the batch script's environment, because the job's node may not have p4d's
 * plugin. A script that passes P4D_MEGATRON_ARGS on would train another layout without it. This does not use
 * Slurm's own function, which searches the whole environment for each variable.
 */
static void export_plan(job_desc_msg_t *desc, const p4d_verdict *verdict)
{
	if (!desc->script || !desc->environment || !verdict->plan[0] || !verdict->judged)
		return;
	const size_t room = (size_t)desc->env_size + P4D_ENVIRONMENT_EXPORTS + 1;
	variable_list list = {.entry = P4D_XCALLOC(room, sizeof(*list.entry))};
	if (!list.entry)
		return;
	move_variables(desc, &list);
	p4d_export(&verdict->planned, &verdict->layout, verdict->plan, put_output, &list);
	slurm_xfree((void **)&desc->environment);
	desc->environment = list.entry;
	desc->env_size = (uint32_t)list.count;
}

/*
 * Whether p4d.so in sbatch found that the options have no effect. The job is then treated as one without
 * options. A user who forges this could also have omitted the options.
 */
static bool idle(const p4d_environment *env, const p4d_note *note)
{
	return env->options && !p4d_environment_plan(env) && !env->conflict.code && note && note->read;
}

/* Judges a job with options or a plan. note NULL: there is no note. */
static void judge(const p4d_site *site, const p4d_job *job, const p4d_environment *env, const p4d_note *note,
		  p4d_verdict *verdict)
{
	p4d_request options = {0};
	p4d_error err = {0};
	const char *plan = p4d_environment_plan(env);

	if (env->conflict.code) {
		p4d_guard_fail(site, job, &env->conflict, NULL, verdict);
		return;
	}
	if (p4d_environment_request(env, &options, &err) < 0) {
		p4d_guard_fail(site, job, &err, NULL, verdict);
		return;
	}
	p4d_guard_verify(site, job, p4d_watch_cluster, NULL, plan, idle(env, note) ? NULL : &options,
			 verdict);
	if (plan && verdict->action != P4D_REJECT && verdict->judged &&
	    outputs_agree(env, verdict, plan, &err) < 0)
		p4d_guard_fail(site, job, &err, NULL, verdict);
}

/* Memory for one submission at a time. It is not on the stack, because the stack of a new thread in
 * slurmctld has no mapped pages, and the kernel would have to map each of them during the hook. */
static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER;
static p4d_environment variables;
static p4d_verdict outcome;

/* Judges a job without options or plan by its script. */
static bool judge_script(const p4d_site *site, p4d_job *job, const job_desc_msg_t *desc, const p4d_note *note,
			 p4d_verdict *verdict)
{
	if (verdict->policy.scripts == P4D_SCRIPTS_IGNORE || verdict->policy.exempt ||
	    verdict->policy.mode == P4D_MODE_OFF ||
	    (verdict->would_reject && !p4d_verdict_requires_plan(verdict)))
		return false;
	job->reading = p4d_script_read(site, job, desc);
	if (job->reading)
		p4d_guard_verify_script(site, job, p4d_watch_cluster, NULL, variables.option[P4D_OVERRIDE],
					verdict);
	job->reading = NULL;
	job->array_tasks = NULL;
	p4d_script_release();
	return note && p4d_note_heed_script(note, verdict);
}

/* Removes the reason and the fix from the verdict if the submitting side has just printed them. */
static void refer_to(const p4d_note *note, p4d_verdict *verdict)
{
	p4d_message *first = &verdict->message[0];

	if (note->outcome != P4D_OUTCOME_REFUSE || !p4d_note_same_reason(note, verdict))
		return;
	verdict->messages = 1;
	first->code = p4d_note_reason(note);
	verdict->policy.message = NULL;
	first->fix[0] = '\0';
	snprintf(first->text, sizeof(first->text), "refused, for the reason that p4d gave above");
}

/*
 * Whether the user has not yet seen p4d's choices and remarks. The submitting side has printed them,
 * except if it only observes, as without a p4d.conf, or if it could not read the script because the script
 * came through a pipe.
 */
static bool is_news(const p4d_environment *env, const p4d_note *note, const p4d_verdict *verdict)
{
	if (verdict->action != P4D_WARN)
		return false;
	if (note && note->silent)
		return true;
	/* another plugin may have sent the job to other GPUs than those on which it passed at submission */
	if (!p4d_environment_plan(env))
		return !note || (verdict->would_reject && note->outcome < P4D_OUTCOME_NOT_JUDGED);
	return verdict->messages && verdict->message[0].code == P4D_E_UNMODELLED &&
	       !p4d_is_set(&verdict->planned, P4D_UNMODELLED);
}

/*
 * Whether slurmctld has just started and does not yet know the job's GPUs, or its number of nodes (which
 * follows from the nodes' CPUs). Then sbatch, srun and salloc try again after a second, and print one of
 * Slurm's errors meanwhile. If p4d.so, which knew the cluster, found the same fault in the request, trying
 * again does not help, so the answer is false. A user cannot make a job pass by a forged note, because a
 * job with such a fault is refused.
 */
static bool is_early(const p4d_note *note, const p4d_verdict *verdict)
{
	if (!verdict->messages || !p4d_watch_is_starting())
		return false;
	if (verdict->message[0].code == P4D_E_GEOMETRY)
		return !note || !p4d_note_same_reason(note, verdict);
	return verdict->action == P4D_WARN && verdict->fault_of_site &&
	       verdict->message[0].code == P4D_E_GPU_OF_PARTITION;
}

/*
 * Makes the record of the verdict, combined with what only the submitting side judged. note NULL: there is no
 * note.
 */
static p4d_verdict_record record_of(const p4d_note *note, bool by_client, const p4d_verdict *verdict)
{
	p4d_verdict_record record = p4d_verdict_record_of(verdict);

	if (note)
		p4d_note_complete(note, by_client, verdict, &record);
	if (record.verdict[0])
		p4d_record_name(&record);
	return record;
}

/* Logs a submission. The job has no id yet, unless an administrator gave one. */
static void log_submission(const p4d_site *site, const job_desc_msg_t *desc, uint32_t uid, bool by_client,
			   const p4d_job *job, const p4d_verdict_record *record)
{
	const uint32_t given = P4D_DESC_JOB_ID(desc);
	char id[16] = "";

	if (given && given != NO_VAL)
		snprintf(id, sizeof(id), "%" PRIu32, given);
	p4d_job_submit_log_verdict(
	    site,
	    &(p4d_verdict_subject){.event = "submit",
				   .source = by_client || record->by[0] ? "client" : "controller",
				   .name = desc->name,
				   .job_id = id,
				   .record = record,
				   .uid = uid,
				   .job = job},
	    &outcome);
}

/* Judges a submitted job. Returns Slurm's error code. */
static int submit(job_desc_msg_t *desc, uint32_t uid, const p4d_site *site, uint64_t generation,
		  p4d_metrics_call *call, char **err_msg)
{
	p4d_verdict *verdict = &outcome;
	p4d_job job = {0};
	p4d_note note;
	int rc = SLURM_SUCCESS;

	p4d_job_from_desc(&job, desc);
	p4d_watch_identify(&job, desc->user_id == NO_VAL ? uid : desc->user_id);
	const bool noted = p4d_note_read(variables.note, &note);
	if (!p4d_kept_find(&job, &variables, generation, &outcome)) {
		judge(site, &job, &variables, noted ? &note : NULL, verdict);
		if (verdict->plan[0] && p4d_is_set(&verdict->planned, P4D_MODEL))
			p4d_plan_digest(&verdict->planned, verdict->digest);
		p4d_kept_add(verdict);
	}
	const p4d_note *const said = noted ? &note : NULL;
	const bool unknown =
	    is_early(said, verdict); /* asked before the submitting side's reason replaces the verdict's */
	const bool has_options =
	    (variables.options || p4d_environment_plan(&variables) || variables.conflict.code) &&
	    !idle(&variables, said);
	const bool by_client = has_options ? noted && p4d_note_heed(&note, verdict)
					   : judge_script(site, &job, desc, said, verdict);
	if (unknown || is_early(said, verdict))
		return EAGAIN;
	const p4d_verdict_record record = record_of(said, by_client, verdict);
	for (unsigned i = 0; noted && i < note.codes; i++)
		call->rehearsed = call->rehearsed || note.code[i] == P4D_E_REHEARSED;
	p4d_metrics_judged(call, site, job.partition ? job.partition : verdict->geometry.partition, verdict,
			   &record);
	log_submission(site, desc, uid, by_client, &job, &record);
	if (verdict->action == P4D_REJECT) {
		rc = P4D_REFUSED;
	} else {
		p4d_record_keep(site, desc, verdict, &record);
		export_plan(desc, verdict);
	}
	if (noted)
		refer_to(&note, verdict);
	p4d_note_say_moved(said, &job, verdict);
	if (verdict->action == P4D_REJECT || is_news(&variables, said, verdict))
		p4d_job_submit_say_verdict(verdict, err_msg);
	return rc;
}

int job_submit(job_desc_msg_t *desc, uint32_t uid, char **err_msg)
{
	const double since = p4d_clock_seconds();
	p4d_metrics_call call;
	uint64_t generation;
	int rc = SLURM_SUCCESS;

	p4d_metrics_begin(&call, P4D_METRICS_SUBMIT);
	pthread_mutex_lock(&busy);
	memset(&variables, 0, sizeof(variables));
	p4d_environment_scan(&variables, desc->environment, desc->env_size);
	p4d_environment_scan(&variables, desc->spank_job_env, desc->spank_job_env_size);
	const p4d_site *site = p4d_watch_acquire(&generation);
	if (site)
		rc = submit(desc, uid, site, generation, &call, err_msg);
	p4d_watch_release();
	if (variables.note && !p4d_environment_plan(&variables))
		p4d_script_remove_note(desc);
	pthread_mutex_unlock(&busy);
	p4d_metrics_count(&call, p4d_clock_seconds() - since);
	return rc;
}
