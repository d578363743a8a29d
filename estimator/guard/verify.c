/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of complete plans in slurmctld and slurmstepd. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "guard/verdict.h"
#include "job/job_limits.h"
#include "request/framework.h"

/* Writes the command that completes the job's options. */
static void write_command(const p4d_job *job, const p4d_request *options, const p4d_geometry *geometry,
			  char *buf, size_t size)
{
	char flags[300], where[120] = "";

	p4d_request_flags(options, "--", 1u << P4D_BY_USER, flags, sizeof(flags));
	if (geometry->nodes && geometry->gpu)
		snprintf(where, sizeof(where), " --gpu=%s --nodes=%" PRIu32 " --gpus-per-node=%" PRIu32,
			 geometry->gpu->name, geometry->nodes, geometry->gpus_per_node);
	else if (job->min_nodes)
		snprintf(where, sizeof(where), " --nodes=%" PRIu32, job->min_nodes);
	snprintf(buf, size, "p4d plan --env %s%s%s", p4d_is_set(options, P4D_MODEL) ? "" : "--model=NAME ",
		 flags, where);
}

/* Refuses a job without a plan, if it has p4d options or the site requires a plan. */
static int check_missing(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context,
			 const p4d_request *options, p4d_verdict *v, p4d_error *err)
{
	const bool carries = options && p4d_request_any(options);
	const bool matters = v->policy.require_plan || p4d_site_policy_depends_on_gpus(site);
	const bool gets_gpus = matters && p4d_job_gets_gpus(site, job, source, context);
	char command[450];

	if (carries || (gets_gpus && p4d_site_policy_depends_on_gpus(site))) {
		if (p4d_guard__place(site, job, source, context, v, err) < 0 && carries &&
		    p4d_verdict__is_fault_of_site(err->code) && !v->policy.require_plan)
			return -1; /* sbatch could not make a plan either */
	}
	if (carries) {
		write_command(job, options, &v->geometry, command, sizeof(command));
		p4d_fail(err, P4D_E_NO_PLAN,
			 "the job has p4d options, but no complete P4D_PLAN: p4d.so did not run where the "
			 "job was submitted");
		return p4d_fix(err, "eval \"$(%s)\"", command);
	}
	if (v->policy.require_plan && gets_gpus) {
		/* the site's setting decides about programs that p4d does not model */
		const bool others = v->policy.unmodelled != P4D_UNMODELLED_REJECT;
		p4d_fail(err, P4D_E_PLAN_REQUIRED, "GPU jobs like this one must say what they train%s",
			 others ? ""
				: ", and this site accepts only programs that p4d knows (p4d.conf has "
				  "unmodelled = reject)");
		return p4d_fix(err, "--p4d-model=NAME (`p4d models` lists the presets)%s",
			       others ? ", or --p4d-unmodelled=PROGRAM for other programs" : "");
	}
	return 0;
}

/* Refuses a plan if a p4d option of the job disagrees with it. */
static int check_options(const p4d_request *options, const p4d_request *plan, p4d_error *err)
{
	char left[160], right[160];

	for (int i = 0; i < P4D_OPTIONS; i++) {
		p4d_option option = (p4d_option)i;
		if (!p4d_is_set(options, option) ||
		    !(p4d_request_option_info(option)->where & P4D_WHERE_PLAN))
			continue;
		p4d_request_value_text(options, option, left, sizeof(left));
		p4d_request_value_text(plan, option, right, sizeof(right));
		if (p4d_is_set(plan, option) && !strcmp(left, right))
			continue;
		p4d_fail(err, P4D_E_PLAN_CHANGED, "%s is %s in the job's options and %s in its plan",
			 p4d_request_option_info(option)->name, left,
			 p4d_is_set(plan, option) ? right : "not set");
		return p4d_fix(err, "unset P4D_PLAN and submit again with --p4d-%s=%s",
			       p4d_request_option_info(option)->name, left);
	}
	return 0;
}

/* Whether p4d lacks formulas for the program, not for the model's architecture. */
static bool is_program(const p4d_request *plan)
{
	return plan->origin[P4D_UNMODELLED] == P4D_BY_USER || plan->origin[P4D_UNMODELLED] == P4D_BY_P4D;
}

