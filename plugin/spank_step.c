/* SPDX-License-Identifier: Apache-2.0 */
#include "spank_step.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "guard/guard.h"
#include "job/export.h"
#include "guard/note.h"
#include "job_environment.h"
#include "job_record.h"
#include "site_file.h"
#include "spank_report.h"

/* The message about this step. The step's tasks print it, because they are forked from this process. */
static char said[4096];
static bool refused;

static void restore_one(const char *name, const char *value, void *spank)
{
	spank_setenv(spank, name, value, 1);
}

/*
 * Sets the plan and the key in the step's environment under both names, and the variables that follow from
 * the plan, whatever the user has set (P4D_TP=1 srun ...). With --export=NONE, or in a step of `srun
 * --export=NONE` in a script, only the copy in spank_job_env reaches the job; without --export=NONE, sbatch
 * makes no such copy.
 */
static void restore_outputs(spank_t spank, const char *line)
{
	p4d_request plan = {0};
	p4d_layout layout;
	char key[80];

	spank_setenv(spank, P4D_EXPORT_PLAN, line, 1);
	spank_setenv(spank, "SLURM_SPANK_" P4D_EXPORT_PLAN, line, 1);
	if (spank_getenv(spank, "SLURM_SPANK_" P4D_JOB_KEY, key, sizeof(key)) == ESPANK_SUCCESS)
		spank_setenv(spank, P4D_JOB_KEY, key, 0);
	else if (spank_getenv(spank, P4D_JOB_KEY, key, sizeof(key)) == ESPANK_SUCCESS)
		spank_setenv(spank, "SLURM_SPANK_" P4D_JOB_KEY, key, 1);
	if (!p4d_plan_read(line, &plan, NULL) &&
	    !p4d_layout_build(&plan, (uint64_t)plan.value[P4D_NODES], (uint64_t)plan.value[P4D_GPUS_PER_NODE],
			      &layout, NULL))
		p4d_export(&plan, &layout, line, restore_one, spank);
}

/* The plan that the step has in its environment; NULL: none. */
static const char *plan_of(spank_t spank, char *plan, size_t size)
{
	char copy[80];
	spank_err_t found = spank_getenv(spank, P4D_EXPORT_PLAN, plan, (int)size);

	if (found == ESPANK_ENV_NOEXIST) {
		snprintf(copy, sizeof(copy), "SLURM_SPANK_%s", P4D_EXPORT_PLAN);
		found = spank_getenv(spank, copy, plan, (int)size);
	}
	if (found == ESPANK_SUCCESS)
		restore_outputs(spank, plan);
	if (found == ESPANK_NOSPACE)
		return "too long to be a plan";
	return found == ESPANK_SUCCESS ? plan : NULL;
}

static const p4d_cluster *no_cluster(void *unused)
{
	(void)unused;
	return NULL; /* one RPC per step is enough, so p4d.conf or a typed GRES must name the GPU */
}

/*
 * Whether srun has already printed the reason and the fix. It started the step nevertheless, because p4d.so
 * is `optional`, or because the site only warns.
 */
static bool was_said(spank_t spank, const p4d_verdict *verdict)
{
	char line[P4D_NOTE_MAX];
	p4d_note note;

	return spank_getenv(spank, P4D_EXPORT_VERDICT, line, sizeof(line)) == ESPANK_SUCCESS &&
	       p4d_note_read(line, &note) && !note.silent && p4d_note_same_reason(&note, verdict);
}

static void conclude(spank_t spank, const p4d_verdict *verdict)
{
	refused = verdict->action == P4D_REJECT;
	if (verdict->action != P4D_PASS && !was_said(spank, verdict))
		p4d_verdict_text(verdict, said, sizeof(said));
}

/* Handles that slurmctld did not answer: the site's policy decides whether to refuse the step. */
static void unanswered(spank_t spank, const p4d_site *site, const p4d_job *job, const p4d_error *err)
{
	p4d_policy policy = site ? p4d_guard_policy(site, job, NULL) : (p4d_policy){.mode = P4D_MODE_OFF};
	p4d_verdict verdict;

	slurm_info("p4d: [P4D%03d] %s; the step was not checked", err->code, err->text);
	if (policy.mode == P4D_MODE_ENFORCE && !policy.exempt && policy.on_error == P4D_ON_ERROR_REJECT) {
		p4d_guard_fail(site, job, err, NULL, &verdict);
		conclude(spank, &verdict);
	}
}

