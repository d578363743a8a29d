/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step: the timeline of the schedule with the durations of the cost model; and a lower bound for any
 * schedule.
 */
#include <stdlib.h>

#include "cost/cost_internal.h"
#include "plan/parameters.h"
#include "schedule/schedule.h"

enum { ON_STACK = 768 }; /* number of doubles in arrays on the stack */

/* ---- the bound ---- */

/*
 * Number of tensors that a stage receives per micro-batch. At the turn of a V-shaped schedule there is no
 * transfer.
 */
static double receives(const p4d_layout *l, uint32_t stage)
{
	const bool v_shaped = p4d_is_v_shaped(l->schedule);
	const uint32_t last = v_shaped ? 0 : (uint32_t)l->pp - 1;

	if (l->pp == 1)
		return 0;
	return 2 * (double)l->vpp - (stage == 0) - (stage == last) - (v_shaped && stage == l->pp - 1 ? 2 : 0);
}

/*
 * How a step looks from one stage. Before its work, the first micro-batch passes through the earlier stages.
 * After its work, the last micro-batch goes back through them and the step ends.
 */
typedef struct stage_view {
	double begin, end; /* seconds of stage 0 before its first pass, and after its last backward pass */
	double before, after;
} stage_view;

/* Moves the view to the next stage. */
static void pass_by(const p4d_layout *l, const p4d_cost_terms *t, uint32_t stage, double stages,
		    stage_view *v)
{
	p4d_cost_passes y = p4d_cost__chunk_passes(l, t, stage, 0);

	v->before += stages * (y.forward + t->send + (stage ? t->recv : 0));
	if (!l->local_loss) /* with local losses, no gradient goes back */
		v->after +=
		    stages * (y.input + (p4d_is_split(l->schedule) ? 0 : y.weight) + t->send + t->recv);
}

/*
 * The view from stage 0. Chunks, and with vocabulary parallelism also tables, are gathered and reduced one by
 * one. Deferred weight gradients at the end may hide the collective before the embedding's.
 */
static stage_view view_of(const p4d_layout *l, const p4d_cost_terms *t, const p4d_cost_step_ends *first)
{
	const double parts = (double)l->vpp + (l->vocab_parallel ? 1 : 0);
	const double weight = p4d_is_split(l->schedule) ? p4d_cost__chunk_passes(l, t, 0, 0).weight : 0;

	return (stage_view){.begin = first->gather / parts,
			    .end = P4D_MOST(weight, t->vocabulary.sync) + t->vocabulary.embed_backward +
				   first->reduce / parts + first->optimizer};
}

/*
 * Seconds that a stage needs for one micro-batch, over all its chunks. first: of passes that may not be
 * deferred. later: of passes that the schedule may defer, such as weight gradients of a split backward pass.
 */
typedef struct stage_work {
	double first, later;
} stage_work;

static stage_work stage_work_of(const p4d_layout *l, const p4d_cost_terms *t, uint32_t stage)
{
	const uint32_t last = p4d_is_v_shaped(l->schedule) ? 0 : (uint32_t)l->pp - 1;
	const p4d_cost_vocabulary_passes *c = &t->vocabulary;
	p4d_cost_passes y = p4d_cost__layers_passes(t, l->stage_layers[stage],
						    p4d_parameters_expert_layers_of_stage(l, stage));

	if (stage == 0)
		p4d_cost__passes_add(&y, &t->embedding, 1);
	if (stage == last || l->local_loss)
		p4d_cost__passes_add(&y, &t->head, 1);
	y.input += 2 * (double)l->vpp * t->maxima;
	/* before a micro-batch goes back, all stages compute its logits, and in vocab-1 their gradients */
	const bool one = l->vocab_parallel == P4D_VOCAB_1;
	return (stage_work){.first = y.forward + y.input + (p4d_is_split(l->schedule) ? 0 : y.weight) +
				     c->forward + (one ? c->backward : 0) + receives(l, stage) * t->recv,
			    .later = (p4d_is_split(l->schedule) ? y.weight : 0) + (one ? 0 : c->backward) +
				     c->embed_backward};
}

