/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the instruction list of this rank's stage. Its order was decided when the list was compiled. */

#include "base/clock.h"
#include "model/buffers.h"
#include "model/depth.h"
#include "model/embedding.h"
#include "model/gradient_window.h"
#include "model/head.h"
#include "model/layer.h"
#include "model/parallel.h"
#include "model/sequence_order.h"
#include "model/swap.h"
#include "model/window.h"
#include "plan/parameters.h"
#include "trainer/trainer_internal.h"

/* Bytes of the hidden state of a micro-batch, or of one of its slices. */
static uint64_t boundary_bytes(const p4d_trainer *t, const p4d_instruction *in)
{
	const p4d_layout *l = t->net.l;
	const uint32_t slice = p4d_schedule_slice_of(&t->net.schedule, in->micro_batch);
	const uint64_t n = l->slices > 1 ? l->micro_batch * l->slice_tokens[slice] : t->net.whole;

	return n / (l->sequence_parallel ? l->tp : 1) * t->net.h * t->net.element;
}

/*
 * Returns a free send buffer. If none is free, it waits for any send: buffers are sent to different ranks,
 * and the oldest send's rank may itself wait for another.
 */
static void *free_buffer(p4d_trainer *t, bool backward, p4d_error *err)
{
	p4d_sends *s = &t->sends[backward];
	unsigned which = 0;

	while (which < P4D_SEND_BUFFERS && s->busy[which])
		which++;
	if (which == P4D_SEND_BUFFERS &&
	    p4d_comm_send_wait_any(t->net.pp, s->pending, P4D_SEND_BUFFERS, &which, err) < 0)
		return NULL;
	s->busy[which] = false;
	s->current = which;
	return p4d_buffers_boundary(&t->net, backward ? B_SEND_BACKWARD : B_SEND_FORWARD, which);
}

static int send(p4d_trainer *t, const p4d_instruction *in, bool backward, p4d_error *err)
{
	p4d_sends *s = &t->sends[backward];
	const unsigned channel = backward ? CHANNEL_BACKWARD : CHANNEL_FORWARD;

	s->pending[s->current] = (p4d_pending){.to = in->peer, .channel = channel};
	s->busy[s->current] = true;
	return p4d_comm_send(
	    t->net.pp, in->peer, channel,
	    p4d_buffers_boundary(&t->net, backward ? B_SEND_BACKWARD : B_SEND_FORWARD, s->current),
	    boundary_bytes(t, in), &s->pending[s->current].ticket, err);
}

static int finish_sends(p4d_trainer *t, p4d_error *err)
{
	for (int direction = 0; direction < 2; direction++)
		for (int i = 0; i < P4D_SEND_BUFFERS; i++) {
			p4d_sends *s = &t->sends[direction];
			const p4d_pending *p = &s->pending[i];
			if (s->busy[i] &&
			    p4d_comm_send_wait(t->net.pp, p->to, p->channel, p->ticket, err) < 0)
				return -1;
			s->busy[i] = false;
		}
	return 0;
}

static p4d_layer layer_of(const p4d_trainer *t, const p4d_instruction *in, uint64_t layer)
{
	return p4d_buffers_layer(&t->net, in->chunk, in->slot, (uint32_t)layer);
}

/* Waits until the window has the parameters of a layer, if there is a window. */
static int use_layer(p4d_trainer *t, const p4d_instruction *in, uint64_t layer, p4d_error *err)
{
	return p4d_window_use(&t->net, p4d_optimizer__segment_at(t, in->chunk, (uint32_t)layer), err);
}

/*
 * Waits until the parameters of a table are available. Does nothing if tables are in the segments of layers.
 */
static int use_table(p4d_trainer *t, p4d_weight_kind kind, p4d_error *err)
{
	if (!p4d_cuts_segments(t->net.l))
		return 0;
	const uint32_t segment = p4d_weights_table_segment(&t->net.weights, kind);
	if (p4d_optimizer__await_segment(t, segment, err) < 0)
		return -1;
	return p4d_window_use(&t->net, segment, err);
}

