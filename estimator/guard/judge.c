/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that sbatch and slurmctld share, once a request is complete. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "guard/script_request.h"
#include "guard/verdict.h"
#include "job/export.h"
#include "job/job_limits.h"
#include "job/script.h"
#include "plan/memory_played.h"
#include "request/framework.h"
#include "request/fp8.h"

p4d_policy p4d_guard_policy(const p4d_site *site, const p4d_job *job, const p4d_geometry *geometry)
{
	p4d_site_job known = {.partition = job->partition,
			      .qos = job->qos,
			      .account = job->account,
			      .user = job->user,
			      .reservation = job->reservation,
			      .associations = job->associations};

	if (p4d_job_check_limits(job, NULL) < 0)
		return p4d_site_policy_strictest(site);
	if (!known.partition && geometry && geometry->partition[0])
		known.partition = geometry->partition;
	if (geometry && geometry->gpu)
		known.gpu = geometry->gpu->name;
	p4d_policy policy = p4d_site_policy(site, &known);
	if (geometry && geometry->nodes &&
	    (uint64_t)geometry->nodes * geometry->gpus_per_node < policy.min_gpus) {
		policy.mode = P4D_MODE_OFF;
		policy.require_plan = false;
	}
	return policy;
}

p4d_job p4d_guard__in_default(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
			      void *context, char name[P4D_PARTITION_NAME])
{
	const bool open = (!job->partition || !*job->partition) && !job->clusters;
	const p4d_cluster *cluster =
	    open && source && !p4d_site_partition_of(site, NULL) ? source(context) : NULL;
	p4d_job named = *job;

	for (size_t i = 0; cluster && i < cluster->count; i++)
		if (cluster->row[i].is_default) {
			memcpy(name, cluster->row[i].partition, P4D_PARTITION_NAME);
			named.partition = name;
			break;
		}
	return named;
}

int p4d_guard__place(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context,
		     p4d_verdict *v, p4d_error *err)
{
	p4d_job on_gpus = *job;

	on_gpus.cpu = false;
	int rc = p4d_job_geometry(site, &on_gpus, source, context, &v->geometry, job->cpu ? NULL : err);
	if (rc == 0 || v->geometry.gpu) /* p4d may know the type of GPU even if the number of GPUs is open */
		v->policy = p4d_guard_policy(site, job, &v->geometry);
	return job->cpu ? p4d_job_geometry(site, job, source, context, &v->geometry, err) : rc;
}

/* Names the model in messages; a model without a name is called by its program. */
static const char *subject_of(const p4d_job *job, const p4d_request *request, char *buf, size_t size)
{
	if (!job->reading || request->origin[P4D_MODEL] != P4D_BY_SCRIPT ||
	    strcmp(request->model, "custom") != 0)
		return request->model;
	return p4d_guard__script_place(job->reading, buf, size);
}

/*
 * Turns a refusal into a warning, because the prediction was not compared with real runs. If the site refuses
 * unmodelled jobs, the refusal stays.
 */
static bool only_said(p4d_verdict *v, const char *what, p4d_error *err)
{
	if (!what || v->policy.unmodelled == P4D_UNMODELLED_REJECT)
		return false;
	v->action = P4D_WARN;
	p4d_message *message =
	    p4d_verdict__say(v, P4D_E_UNVALIDATED, "unvalidated (%s): %.400s", what, err->text);
	snprintf(message->fix, sizeof(message->fix), "%s", err->fix);
	*err = (p4d_error){.code = P4D_OK};
	return true;
}

