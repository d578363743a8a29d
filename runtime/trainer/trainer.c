/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/buffers.h"
#include "model/generate.h"
#include "trainer/trainer_internal.h"

static int open_parts(p4d_trainer *t, const p4d_net_settings *set, uint32_t rank, p4d_error *err)
{
	if (p4d_net_open(&t->net, set, rank, err) < 0)
		return -1;
	t->gathers = calloc(t->net.weights.segments, sizeof(*t->gathers));
	if (!t->gathers)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a trainer");
	if (p4d_uses__open(t, err) < 0 || p4d_optimizer_bytes__open(t, err) < 0 ||
	    p4d_optimizer_muon__open(t, err) < 0)
		return -1;
	return p4d_optimizer_host__is_used(t) ? p4d_optimizer_host__open(t, err) : 0;
}

int p4d_trainer_open(p4d_trainer **trainer, const p4d_trainer_settings *set, p4d_error *err)
{
	const uint32_t rank = p4d_world_rank(set->net.world), size = p4d_world_size(set->net.world);
	p4d_trainer *t;

	if (size != set->net.layout->world)
		return p4d_fail(err, P4D_E_WORLD, "the plan is for %" PRIu64 " ranks, but there are %u",
				set->net.layout->world, size);
	t = calloc(1, sizeof(*t));
	if (!t)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a trainer");
	t->optimizer = set->optimizer;
	t->most_loss = INFINITY;
	if (open_parts(t, &set->net, rank, err) < 0) {
		p4d_comm_transport_break(set->net.transport);
		p4d_trainer_close(t);
		return -1;
	}
	*trainer = t;
	return 0;
}

void p4d_trainer_close(p4d_trainer *t)
{
	if (!t)
		return;
	p4d_net_close(&t->net);
	free(t->gathers);
	free(t->bytes.part);
	free(t);
}

static int run(p4d_trainer *t, uint64_t number, bool evaluating, p4d_batch_source source, void *context,
	       p4d_error *err)
{
	p4d_net_begin(&t->net, number, evaluating, source, context);
	return p4d_executor__run(t, err);
}

/*
 * Initializes the parameters. With sharded gradients, each rank initializes its shards, and parameters are
 * then gathered. If parameters are on the host, they are computed from the master copies.
 */
static int initialize(p4d_trainer *t, uint64_t seed, bool trained_only, p4d_error *err)
{
	if (p4d_net_initialize(&t->net, seed, trained_only, err) < 0)
		return -1;
	return t->net.gradient_window || t->net.window ? p4d_trainer_restore(t, err) : 0;
}

int p4d_trainer_initialize(p4d_trainer *t, uint64_t seed, p4d_error *err)
{
	return initialize(t, seed, false, err);
}

int p4d_trainer_initialize_trained(p4d_trainer *t, uint64_t seed, p4d_error *err)
{
	return initialize(t, seed, true, err);
}

void p4d_trainer_draw_local(const p4d_trainer *t, const p4d_weight_slice *slice, uint64_t at, uint64_t count,
			    float *to)
{
	p4d_net_draw_local(&t->net, t->net.set.seed, slice, at, count, to);
}

int p4d_trainer_step(p4d_trainer *t, uint64_t number, float learning_rate, p4d_batch_source source,
		     void *context, p4d_step_result *out, p4d_error *err)
{
	t->learning_rate = learning_rate;
	p4d_buffers_clear_gradients(&t->net);
	if (run(t, number, false, source, context, err) < 0)
		return -1;
	*out = t->result;
	return 0;
}

void p4d_trainer_skip_above(p4d_trainer *t, double most)
{
	t->most_loss = most;
}

int p4d_trainer_evaluate(p4d_trainer *t, uint64_t step, p4d_batch_source source, void *context,
			 p4d_evaluated *out, p4d_error *err)
{
	p4d_scalars scalars;
	double sums[2];

	if (run(t, step, true, source, context, err) < 0 || p4d_net_read_scalars(&t->net, &scalars, err) < 0)
		return -1;
	sums[0] = scalars.loss;
	sums[1] = (double)t->net.trained;
	if (p4d_comm_all_reduce(t->net.world, sums, 2, P4D_DT_FP64, P4D_SUM, err) < 0)
		return -1;
	*out = (p4d_evaluated){.sum = sums[0], .tokens = (uint64_t)sums[1]};
	return 0;
}

int p4d_trainer_measure_pairs(p4d_trainer *t, uint64_t step, p4d_batch_source source, void *context,
			      double *sums, p4d_error *err)
{
	const uint64_t count = 2 * t->net.l->global_batch;

	memset(sums, 0, count * sizeof(*sums));
	t->net.pair_sums = sums;
	const int rc = run(t, step, true, source, context, err);
	t->net.pair_sums = NULL;
	if (rc < 0 || t->net.d->sync(t->net.d, err) < 0)
		return -1;
	return p4d_comm_all_reduce(t->net.world, sums, count, P4D_DT_FP64, P4D_SUM, err);
}

int p4d_trainer_predict(p4d_trainer *t, int32_t token, uint64_t position, float *logits, p4d_error *err)
{
	return p4d_net_predict(&t->net, token, position, logits, err);
}

const p4d_instruction_list *p4d_trainer_list(const p4d_trainer *t)
{
	return &t->net.list;
}

void p4d_trainer_trace(p4d_trainer *t, p4d_span *spans)
{
	t->spans = spans;
}

const p4d_weights *p4d_trainer_weights(const p4d_trainer *t)
{
	return &t->net.weights;
}

p4d_place p4d_trainer_place(const p4d_trainer *t)
{
	return t->net.place;
}

const float *p4d_trainer_gradients(const p4d_trainer *t)
{
	return p4d_buffers_at(&t->net, B_GRADIENTS);
}

uint64_t p4d_trainer_arena_bytes(const p4d_trainer *t)
{
	return t->net.plan.arena_bytes;
}

const p4d_plan *p4d_trainer_plan(const p4d_trainer *t)
{
	return &t->net.plan;
}

int p4d_trainer_arena_used(const p4d_trainer *t, uint64_t used[P4D_PART_COUNT], p4d_error *err)
{
	return p4d_arena_use(&t->net, used, err);
}