/*
 * Waits until a layer's parameters are available. The parameters of a chunk's first layer were already
 * awaited before the pass.
 */
static int await_layer(p4d_trainer *t, const p4d_instruction *in, uint64_t layer, p4d_error *err)
{
	if (use_layer(t, in, layer, err) < 0)
		return -1;
	if (layer == 0 || in->micro_batch > 0)
		return 0;
	return p4d_optimizer__await_segment(t, p4d_optimizer__segment_at(t, in->chunk, (uint32_t)layer), err);
}

/*
 * For sharded gradients. Call begin_layer before a pass adds to the gradients of a layer, and end_layer when
 * it has added them. begin_table and end_table are for a table.
 */
static int begin_layer(p4d_trainer *t, const p4d_instruction *in, uint64_t layer, p4d_error *err)
{
	return p4d_gradient_window_begin(&t->net, p4d_optimizer__segment_at(t, in->chunk, (uint32_t)layer),
					 err);
}

static int end_layer(p4d_trainer *t, const p4d_instruction *in, uint64_t layer, p4d_error *err)
{
	return p4d_gradient_window_end(&t->net, p4d_optimizer__segment_at(t, in->chunk, (uint32_t)layer),
				       err);
}

static int begin_table(p4d_trainer *t, p4d_weight_kind kind, p4d_error *err)
{
	return p4d_gradient_window_begin(&t->net, p4d_weights_table_segment(&t->net.weights, kind), err);
}

static int end_table(p4d_trainer *t, p4d_weight_kind kind, p4d_error *err)
{
	return p4d_gradient_window_end(&t->net, p4d_weights_table_segment(&t->net.weights, kind), err);
}

/* Computes the embedding. It also uses the first layer's segment, which has the learned positions. */
static int embed(p4d_trainer *t, const p4d_instruction *in, void *to, p4d_error *err)
{
	if (use_table(t, P4D_W_EMBEDDING, err) < 0 || use_layer(t, in, 0, err) < 0)
		return -1;
	return p4d_embedding_forward(&t->net, in->micro_batch, to, err);
}

static int embed_back(p4d_trainer *t, const p4d_instruction *in, void *gradient, p4d_error *err)
{
	if (begin_table(t, P4D_W_EMBEDDING, err) < 0 ||
	    p4d_embedding_backward(&t->net, in->micro_batch, gradient, err) < 0)
		return -1;
	return end_table(t, P4D_W_EMBEDDING, err);
}

/*
 * Computes the backward pass of the loss and the final norm. The final norm is in the segment of the last
 * layer. With vocabulary parallelism, separate passes have already computed the gradient of the norm's
 * result, so only the norm is left.
 */
static int head_back(p4d_trainer *t, const p4d_instruction *in, p4d_error *err)
{
	const uint64_t last = t->net.layers - 1;

	if (use_layer(t, in, last, err) < 0 || begin_layer(t, in, last, err) < 0)
		return -1;
	if (t->net.l->vocab_parallel)
		return p4d_head_norm_backward(
		    &t->net, in->slot, p4d_buffers_boundary(&t->net, B_HEAD_GRADIENT, in->micro_batch), err);
	/* a stage's own loss is in the segment of its last layer, which is in use already */
	if (t->net.head.table == P4D_W_LOCAL_HEAD)
		return p4d_head_loss(&t->net, in->micro_batch, in->slot, err);
	if (use_table(t, P4D_W_HEAD, err) < 0 || begin_table(t, P4D_W_HEAD, err) < 0 ||
	    p4d_head_loss(&t->net, in->micro_batch, in->slot, err) < 0)
		return -1;
	return end_table(t, P4D_W_HEAD, err);
}

/* Copies the activations before a stage's own loss to a send buffer, because the next stage also needs
 * them. */
static int pass_on(p4d_trainer *t, const p4d_instruction *in, p4d_error *err)
{
	void *to = free_buffer(t, false, err);

	if (!to)
		return -1;
	t->net.d->copy(t->net.d, to, p4d_buffers_at_slot(&t->net, B_HEAD_INPUT, in->slot, 0),
		       boundary_bytes(t, in));
	return 0;
}

