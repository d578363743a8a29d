/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/colocated.h"

#include <inttypes.h>

#include "base/text.h"
#include "request/framework.h"
#include "request/model_size.h"

#define GIB ((double)(1 << 30))
enum { STEP_PERCENT = 5 }; /* step, in percent, in which p4d tries an engine's share of the GPU */

static bool prefers(const p4d_request *r)
{
	return r->value[P4D_WORKLOAD] == P4D_WORKLOAD_PREFERENCE;
}

void p4d_colocated_complete(p4d_request *r, uint64_t world)
{
	static const p4d_option of_layout[] = {P4D_TP, P4D_CP, P4D_PP};
	const int64_t of_rank = p4d_is_set(r, P4D_MICRO_BATCH) ? r->value[P4D_MICRO_BATCH] : 1;
	uint64_t ranks = 1;

	for (size_t i = 0; i < sizeof(of_layout) / sizeof(*of_layout); i++)
		if (p4d_is_set(r, of_layout[i]))
			ranks *= (uint64_t)r->value[of_layout[i]];
	p4d_request_default(r, P4D_COLOCATE, !prefers(r), P4D_BY_P4D);
	p4d_request_default(r, P4D_ENGINE_SLEEP, 1, P4D_BY_P4D);
	p4d_request_default(r, P4D_ENGINE_TP, 1, P4D_BY_P4D);
	p4d_request_default(r, P4D_REFERENCE, P4D_REFERENCE_ON, P4D_BY_P4D);
	p4d_request_default(r, P4D_CRITIC, 0, P4D_BY_P4D);
	p4d_request_default(r, P4D_SWAP, 0, P4D_BY_P4D);
	/*
	 * by default one micro-batch per rank for each update; in a pipeline, as many micro-batches as stages
	 */
	const int64_t in_pipeline = p4d_is_set(r, P4D_PP) ? r->value[P4D_PP] : 1;
	if (world && !(world % ranks))
		p4d_request_default(r, P4D_GLOBAL_BATCH, (int64_t)(world / ranks) * of_rank * in_pipeline,
				    P4D_BY_P4D);
}

/*
 * Memory of a model between two of its steps. Its gradients are freed then, unless they are in a permanent
 * buffer. Such a buffer is swapped together with the parameters.
 */
static uint64_t kept_of(const p4d_stage *peak, const p4d_layout *l, unsigned swap)
{
	const uint64_t grads =
	    p4d_framework_of(l->framework)->frees_gradients ? 0 : peak->part[P4D_PART_GRADS];

	return (swap & P4D_OFFLOAD_PARAMS ? 0 : peak->part[P4D_PART_PARAMS] + grads) +
	       (swap & P4D_OFFLOAD_OPTIMIZER ? 0 : peak->part[P4D_PART_OPTIMIZER]);
}

/*
 * Bytes of the reference, a frozen copy in 16 bits (with DPO, in the policy's type) that is sharded like the
 * actor's parameters. With adapters, the reference is the base model, without a copy.
 */
static uint64_t reference_of(const p4d_request *r, const p4d_layout *l)
{
	const bool units = p4d_framework_shares(l, P4D_SHARES_UNITS);
	const uint64_t shards = units               ? (l->shard_degree ? l->shard_degree : l->dp)
				: l->zero_stage > 2 ? l->dp
						    : l->pp;

	if (r->value[P4D_REFERENCE] != P4D_REFERENCE_ON || l->finetune != P4D_TUNE_FULL)
		return 0;
	const bool full = prefers(r) && l->torch.param_dtype == P4D_PARAM_FP32 &&
			  (units || p4d_framework_shares(l, P4D_SHARES_NOTHING));
	return (uint64_t)(p4d_size_of_model(l) * (full ? 4 : 2) / shards);
}

