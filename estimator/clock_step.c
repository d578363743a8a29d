/* SPDX-License-Identifier: Apache-2.0 */
/* The step: the timeline of the schedule with the clock's durations, and what no schedule can beat. */
#include <stdlib.h>

#include "clock_forms.h"
#include "schedule.h"

enum { ON_STACK = 768 }; /* doubles */

static double later(double a, double b)
{
	return a > b ? a : b;
}

/* ---- the bound ---- */

/* Receives of a stage per micro-batch. The turn of a V is no transfer. */
static double receives(const p4d_layout *l, uint32_t stage)
{
	const bool v_shaped = p4d_is_v_shaped(l->schedule);
	const uint32_t last = v_shaped ? 0 : (uint32_t)l->pp - 1;

	if (l->pp == 1)
		return 0;
	return 2 * (double)l->vpp - (stage == 0) - (stage == last) - (v_shaped && stage == l->pp - 1 ? 2 : 0);
}

/* What a stage sees: the first micro-batch comes through the stages before it, the last goes back there. */
typedef struct view {
	double before, after;
} view;

/* One stage more lies in between. */
static void pass_by(const p4d_layout *l, const p4d_clock_terms *t, uint32_t stage, double stages, view *v)
{
	/* weight gradients and vocabulary passes may come after the last backward pass */
	bool whole = l->schedule < P4D_ZB1P && !l->vocab_parallel;
	p4d_passes y = p4d_chunk_passes(l, t, stage, 0);

	v->before += stages * (y.forward + t->send + (stage ? t->recv : 0));
	v->after += whole ? stages * (y.input + y.weight + t->send + t->recv) : 0;
}

/* All passes of all chunks of a stage, for one micro-batch. */
static double stage_work(const p4d_layout *l, const p4d_clock_terms *t, uint32_t stage)
{
	const uint32_t last = p4d_is_v_shaped(l->schedule) ? 0 : (uint32_t)l->pp - 1;
	double work = l->stage_layers[stage] * (t->layer.forward + t->layer.input + t->layer.weight);

	if (stage == 0)
		work += t->embedding.forward + t->embedding.input + t->embedding.weight;
	if (stage == last)
		work += t->head.forward + t->head.input + t->head.weight;
	return work + receives(l, stage) * t->recv;
}

/*
 * A stage cannot begin its passes before the first micro-batch has come, then does all its work, and where
 * backward passes are whole, its last one still has to go back. Chunks are gathered and reduced one by one.
 */
static double seen_from(const p4d_layout *l, const p4d_clock_terms *t, uint32_t stage, const view *v,
			const p4d_step_ends *first)
{
	const p4d_vocabulary_cost *c = &t->vocabulary;
	p4d_step_ends ends = stage ? p4d_step_ends_of(l, t, stage) : *first;
	double work = stage_work(l, t, stage) + c->forward + c->backward + c->embed_backward;
	double m = (double)l->micro_batches, parts = (double)l->vpp + (l->vocab_parallel ? 1 : 0);
	/* embeddings may be looked up while the stage waits */
	double done =
	    later(ends.gather + m * (work + c->embed_forward), first->gather / parts + v->before + m * work);

	return later(done + ends.reduce + ends.optimizer,
		     done + v->after + first->reduce / parts + first->optimizer);
}

static bool is_even(const p4d_layout *l)
{
	for (uint32_t stage = 1; stage < l->pp; stage++)
		if (l->stage_layers[stage] != l->stage_layers[0])
			return false;
	return true;
}

double p4d_clock_bound(const p4d_layout *l, const p4d_gpu *gpu, p4d_clock_memory *memory)
{
	uint32_t pp = (uint32_t)l->pp, stage = 1;
	p4d_clock_terms t;
	view v = {0, 0};

	p4d_clock_terms_of(l, gpu, memory, &t);
	p4d_step_ends first = p4d_step_ends_of(l, &t, 0);
	double bound = seen_from(l, &t, 0, &v, &first);
	if (pp == 1)
		return bound;
	pass_by(l, &t, 0, 1, &v);
	if (pp > 3 && is_even(l)) { /* of equal stages the last sees most before and after it */
		pass_by(l, &t, 1, pp - 3, &v);
		stage = pp - 2;
	}
	for (; stage < pp; stage++) {
		bound = later(bound, seen_from(l, &t, stage, &v, &first));
		pass_by(l, &t, stage, 1, &v);
	}
	return bound;
}

/* ---- the step ---- */

static void rate(const p4d_layout *l, const p4d_gpu *gpu, p4d_step *out)
{
	double peak = p4d_rates_of(l, gpu).peak, gpus = (double)l->world;
	double model = p4d_model_flops(l) / out->seconds / gpus;
	double hardware = p4d_hardware_flops(l) / out->seconds / gpus;

	out->tokens_per_second_per_gpu = (double)l->global_batch * (double)l->seq_len / out->seconds / gpus;
	out->tflops_per_gpu = model / 1e12;
	out->hardware_tflops_per_gpu = hardware / 1e12;
	out->mfu = model / peak;
	out->hfu = hardware / peak;
}

int p4d_clock_step(const p4d_layout *l, const p4d_gpu *gpu, p4d_timeline_work *work, p4d_step *out,
		   p4d_error *err)
{
	p4d_schedule schedule = p4d_schedule_of(l);
	size_t count = p4d_clock_storage(l);
	double few[ON_STACK], *storage = few;
	p4d_durations durations;
	p4d_step step;

	if (!p4d_clock_knows(l, gpu))
		return p4d_fail(err, P4D_E_NO_CLOCK, "no step time: %s",
				l->device == P4D_CUDA ? "gpus.json lacks rates of the GPU or its links"
						      : "the clock knows GPUs only");
	if (count > ON_STACK && !(storage = malloc(count * sizeof(*storage))))
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the durations of %zu passes", count);
	p4d_clock_durations(l, gpu, storage, &durations);
	int rc = p4d_timeline_seconds(&schedule, &durations, work, &step.seconds, &step.bubble_fraction, err);
	if (storage != few)
		free(storage);
	if (rc < 0)
		return -1;
	step.bubble_fraction = later(step.bubble_fraction, 0); /* rounding */
	rate(l, gpu, &step);
	*out = step;
	return 0;
}
