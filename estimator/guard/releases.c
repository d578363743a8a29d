/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Differences between releases of libraries that a script does not determine. p4d judges by one release. It
 * warns about a job that would not fit with another one, and does not refuse a job that would fit with
 * another one. Releases that p4d reads from the job's environment are certain.
 */
#include <stdio.h>
#include <string.h>

#include "guard/script_request.h"
#include "guard/verdict.h"
#include "plan/stage_memory.h"
#include "request/class_loss.h"
#include "request/framework.h"

typedef struct question {
	const p4d_request *request;
	const p4d_layout *layout;
	const p4d_reading *reading;
	const p4d_geometry *geometry;
} question;

/* One difference, as another value of an option. */
typedef struct other_release {
	bool (*is_open)(const question *q);
	p4d_option option;
	int64_t value;
	bool fixes_release; /* the candidate also sets --transformers */
	const char *what, *fix;
} other_release;

/* Whether the program loads weights in the library's default type, because it names no type. */
static bool loads_by_default(const question *q)
{
	const p4d_layout *l = q->layout;

	return p4d_framework_shares(l, P4D_SHARES_NOTHING) && !l->torch.transformers &&
	       l->torch.model_code == P4D_MODEL_CODE_TRANSFORMERS && l->torch.param_dtype != P4D_PARAM_FP32 &&
	       !l->quant && q->request->origin[P4D_PARAM_DTYPE] == P4D_BY_P4D;
}

/* Whether the loss is TRL's and p4d assumed TRL's release. */
static bool is_of_trl(const question *q)
{
	return q->layout->torch.chunked_loss == P4D_LOSS_TRL_FUSED &&
	       q->reading->by_default[P4D_CHUNKED_LOSS] &&
	       q->request->origin[P4D_CHUNKED_LOSS] == P4D_BY_SCRIPT;
}

static bool names_loss(const question *q)
{
	return p4d_reading_argument(q->reading, "--loss_type") || strstr(p4d_reading_kind(q->reading), "dpo");
}

static bool is_trl_before_15(const question *q)
{
	return is_of_trl(q) && names_loss(q);
}

static bool is_trl_before_7(const question *q)
{
	return is_of_trl(q) && !names_loss(q);
}

/*
 * Whether the Trainer's AdamW (fused or not) is a default of the library, because the script does not select
 * it.
 */
static bool takes_fused_by_default(const question *q)
{
	const p4d_layout *l = q->layout;

	return p4d_framework_is_of_pytorch(l) && l->torch.model_code == P4D_MODEL_CODE_TRANSFORMERS &&
	       l->optimizer == P4D_ADAMW && !l->torch.optimizer_foreach &&
	       !(l->offload & P4D_OFFLOAD_OPTIMIZER) && !p4d_is_stated(q->request, P4D_OPTIMIZER_FOREACH) &&
	       !q->reading->value[P4D_OPTIMIZER].file && p4d_reading_takes(q->reading, "--optim");
}

/*
 * Whether the job's GPUs are older than Ampere, for which no flash kernel exists, although p4d judged with
 * flash attention.
 */
static bool is_before_flash(const question *q)
{
	const p4d_gpu *gpu = q->geometry->gpu;

	return gpu && gpu->sm && gpu->sm < 80 && q->layout->flash_attention;
}

/*
 * Whether Transformer Engine has only unfused attention: on GPUs before Ampere it uses neither flash-attn nor
 * cuDNN (utils.py, get_attention_backend). Unfused attention cannot run with context parallelism.
 */
static bool has_unfused_alone(const question *q)
{
	return is_before_flash(q) && q->layout->framework == P4D_FRAMEWORK_MEGATRON && q->layout->cp == 1;
}

static bool is_transformers_before_flash(const question *q)
{
	return is_before_flash(q) && q->layout->torch.model_code == P4D_MODEL_CODE_TRANSFORMERS &&
	       q->layout->framework != P4D_FRAMEWORK_MEGATRON;
}

/*
 * Whether PyTorch has no kernel at all: on GPUs before Ampere, it also lacks the memory-efficient kernel for
 * bf16. It then stores the scores, and their softmax in fp32, which is less than eager attention holds. p4d
 * does not model this separately.
 */
static bool has_no_kernel(const question *q)
{
	return is_transformers_before_flash(q) && q->layout->precision == P4D_BF16;
}

/*
 * Whether PyTorch uses its memory-efficient kernel: GPUs before Ampere run it in fp16 and fp32, if
 * transformers calls PyTorch's attention.
 */
static bool has_no_flash(const question *q)
{
	return is_transformers_before_flash(q) && q->layout->precision != P4D_BF16 &&
	       !p4d_is_stated(q->request, P4D_ATTENTION) && !q->reading->value[P4D_ATTENTION].file &&
	       p4d_reading_takes(q->reading, "--attn_implementation");
}