/* Waits until a layer's parameters are available, then gathers its matrices over Z of a tp-grid. */
static int gather_matrices(p4d_trainer *t, const p4d_instruction *in, uint64_t layer, p4d_error *err)
{
	if (await_layer(t, in, layer, err) < 0)
		return -1;
	return p4d_depth_gather(&t->net, layer_of(t, in, layer).number, err);
}

static int forward(p4d_trainer *t, const p4d_instruction *in, p4d_error *err)
{
	const uint32_t position = p4d_schedule_position_of(&t->net.schedule, t->net.place.pp, in->chunk);
	const bool ends = position == p4d_schedule_positions(&t->net.schedule) - 1;
	const bool kept = p4d_schedule_has_loss(&t->net.schedule, position);
	p4d_layer y = layer_of(t, in, 0);

	if (p4d_sequence_find_documents(&t->net, in->micro_batch, err) < 0 ||
	    (t->net.tp_z && gather_matrices(t, in, 0, err) < 0))
		return -1;
	if (position == 0 && t->net.l->vocab_parallel)
		t->net.d->copy(t->net.d, y.activation[ACT_INPUT],
			       p4d_buffers_boundary(&t->net, B_EMBEDDING_OUTPUT, in->micro_batch),
			       boundary_bytes(t, in));
	else if (position == 0 && embed(t, in, y.activation[ACT_INPUT], err) < 0)
		return -1;
	for (uint64_t i = 0; i < t->net.layers; i++) {
		const uint64_t behind = i + 1 < t->net.layers ? i + 1 : i;
		p4d_swap_begin(&t->net, in->slot, (uint32_t)i);
		y = layer_of(t, in, i);
		void *output = i + 1 < t->net.layers ? layer_of(t, in, behind).activation[ACT_INPUT]
			       : kept                ? p4d_buffers_at_slot(&t->net, B_HEAD_INPUT, in->slot, 0)
						     : free_buffer(t, false, err);
		if (!output || p4d_parallel_throttle(&t->net, err) < 0 || await_layer(t, in, i, err) < 0 ||
		    (t->net.tp_z && gather_matrices(t, in, behind, err) < 0) ||
		    p4d_depth_await(&t->net, y.number, err) < 0 ||
		    p4d_layer_forward(&t->net, &y, output, err) < 0)
			return -1;
		p4d_swap_end(&t->net, in->slot, (uint32_t)i);
	}
	if (ends && t->net.l->vocab_parallel)
		return p4d_head_norm(&t->net, in->slot,
				     p4d_buffers_boundary(&t->net, B_HEAD_OUTPUT, in->micro_batch), err);
	if (ends && t->net.evaluating)
		return use_table(t, P4D_W_HEAD, err) < 0
			   ? -1
			   : p4d_head_loss(&t->net, in->micro_batch, in->slot, err);
	return kept && !ends ? pass_on(t, in, err) : 0;
}

/*
 * Reduces a layer's gradients over the replicas. With a tp-grid it is the layer of the previous call, because
 * the sums over Z end one layer later.
 */
static int reduce_layer(p4d_trainer *t, const p4d_instruction *in, uint64_t layer, p4d_error *err)
{
	return p4d_optimizer__reduce_layer(t, in, (uint32_t)(layer + (t->net.tp_z != NULL)), err);
}

/*
 * Computes the backward pass of a layer. For the model's last layer, the head has already begun that layer's
 * gradients; for the first layer, the embedding's backward pass follows and ends them.
 */