static int check_memory(const p4d_job *job, const p4d_request *request, const p4d_verdict *v, p4d_error *err)
{
	const p4d_estimate *e = &v->estimate;
	double limit = p4d_site_policy_limit(&v->policy, v->layout.framework);
	char tp[P4D_TP_TEXT], recompute[16], stage[P4D_WHERE_TEXT], where[64] = "", subject[208];

	if (!e->capacity_bytes || e->fraction <= limit)
		return 0;
	if (v->geometry.gpu_types > 1)
		snprintf(where, sizeof(where), ", the smallest of the %u GPU types that the job may get",
			 v->geometry.gpu_types);
	return p4d_fail(
	    err, P4D_E_DOES_NOT_FIT,
	    "%s needs %.1f of %.1f GiB (%.0f %%, limit %.0f %%) on %s%s: %s with tp=%s cp=%" PRIu64
	    " pp=%" PRIu64 " dp=%" PRIu64 " micro-batch=%" PRIu64 " seq-len=%" PRIu64 " recompute=%s%s",
	    subject_of(job, request, subject, sizeof(subject)), p4d_to_gib(e->peak.device_bytes),
	    p4d_to_gib(e->capacity_bytes), 100 * e->fraction, 100 * limit,
	    p4d_on_gpu(v->layout.device) ? e->gpu->name : "the host", where,
	    p4d_memory_where(&v->layout, e, stage), p4d_layout_tp_text(&v->layout, tp), v->layout.cp,
	    v->layout.pp, v->layout.dp, v->layout.micro_batch, v->layout.seq_len,
	    p4d_request_choice_name(P4D_RECOMPUTE, v->layout.recompute, recompute, sizeof(recompute)),
	    p4d_memory_accumulated(&v->layout));
}

/*
 * Warns about a training on CPUs in a job with GPUs: the GPUs are idle, and their memory does not limit the
 * job.
 */
static int check_idle_gpus(const p4d_job *job, p4d_verdict *v, p4d_error *err)
{
	static const char text[] = "the job requests GPUs, but --p4d-device=cpu trains on the host";

	if (p4d_on_gpu(v->layout.device) || !p4d_job_wants_gpus(job))
		return 0;
	if (v->policy.require_plan) {
		p4d_fail(err, P4D_E_IDLE_GPUS, "%s, and GPU jobs of this partition must train on GPUs", text);
		return p4d_fix(err, "--p4d-device=cuda");
	}
	v->action = P4D_WARN;
	p4d_verdict__say(v, P4D_E_IDLE_GPUS, "%s", text);
	return 0;
}

static bool by_p4d(const p4d_request *request)
{
	return !p4d_framework_of((int)request->value[P4D_FRAMEWORK])->arguments;
}

/*
 * p4d-train: the last compute capability for which cuBLASLt supports the recipe, if this GPU's compute
 * capability is higher; else 0.
 */
static int last_of(const p4d_request *request, const p4d_gpu *gpu)
{
	const int last = p4d_fp8_recipes[request->value[P4D_FP8_RECIPE]].last_sm;

	return gpu->sm > last ? last : 0;
}

/* An FP8 recipe that the GPU supports, as an option. */
static const char *recipe_for(const p4d_request *request, const p4d_gpu *gpu)
{
	static const char *const options[] = {[P4D_FP8_CURRENT] = "fp8-recipe=current",
					      [P4D_FP8_BLOCKWISE] = "fp8-recipe=blockwise",
					      [P4D_FP8_MXFP8] = "fp8-recipe=mxfp8"};
	const int best = by_p4d(request) ? p4d_fp8_recipe_for(gpu->sm) : P4D_FP8_CURRENT;

	return options[best < 0 ? P4D_FP8_CURRENT : best];
}

const char *p4d_guard_lacks_precision(const p4d_request *request, const p4d_gpu *gpu, char *buf, size_t size)
{
	const bool fp8 = request->value[P4D_PRECISION] == P4D_FP8;
	const char *other = by_p4d(request) ? "precision=fp32" : "precision=fp16"; /* p4d-train has no fp16 */
	char precision[16], recipe[16];

	if (!gpu || !p4d_on_gpu(request->value[P4D_DEVICE]))
		return NULL;
	p4d_request_choice_name(P4D_PRECISION, request->value[P4D_PRECISION], precision, sizeof(precision));
	p4d_request_choice_name(P4D_FP8_RECIPE, request->value[P4D_FP8_RECIPE], recipe, sizeof(recipe));
	const int whole = p4d_gpu_lacks(gpu, precision),
		  from = fp8 && !whole ? p4d_gpu_lacks(gpu, recipe) : whole;
	const int last = !from && fp8 && by_p4d(request) ? last_of(request, gpu) : 0;
	if (!from && !last)
		return NULL;
	const int limit = from ? from : last;
	snprintf(buf, size, "%s (compute capability %d.%d) has no %s%s, which %s %d.%d: %s", gpu->name,
		 gpu->sm / 10, gpu->sm % 10, whole ? "" : "fp8-recipe=", whole ? precision : recipe,
		 from ? "begins with" : "cuBLASLt has up to", limit / 10, limit % 10,
		 fp8               ? "the program stops"
		 : by_p4d(request) ? "p4d-train's other precision is fp32"
				   : "PyTorch emulates it, several times slower than fp16");
	return !whole ? recipe_for(request, gpu) : fp8 && gpu->sm >= 80 ? "precision=bf16" : other;
}

