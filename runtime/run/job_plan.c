/* SPDX-License-Identifier: Apache-2.0 */
#include "run/job_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/released.h"
#include "cost/cost.h"
#include "model/model.h"
#include "plan/plan.h"
#include "plan/plan_line.h"
#include "request/defaults.h"
#include "request/framework.h"

/* Options that the user gives together with a plan line must agree with the plan. */
static int agree(const p4d_request *typed, const p4d_request *planned, p4d_error *err)
{
	char left[256], right[256];

	for (int i = 0; i < P4D_OPTIONS; i++) {
		p4d_option option = (p4d_option)i;
		if (!p4d_is_set(typed, option))
			continue;
		p4d_request_value_text(typed, option, left, sizeof(left));
		p4d_request_value_text(planned, option, right, sizeof(right));
		if (!strcmp(left, right))
			continue;
		p4d_fail(err, P4D_E_PLAN_CHANGED,
			 "--%s=%.100s differs from the plan of the job, which has %.100s",
			 p4d_request_option_info(option)->name, left,
			 p4d_is_set(planned, option) ? right : "nothing");
		return p4d_fix(err, "leave out --%s, or submit the job with it",
			       p4d_request_option_info(option)->name);
	}
	return 0;
}

static int from_line(p4d_job_plan *plan, const char *line, const p4d_settings *settings, p4d_error *err)
{
	if (p4d_plan_read(line, &plan->request, err) < 0)
		return -1;
	if (!p4d_is_set(&plan->request, P4D_NODES) || !p4d_is_set(&plan->request, P4D_GPUS_PER_NODE))
		return p4d_fail(err, P4D_E_PLAN_SYNTAX, "plan: it has no nodes or no GPUs");
	return agree(&settings->request, &plan->request, err);
}

static int from_options(p4d_job_plan *plan, const p4d_settings *settings, uint64_t ranks, uint64_t nodes,
			const char *datadir, p4d_error *err)
{
	p4d_request *request = &plan->request;
	p4d_preset preset = {.global_batch = 0};

	*request = settings->request;
	const bool released = !p4d_is_set(request, P4D_MODEL) && settings->init_from;
	if (released)
		p4d_released_model(settings->init_from, request);
	if (!p4d_is_set(request, P4D_MODEL)) {
		p4d_fail(err, P4D_E_USAGE, "p4d-train has neither a plan (P4D_PLAN is not set) nor a model");
		return p4d_fix(err, "--model NAME --local-ranks N, or sbatch --p4d-model=NAME");
	}
	if (p4d_model_resolve(request, datadir, &preset, err) < 0)
		return released && err->code == P4D_E_UNKNOWN_MODEL
			   ? p4d_released_unknown(settings->init_from, err)
			   : -1;
	if (ranks % nodes)
		return p4d_fail(err, P4D_E_WORLD, "%" PRIu64 " ranks on %" PRIu64 " nodes: not divisible",
				ranks, nodes);
	p4d_plan_place(request, nodes, ranks / nodes, NULL);
	/* the default is the cpu, because every machine has one */
	p4d_request_default(request, P4D_DEVICE, P4D_CPU, P4D_BY_P4D);
	p4d_request_default(request, P4D_FRAMEWORK, P4D_FRAMEWORK_P4D,
			    P4D_BY_SITE); /* users need not name this framework */
	p4d_request_complete(request, preset.global_batch, ranks);
	return 0;
}

static int find_gpu(p4d_job_plan *plan, bool planned, p4d_error *err)
{
	if (!p4d_is_set(&plan->request, P4D_GPU))
		return 0;
	if (p4d_gpus_load(&plan->gpus, NULL, err) < 0)
		return -1;
	plan->gpu = p4d_gpu_find(&plan->gpus, plan->request.gpu, NULL);
	/*
	 * A plan line's GPU may be described only in p4d.conf, which this program does not read. The plan's
	 * checksum shows whether that changes the plan.
	 */
	if (!plan->gpu && !planned)
		return p4d_fail(err, P4D_E_UNKNOWN_GPU,
				"gpu=%s is unknown here (p4d gpus lists the known GPUs)", plan->request.gpu);
	if (!p4d_on_gpu(plan->request.value[P4D_DEVICE]))
		plan->gpu = NULL;
	return 0;
}