/* Explains that steps inherit the script's environment, which is that of the first component. */
static void say_other_component(void)
{
	snprintf(said, sizeof(said),
		 "p4d: [P4D%03d] the P4D_ variables of this step belong to another component of the job\n"
		 "p4d: fix: pass the values of this component to the program as arguments, or submit the "
		 "step as a "
		 "separate job",
		 P4D_E_STEP_DIFFERS);
}

static void judge(spank_t spank, const p4d_record *record, const p4d_given *given, const char *line, int argc,
		  char **argv)
{
	p4d_request options = {0};
	p4d_verdict verdict = {0};
	p4d_error err, conf;

	const bool approved = record->approved.digest[0];
	/* slurmctld let the job pass without a plan, and knew its script, its user's accounts and the note */
	if (!approved && !line && !record->het_job_id)
		return;
	bool malformed = p4d_given_request(given, &options, &err) < 0, differs = false;
	if (!malformed) {
		differs = approved && p4d_record_step_agrees(&record->approved, line, &options, &err) < 0;
		if (approved && !differs)
			return;
		if (record->het_job_id &&
		    p4d_record_step_agrees_with_any(record->het_job_id, line, &options)) {
			if (differs && line)
				say_other_component();
			return;
		}
	}
	p4d_site *site = p4d_site_file_load(argc, argv, &conf);
	if (!site)
		return;
	if (malformed || differs)
		p4d_guard_fail(site, &record->job, &err, NULL, &verdict);
	else
		p4d_guard_verify(site, &record->job, no_cluster, NULL, line, &options, &verdict);
	conclude(spank, &verdict);
	p4d_site_free(site);
}

void p4d_step_judge(spank_t spank, const p4d_given *given, int argc, char **argv)
{
	char plan[P4D_PLAN_MAX];
	uint32_t job_id = 0, step_id = 0, node = 0;
	p4d_record record;
	p4d_error err;

	const char *line = plan_of(spank, plan, sizeof(plan));
	if (!line && !p4d_given_any(given))
		return;
	spank_get_item(spank, S_JOB_ID, &job_id);
	spank_get_item(spank, S_JOB_STEPID, &step_id);
	spank_get_item(spank, S_JOB_NODEID, &node);
	/* one node asks for all nodes; Slurm's own steps (extern, interactive) run no training */
	if (node || (step_id > SLURM_MAX_NORMAL_STEP_ID && step_id != SLURM_BATCH_SCRIPT))
		return;
	if (p4d_record_load(&record, job_id, &err) < 0) {
		p4d_site *site = p4d_site_file_load(argc, argv, &(p4d_error){.code = P4D_OK});
		unanswered(spank, site, &record.job, &err);
		p4d_site_free(site);
		return;
	}
	judge(spank, &record, given, line, argc, argv);
	p4d_record_free(&record);
}

/* Whether other nodes may run the step, because they do not know the verdict. */
static bool other_nodes_run(spank_t spank)
{
	uint32_t nodes = 0;

	return refused && spank_get_item(spank, S_JOB_NNODES, &nodes) == ESPANK_SUCCESS && nodes > 1;
}

int p4d_step_task(spank_t spank)
{
	int task = 0;

	if (said[0] && spank_get_item(spank, S_TASK_ID, &task) == ESPANK_SUCCESS && !task)
		p4d_spank_report_text(said);
	if (other_nodes_run(spank))
		sleep(1); /* a step that has not started cannot be ended */
	return refused ? -1 : 0;
}

void p4d_step_task_ended(spank_t spank)
{
	static bool ended;
	uint32_t job_id = 0, step_id = 0;

	if (ended || !other_nodes_run(spank))
		return;
	ended = true;
	spank_get_item(spank, S_JOB_ID, &job_id);
	spank_get_item(spank, S_JOB_STEPID, &step_id);
	if (P4D_CANCEL_STEP(job_id, step_id))
		slurm_info("p4d: cannot cancel the refused step %u.%u on its other nodes: %s", job_id,
			   step_id, slurm_strerror(errno));
}