static void say_precision(const p4d_request *request, p4d_verdict *v)
{
	char text[200];

	const char *instead = p4d_guard_lacks_precision(request, v->geometry.gpu, text, sizeof(text));
	if (!instead)
		return;
	v->action = P4D_WARN;
	p4d_message *message = p4d_verdict__say(v, P4D_E_PRECISION, "%s", text);
	snprintf(message->fix, sizeof(message->fix), "--p4d-%s", instead);
}

static int check_tasks(const p4d_job *job, const p4d_verdict *v, const p4d_script *script, p4d_error *err)
{
	char flags[400];
	const p4d_framework *framework = p4d_framework_of(v->layout.framework);
	uint32_t tasks = v->geometry.tasks_per_node ? v->geometry.tasks_per_node : 1;

	if (!framework->task_per_gpu || !(script->frameworks >> v->layout.framework & 1) ||
	    script->sets_tasks)
		return 0;
	if (tasks == v->layout.gpus_per_node)
		return 0;
	p4d_fail(err, P4D_E_TASKS,
		 "%s runs one task per GPU: %" PRIu32 " task%s and %" PRIu64 " GPUs per node",
		 framework->program, tasks, tasks == 1 ? "" : "s", v->layout.gpus_per_node);
	return p4d_fix(
	    err, "%s",
	    p4d_job_task_flags(job, v->geometry.nodes, v->layout.gpus_per_node, flags, sizeof(flags)));
}

/*
 * For a p4d-train layout whose arguments the script passes to Megatron-LM: checks that Megatron-LM can run
 * it.
 */
static int check_passed(const p4d_request *request, const p4d_verdict *v, const p4d_script *script,
			p4d_error *err)
{
	const int other = p4d_framework_of(v->layout.framework)->passes_to;
	const char *lacks;

	if (!other || !(script->arguments >> other & 1) ||
	    script->frameworks >> v->layout.framework & 1 || /* the script may only print the arguments */
	    p4d_export_arguments(request, &v->layout, &lacks))
		return 0;
	p4d_fail(err, P4D_E_CONTRADICTION,
		 "the script uses $%s, but p4d did not set this variable: the layout is for p4d-train, and "
		 "%s has no %s",
		 p4d_framework_of(other)->arguments->variable, p4d_framework_of(other)->program, lacks);
	return p4d_fix(err, "in the script, start p4d-train, which reads the plan");
}

/*
 * A program that does not read the plan follows it only through its arguments. Checks that literal arguments
 * in the script agree with the plan, and that the script passes on the values that p4d chose.
 */
static int check_script(const p4d_job *job, const p4d_request *request, const p4d_verdict *v,
			const p4d_script *script, p4d_error *err)
{
	static const p4d_option chosen[] = {P4D_TP, P4D_CP, P4D_PP, P4D_VPP, P4D_MICRO_BATCH, P4D_RECOMPUTE};
	const p4d_framework_arguments *arguments = p4d_framework_arguments_of(&v->layout);
	char value[64];

	/* if the script sets its own layout, p4d has already compared options with it, and chooses nothing */
	if (job->reading && !p4d_guard__script_binds(job->reading, job) &&
	    p4d_guard__compare_script(job->reading, request, err) < 0)
		return -1;
	if (!arguments)
		return check_passed(request, v, script, err);
	/* at submission, p4d has already read and compared the whole script */
	if (script->contradiction[0] && !job->reading && request->origin[P4D_FRAMEWORK] != P4D_BY_SCRIPT) {
		p4d_fail(err, P4D_E_CONTRADICTION, "the script has %s, but the plan has %" PRIu64,
			 script->contradiction, script->planned);
		return p4d_fix(err, "in the script, replace the arguments of the layout by $%s",
			       arguments->variable);
	}
	/* the script may start another script, which takes the arguments */
	if (script->uses_plan || !(script->frameworks >> v->layout.framework & 1))
		return 0;
	for (size_t i = 0; i < sizeof(chosen) / sizeof(*chosen); i++) {
		bool needed = chosen[i] == P4D_MICRO_BATCH || chosen[i] == P4D_RECOMPUTE
				  ? request->value[chosen[i]] > 0
				  : request->value[chosen[i]] > 1;
		if (!p4d_is_chosen(request, chosen[i]) || !needed)
			continue;
		p4d_fail(err, P4D_E_NO_EFFECT,
			 "p4d chose %s=%s, but the script uses neither $%s nor another P4D_ variable",
			 p4d_request_option_info(chosen[i])->name,
			 p4d_request_value_text(request, chosen[i], value, sizeof(value)),
			 arguments->variable);
		return p4d_fix(err, "in the script, pass $%s to %s", arguments->variable, arguments->program);
	}
	return 0;
}

