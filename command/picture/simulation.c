/* SPDX-License-Identifier: Apache-2.0 */
#include "picture/simulation.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"

int p4d_simulation__live_begin(p4d_live *live, const p4d_instruction_list *list, p4d_error *err)
{
	memset(&live->now, 0, sizeof(live->now));
	live->taken = calloc((size_t)list->slots.activation + 1, sizeof(*live->taken));
	return live->taken ? 0
			   : p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %u slots", list->slots.activation);
}

void p4d_simulation__live_free(p4d_live *live)
{
	free(live->taken);
	live->taken = NULL;
}

void p4d_simulation__live_take(p4d_live *live, const p4d_instruction *i)
{
	switch (i->op) {
	case P4D_OP_RECV_FORWARD:
	case P4D_OP_FORWARD:
		/* the slot is already occupied if the input was received into it */
		live->now.activation += !live->taken[i->slot];
		live->taken[i->slot] = true;
		break;
	case P4D_OP_VOCAB_FORWARD:
		live->now.vocabulary++;
		break;
	default:
		break;
	}
}

void p4d_simulation__live_release(p4d_live *live, const p4d_instruction *i)
{
	switch (i->op) {
	case P4D_OP_BACKWARD:
	case P4D_OP_BACKWARD_WEIGHT:
		live->now.activation--;
		live->taken[i->slot] = false;
		break;
	case P4D_OP_VOCAB_BACKWARD:
		live->now.vocabulary--;
		break;
	default:
		break;
	}
}

uint64_t p4d_simulation__bytes(const p4d_simulated *stage, const p4d_slots *now)
{
	return stage->base_bytes + now->activation * stage->activation_bytes +
	       now->vocabulary * stage->vocabulary_bytes;
}

static bool is_pass(int op)
{
	switch (op) {
	case P4D_OP_FORWARD:
	case P4D_OP_BACKWARD:
	case P4D_OP_BACKWARD_INPUT:
	case P4D_OP_BACKWARD_WEIGHT:
	case P4D_OP_EMBED_FORWARD:
	case P4D_OP_EMBED_BACKWARD:
	case P4D_OP_VOCAB_FORWARD:
	case P4D_OP_VOCAB_BACKWARD:
		return true;
	default:
		return false;
	}
}

static void most(uint32_t *peak, uint32_t now)
{
	*peak = now > *peak ? now : *peak;
}

static int replay(const p4d_instruction_list *list, p4d_simulated *stage, p4d_error *err)
{
	p4d_live live;

	if (p4d_simulation__live_begin(&live, list, err) < 0)
		return -1;
	for (size_t i = 0; i < list->count; i++) {
		p4d_simulation__live_take(&live, &list->at[i]);
		most(&stage->peak.activation, live.now.activation);
		most(&stage->peak.vocabulary, live.now.vocabulary);
		p4d_simulation__live_release(&live, &list->at[i]);
		stage->passes += is_pass(list->at[i].op);
	}
	p4d_simulation__live_free(&live);
	return 0;
}

/* Divides the stage's memory into a constant part and the parts of slots. */
static int weigh(const p4d_layout *layout, int method, const p4d_gpu *gpu, uint32_t number,
		 p4d_simulated *stage, p4d_error *err)
{
	static const size_t of_lifetime[] = {[P4D_LIVES_IN_SLOT] = offsetof(p4d_simulated, activation_bytes),
					     [P4D_LIVES_IN_VOCABULARY_SLOT] =
						 offsetof(p4d_simulated, vocabulary_bytes)};
	p4d_plan plan;

	if (p4d_memory_of_stage(layout, method, gpu, number, &stage->memory, err) < 0 ||
	    p4d_plan_build(layout, gpu, number, &plan, err) < 0)
		return -1;
	for (unsigned i = 0; i < plan.count; i++) {
		const p4d_tensor *row = &plan.tensor[i];
		if (row->lifetime >= P4D_LIVES_IN_SLOT && row->lifetime <= P4D_LIVES_IN_VOCABULARY_SLOT)
			*(uint64_t *)((char *)stage + of_lifetime[row->lifetime]) += row->bytes * row->layers;
	}
	const p4d_stage *memory = &stage->memory;
	const uint64_t outside = memory->device_bytes - memory->allocated_bytes;
	const uint64_t slots =
	    plan.slots.activation * stage->activation_bytes + plan.slots.vocabulary * stage->vocabulary_bytes;
	stage->base_bytes = memory->phase_bytes[P4D_TRAIN] + outside - slots;
	stage->step_bytes = memory->phase_bytes[P4D_STEP] == P4D_NOT_MODELLED
				? stage->base_bytes
				: memory->phase_bytes[P4D_STEP] + outside;
	return 0;
}

