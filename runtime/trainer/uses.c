/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the lists of segments that the passes of a step use, for the window of parameters. executor.c must
 * use segments in this order; the window refuses any other order.
 */
#include <stdlib.h>

#include "model/layer.h"
#include "model/window.h"
#include "trainer/trainer_internal.h"

/* A list that is being made. need NULL: entries are only counted. */
typedef struct recording {
	const p4d_trainer *t;
	p4d_window_list list;
} recording;

static void add(recording *r, uint32_t segment, bool beside)
{
	if (r->list.need)
		r->list.need[r->list.count] = (p4d_window_need){.segment = segment, .beside = beside};
	r->list.count++;
}

static void add_layers(recording *r, const p4d_instruction *in, bool forward)
{
	const uint32_t layers = (uint32_t)r->t->net.layers;

	for (uint32_t i = 0; i < layers; i++)
		add(r, p4d_optimizer__segment_at(r->t, in->chunk, forward ? i : layers - 1 - i), false);
}

static void add_forward(recording *r, const p4d_instruction *in, bool begins, bool ends, bool evaluating)
{
	const bool tables = !r->t->net.l->vocab_parallel;

	if (begins && tables) {
		add(r, p4d_weights_table_segment(&r->t->net.weights, P4D_W_EMBEDDING), false);
		add(r, p4d_optimizer__segment_at(r->t, in->chunk, 0), true);
	}
	add_layers(r, in, true);
	if (ends && tables && evaluating)
		add(r, p4d_weights_table_segment(&r->t->net.weights, P4D_W_HEAD), true);
}

static void add_backward(recording *r, const p4d_instruction *in, bool ends)
{
	if (ends) /* the last layer's segment has the final norm */
		add(r, p4d_optimizer__segment_at(r->t, in->chunk, (uint32_t)r->t->net.layers - 1), false);
	if (ends && !r->t->net.l->vocab_parallel)
		add(r, p4d_weights_table_segment(&r->t->net.weights, P4D_W_HEAD), true);
	add_layers(r, in, false);
}

static void add_pass(recording *r, const p4d_instruction *in, bool evaluating)
{
	const p4d_net *m = &r->t->net;
	const bool is_layers = in->chunk < m->schedule.chunks;
	const uint32_t position =
	    is_layers ? p4d_schedule_position_of(&m->schedule, m->place.pp, in->chunk) : 0;
	const bool ends = position == p4d_schedule_positions(&m->schedule) - 1;

	switch ((p4d_op)in->op) {
	case P4D_OP_FORWARD:
		add_forward(r, in, position == 0, ends, evaluating);
		break;
	case P4D_OP_BACKWARD:
	case P4D_OP_BACKWARD_INPUT:
		add_backward(r, in, ends);
		break;
	case P4D_OP_BACKWARD_WEIGHT:
		if (p4d_layer_late_parameters(m))
			add_layers(r, in, false);
		break;
	case P4D_OP_EMBED_FORWARD:
		add(r, p4d_weights_table_segment(&r->t->net.weights, P4D_W_EMBEDDING), false);
		if (m->first && m->l->positions)
			add(r, p4d_optimizer__segment_at(r->t, 0, 0), true);
		break;
	case P4D_OP_VOCAB_FORWARD:
	case P4D_OP_VOCAB_BACKWARD:
		add(r, p4d_weights_table_segment(&r->t->net.weights, P4D_W_HEAD), false);
		break;
	default:
		break;
	}
}

static void record(recording *r, bool evaluating)
{
	const p4d_instruction_list *list = &r->t->net.list;

	r->list.count = 0;
	for (size_t i = 0; i < list->count; i++)
		if (!evaluating || p4d_executor__evaluates(&list->at[i]))
			add_pass(r, &list->at[i], evaluating);
}

int p4d_uses__open(p4d_trainer *t, p4d_error *err)
{
	for (int evaluating = 0; t->net.window && evaluating < 2; evaluating++) {
		recording r = {.t = t};
		record(&r, evaluating);
		r.list.need = calloc(r.list.count + 1, sizeof(*r.list.need));
		if (!r.list.need)
			return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %u uses of parameters",
					r.list.count);
		record(&r, evaluating);
		p4d_window_follow(&t->net, evaluating, r.list);
	}
	return 0;
}