static int engine_of(const p4d_request *request, const p4d_layout *l, const p4d_gpu *gpu, p4d_colocated *c,
		     p4d_error *err)
{
	p4d_request r = *request;

	if (!r.value[P4D_COLOCATE])
		return 0;
	/* the engine has its own values of these options */
	r.value[P4D_TP] = r.value[P4D_ENGINE_TP];
	r.value[P4D_PP] = 1;
	r.value[P4D_OFFLOAD] = 0;
	p4d_serving_complete(&r, gpu);
	if (p4d_serving_estimate(&r, gpu, p4d_tp_ranks(l) * l->cp * l->pp * l->dp, &c->serving, err) < 0)
		return -1;
	c->generating.engine = c->serving.budget_bytes;
	c->training.engine = r.value[P4D_ENGINE_SLEEP] ? 0 : c->serving.budget_bytes;
	return 0;
}

/* Refuses options that have no effect on preference training, such as those of an engine. */
static int check_pairs(const p4d_request *r, p4d_error *err)
{
	const p4d_option unused = p4d_heeds_unused(r);

	if (unused == P4D_OPTIONS)
		return 0;
	const char *name = p4d_request_option_info(unused)->name;
	p4d_fail(err, P4D_E_VALUE, "%s has no effect with workload=preference, which has no engine", name);
	return p4d_fix(err, "leave out --p4d-%s", name);
}

static int estimate_pairs(const p4d_request *r, const p4d_layout *layout, p4d_colocated *c,
			  const p4d_capacity *capacity, p4d_error *err)
{
	p4d_layout l = *layout;
	p4d_estimate e;

	l.micro_batch *= 2; /* DPO processes chosen and rejected sequences together */
	l.eval_micro_batch *= 2;
	l.pairs = true;
	l.reference = r->value[P4D_REFERENCE] == P4D_REFERENCE_ON;
	if (check_pairs(r, err) < 0 || p4d_memory_estimate(&l, P4D_METHOD_PLAN, capacity, &e, err) < 0)
		return -1;
	c->pairs = true;
	c->training.actor = e.peak.device_bytes;
	c->training.reference = reference_of(r, &l);
	c->training.sum = c->training.actor + c->training.reference;
	return 0;
}

/* Whether the gradient of the logits replaces the 16-bit logits. */
static bool has_loss_in_place(const p4d_layout *l)
{
	return l->torch.packing && p4d_framework_shares(l, P4D_SHARES_UNITS) &&
	       l->torch.model_code == P4D_MODEL_CODE_TRANSFORMERS && !l->torch.chunked_loss;
}

/* The peak is at the loss, or in a layer's backward pass after the logits are freed. */
static int estimate_actor(const p4d_layout *layout, const p4d_capacity *capacity, p4d_estimate *e,
			  p4d_error *err)
{
	p4d_layout l = *layout;
	p4d_estimate without;

	if (p4d_memory_estimate(layout, P4D_METHOD_PLAN, capacity, e, err) < 0)
		return -1;
	if (!has_loss_in_place(layout))
		return 0;
	l.torch.chunked_loss = P4D_LOSS_CHUNKED;
	if (p4d_memory_estimate(&l, P4D_METHOD_PLAN, capacity, &without, err) < 0)
		return -1;
	uint64_t *logits = &e->peak.part[P4D_PART_LOGITS];
	const p4d_wide once = (p4d_wide)l.micro_batch * l.seq_len * l.vocab * 2;
	if (once < *logits) {
		e->peak.device_bytes -= *logits - (uint64_t)once;
		*logits = (uint64_t)once;
	}
	if (without.peak.device_bytes > e->peak.device_bytes)
		*e = without;
	return 0;
}