#define TRL_FIX "--p4d-chunked-loss=trl-fused (TRL 1.15 and later), trl (1.4 to 1.14) or off"
static const other_release others[] = {
    {loads_by_default, P4D_PARAM_DTYPE, P4D_PARAM_FP32, true,
     "with transformers before 5, which loads weights in fp32",
     "--p4d-transformers=5, or --p4d-param-dtype=bf16 if the program loads weights in bf16"},
    {is_trl_before_15, P4D_CHUNKED_LOSS, P4D_LOSS_WHOLE, false,
     "with TRL before 1.15, which stores all logits", TRL_FIX},
    {is_trl_before_7, P4D_CHUNKED_LOSS, P4D_LOSS_WHOLE, false, "with TRL before 1.7, which stores all logits",
     TRL_FIX},
    {is_trl_before_7, P4D_CHUNKED_LOSS, P4D_LOSS_TRL, false, "with TRL 1.7 to 1.14", TRL_FIX},
    {has_no_flash, P4D_ATTENTION, 0, false,
     "with eager attention, which transformers before 4.36 uses, and later releases may use on this GPU",
     "--p4d-attention=flash, or --attn_implementation sdpa in the script"},
    {has_no_kernel, P4D_ATTENTION, 0, false,
     "with PyTorch's own attention (sdpa), which has no kernel for bf16 on this GPU and stores scores as "
     "eager attention does",
     "--p4d-precision=fp16, and fp16 in the script"},
    {has_unfused_alone, P4D_ATTENTION, 0, false,
     "with unfused attention, the only attention that Transformer Engine has for this GPU",
     "--p4d-attention=unfused"},
    {takes_fused_by_default, P4D_OPTIMIZER_FOREACH, 1, false,
     "with PyTorch before 2.8, where the Trainer's AdamW is not fused",
     "--p4d-optimizer-foreach=off, or --optim adamw_torch_fused in the script"},
};
enum { OTHERS = sizeof(others) / sizeof(*others) };

static bool estimate_of(const p4d_request *with, const question *q, const p4d_capacity *capacity,
			p4d_estimate *e)
{
	p4d_layout layout;

	return p4d_layout_build(with, q->geometry->nodes, q->geometry->gpus_per_node, &layout, NULL) == 0 &&
	       p4d_memory_estimate(&layout, P4D_METHOD_PLAN, capacity, e, NULL) == 0;
}

/* Estimates the job with another release. False: p4d cannot tell what the job would need. */
static bool estimate(const other_release *other, const question *q, const p4d_capacity *capacity,
		     p4d_estimate *e)
{
	p4d_request with = *q->request;

	if (!other->is_open(q))
		return false;
	p4d_request_put(&with, other->option, other->value, P4D_BY_P4D);
	if (other->fixes_release)
		p4d_request_put(&with, P4D_TRANSFORMERS, 5 * P4D_RELEASE_UNIT - 1, P4D_BY_P4D);
	return estimate_of(&with, q, capacity, e);
}

/*
 * The loss with the most (or least) memory among those that the model's class has in other releases; NULL:
 * none.
 */
static const p4d_class_loss *other_loss(const question *q, const p4d_capacity *capacity, bool most,
					p4d_estimate *e)
{
	const p4d_class_loss *loss, *found = NULL;
	p4d_request with = *q->request;
	p4d_estimate of;
	unsigned at = 0;
	int64_t release;

	/* with a chunked loss the logits do not exist, and DPO does not use the class's loss */
	if (q->layout->torch.chunked_loss || q->layout->pairs)
		return NULL;
	while ((loss = p4d_class_loss_other(q->request, &at, &release))) {
		p4d_request_put(&with, P4D_TRANSFORMERS, release, P4D_BY_P4D);
		if (!estimate_of(&with, q, capacity, &of) || (found && most != (of.fraction > e->fraction)))
			continue;
		*e = of;
		found = loss;
	}
	return found;
}

const char *p4d_guard__release_that_fits(const p4d_job *job, const p4d_request *request, const p4d_verdict *v,
					 const p4d_capacity *capacity)
{
	const question q = {request, &v->layout, job->reading, &v->geometry};
	const double limit = p4d_site_policy_limit(&v->policy, v->layout.framework);
	p4d_estimate e;

	for (int i = 0; job->reading && i < OTHERS; i++)
		if (estimate(&others[i], &q, capacity, &e) && e.fraction <= limit)
			return others[i].what;
	const p4d_class_loss *loss = other_loss(&q, capacity, false, &e);
	return loss && e.fraction <= limit ? loss->what : NULL;
}