static int build(p4d_job_plan *plan, uint64_t ranks, bool planned, bool evaluates, p4d_error *err)
{
	p4d_request *r = &plan->request;
	uint64_t nodes = (uint64_t)r->value[P4D_NODES], per_node = (uint64_t)r->value[P4D_GPUS_PER_NODE];

	if (r->unmodelled[0])
		return p4d_fail(err, P4D_E_UNMODELLED, "%.250s: %.150s", r->model, r->unmodelled);
	if (p4d_framework_of(P4D_FRAMEWORK_P4D)->check_model(r, err) < 0)
		return -1;
	if (r->value[P4D_FRAMEWORK] != P4D_FRAMEWORK_P4D) {
		p4d_fail(err, P4D_E_UNMODELLED, "%.200s: the job was planned for %s", r->model,
			 p4d_framework_of((int)r->value[P4D_FRAMEWORK])->program);
		return p4d_fix(err, "sbatch --p4d-framework=p4d");
	}
	if (r->value[P4D_WORKLOAD] != P4D_WORKLOAD_TRAIN && !p4d_framework_trains_pairs(r)) {
		p4d_fail(err, P4D_E_UNMODELLED, "workload: p4d-train supports only train and preference");
		return p4d_fix(err, "--workload=preference");
	}
	p4d_rope_default(r); /* plan lines of older versions do not have these options */
	if (p4d_rope_of(r, &plan->rope, err) < 0)
		return -1;
	if (nodes * per_node != ranks) {
		p4d_fail(err, P4D_E_WORLD,
			 "the plan is for %" PRIu64 " ranks (%" PRIu64 " nodes with %" PRIu64
			 "), but %" PRIu64 " were started",
			 nodes * per_node, nodes, per_node, ranks);
		return p4d_fix(err, "srun --nodes=%" PRIu64 " --ntasks-per-node=%" PRIu64 " p4d-train", nodes,
			       per_node);
	}
	if (find_gpu(plan, planned, err) < 0 || p4d_layout_build(r, nodes, per_node, &plan->layout, err) < 0)
		return -1;
	if (!planned)
		p4d_cost_choose_slices(r, &plan->layout, plan->gpu);
	p4d_capacity capacity = {.gpu = plan->gpu};
	if (p4d_plan_verify_checksum(r, &plan->layout, plan->gpu, err) < 0)
		return -1;
	/* an evaluation keeps nothing for a backward pass */
	plan->layout.evaluates = evaluates;
	if (evaluates) {
		plan->layout.recompute = P4D_RECOMPUTE_FULL;
		/* the last stage computes the model's loss; stages' own losses are not evaluated */
		plan->layout.local_loss = false;
	}
	return p4d_memory_estimate(&plan->layout, P4D_METHOD_PLAN, &capacity, &plan->estimate, err);
}

/* Adapters can only be used together with the weights for which they are trained. */
static int check_adapters(const p4d_job_plan *plan, const p4d_settings *settings, p4d_error *err)
{
	const bool adapters = plan->layout.finetune != P4D_TUNE_FULL;

	if (adapters && !settings->init_from) {
		p4d_fail(
		    err, P4D_E_USAGE,
		    "finetune=%s trains adapters for the weights of a released model: --init-from is missing",
		    plan->layout.finetune == P4D_TUNE_LORA ? "lora" : "qlora");
		return p4d_fix(err, "--init-from DIR");
	}
	if (adapters || settings->lora_alpha < 0)
		return 0;
	p4d_fail(err, P4D_E_USAGE, "--lora-alpha has no effect without finetune=lora or qlora");
	return p4d_fix(err, "--finetune=lora");
}

/* Checks options that require pairs, or that cannot be used with pairs. */
static int check_pairs(const p4d_job_plan *plan, const p4d_settings *s, p4d_error *err)
{
	const struct {
		bool asked;
		const char *why, *fix;
	} refused[] = {
	    {!s->init_from && !s->sample,
	     "preference training starts from the weights of a released model: --init-from is missing",
	     "--init-from DIR"},
	    {s->valid_data[0] || s->valid_fraction > 0, "preference training has no validation",
	     "leave out --valid-data and --valid-fraction"},
	    {s->z_loss > 0, "preference training has no z-loss", "leave out --z-loss"},
	};

	if (!plan->layout.pairs && s->beta > 0) {
		p4d_fail(err, P4D_E_USAGE, "--beta has no effect without workload=preference");
		return p4d_fix(err, "--workload=preference");
	}
	for (size_t i = 0; plan->layout.pairs && i < sizeof(refused) / sizeof(*refused); i++)
		if (refused[i].asked) {
			p4d_fail(err, P4D_E_USAGE, "workload=preference: %s", refused[i].why);
			return p4d_fix(err, "%s", refused[i].fix);
		}
	return 0;
}