static int layer_back(p4d_trainer *t, const p4d_instruction *in, uint64_t i, bool began, bool goes_on,
		      p4d_error *err)
{
	const bool lost = p4d_swap_use(&t->net, in->slot, (uint32_t)i);
	p4d_layer y = layer_of(t, in, i);

	y.lost = lost;
	if (p4d_parallel_throttle(&t->net, err) < 0 || use_layer(t, in, i, err) < 0 ||
	    (i && p4d_depth_gather(&t->net, y.number - 1, err) < 0) ||
	    p4d_depth_await(&t->net, y.number, err) < 0 || (!began && begin_layer(t, in, i, err) < 0) ||
	    p4d_layer_backward(&t->net, &y, err) < 0 || p4d_depth_reduce(&t->net, y.number, err) < 0 ||
	    (!goes_on && end_layer(t, in, i, err) < 0))
		return -1;
	return in->op == P4D_OP_BACKWARD ? reduce_layer(t, in, i, err) : 0;
}

static int backward(p4d_trainer *t, const p4d_instruction *in, p4d_error *err)
{
	const uint32_t position = p4d_schedule_position_of(&t->net.schedule, t->net.place.pp, in->chunk);
	const bool ends = p4d_schedule_has_loss(&t->net.schedule, position);
	void *hidden = p4d_buffers_at(&t->net, B_HIDDEN), *output;

	if (p4d_sequence_find_documents(&t->net, in->micro_batch, err) < 0 ||
	    p4d_depth_gather(&t->net, layer_of(t, in, t->net.layers - 1).number, err) < 0)
		return -1;
	if (ends && head_back(t, in, err) < 0)
		return -1;
	for (uint64_t i = t->net.layers; i-- > 0;)
		if (layer_back(t, in, i, ends && i == t->net.layers - 1, position == 0 && i == 0, err) < 0)
			return -1;
	if (p4d_depth_end(&t->net, err) < 0)
		return -1;
	if (position == 0 && !t->net.l->vocab_parallel)
		return embed_back(t, in, hidden, err) < 0 ? -1 : end_layer(t, in, 0, err);
	if (position == 0) { /* with vocabulary parallelism, learned positions are reduced together with the
				chunk, before the tables' passes end */
		p4d_embedding_finish_back(&t->net, hidden);
		if (end_layer(t, in, 0, err) < 0)
			return -1;
	}
	if (position > 0 && !p4d_schedule_tells(&t->net.schedule, position))
		return 0;
	output = position == 0 ? p4d_buffers_boundary(&t->net, B_EMBEDDING_GRADIENT, in->micro_batch)
			       : free_buffer(t, true, err);
	if (!output)
		return -1;
	t->net.d->copy(t->net.d, output, hidden, boundary_bytes(t, in));
	return 0;
}

static int layer_weights(p4d_trainer *t, const p4d_instruction *in, uint64_t i, p4d_error *err)
{
	const p4d_layer y = layer_of(t, in, i);
	const bool adds = p4d_layer_late_gradients(&t->net);

	if (p4d_parallel_throttle(&t->net, err) < 0 ||
	    (p4d_layer_late_parameters(&t->net) && use_layer(t, in, i, err) < 0) ||
	    (adds && begin_layer(t, in, i, err) < 0) || p4d_layer_backward_weights(&t->net, &y, err) < 0 ||
	    p4d_depth_reduce(&t->net, y.number, err) < 0 || (adds && end_layer(t, in, i, err) < 0))
		return -1;
	return reduce_layer(t, in, i, err);
}

static int backward_weight(p4d_trainer *t, const p4d_instruction *in, p4d_error *err)
{
	for (uint64_t i = t->net.layers; i-- > 0;)
		if (layer_weights(t, in, i, err) < 0)
			return -1;
	return p4d_depth_end(&t->net, err);
}

/*
 * Runs a pass of vocabulary parallelism: awaits the table that the pass reads, or the place for the gradient
 * that it adds to.
 */
