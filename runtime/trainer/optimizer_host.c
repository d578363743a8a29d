/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optimizer if its states or parameters are on the host. This rank's shard is cut into subgroups. The
 * host updates some of them and the device the others, independently of each other. Transfers run on two
 * streams (plan/offload.h). The device's work is queued before the host begins its current subgroup, so that
 * both work at the same time.
 */
#include "model/buffers.h"
#include "trainer/trainer_internal.h"

enum { DEVICE, HOST };

static int open_events(p4d_trainer *t, void *events[P4D_OFFLOAD_SLOTS], p4d_error *err)
{
	for (int i = 0; i < P4D_OFFLOAD_SLOTS; i++)
		if (t->net.d->event_open(t->net.d, &events[i], err) < 0)
			return -1;
	return 0;
}

bool p4d_optimizer_host__is_used(const p4d_trainer *t)
{
	return !t->net.l->evaluates &&
	       (p4d_buffers_states_away(&t->net) || p4d_buffers_is_away(&t->net, B_PARAMETERS));
}

int p4d_optimizer_host__open(p4d_trainer *t, p4d_error *err)
{
	p4d_offload *o = &t->offload;

	o->states = p4d_buffers_states_away(&t->net);
	o->parameters = p4d_buffers_is_away(&t->net, B_PARAMETERS);
	o->share = p4d_offload_split_of(t->net.l, t->net.set.gpu).share;
	if (t->net.d->stream_open(t->net.d, &o->up, err) < 0 ||
	    t->net.d->stream_open(t->net.d, &o->down, err) < 0 || open_events(t, o->updated, err) < 0)
		return -1;
	for (int where = DEVICE; where <= HOST; where++)
		if (open_events(t, o->came[where], err) < 0 || open_events(t, o->left[where], err) < 0)
			return -1;
	return 0;
}

/* ---- subgroups ---- */

/* Position in the sequence of subgroups. Within each of the rank's segments, subgroups follow one another. */
typedef struct cursor {
	uint32_t segment;
	uint64_t at;     /* elements of the segment's shard before the subgroup */
	uint64_t number; /* number of the subgroup */
	/* how many earlier subgroups are updated on the device, and how many on the host */
	uint64_t turn[2];
	uint64_t elements; /* maximum elements of a subgroup */
} cursor;

static cursor begin(const p4d_trainer *t)
{
	return (cursor){.elements = p4d_offload_subgroup(t->net.weights.elements / t->net.shards)};
}

/*
 * Describes the current subgroup. Returns false after the last one. The elements after a segment's last
 * weight are padding and belong to no subgroup.
 */
static bool at_piece(const p4d_trainer *t, cursor *c, p4d_piece *piece)
{
	for (; c->segment < t->net.weights.segments; c->segment++, c->at = 0) {
		const p4d_segment *s = &t->net.weights.segment[c->segment];
		const uint64_t end = s->offset + s->elements;
		uint64_t first, count;
		p4d_trainer_shard(t, c->segment, &first, &count);
		const uint64_t whole = end <= first ? 0 : end - first < count ? end - first : count;
		if (c->at >= whole)
			continue;
		const uint64_t left = whole - c->at;
		*piece = p4d_optimizer__piece(t, c->segment, c->at, left < c->elements ? left : c->elements);
		return true;
	}
	return false;
}

static bool is_on_device(const p4d_trainer *t, const cursor *c)
{
	return p4d_offload_on_device(t->offload.share, c->number);
}

static void step_over(const p4d_trainer *t, cursor *c, const p4d_piece *piece)
{
	c->turn[is_on_device(t, c) ? DEVICE : HOST]++;
	c->number++;
	c->at += piece->count;
}

/* ---- on the device ---- */

/* Queues a copy between the host and a slot. */
static void move(p4d_trainer *t, void *on_host, void *staged, uint64_t bytes, bool up)
{
	p4d_device *d = t->net.d;

	if (up)
		d->move(d, t->offload.up, staged, on_host, bytes);
	else
		d->move(d, t->offload.down, on_host, staged, bytes);
}