const char *p4d_guard__other(const p4d_script *script, const p4d_request *request)
{
	const p4d_framework_other *other = script->frameworks ? NULL : script->other;
	const p4d_origin origin = request->origin[P4D_FRAMEWORK];

	if (!other || origin == P4D_BY_USER || origin == P4D_BY_SCRIPT)
		return NULL;
	return other->any && (origin == P4D_BY_SITE || script->uses_plan) ? NULL : other->name;
}

/* Refuses a plan that was made without the script, if the script starts another framework. */
static int check_framework(const p4d_request *request, const p4d_script *script, p4d_error *err)
{
	const int planned = (int)request->value[P4D_FRAMEWORK];

	if (p4d_is_stated(request, P4D_FRAMEWORK) || !script->frameworks || script->frameworks >> planned & 1)
		return 0;
	const p4d_framework *started = p4d_framework_of(__builtin_ctz(script->frameworks));
	p4d_fail(err, P4D_E_CONTRADICTION, "the script starts %s, but the plan is for %s", started->program,
		 p4d_framework_of(planned)->program);
	return p4d_fix(err, "--p4d-framework=%s", started->name);
}

/*
 * Refuses several MIG instances, because NCCL does not connect them: neither those of one GPU nor those of
 * one process.
 */
static int check_mig(const p4d_request *request, const p4d_geometry *geometry, p4d_error *err)
{
	const uint64_t world = (uint64_t)geometry->nodes * geometry->gpus_per_node;
	const int64_t one = request->value[P4D_TP] * request->value[P4D_CP] * request->value[P4D_PP];

	if (!geometry->gpu || !p4d_gpu_is_mig(geometry->gpu) || (world <= 1 && one <= 1))
		return 0;
	return p4d_fail(err, P4D_E_MIG,
			"%" PRIu64 " ranks on MIG instances (%s): NCCL does not connect MIG instances",
			world > 1 ? world : (uint64_t)one, geometry->gpu->name);
}

/* Adds a fix for a layout that does not divide the job's GPUs: more GPUs, in the job's own options. */
static void fix_world(const p4d_job *job, const p4d_request *request, const p4d_geometry *geometry,
		      p4d_error *err)
{
	uint64_t model = (uint64_t)(request->value[P4D_TP] * request->value[P4D_CP] * request->value[P4D_PP]);
	uint64_t gpus = geometry->gpus_per_node, world = geometry->nodes * gpus;
	char flags[400];

	if (!err || err->code != P4D_E_WORLD || !model)
		return;
	if (job->reading && p4d_guard__script_follows(job->reading)) {
		err->fix[0] = '\0';
		return;
	}
	world = (world / model + 1) * model;
	if (world % gpus == 0)
		p4d_fix(err, "%s", p4d_job_flags(job, world / gpus, gpus, flags, sizeof(flags)));
}

/* Why a layout that does not fit by p4d's numbers may still fit; NULL: there is no reason. */
static const char *doubt(const p4d_job *job, const p4d_request *request, const p4d_verdict *v,
			 const p4d_capacity *capacity, bool uses_plan)
{
	const double limit = p4d_site_policy_limit(&v->policy, v->layout.framework);
	const char *what = p4d_framework_unvalidated(&v->layout);

	if (!what)
		what = p4d_memory_unsure(&v->layout, &v->estimate, limit);
	if (!what)
		what = p4d_memory_of_newer(&v->layout, P4D_METHOD_PLAN, capacity, limit);
	if (!what && !uses_plan)
		what = p4d_guard__recipe_that_fits(job, request, v, capacity);
	return what ? what : p4d_guard__release_that_fits(job, request, v, capacity);
}