static int vocabulary(p4d_trainer *t, const p4d_instruction *in, p4d_error *err)
{
	const bool head = in->op == P4D_OP_VOCAB_FORWARD || in->op == P4D_OP_VOCAB_BACKWARD;
	const bool back = in->op == P4D_OP_VOCAB_BACKWARD || in->op == P4D_OP_EMBED_BACKWARD;
	const p4d_weight_kind kind = head ? P4D_W_HEAD : P4D_W_EMBEDDING;
	const p4d_instruction first = {.chunk = 0};

	if (in->op != P4D_OP_EMBED_BACKWARD && use_table(t, kind, err) < 0)
		return -1;
	if (in->op == P4D_OP_EMBED_FORWARD && t->net.first && t->net.l->positions &&
	    (use_layer(t, &first, 0, err) < 0 ||
	     p4d_sequence_find_documents(&t->net, in->micro_batch, err) < 0))
		return -1;
	if (head && t->net.l->pairs && p4d_sequence_find_documents(&t->net, in->micro_batch, err) < 0)
		return -1;
	if ((back && begin_table(t, kind, err) < 0) || p4d_vocabulary_pass(&t->net, in, err) < 0)
		return -1;
	return back ? end_table(t, kind, err) : 0;
}

bool p4d_executor__evaluates(const p4d_instruction *in)
{
	return in->op <= P4D_OP_SEND_FORWARD || in->op == P4D_OP_EMBED_FORWARD ||
	       in->op == P4D_OP_VOCAB_FORWARD;
}

/* Whether to run an instruction. Evaluation runs only the forward passes, in the same order. */
static bool runs(const p4d_trainer *t, const p4d_instruction *in)
{
	return !t->net.evaluating || p4d_executor__evaluates(in);
}

/* Whether an instruction uses the memory into which a receive of this direction writes. */
static bool uses(const p4d_instruction *in, bool backward, uint32_t slot)
{
	switch ((p4d_op)in->op) {
	case P4D_OP_RECV_FORWARD:
	case P4D_OP_FORWARD:
	case P4D_OP_BACKWARD_WEIGHT:
		return !backward && in->slot == slot;
	case P4D_OP_BACKWARD:
	case P4D_OP_BACKWARD_INPUT:
		return backward || in->slot == slot;
	case P4D_OP_RECV_BACKWARD:
	case P4D_OP_EMBED_FORWARD:
	case P4D_OP_EMBED_BACKWARD:
	case P4D_OP_VOCAB_FORWARD:
	case P4D_OP_VOCAB_BACKWARD:
		return backward;
	default:
		return false;
	}
}

/* Finds the next receive from instruction `from` on. */
static void find_receive(p4d_trainer *t, bool backward, size_t from)
{
	const p4d_op op = backward ? P4D_OP_RECV_BACKWARD : P4D_OP_RECV_FORWARD;
	const p4d_instruction *list = t->net.list.at;
	size_t at = from, free = from;

	while (at < t->net.list.count && (list[at].op != op || !runs(t, &list[at])))
		at++;
	for (size_t i = from; i < at && at < t->net.list.count; i++)
		if (runs(t, &list[i]) && uses(&list[i], backward, list[at].slot))
			free = i + 1;
	t->receives[backward] = (p4d_receive){.at = at, .from = free};
}

static void *buffer_of(const p4d_trainer *t, const p4d_instruction *in, bool backward)
{
	return backward ? p4d_buffers_at(&t->net, B_HIDDEN) : layer_of(t, in, 0).activation[ACT_INPUT];
}

/* Begins the receives whose buffers no instruction before this one uses. */
static int begin_receives(p4d_trainer *t, size_t number, p4d_error *err)
{
	for (int backward = 0; backward < 2; backward++) {
		p4d_receive *r = &t->receives[backward];
		const p4d_instruction *in = &t->net.list.at[r->at];
		if (r->begun || r->at == t->net.list.count || number < r->from)
			continue;
		r->begun = true;
		if (p4d_comm_recv_begin(t->net.pp, in->peer, backward ? CHANNEL_BACKWARD : CHANNEL_FORWARD,
					buffer_of(t, in, backward), boundary_bytes(t, in), err) < 0)
			return -1;
	}
	return 0;
}

static int end_receive(p4d_trainer *t, bool backward, p4d_error *err)
{
	const size_t at = t->receives[backward].at;
	const p4d_instruction *in = &t->net.list.at[at];

	if (p4d_comm_recv_end(t->net.pp, in->peer, backward ? CHANNEL_BACKWARD : CHANNEL_FORWARD,
			      buffer_of(t, in, backward), boundary_bytes(t, in), err) < 0)
		return -1;
	find_receive(t, backward, at + 1);
	return 0;
}