static void move_states(p4d_trainer *t, const p4d_piece *on_host, const p4d_piece *staged, bool up)
{
	for (p4d_state i = 0; i < p4d_optimizer_of(t->net.l)->states; i++)
		if (t->offload.states && on_host->state[i])
			move(t, on_host->state[i], staged->state[i],
			     on_host->count * p4d_state_bytes(t->net.l, i), up);
}

static void move_parameters(p4d_trainer *t, const p4d_piece *on_host, const p4d_piece *staged, bool up)
{
	if (t->offload.parameters)
		move(t, on_host->parameters, staged->parameters, on_host->count * t->net.element, up);
}

static p4d_piece in_slot(const p4d_trainer *t, const p4d_piece *piece, uint64_t slot, uint64_t elements)
{
	const p4d_tensor *row = t->net.row[B_STAGED_STATES];
	char *at = (char *)p4d_buffers_at(&t->net, B_STAGED_STATES) + slot * (row->bytes / P4D_OFFLOAD_SLOTS);
	p4d_piece staged = *piece;

	for (p4d_state i = 0; i < p4d_optimizer_of(t->net.l)->states; i++)
		if (t->offload.states && piece->state[i])
			staged.state[i] = at + elements * p4d_offload_state_offset(t->net.l, i);
	if (t->offload.parameters)
		staged.parameters = at + elements * p4d_offload_staged_states(t->net.l);
	return staged;
}

/* Queues the transfers of an update's results from a slot to the host. */
static void leave(p4d_trainer *t, const p4d_piece *piece, const p4d_piece *staged, uint64_t slot)
{
	p4d_offload *o = &t->offload;
	p4d_device *d = t->net.d;

	d->event_record(d, o->updated[slot], NULL);
	d->event_wait(d, o->down, o->updated[slot]);
	move_states(t, piece, staged, false);
	move_parameters(t, piece, staged, false);
	d->event_record(d, o->left[DEVICE][slot], o->down);
}

static void queue_on_device(p4d_trainer *t, const cursor *c, const p4d_piece *piece, double scale)
{
	p4d_offload *o = &t->offload;
	p4d_device *d = t->net.d;
	const uint64_t slot = c->turn[DEVICE] % P4D_OFFLOAD_SLOTS;
	const p4d_piece staged = in_slot(t, piece, slot, c->elements);

	d->event_wait(d, o->up, o->left[DEVICE][slot]);
	move_states(t, piece, &staged, true);
	if (p4d_offload_reads_parameters(t->net.l))
		move_parameters(t, piece, &staged, true);
	d->event_record(d, o->came[DEVICE][slot], o->up);
	d->event_wait(d, NULL, o->came[DEVICE][slot]);
	p4d_optimizer__update_piece(t, &staged, scale);
	leave(t, piece, &staged, slot);
}

/* ---- on the host ---- */

static p4d_piece on_host(const p4d_trainer *t, const p4d_piece *piece, uint64_t turn)
{
	const uint32_t slot = (uint32_t)(turn % P4D_OFFLOAD_SLOTS);
	p4d_piece there = *piece;

	there.device = t->net.host;
	there.gradients = p4d_buffers_at_slot(&t->net, B_HOST_GRADIENTS, slot, 0);
	if (!t->offload.parameters)
		there.parameters = p4d_buffers_at_slot(&t->net, B_HOST_PARAMETERS, slot, 0);
	return there;
}

static void queue_gradients(p4d_trainer *t, const cursor *c, const p4d_piece *piece)
{
	p4d_offload *o = &t->offload;
	p4d_device *d = t->net.d;
	const uint64_t slot = c->turn[HOST] % P4D_OFFLOAD_SLOTS;
	const p4d_piece there = on_host(t, piece, c->turn[HOST]);

	d->event_wait(d, o->down, o->left[HOST][slot]);
	d->move(d, o->down, (void *)there.gradients, piece->gradients, piece->count * sizeof(float));
	if (!t->offload.parameters && p4d_offload_reads_parameters(t->net.l))
		d->move(d, o->down, there.parameters, piece->parameters, piece->count * t->net.element);
	d->event_record(d, o->came[HOST][slot], o->down);
}

static void raise_parameters(p4d_trainer *t, const p4d_piece *piece, const p4d_piece *there, uint64_t slot)
{
	p4d_device *d = t->net.d;

	if (t->offload.parameters) /* parameters that stay on the host are already at their place */
		return;
	d->move(d, t->offload.up, piece->parameters, there->parameters, piece->count * t->net.element);
	d->event_record(d, t->offload.left[HOST][slot], t->offload.up);
}

