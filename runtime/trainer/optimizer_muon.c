/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Muon (plan/muon.h). First, Nesterov's momentum replaces the gradients; below it is called the directions.
 * If the optimizer is sharded, the ranks gather all directions of a segment, in place of its gradients. Then
 * each rank orthogonalizes the matrices of which its shard has a part.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "model/buffers.h"
#include "model/gradient_window.h"
#include "model/newton_schulz.h"
#include "plan/muon.h"
#include "trainer/trainer_internal.h"

static bool is_matrix(const p4d_weight *w)
{
	return p4d_weights_layers_of(w->kind).count > 0;
}

/*
 * Iterates over the parts of weights that are in this rank's shards and that AdamW updates. Their second
 * moments are stored one after another. count is 0 for a weight that Muon updates.
 */
typedef struct adamw_part {
	const p4d_weight *weight;
	/* offset in the flat buffer, number of elements, and index of the first second moment */
	uint64_t from, count, room;
	uint32_t next; /* number of the next weight of the segment */
} adamw_part;

static bool next_part(const p4d_trainer *t, uint32_t segment, adamw_part *p)
{
	const p4d_segment *s = &t->net.weights.segment[segment];

	if (p->next == s->weights)
		return false;
	p->room += p->count;
	p->weight = &t->net.weights.weight[s->first_weight + p->next++];
	p->count = 0;
	if (!is_matrix(p->weight))
		p4d_optimizer__part_of(t, segment, p->weight, &p->from, &p->count);
	return true;
}

/* Number of second moments that the segments before this one have. */
static uint64_t room_before(const p4d_trainer *t, uint32_t segment)
{
	uint64_t room = 0;

	for (uint32_t i = 0; i < segment; i++) {
		adamw_part p = {.room = room};
		while (next_part(t, i, &p))
			;
		room = p.room + p.count;
	}
	return room;
}

int p4d_optimizer_muon__open(const p4d_trainer *t, p4d_error *err)
{
	if (!p4d_optimizer_muon__is_used(t))
		return 0;
	const p4d_tensor *row = t->net.row[B_SECOND_MOMENTS];
	const uint64_t needed = room_before(t, t->net.weights.segments), planned = row ? row->shape[0] : 0;

	if (needed <= planned)
		return 0;
	return p4d_fail(err, P4D_E_UNMODELLED,
			"the plan has %" PRIu64 " second moments, this rank needs %" PRIu64, planned, needed);
}

/* Addresses of the data of one element in this rank's shard of a segment. */
typedef struct muon_place {
	char *parameters;
	float *master, *first, *gradients;
} muon_place;

static muon_place muon_place_of(const p4d_trainer *t, uint32_t segment, uint64_t offset)
{
	uint64_t first, count;

	p4d_trainer_shard(t, segment, &first, &count);
	const p4d_piece p = p4d_optimizer__piece(t, segment, offset - first, count);
	return (muon_place){.parameters = p.parameters,
			    .master = p.state[P4D_STATE_MASTER],
			    .first = p.state[1],
			    .gradients = p4d_buffers_gradients(&t->net, segment, offset)};
}

static float *second_of(const p4d_trainer *t, const adamw_part *p)
{
	return (float *)p4d_buffers_at(&t->net, B_SECOND_MOMENTS) + p->room;
}

/*
 * Updates the weights of a segment that AdamW updates. room: index of the segment's first second moment;
 * becomes that of the next segment.
 */
static void update_others(p4d_trainer *t, uint32_t segment, double scale, uint64_t *room)
{
	adamw_part p = {.room = *room};

	while (next_part(t, segment, &p)) {
		if (!p.count)
			continue;
		const muon_place at = muon_place_of(t, segment, p.from);
		const p4d_adam step = p4d_optimizer__adam(t, p.weight, scale);
		t->net.d->adam(t->net.d, t->net.type, at.parameters, at.master, at.first, second_of(t, &p),
			       at.gradients, p.count, &step);
	}
	*room = p.room + p.count;
}

/* Computes the directions of a segment's matrices. Returns whether the segment has matrices on any rank. */
static bool average(p4d_trainer *t, uint32_t segment, double scale)
{
	const p4d_segment *s = &t->net.weights.segment[segment];
	const p4d_muon step = {.momentum = P4D_MUON_MOMENTUM, .gradient_scale = (float)scale};
	bool any = false;

	for (uint32_t i = s->first_weight; i < s->first_weight + s->weights; i++) {
		const p4d_weight *w = &t->net.weights.weight[i];
		uint64_t from, count;
		if (!is_matrix(w))
			continue;
		any = true;
		p4d_optimizer__part_of(t, segment, w, &from, &count);
		if (!count)
			continue;
		const muon_place at = muon_place_of(t, segment, from);
		t->net.d->muon_average(t->net.d, at.first, at.gradients, count, &step);
	}
	return any;
}