/*
 * Whether collectives among replicas run during an instruction. Parameters are gathered during a step's first
 * forward passes, and gradients are reduced during its last backward passes. With sharded parameters or
 * gradients, this happens during all passes.
 */
static bool is_beside_replicas(const p4d_trainer *t, const p4d_instruction *in)
{
	if (in->op == P4D_OP_FORWARD)
		return t->net.window || (in->micro_batch == 0 && t->net.shards > 1);
	if (in->op == P4D_OP_BACKWARD_INPUT)
		return t->net.gradient_window;
	return (in->op == P4D_OP_BACKWARD || in->op == P4D_OP_BACKWARD_WEIGHT) &&
	       (t->net.gradient_window || p4d_schedule_ends_with(&t->net.schedule, in->micro_batch));
}

static int execute(p4d_trainer *t, const p4d_instruction *in, p4d_error *err)
{
	p4d_parallel_leave(&t->net, is_beside_replicas(t, in));
	p4d_net_begin_pass(&t->net, in->micro_batch);
	switch ((p4d_op)in->op) {
	case P4D_OP_GATHER_PARAMS:
		return p4d_optimizer__await_segment(t, p4d_optimizer__segment_at(t, in->chunk, 0), err);
	case P4D_OP_RECV_FORWARD:
		return end_receive(t, false, err);
	case P4D_OP_FORWARD:
		return forward(t, in, err);
	case P4D_OP_SEND_FORWARD:
		return send(t, in, false, err);
	case P4D_OP_RECV_BACKWARD:
		return end_receive(t, true, err);
	case P4D_OP_BACKWARD:
	case P4D_OP_BACKWARD_INPUT:
		return backward(t, in, err);
	case P4D_OP_BACKWARD_WEIGHT:
		return backward_weight(t, in, err);
	case P4D_OP_SEND_BACKWARD:
		return send(t, in, true, err);
	case P4D_OP_EMBED_FORWARD:
	case P4D_OP_EMBED_BACKWARD:
	case P4D_OP_VOCAB_FORWARD:
	case P4D_OP_VOCAB_BACKWARD:
		return vocabulary(t, in, err);
	case P4D_OP_REDUCE_GRADS:
		return p4d_optimizer__reduce_chunk(t, in->chunk, err);
	case P4D_OP_OPTIMIZER:
		return finish_sends(t, err) < 0 ? -1 : p4d_optimizer__update(t, err);
	case P4D_OPS:
		break;
	}
	return p4d_fail(err, P4D_E_INSTRUCTIONS, "unknown instruction %u", in->op);
}

/* Executes an instruction, waits for the device, and records when the instruction started and ended. */
static int execute_traced(p4d_trainer *t, size_t i, double begin, p4d_error *err)
{
	t->spans[i].start = p4d_clock_seconds() - begin;
	if (execute(t, &t->net.list.at[i], err) < 0 || t->net.d->sync(t->net.d, err) < 0)
		return -1;
	t->spans[i].end = p4d_clock_seconds() - begin;
	return 0;
}

int p4d_executor__run(p4d_trainer *t, p4d_error *err)
{
	const double begin = t->spans ? p4d_clock_seconds() : 0;

	if (p4d_optimizer__gather_ahead(t, err) < 0)
		return -1;
	find_receive(t, false, 0);
	find_receive(t, true, 0);
	for (size_t i = 0; i < t->net.list.count; i++)
		if (runs(t, &t->net.list.at[i]) &&
		    (begin_receives(t, i, err) < 0 ||
		     (t->spans ? execute_traced(t, i, begin, err) : execute(t, &t->net.list.at[i], err)) < 0))
			return -1;
	if (p4d_window_end(&t->net, err) < 0)
		return -1;
	return t->net.evaluating ? finish_sends(t, err) : 0;
}