const char *p4d_guard__recipe_that_fits(const p4d_job *job, const p4d_request *request, const p4d_verdict *v,
					const p4d_capacity *capacity)
{
	static const struct {
		p4d_option option;
		int64_t value;
	} less[] = {{P4D_GRAD_DTYPE, P4D_BF16}, {P4D_CROSS_ENTROPY, 1}};
	const double limit = p4d_site_policy_limit(&v->policy, v->layout.framework);
	p4d_request with = *request;
	bool open = false;
	p4d_layout layout;
	p4d_estimate e;

	if (!p4d_heeds(request, v->layout.framework, P4D_CROSS_ENTROPY) || !v->layout.experts ||
	    request->origin[P4D_FRAMEWORK] == P4D_BY_SCRIPT || p4d_guard__script_runs(job->reading))
		return NULL;
	for (size_t i = 0; i < sizeof(less) / sizeof(*less); i++) {
		if (request->origin[less[i].option] != P4D_BY_P4D)
			continue;
		open = true;
		p4d_request_put(&with, less[i].option, less[i].value, P4D_BY_P4D);
	}
	if (!open ||
	    p4d_layout_build(&with, v->geometry.nodes, v->geometry.gpus_per_node, &layout, NULL) < 0 ||
	    p4d_memory_estimate(&layout, P4D_METHOD_PLAN, capacity, &e, NULL) < 0)
		return NULL;
	return e.fraction <= limit || p4d_memory_unsure(&layout, &e, limit)
		   ? "gradients in fp32 and an unfused loss; to change that, use --p4d-grad-dtype and "
		     "--p4d-cross-entropy"
		   : NULL;
}

static void say_release(p4d_verdict *v, const char *what, const char *fix, const p4d_estimate *e)
{
	v->action = P4D_WARN;
	p4d_message *message = p4d_verdict__say(
	    v, P4D_E_RELEASE, "%s, the job needs %.1f of %.1f GiB (%.0f %%)", what,
	    p4d_to_gib(e->peak.device_bytes), p4d_to_gib(e->capacity_bytes), 100 * e->fraction);
	snprintf(message->fix, sizeof(message->fix), "%s", fix);
}

void p4d_guard__say_releases(const p4d_job *job, const p4d_request *request, p4d_verdict *v,
			     const p4d_capacity *capacity)
{
	const question q = {request, &v->layout, job->reading, &v->geometry};
	const double limit = p4d_site_policy_limit(&v->policy, v->layout.framework);
	p4d_request with = *request;
	char release[16], fix[96];
	p4d_estimate e;

	if (v->estimate.fraction >
	    limit) /* p4d has already reported this, together with a release that needs less memory */
		return;
	for (int i = 0; job->reading && i < OTHERS; i++)
		if (estimate(&others[i], &q, capacity, &e) && e.fraction > limit)
			say_release(v, others[i].what, others[i].fix, &e);
	const p4d_class_loss *loss = other_loss(&q, capacity, true, &e);
	if (!loss || e.fraction <= limit)
		return;
	p4d_request_put(&with, P4D_TRANSFORMERS, loss->before, P4D_BY_P4D);
	snprintf(fix, sizeof(fix), "--p4d-transformers=%s, if the job has that release or a later one",
		 p4d_request_value_text(&with, P4D_TRANSFORMERS, release, sizeof(release)));
	say_release(v, loss->what, fix, &e);
}

void p4d_guard__say_releases_of_pairs(const p4d_job *job, const p4d_request *request,
				      uint32_t published_batch, p4d_verdict *v)
{
	const p4d_read_value *loss = job->reading ? &job->reading->value[P4D_CHUNKED_LOSS] : NULL;
	p4d_request with = *request;
	p4d_verdict other = *v;

	/* another release of TRL may have another loss, if p4d assumed the release */
	if (!loss || v->messages || !job->reading->by_default[P4D_CHUNKED_LOSS] ||
	    request->origin[P4D_CHUNKED_LOSS] != P4D_BY_SCRIPT ||
	    request->value[P4D_CHUNKED_LOSS] != P4D_LOSS_TRL_FUSED)
		return;
	p4d_request_put(&with, P4D_CHUNKED_LOSS, P4D_LOSS_WHOLE, P4D_BY_P4D);
	p4d_guard__judge_colocated(&with, published_batch, &other);
	if (!other.messages)
		return;
	v->action = P4D_WARN;
	p4d_message *message = p4d_verdict__say(
	    v, P4D_E_RELEASE, "with TRL before 1.15, which stores all logits, %.300s", other.message[0].text);
	snprintf(message->fix, sizeof(message->fix), "%s", TRL_FIX);
}