int p4d_guard__judge(const p4d_site *site, const p4d_job *job, const p4d_request *request, p4d_verdict *v,
		     p4d_error *err)
{
	p4d_capacity capacity = {v->geometry.gpu, v->geometry.host_bytes, p4d_site_host_bytes_per_rank(site)};

	if (check_mig(request, &v->geometry, err) < 0)
		return -1;
	if (p4d_layout_build(request, v->geometry.nodes, v->geometry.gpus_per_node, &v->layout, err) < 0) {
		fix_world(job, request, &v->geometry, err);
		return -1;
	}
	p4d_script script = {.frameworks = 0};
	if (job->script)
		script = p4d_script_scan(job->script, job->script_length, &v->layout);
	const char *other = p4d_guard__other(&script, request);
	if (other)
		return p4d_guard__judge_unmodelled(request, other, v, err);
	v->assumed = p4d_is_chosen(request, P4D_FRAMEWORK) && !script.frameworks;
	if (check_framework(request, &script, err) < 0)
		return -1;
	if (p4d_memory_estimate(&v->layout, P4D_METHOD_PLAN, &capacity, &v->estimate, err) < 0)
		return -1;
	p4d_memory_play(&v->layout, &capacity, &v->estimate);
	v->judged = true;
	if (check_memory(job, request, v, err) < 0) {
		const char *why = doubt(job, request, v, &capacity, script.uses_plan);
		if (!p4d_guard__say_length(job, request, &capacity, why, v, err) && !only_said(v, why, err))
			return -1;
	}
	/* Host memory includes an estimate for the processes. Only offloaded tensors, and everything that
	 * p4d-train allocates, are exact sums. */
	const bool killed =
	    p4d_guard__is_killed(job, v->geometry.host_bytes, &v->estimate) ||
	    (v->geometry.host_by_default && v->estimate.offloaded_bytes > v->geometry.host_bytes);
	const bool allowed = !p4d_framework_of(v->layout.framework)->checkpoints_are_modelled;
	const char *what =
	    v->layout.offload && allowed && !killed ? "host memory of offloaded tensors" : NULL;
	if ((p4d_guard__check_host_memory(job, v, err) < 0 && !only_said(v, what, err)) ||
	    check_idle_gpus(job, v, err) < 0)
		return -1;
	if (check_tasks(job, v, &script, err) < 0 || check_script(job, request, v, &script, err) < 0)
		return -1;
	say_precision(request, v);
	p4d_guard__say_releases(job, request, v, &capacity);
	return 0;
}

int p4d_guard__judge_unmodelled(const p4d_request *request, const char *program, p4d_verdict *v,
				p4d_error *err)
{
	const char *why = program ? program : request->unmodelled;
	const bool is_model = !program && request->origin[P4D_UNMODELLED] == P4D_BY_MODEL;
	const bool is_script = request->origin[P4D_UNMODELLED] == P4D_BY_P4D;
	const char *what = is_model ? request->model : "the job's program";
	char otherwise[80] = "";

	if (program)
		snprintf(otherwise, sizeof(otherwise), " (to name another program, use --p4d-framework=%s)",
			 P4D_FRAMEWORK_NAMES);
	/* if the site requires plans, the user must type the option */
	const bool required = v->policy.require_plan && v->policy.unmodelled != P4D_UNMODELLED_PASS &&
			      request->origin[P4D_UNMODELLED] != P4D_BY_USER;

	if (v->policy.unmodelled == P4D_UNMODELLED_REJECT || required) {
		p4d_fail(err, P4D_E_UNMODELLED, "p4d does not model %s%s: %s", what,
			 required ? ", and GPU jobs of this partition must say what they train" : "", why);
		if (required && v->policy.unmodelled != P4D_UNMODELLED_REJECT)
			return p4d_fix(err, "--p4d-unmodelled=PROGRAM");
		return is_model ? -1
				: p4d_fix(err, "--p4d-framework=NAME (%s)%s", P4D_FRAMEWORK_NAMES,
					  program || is_script ? "" : " instead of --p4d-unmodelled");
	}
	if (v->policy.unmodelled == P4D_UNMODELLED_WARN)
		v->action = P4D_WARN;
	p4d_verdict__say(v, P4D_E_UNMODELLED, "p4d does not model %s, so the job was not checked: %s%s", what,
			 why, otherwise);
	return 0;
}