/*
 * Refuses a plan for another program than the script's. If the script is unknown, the check is skipped:
 * slurmctld does not have it in an update of a queued job, and slurmstepd never has it.
 */
static int check_program(const p4d_job *job, const p4d_request *plan, p4d_error *err)
{
	if (!job->script)
		return 0;
	const p4d_script script = p4d_script_scan(job->script, job->script_length, NULL);
	const char *other = p4d_guard__other(&script, plan);

	if (plan->origin[P4D_UNMODELLED] != P4D_BY_P4D || (other && !strcmp(other, plan->unmodelled)))
		return 0;
	return p4d_fail(err, P4D_E_PLAN_CHANGED,
			"the plan says that the script starts %s, but the script starts %s", plan->unmodelled,
			other ? other : "no such program");
}

/*
 * Whether the unmodelled feature belongs to the plan's framework. It then follows from the plan's other
 * options, as at submission.
 */
static bool is_of_framework(const p4d_request *plan)
{
	p4d_error why;

	return p4d_is_set(plan, P4D_FRAMEWORK) && !p4d_framework_models(plan, &why) &&
	       !strncmp(plan->unmodelled, why.text, sizeof(plan->unmodelled) - 1);
}

/*
 * Checks that a plan which names a preset has the preset's numbers. Numbers that the user changed become part
 * of the model's name in messages and logs: "llama3-70b,layers=12".
 */
static int check_model(const p4d_site *site, const p4d_request *plan, p4d_verdict *v, p4d_error *err)
{
	const p4d_request *preset = p4d_site_preset(site, plan->model);
	p4d_text name = p4d_text_in(v->model, sizeof(v->model));
	char left[128], right[128];

	p4d_text_add(&name, plan->model);
	for (int i = 0; preset && i < P4D_OPTIONS; i++) {
		const p4d_option option = (p4d_option)i;
		const p4d_option_info *info = p4d_request_option_info(option);
		/* the plan of an unmodelled job has only the architecture; the program does not belong to the
		 * model */
		if (!(info->where & P4D_WHERE_MODEL) &&
		    (option != P4D_UNMODELLED || is_program(plan) || is_of_framework(plan)))
			continue;
		p4d_request_value_text(plan, option, left, sizeof(left));
		p4d_request_value_text(preset, option, right, sizeof(right));
		if (p4d_is_set(plan, option) == p4d_is_set(preset, option) && !strcmp(left, right))
			continue;
		if (plan->origin[option] == P4D_BY_USER) {
			p4d_text_entry(&name, ",", "%s=%s", info->name, left);
		} else {
			p4d_fail(err, P4D_E_PLAN_CHANGED,
				 "%s is %s in the plan, but %s in slurmctld's preset %s: somebody edited the "
				 "plan, "
				 "or the submit host has other presets",
				 info->name, p4d_is_set(plan, option) ? left : "not set",
				 p4d_is_set(preset, option) ? right : "not set", plan->model);
			return p4d_fix(
			    err, "--p4d-model=/PATH/config.json, or install the same p4d on both hosts");
		}
	}
	return 0;
}

static int check_world(const p4d_job *job, const p4d_request *plan, const p4d_geometry *geometry,
		       p4d_error *err)
{
	char flags[400];

	const int64_t nodes = plan->value[P4D_NODES], ranks = plan->value[P4D_GPUS_PER_NODE];
	const bool cpu = !p4d_on_gpu(plan->value[P4D_DEVICE]);

	if (nodes == geometry->nodes && ranks == geometry->gpus_per_node)
		return 0;
	p4d_fail(err, P4D_E_GEOMETRY,
		 "the plan is for %" PRId64 " nodes with %" PRId64 " %s each, but the job requests %" PRIu32
		 " nodes with %" PRIu32 " each",
		 nodes, ranks, cpu ? "ranks on the host" : "GPUs", geometry->nodes, geometry->gpus_per_node);
	return p4d_fix(err, "%s", p4d_job_flags(job, (uint64_t)nodes, (uint64_t)ranks, flags, sizeof(flags)));
}