/*
 * Sets durations without a GPU's rates. For an average chunk, the forward pass, the input gradients and
 * the weight gradients take 1 unit each. A slice takes a share in proportion to its tokens. As in the
 * papers, the head takes no time. With vocabulary parallelism, the head's time is divided among its passes
 * by their matmuls: vocab-1 has one matmul in S and two in T, and vocab-2 has three in S and one in T.
 */
static void unit_durations(const p4d_layout *l, double *storage, p4d_durations *out)
{
	const double products = (double)l->heads * (double)l->head_dim * 2 +
				(double)l->kv_heads * (double)l->head_dim * 2 +
				(double)l->ffn * (l->glu ? 3 : 2);
	const double head = (double)l->vocab * (double)l->vpp / (products * (double)l->layers);
	const double average = (double)l->layers / (double)(l->pp * l->vpp);

	memset(out, 0, sizeof(*out));
	out->forward = out->backward_input = out->backward_weight = storage;
	for (uint32_t stage = 0; stage < l->pp; stage++)
		for (uint32_t chunk = 0; chunk < l->vpp; chunk++)
			for (uint32_t slice = 0; slice < l->slices; slice++)
				*storage++ =
				    p4d_chunk_layers(l, stage, chunk) / average *
				    (l->slices > 1 ? l->slice_tokens[slice] / (double)l->seq_len : 1);
	if (l->vocab_parallel == P4D_VOCAB_OFF)
		return;
	out->vocabulary_forward = head * (l->vocab_parallel == P4D_VOCAB_1 ? 1 : 3);
	out->vocabulary_backward = head * (l->vocab_parallel == P4D_VOCAB_1 ? 2 : 1);
}

static int find_durations(const p4d_gpu *gpu, p4d_simulation *s, p4d_error *err)
{
	const p4d_layout *l = s->layout;
	const size_t units = l->pp * l->vpp * l->slices, timed = s->timed ? p4d_cost_storage(l) : 0;

	s->storage = calloc(units > timed ? units : timed, sizeof(*s->storage));
	if (!s->storage)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the durations of %zu chunks", units);
	if (s->timed)
		p4d_cost_durations(l, gpu, s->storage, &s->durations);
	else
		unit_durations(l, s->storage, &s->durations);
	return 0;
}

static int find_step(const p4d_gpu *gpu, p4d_simulation *s, p4d_error *err)
{
	p4d_timeline_work work = {0};

	if (!s->timed)
		return 0;
	const int result = p4d_cost_step(s->layout, gpu, &work, &s->step, err);
	p4d_timeline_work_free(&work);
	return result;
}

static int check_size(const p4d_layout *l, p4d_error *err)
{
	const uint64_t passes = l->pp * l->vpp * l->slices * 3;

	if (l->micro_batches <= P4D_MOST_PASSES / passes)
		return 0;
	p4d_fail(err, P4D_E_VALUE,
		 "p4d cannot simulate every pass of %" PRIu64 " micro-batches through %" PRIu64
		 " chunks; a smaller batch has the same pattern",
		 l->micro_batches, l->pp * l->vpp);
	return p4d_fix(err, "--global-batch=%" PRIu64, 4 * l->pp * l->vpp * l->micro_batch * l->dp);
}

int p4d_simulation_run(const p4d_layout *layout, int method, const p4d_gpu *gpu, p4d_simulation *s,
		       p4d_error *err)
{
	const uint32_t stages = (uint32_t)layout->pp;

	memset(s, 0, sizeof(*s));
	s->layout = layout;
	s->schedule = p4d_schedule_of(layout);
	s->timed = gpu && p4d_cost_known(layout, gpu);
	if (check_size(layout, err) < 0)
		return -1;
	s->lists = calloc(stages, sizeof(*s->lists));
	s->stage = calloc(stages, sizeof(*s->stage));
	if (!s->lists || !s->stage)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %u stages", stages);
	if (p4d_schedule_compile(&s->schedule, s->lists, err) < 0 || find_durations(gpu, s, err) < 0 ||
	    p4d_timeline_run(&s->schedule, s->lists, &s->durations, true, &s->timeline, err) < 0 ||
	    find_step(gpu, s, err) < 0)
		return -1;
	for (uint32_t i = 0; i < stages; i++) {
		if (replay(&s->lists[i], &s->stage[i], err) < 0 ||
		    weigh(layout, method, gpu, i, &s->stage[i], err) < 0)
			return -1;
		s->stage[i].busy = s->timeline.busy[i] / s->timeline.seconds;
	}
	return 0;
}

void p4d_simulation_free(p4d_simulation *s)
{
	const uint32_t stages = s->schedule.stages;

	p4d_timeline_free(&s->timeline, stages);
	if (s->lists)
		p4d_schedule_lists_free(s->lists, stages);
	free(s->lists);
	free(s->stage);
	free(s->storage);
	memset(s, 0, sizeof(*s));
}