int p4d_colocated_estimate(const p4d_request *r, const p4d_layout *l, const p4d_gpu *gpu, p4d_colocated *out,
			   p4d_error *err)
{
	const p4d_capacity capacity = {.gpu = gpu};
	const unsigned swap = (unsigned)r->value[P4D_SWAP];
	p4d_colocated c = {.capacity_bytes = gpu->usable_bytes,
			   .engine_tp = (uint64_t)r->value[P4D_ENGINE_TP]};
	p4d_estimate e;

	if (prefers(r)) {
		if (estimate_pairs(r, l, &c, &capacity, err) < 0)
			return -1;
		*out = c;
		return 0;
	}
	if (estimate_actor(l, &capacity, &e, err) < 0 || engine_of(r, l, gpu, &c, err) < 0)
		return -1;
	const uint64_t kept = kept_of(&e.peak, l, swap), peak = e.peak.device_bytes;
	/* the critic has one value per token instead of logits */
	const uint64_t values = peak - e.peak.part[P4D_PART_LOGITS];
	const bool critic = r->value[P4D_CRITIC];

	c.host_bytes = (kept_of(&e.peak, l, 0) - kept) * (critic ? 2 : 1);
	c.generating.reference = c.training.reference = reference_of(r, l);
	c.generating.actor = kept + e.peak.part[P4D_PART_CONTEXT];
	c.generating.critic = critic ? kept : 0;
	/* the peak of the actor's step or of the critic's, whichever is larger */
	c.training.actor = peak;
	c.training.critic = critic ? kept : 0;
	if (critic && values > peak) {
		c.training.actor = kept;
		c.training.critic = values;
	}
	c.generating.sum =
	    c.generating.actor + c.generating.reference + c.generating.critic + c.generating.engine;
	c.training.sum = c.training.actor + c.training.reference + c.training.critic + c.training.engine;
	*out = c;
	return 0;
}

static bool fits(const p4d_colocated *c, double limit)
{
	const double most = limit * (double)c->capacity_bytes;

	return (double)c->training.sum <= most && (double)c->generating.sum <= most;
}

/*
 * The largest share of the GPU that the other models leave for the engine, in percent, a multiple of
 * STEP_PERCENT. 0: the engine would have no room for a sequence.
 */
static uint64_t percent_left(const p4d_colocated *c, double limit)
{
	const uint64_t most = (uint64_t)(limit * (double)c->capacity_bytes);
	const uint64_t others = c->generating.sum - c->generating.engine;
	const uint64_t room = most > others ? most - others : 0;
	const uint64_t percent =
	    (uint64_t)((p4d_wide)room * 100 / c->capacity_bytes) / STEP_PERCENT * STEP_PERCENT;
	const uint64_t needed = c->serving.weights_bytes + c->serving.profile_bytes +
				c->serving.buffers_bytes + c->serving.graphs_bytes +
				c->serving.sequence_bytes;

	return (p4d_wide)percent * c->capacity_bytes / 100 >= needed ? percent : 0;
}

/*
 * Returns the largest smaller micro-batch with which the job fits if the number of micro-batches grows by the
 * same factor; 0: there is none.
 */
static uint64_t smaller_micro_batch(const p4d_request *r, const p4d_layout *l, const p4d_gpu *gpu,
				    double limit)
{
	enum { MOST_PARTS = 64 };
	p4d_colocated then;

	for (uint64_t parts = 2; parts <= l->micro_batch; parts++) {
		if (parts > MOST_PARTS)
			parts = l->micro_batch;
		if (l->micro_batch % parts)
			continue;
		p4d_layout fewer = *l;
		fewer.micro_batch /= parts;
		fewer.eval_micro_batch /= parts;
		fewer.eval_micro_batch += !fewer.eval_micro_batch;
		fewer.micro_batches *= parts;
		if (p4d_colocated_estimate(r, &fewer, gpu, &then, NULL) == 0 && fits(&then, limit))
			return fewer.micro_batch;
	}
	return 0;
}