static int verify(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context,
		  const char *line, const p4d_request *options, p4d_request *plan, p4d_verdict *v,
		  p4d_error *err)
{
	p4d_job planned = *job;

	if (p4d_plan_read(line, plan, err) < 0)
		return -1;
	if (options && check_options(options, plan, err) < 0)
		return -1;
	if (check_model(site, plan, v, err) < 0)
		return -1;
	planned.cpu = !p4d_on_gpu(plan->value[P4D_DEVICE]);
	planned.asks_for_memory = true;
	/* right after its start, slurmctld does not know the cluster yet, but the submitting side did */
	if (plan->gpu[0])
		planned.assumed = p4d_gpu_find(p4d_site_gpus(site), plan->gpu, NULL);
	const int placed = p4d_guard__place(site, &planned, source, context, v, err);
	if (p4d_is_set(plan, P4D_UNMODELLED))
		return check_program(job, plan, err) < 0 ? -1
							 : p4d_guard__judge_unmodelled(plan, NULL, v, err);
	if (placed < 0)
		return -1;
	if (p4d_guard__serves(plan))
		return p4d_guard__judge_serving(site, &planned, source, context, plan, v, err);
	if (p4d_guard__holds_several_models(plan)) {
		p4d_guard__judge_colocated(plan, 0, v);
		return 0;
	}
	if (check_world(&planned, plan, &v->geometry, err) < 0)
		return -1;
	if (p4d_guard__judge(site, job, plan, v, err) < 0) {
		p4d_guard__fix_memory(site, &planned, source, context, v, v->estimate.host_bytes, err);
		return -1;
	}
	return p4d_plan_verify_checksum(plan, &v->layout, v->geometry.gpu, err);
}

void p4d_guard_verify(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context,
		      const char *plan, const p4d_request *options, p4d_verdict *verdict)
{
	char name[P4D_PARTITION_NAME];
	const p4d_job named = p4d_guard__in_default(site, job, source, context, name);
	p4d_error err = {.code = P4D_OK};
	p4d_request *request = &verdict->planned;
	int rc = 0;

	memset(verdict, 0, sizeof(*verdict));
	verdict->policy = p4d_guard_policy(site, &named, NULL);
	if (verdict->policy.exempt || verdict->policy.mode == P4D_MODE_OFF) {
		p4d_verdict__finish(verdict, NULL);
		return;
	}
	if (p4d_job_check_limits(&named, &err) < 0)
		rc = -1;
	else if (!plan || !*plan)
		rc = check_missing(site, &named, source, context, options, verdict, &err);
	else
		rc = verify(site, &named, source, context, plan, options, request, verdict, &err);
	verdict->read = p4d_is_set(request, P4D_MODEL) && !p4d_request_any(request);
	if (rc < 0)
		p4d_verdict__error(verdict, &err);
	else if (plan)
		snprintf(verdict->plan, sizeof(verdict->plan), "%s", plan);
	/* a job without a plan has its model in the options, as at submission */
	const p4d_request *said = options && !p4d_is_set(request, P4D_MODEL) ? options : request;
	if (!verdict->model[0])
		p4d_verdict__name_model(verdict, said);
	p4d_verdict__finish(verdict, p4d_is_set(said, P4D_OVERRIDE) ? said->override_reason : NULL);
	/* if the site lets a refused plan pass, it becomes the job's plan */
	if (rc < 0 && verdict->action != P4D_REJECT && plan)
		snprintf(verdict->plan, sizeof(verdict->plan), "%s", plan);
}

void p4d_guard_foresee(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context,
		       p4d_verdict *verdict)
{
	p4d_verdict then;

	if (!verdict->plan[0] || verdict->would_reject)
		return;
	p4d_guard_verify(site, job, source, context, verdict->plan, NULL, &then);
	if (!then.messages || then.message[0].code != P4D_E_HOST_MEMORY)
		return;
	for (unsigned i = 0; i < then.messages && verdict->messages < P4D_MESSAGES; i++)
		verdict->message[verdict->messages++] = then.message[i];
	verdict->action = then.action;
	verdict->would_reject = then.would_reject;
	verdict->geometry.host_bytes = then.geometry.host_bytes;
}