/*
 * A lower bound of the step from one stage's work on all micro-batches. The stage cannot start before the
 * first micro-batch arrives; while it waits, embeddings may be looked up.
 */
static double done(const p4d_layout *l, const p4d_cost_terms *t, const stage_view *v,
		   const p4d_cost_step_ends *ends, double work)
{
	const double m = (double)l->micro_batches;

	return P4D_MOST(ends->gather + m * (work + t->vocabulary.embed_forward),
			v->begin + v->before + m * work);
}

/*
 * A lower bound of the step from all work of a stage. When the stage runs the last micro-batch backward, it
 * has done everything except what may be deferred, and that micro-batch still has to go back.
 */
static double seen_from(const p4d_layout *l, const p4d_cost_terms *t, const p4d_cost_terms *one,
			uint32_t stage, const stage_view *v, const p4d_cost_step_ends *first)
{
	const p4d_cost_step_ends ends = stage ? p4d_cost__step_ends_of(l, one, stage) : *first;
	const stage_work work = stage_work_of(l, t, stage);

	const double own = done(l, t, v, &ends, work.first + work.later) + ends.reduce + ends.optimizer;

	return l->local_loss ? own : P4D_MOST(own, done(l, t, v, &ends, work.first) + v->after + v->end);
}

/*
 * A lower bound of the step for V-shaped schedules, from the work of stage 0. The first micro-batch reaches
 * chunk 1 of stage 0 through all other positions, and the last one goes back through them. Between these two,
 * the stage does all work that may not be deferred, except what chunk 0 does before and after.
 */
static double seen_from_top(const p4d_layout *l, const p4d_cost_terms *t, const stage_view *v)
{
	const p4d_schedule schedule = p4d_schedule_of(l);
	const p4d_v_ends chunk = p4d_schedule_v_ends(&schedule, 0);
	const p4d_cost_passes top = p4d_cost__chunk_passes(l, t, 0, 0);
	const p4d_cost_vocabulary_passes *c = &t->vocabulary;
	const double others = (double)l->layers - l->stage_layers[0],
		     sends = 2 * (double)(l->pp - 1) * t->send;
	const double down = c->embed_forward + c->sync + top.forward + others * t->layer.forward + sends;
	const double back = top.input + others * t->layer.input + sends;
	const double between = (double)l->micro_batches * stage_work_of(l, t, 0).first -
			       chunk.ahead * top.forward - chunk.behind * top.input;

	return v->begin + down + between + back + v->end;
}

/* Number of consecutive stages, starting with this one and excluding the last, with equally many layers. */
static uint32_t alike(const p4d_layout *l, uint32_t stage)
{
	uint32_t count = 1;

	while (!l->uneven_chunks && stage + count + 1 < l->pp &&
	       l->stage_layers[stage + count] == l->stage_layers[stage])
		count++;
	return count;
}

double p4d_cost_bound(const p4d_layout *l, const p4d_gpu *gpu, p4d_cost_cache *memory)
{
	p4d_cost_terms t, one; /* t: all slices of a micro-batch; one: a single slice, since one slice arrives
				  first and one leaves last */

	p4d_cost__whole_terms(l, gpu, memory, &t, &one);
	const p4d_cost_step_ends first = p4d_cost__step_ends_of(l, &one, 0);
	stage_view v = view_of(l, &t, &first);
	double bound = seen_from(l, &t, &one, 0, &v, &first);
	uint32_t before = 0;
	for (uint32_t stage = 1, count = 1; stage < l->pp; stage += count) {
		pass_by(l, &one, before, 1, &v);
		count = alike(l, stage);
		/* among equal stages, the last one waits longest before and after its work */
		if (count > 1)
			pass_by(l, &one, stage, count - 1, &v);
		before = stage + count - 1;
		bound = P4D_MOST(bound, seen_from(l, &t, &one, before, &v, &first));
	}
	return p4d_is_v_shaped(l->schedule) ? P4D_MOST(bound, seen_from_top(l, &t, &v)) : bound;
}