int p4d_job_plan_open(p4d_job_plan *plan, const char *line, const p4d_settings *settings, uint64_t ranks,
		      uint64_t nodes, const char *datadir, p4d_error *err)
{
	int rc = line ? from_line(plan, line, settings, err)
		      : from_options(plan, settings, ranks, nodes, datadir, err);

	plan->planned = line != NULL;
	if (rc == 0)
		rc = build(plan, ranks, line != NULL, settings->eval_only, err);
	if (rc == 0)
		rc = check_adapters(plan, settings, err);
	if (rc == 0)
		rc = check_pairs(plan, settings, err);
	if (rc == 0)
		return 0;
	/* the fix must name an option as users type it here, without the prefix of sbatch */
	if (!line && err && err->code != P4D_E_USAGE) {
		p4d_request_without_prefix(err->text);
		p4d_request_without_prefix(err->fix);
	}
	p4d_job_plan_close(plan);
	return -1;
}

void p4d_job_plan_close(p4d_job_plan *plan)
{
	p4d_gpus_free(&plan->gpus);
	*plan = (p4d_job_plan){.gpu = NULL};
}

bool p4d_job_plan_fits(const p4d_job_plan *plan)
{
	return plan->estimate.fraction <= p4d_framework_of(P4D_FRAMEWORK_P4D)->limit;
}

p4d_net_settings p4d_job_plan_net(const p4d_job_plan *plan)
{
	return (p4d_net_settings){.layout = &plan->layout,
				  .gpu = plan->gpu,
				  .rope = plan->rope,
				  .norm_epsilon = (float)p4d_request_real(&plan->request, P4D_NORM_EPSILON),
				  .vocab = (uint64_t)plan->request.value[P4D_VOCAB]};
}

int p4d_job_plan_message_bytes(const p4d_job_plan *plan, uint64_t *bytes, p4d_error *err)
{
	p4d_plan first;

	if (p4d_plan_build(&plan->layout, plan->gpu, 0, &first, err) < 0)
		return -1;
	const p4d_tensor *buffers = p4d_plan_find(&first, B_SEND_FORWARD);
	*bytes = buffers ? buffers->bytes / P4D_SEND_BUFFERS : 0;
	return 0;
}

/*
 * Returns the longest sequence length that fits into this much memory. It tries the planned length, then half
 * of it, and so on; 0: none fits.
 */
static uint64_t fitting_length(const p4d_job_plan *plan, uint64_t host_bytes)
{
	enum { SHORTEST = 64 };
	const p4d_capacity capacity = {.gpu = plan->gpu};
	p4d_request r = plan->request;
	p4d_estimate estimate;
	p4d_layout layout;

	for (int64_t length = r.value[P4D_SEQ_LEN] / 2; length >= SHORTEST; length /= 2) {
		r.value[P4D_SEQ_LEN] = length;
		if (p4d_layout_build(&r, (uint64_t)r.value[P4D_NODES], (uint64_t)r.value[P4D_GPUS_PER_NODE],
				     &layout, NULL) < 0 ||
		    p4d_memory_estimate(&layout, P4D_METHOD_PLAN, &capacity, &estimate, NULL) < 0)
			return 0;
		if (estimate.host_bytes <= host_bytes)
			return (uint64_t)length;
	}
	return 0;
}

int p4d_job_plan_check_memory(const p4d_job_plan *plan, bool granted, uint64_t host_bytes, p4d_error *err)
{
	const uint64_t need = plan->estimate.host_bytes, ranks = plan->layout.gpus_per_node;

	if (p4d_on_gpu(plan->layout.device) || need == P4D_NOT_MODELLED || need <= host_bytes)
		return 0;
	p4d_fail(err, P4D_E_HOST_MEMORY,
		 "%" PRIu64 " rank%s of a node need %.1f GiB of host memory, %s %.1f GiB here", ranks,
		 ranks == 1 ? "" : "s", p4d_to_gib(need), granted ? "the job has" : "there are",
		 p4d_to_gib(host_bytes));
	if (granted)
		return p4d_fix(
		    err, "--mem=%" PRIu64 "M, or a layout that needs less memory (p4d plan --device cpu)",
		    (need >> 20) + 1);
	/* suggest another length only if p4d chose the length */
	const uint64_t length =
	    plan->request.origin[P4D_SEQ_LEN] == P4D_BY_P4D ? fitting_length(plan, host_bytes) : 0;
	if (length)
		return p4d_fix(err, "--seq-len=%" PRIu64 " instead of %" PRIu64 ", or a smaller model",
			       length, plan->layout.seq_len);
	return p4d_fix(err,
		       "find a layout that needs less memory: p4d plan --model %.200s --framework p4d "
		       "--device cpu --nodes 1 --gpus-per-node %" PRIu64 " --seq-len %" PRIu64
		       " --global-batch %" PRIu64 " --mem %" PRIu64 "M",
		       plan->request.model, ranks, plan->layout.seq_len, plan->layout.global_batch,
		       host_bytes >> 20);
}