static int update_on_host(p4d_trainer *t, const cursor *c, const p4d_piece *piece, double scale,
			  p4d_error *err)
{
	const uint64_t slot = c->turn[HOST] % P4D_OFFLOAD_SLOTS;
	const p4d_piece there = on_host(t, piece, c->turn[HOST]);

	if (p4d_comm_device_reach(t->net.d, t->offload.came[HOST][slot], err) < 0)
		return -1;
	p4d_optimizer__update_piece(t, &there, scale);
	raise_parameters(t, piece, &there, slot);
	return 0;
}

/* ---- both ---- */

/*
 * Makes the two transfer streams wait for all operations queued so far. join_streams makes later operations
 * wait for the two streams.
 */
static void fork_streams(p4d_trainer *t)
{
	t->net.d->stream_wait(t->net.d, t->offload.up, NULL);
	t->net.d->stream_wait(t->net.d, t->offload.down, NULL);
}

static void join_streams(p4d_trainer *t)
{
	t->net.d->stream_wait(t->net.d, NULL, t->offload.up);
	t->net.d->stream_wait(t->net.d, NULL, t->offload.down);
}

/*
 * Queues work for the device, and transfers for the host, up to P4D_OFFLOAD_SLOTS of the host's subgroups
 * ahead of the one that the host updates.
 */
static void queue_ahead(p4d_trainer *t, cursor *ahead, const cursor *now, double scale)
{
	p4d_piece piece;

	while (ahead->turn[HOST] < now->turn[HOST] + P4D_OFFLOAD_SLOTS && at_piece(t, ahead, &piece)) {
		if (is_on_device(t, ahead))
			queue_on_device(t, ahead, &piece, scale);
		else
			queue_gradients(t, ahead, &piece);
		step_over(t, ahead, &piece);
	}
}

int p4d_optimizer_host__update(p4d_trainer *t, double scale, p4d_error *err)
{
	cursor now = begin(t), ahead = now;
	p4d_piece piece;

	fork_streams(t);
	while (at_piece(t, &now, &piece)) {
		queue_ahead(t, &ahead, &now, scale);
		if (!is_on_device(t, &now) && update_on_host(t, &now, &piece, scale, err) < 0)
			return -1;
		step_over(t, &now, &piece);
	}
	join_streams(t);
	return 0;
}

static int restore_on_host(p4d_trainer *t, const p4d_piece *piece, uint64_t turn, p4d_error *err)
{
	const uint64_t slot = turn % P4D_OFFLOAD_SLOTS;
	const p4d_piece there = on_host(t, piece, turn);

	if (p4d_comm_device_reach(t->net.d, t->offload.left[HOST][slot], err) < 0)
		return -1;
	t->net.host->cast(t->net.host, t->net.type, there.parameters, P4D_DT_FP32,
			  piece->state[P4D_STATE_MASTER], piece->count);
	raise_parameters(t, piece, &there, slot);
	return 0;
}

/* Computes parameters from master copies, on the device. */
static void restore_on_device(p4d_trainer *t, const p4d_piece *piece, uint64_t turn, uint64_t elements)
{
	const uint64_t slot = turn % P4D_OFFLOAD_SLOTS;
	const p4d_piece staged = in_slot(t, piece, slot, elements);
	p4d_device *d = t->net.d;

	d->event_wait(d, NULL, t->offload.left[DEVICE][slot]);
	d->cast(d, t->net.type, staged.parameters, P4D_DT_FP32, piece->state[P4D_STATE_MASTER], piece->count);
	leave(t, piece, &staged, slot);
}

int p4d_optimizer_host__restore(p4d_trainer *t, p4d_error *err)
{
	cursor now = begin(t);
	p4d_piece piece;

	fork_streams(t);
	for (; at_piece(t, &now, &piece); now.at += piece.count) {
		if (!t->offload.states)
			restore_on_device(t, &piece, now.turn[DEVICE]++, now.elements);
		else if (restore_on_host(t, &piece, now.turn[HOST]++, err) < 0)
			return -1;
	}
	join_streams(t);
	return 0;
}