/*
 * A lower bound for all micro-batch sizes. The time per sequence does not grow with the size of a
 * micro-batch: the time is linear or, if transfers hide, convex.
 */
p4d_cost_least p4d_cost_floor(const p4d_layout *l, const p4d_gpu *gpu, p4d_cost_cache *memory)
{
	const p4d_cost_rates rates = p4d_cost__recall_rates(l, gpu, memory);
	const p4d_cost_passes dense = p4d_cost__layer_passes(l, &rates, memory);
	const double with = p4d_cost__expert_layers(l);
	p4d_cost_passes y = {0};
	const double sequences =
	    (double)l->micro_batch * (double)l->world / (double)(p4d_tp_ranks(l) * l->cp);
	const double logits = 2.0 * (double)l->seq_len * (double)l->hidden * (double)l->vocab;

	p4d_cost__passes_add(&y, &dense, (double)l->layers - with);
	if (with > 0) {
		const p4d_cost_passes sparse = p4d_cost__expert_layer_passes(l, &rates, memory);
		p4d_cost__passes_add(&y, &sparse, with);
	}
	return (p4d_cost_least){.layers = (y.forward + y.input + y.weight) / sequences,
				.head = 3 * logits * rates.gemm * (double)l->pp / (double)l->world};
}

/* If stages differ, or part of a pass is deferred, the result is 0. */
double p4d_cost_ramp(const p4d_layout *l, double layers)
{
	const bool differ =
	    l->experts || l->pattern_length || l->megatron.recompute_block || l->layers % (l->pp * l->vpp);

	if (differ || p4d_is_split(l->schedule) || l->vocab_parallel || l->local_loss || l->slices > 1)
		return 0;
	const double micro_batches = (double)l->global_batch / (double)(l->micro_batch * l->dp);
	return layers * (double)(l->pp - 1) / ((double)l->vpp * micro_batches);
}

/* ---- the step ---- */

p4d_step p4d_cost_step_of(const p4d_layout *l, const p4d_gpu *gpu, double seconds, double bubble_fraction)
{
	const double peak = p4d_cost__rates_of(l, gpu).peak, gpus = (double)l->world;
	const double model = p4d_cost_model_flops(l) / seconds / gpus;
	const double hardware = p4d_cost_hardware_flops(l, gpu) / seconds / gpus;

	return (p4d_step){.seconds = seconds,
			  .bubble_fraction = bubble_fraction,
			  .tokens_per_second_per_gpu =
			      (double)l->global_batch * (double)l->seq_len / seconds / gpus,
			  .tflops_per_gpu = model / 1e12,
			  .hardware_tflops_per_gpu = hardware / 1e12,
			  .mfu = model / peak,
			  .hfu = hardware / peak};
}

int p4d_cost_step(const p4d_layout *l, const p4d_gpu *gpu, p4d_timeline_work *work, p4d_step *out,
		  p4d_error *err)
{
	p4d_schedule schedule = p4d_schedule_of(l);
	size_t count = p4d_cost_storage(l);
	double few[ON_STACK], *storage = few;
	p4d_durations durations;
	double seconds, bubble;

	if (!p4d_cost_known(l, gpu))
		return p4d_fail(err, P4D_E_NO_RATES, "no step time: %s",
				p4d_on_gpu(l->device) ? "gpus.json lacks the speed of the GPU or of its links"
						      : "p4d predicts step times only for GPUs");
	if (count > ON_STACK && !(storage = malloc(count * sizeof(*storage))))
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the durations of %zu passes", count);
	p4d_cost_durations(l, gpu, storage, &durations);
	int rc = p4d_timeline_seconds(&schedule, &durations, work, &seconds, &bubble, err);
	if (storage != few)
		free(storage);
	if (rc < 0)
		return -1;
	*out = p4d_cost_step_of(l, gpu, seconds, P4D_MOST(bubble, 0)); /* rounding may give a negative
									* number */
	return 0;
}