/* Adds the first change that is enough. Swapping and offloading the reference may be combined. */
static void fix(const p4d_request *r, const p4d_layout *l, const p4d_gpu *gpu, const p4d_colocated *c,
		double limit, p4d_error *err)
{
	static const struct {
		const char *flags;
		bool sleeps, swaps, sends_reference;
	} ways[] = {
	    {"--p4d-engine-sleep=on", true, false, false},
	    {"--p4d-swap=optimizer,params", false, true, false},
	    {"--p4d-reference=host", false, false, true},
	    {"--p4d-engine-sleep=on --p4d-swap=optimizer,params", true, true, false},
	    {"--p4d-swap=optimizer,params --p4d-reference=host", false, true, true},
	    {"--p4d-engine-sleep=on --p4d-swap=optimizer,params --p4d-reference=host", true, true, true}};
	const uint64_t percent = percent_left(c, limit);

	if (percent && (double)c->training.sum <= limit * (double)c->capacity_bytes) {
		p4d_fix(err, "--p4d-gpu-memory-utilization=0.%02" PRIu64, percent);
		return;
	}
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		p4d_request changed = *r;
		p4d_colocated then;
		if (ways[i].sleeps)
			changed.value[P4D_ENGINE_SLEEP] = 1;
		if (ways[i].swaps)
			changed.value[P4D_SWAP] = P4D_OFFLOAD_OPTIMIZER | P4D_OFFLOAD_PARAMS;
		if (ways[i].sends_reference)
			changed.value[P4D_REFERENCE] = P4D_REFERENCE_HOST;
		if (p4d_colocated_estimate(&changed, l, gpu, &then, NULL) == 0 && fits(&then, limit)) {
			p4d_fix(err, "%s", ways[i].flags);
			return;
		}
	}
	const uint64_t smaller = smaller_micro_batch(r, l, gpu, limit);
	if (smaller)
		p4d_fix(err, P4D_FIX_MICRO_BATCH "%" PRIu64, smaller);
}

static int check_pair(const p4d_request *r, const p4d_layout *l, const p4d_gpu *gpu, const p4d_colocated *c,
		      double limit, p4d_error *err)
{
	if (fits(c, limit))
		return 0;
	p4d_fail(err, P4D_E_DOES_NOT_FIT,
		 "%s needs %.1f of %.1f GiB on %s: policy %.1f with %" PRIu64 " pair%s, reference %.1f",
		 r->model, (double)c->training.sum / GIB, (double)c->capacity_bytes / GIB, gpu->name,
		 (double)c->training.actor / GIB, l->micro_batch, l->micro_batch == 1 ? "" : "s",
		 (double)c->training.reference / GIB);
	const uint64_t smaller = smaller_micro_batch(r, l, gpu, limit);
	if (smaller)
		p4d_fix(err, P4D_FIX_MICRO_BATCH "%" PRIu64, smaller);
	return -1;
}

/* Adds the name and size of a part of the job, if the job has this part. */
static void add_part(p4d_text *parts, const char *name, uint64_t bytes)
{
	if (bytes)
		p4d_text_print(parts, ", %s %.1f", name, (double)bytes / GIB);
}

int p4d_colocated_check(const p4d_request *r, const p4d_layout *l, const p4d_gpu *gpu, const p4d_colocated *c,
			double limit, p4d_error *err)
{
	if (c->pairs)
		return check_pair(r, l, gpu, c, limit, err);
	if (fits(c, limit))
		return c->serving.max_model_len ? p4d_serving_check(r->model, gpu, &c->serving, err) : 0;
	const bool said = c->training.sum > c->generating.sum;
	const uint64_t actor = said ? c->training.actor : c->generating.actor,
		       reference = said ? c->training.reference : c->generating.reference,
		       critic = said ? c->training.critic : c->generating.critic,
		       engine = said ? c->training.engine : c->generating.engine,
		       sum = said ? c->training.sum : c->generating.sum;
	char text[160];
	p4d_text parts = p4d_text_in(text, sizeof(text));

	add_part(&parts, "reference", reference);
	add_part(&parts, "critic", critic);
	add_part(&parts, "engine", engine);
	if (c->serving.max_model_len)
		p4d_text_print(&parts, " (gpu-memory-utilization %.2f)",
			       (double)c->serving.budget_bytes / (double)c->capacity_bytes);
	p4d_fail(err, P4D_E_DOES_NOT_FIT, "%s needs %.1f of %.1f GiB on %s while it %s: actor %.1f%s",
		 r->model, (double)sum / GIB, (double)c->capacity_bytes / GIB, gpu->name,
		 said ? "trains" : "generates", (double)actor / GIB, text);
	fix(r, l, gpu, c, limit, err);
	return -1;
}