/* Gathers all directions of a segment. Returns the address of the first; NULL: error. */
static const float *gather(p4d_trainer *t, uint32_t segment, p4d_error *err)
{
	p4d_net *m = &t->net;
	uint64_t first, count;
	float *const all = m->gradient_window
			       ? p4d_gradient_window_room(m, segment)
			       : p4d_buffers_gradients(m, segment, m->weights.segment[segment].offset);

	if (m->shards == 1)
		return all;
	p4d_trainer_shard(t, segment, &first, &count);
	if (p4d_comm_all_gather(m->dp_cp, all, p4d_buffers_gradients(m, segment, first), count * sizeof(*all),
				err) < 0 ||
	    p4d_comm_settle(m->dp_cp, err) < 0)
		return NULL;
	return all;
}

/* The learning rate that makes an update as large as one of AdamW: "match_rms_adamw" of torch.optim.Muon. */
static float rate_of(const p4d_trainer *t, const p4d_adapted *m)
{
	const double rows = (double)m->out * (double)(m->split_in ? 1 : t->net.l->tp),
		     columns = (double)m->in * (double)(m->split_in ? t->net.l->tp : 1);

	return (float)(0.2 * sqrt(fmax(rows, columns)) * (double)t->learning_rate);
}

/* Updates this rank's part of a linear layer's matrix. offset: where the matrix begins in the flat buffer. */
static int update_matrix(p4d_trainer *t, const p4d_weight *w, uint64_t offset, const p4d_adapted *matrix,
			 const float *directions, p4d_error *err)
{
	const uint64_t end = offset + matrix->in * matrix->out;
	uint64_t first, count;

	p4d_trainer_shard(t, w->segment, &first, &count);
	const uint64_t from = offset > first ? offset : first, to = end < first + count ? end : first + count;
	/* all tp ranks have the same range of their parts here, so either all of them return or none does */
	if (from >= to)
		return 0;
	const char *x = p4d_newton_schulz(
	    &t->net, matrix, directions + (offset - t->net.weights.segment[w->segment].offset), err);
	if (!x)
		return -1;
	const muon_place at = muon_place_of(t, w->segment, from);
	const p4d_muon step = {.learning_rate = t->learning_rate,
			       .rate = rate_of(t, matrix),
			       .weight_decay = t->optimizer.weight_decay};
	t->net.d->muon_step(t->net.d, t->net.type, at.parameters, at.master,
			    x + (from - offset) * t->net.element, to - from, &step);
	return 0;
}

static int update_matrices(p4d_trainer *t, uint32_t segment, p4d_error *err)
{
	const p4d_segment *s = &t->net.weights.segment[segment];
	const float *directions = gather(t, segment, err);

	if (!directions)
		return -1;
	for (uint32_t i = s->first_weight; i < s->first_weight + s->weights; i++) {
		const p4d_weight *w = &t->net.weights.weight[i];
		const p4d_matrix_layers of = p4d_weights_layers_of(w->kind);
		uint64_t offset = w->offset;
		for (unsigned k = of.first; k < of.first + of.count; k++) {
			const p4d_adapted matrix = p4d_adapted_of(t->net.l, k);
			if (update_matrix(t, w, offset, &matrix, directions, err) < 0)
				return -1;
			offset += matrix.in * matrix.out;
		}
	}
	return 0;
}

int p4d_optimizer_muon__update(p4d_trainer *t, double scale, p4d_error *err)
{
	uint64_t room = 0;

	for (uint32_t i = 0; i < t->net.weights.segments; i++) {
		update_others(t, i, scale, &room);
		if (average(t, i, scale) && update_matrices(t, i, err) < 0)
			return -1;
	}
	return 0;
}

/* second moments in checkpoints; 0 for matrices, which have none */

int p4d_optimizer_muon__read(p4d_trainer *t, uint32_t segment, float *to, p4d_error *err)
{
	adamw_part p = {.room = room_before(t, segment)};
	uint64_t first, count;

	p4d_trainer_shard(t, segment, &first, &count);
	memset(to, 0, count * sizeof(*to));
	while (next_part(t, segment, &p))
		if (p.count)
			t->net.d->download(t->net.d, to + (p.from - first), second_of(t, &p),
					   p.count * sizeof(*to));
	return t->net.d->sync(t->net.d, err);
}

void p4d_optimizer_muon__write(p4d_trainer *t, uint32_t segment, const float *from)
{
	adamw_part p = {.room = room_before(t, segment)};
	uint64_t first, count;

	p4d_trainer_shard(t, segment, &first, &count);
	while (next_part(t, segment, &p))
		if (p.count)
			t->net.d->upload(t->net.d, second_of(t, &p), from + (p.from - first),
					 p.count * sizeof(*from));
}
