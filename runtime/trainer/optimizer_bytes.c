/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AdamW with moments in 8 bits (plan/byte_moments.h). This rank's shards consist of parts of tensors. A part
 * may begin or end within a block, whose other elements are then in a neighbour's shard. Before the update,
 * the ranks exchange the new scales of such a block and use the largest.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/buffers.h"
#include "plan/byte_moments.h"
#include "trainer/trainer_internal.h"

/* Elements of a slice of a tensor that are in this rank's shard of a segment. */
struct p4d_byte_part {
	uint32_t segment;
	const p4d_weight *weight;
	/*
	 * from: offset of the part in the flat buffer; count: its elements; before: elements of the slice
	 * before the part
	 */
	uint64_t from, count, before;
	/* whether this rank has the whole first block of the part, and the whole last block */
	bool begins, ends;
	bool small; /* the moments of the tensor are in fp32 */
	uint64_t
	    room; /* index of the part's first scale or, if the moments are in fp32, of its first moment */
};

static uint64_t elements_of(const p4d_weight_slice *s)
{
	return s->tensor_rows * (s->tensor_columns ? s->tensor_columns : 1);
}

static bool is_small(const p4d_weight *w, const p4d_weight_slice *s)
{
	const bool table = w->kind == P4D_W_EMBEDDING || w->kind == P4D_W_POSITIONS ||
			   w->kind == P4D_W_HEAD || w->kind == P4D_W_LOCAL_HEAD;

	return !table && elements_of(s) < P4D_BYTE_LEAST;
}

static uint64_t blocks_of(const p4d_byte_part *p)
{
	return (p->before % P4D_BYTE_BLOCK + p->count + P4D_BYTE_BLOCK - 1) / P4D_BYTE_BLOCK;
}

/* Adds a part. used: how many scales, and how many fp32 moments, the parts before it have. */
static void add_part(p4d_trainer *t, const p4d_weight *w, const p4d_weight_slice *s, uint64_t used[2])
{
	const uint64_t end = s->offset + s->rows * s->columns;
	uint64_t first, count;

	p4d_trainer_shard(t, w->segment, &first, &count);
	const uint64_t from = s->offset > first ? s->offset : first,
		       to = end < first + count ? end : first + count;
	if (from >= to)
		return;
	p4d_byte_part p = {.segment = w->segment,
			   .weight = w,
			   .from = from,
			   .count = to - from,
			   .before = from - s->offset,
			   .small = is_small(w, s)};
	p.begins = p.before % P4D_BYTE_BLOCK == 0;
	p.ends = to == end || (to - s->offset) % P4D_BYTE_BLOCK == 0;
	p.room = used[p.small];
	used[p.small] += p.small ? p.count : blocks_of(&p);
	t->bytes.part[t->bytes.parts++] = p;
}

int p4d_optimizer_bytes__open(p4d_trainer *t, p4d_error *err)
{
	const p4d_weights *all = &t->net.weights;
	p4d_weight_slice slices[P4D_SLICES_OF_WEIGHT];
	uint64_t used[2] = {0, 0};

	if (!t->net.row[B_SCALES])
		return 0;
	t->bytes.scales = t->net.row[B_SCALES]->shape[1];
	t->bytes.small = t->net.row[B_SMALL_MOMENTS] ? t->net.row[B_SMALL_MOMENTS]->shape[1] : 0;
	t->bytes.part = calloc((size_t)all->trained * P4D_SLICES_OF_WEIGHT + 1, sizeof(*t->bytes.part));
	if (!t->bytes.part)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a trainer");
	for (uint32_t i = 0; i < all->trained; i++) {
		const unsigned count =
		    p4d_weight_slices_of(t->net.l, t->net.place, t->net.set.vocab, &all->weight[i], slices);
		for (unsigned k = 0; k < count; k++)
			add_part(t, &all->weight[i], &slices[k], used);
	}
	if (used[0] <= t->bytes.scales && used[1] <= t->bytes.small)
		return 0;
	return p4d_fail(err, P4D_E_UNMODELLED,
			"the plan has %" PRIu64 " scales and %" PRIu64
			" small moments, this rank needs %" PRIu64 " and %" PRIu64,
			t->bytes.scales, t->bytes.small, used[0], used[1]);
}

/* Offset of a part in a state, which has this rank's shards one after the other. */
static uint64_t in_state(const p4d_trainer *t, const p4d_byte_part *p)
{
	uint64_t first, count;

	p4d_trainer_shard(t, p->segment, &first, &count);
	return t->net.weights.segment[p->segment].offset / t->net.shards + (p->from - first);
}

/* Address of a part's scales or, for a small tensor, of its moments in fp32. moment: 0 or 1. */
static float *room_of(const p4d_trainer *t, const p4d_byte_part *p, unsigned moment)
{
	float *const all = p4d_buffers_at(&t->net, p->small ? B_SMALL_MOMENTS : B_SCALES);

	return all + moment * (p->small ? t->bytes.small : t->bytes.scales) + p->room;
}

static uint8_t *codes_of(const p4d_trainer *t, const p4d_byte_part *p, unsigned moment)
{
	return (uint8_t *)p4d_buffers_state(&t->net, P4D_STATE_MASTER + 1 + moment) + in_state(t, p);
}

static uint64_t borders_of(const p4d_trainer *t)
{
	return t->net.shards - 1;
}

/*
 * The scales of the block that this rank's shard shares with the next shard (next) or with the previous one.
 */
static float *border_of(const p4d_trainer *t, const p4d_byte_part *p, bool next)
{
	const uint64_t number = p4d_weights_shard_number(t->net.l, t->net.place) - !next;

	return (float *)p4d_buffers_at(&t->net, B_BORDERS) + 2 * (p->segment * borders_of(t) + number);
}

static p4d_byte_moments moments_of(const p4d_trainer *t, const p4d_byte_part *p)
{
	return (p4d_byte_moments){.first = codes_of(t, p, 0),
				  .second = codes_of(t, p, 1),
				  .first_scale = room_of(t, p, 0),
				  .second_scale = room_of(t, p, 1),
				  .count = p->count,
				  .before = p->before % P4D_BYTE_BLOCK,
				  .begin = p->begins ? NULL : border_of(t, p, false),
				  .end = p->ends ? NULL : border_of(t, p, true)};
}

static void measure_borders(p4d_trainer *t, const p4d_byte_part *p, double scale)
{
	const p4d_byte_moments m = moments_of(t, p);
	const p4d_adam step = p4d_optimizer__adam(t, p->weight, scale);
	const float *gradients = p4d_buffers_gradients(&t->net, p->segment, p->from);

	if (!p->begins)
		t->net.d->adam_byte_scales(t->net.d, border_of(t, p, false), &m, 0, gradients, &step);
	if (!p->ends)
		t->net.d->adam_byte_scales(t->net.d, border_of(t, p, true), &m, blocks_of(p) - 1, gradients,
					   &step);
}

static int agree_on_borders(p4d_trainer *t, double scale, p4d_error *err)
{
	const p4d_tensor *row = t->net.row[B_BORDERS];
	float *const borders = p4d_buffers_at(&t->net, B_BORDERS);

	if (!row)
		return 0;
	t->net.d->zero(t->net.d, borders, row->bytes);
	for (uint32_t i = 0; i < t->bytes.parts; i++)
		if (!t->bytes.part[i].small)
			measure_borders(t, &t->bytes.part[i], scale);
	if (p4d_comm_all_reduce(t->net.dp_cp, borders, row->shape[0] * row->shape[1], P4D_DT_FP32, P4D_MAX,
				err) < 0)
		return -1;
	return p4d_comm_settle(t->net.dp_cp, err);
}

static void update_part(p4d_trainer *t, const p4d_byte_part *p, double scale)
{
	p4d_device *const d = t->net.d;
	const p4d_adam step = p4d_optimizer__adam(t, p->weight, scale);
	const float *gradients = p4d_buffers_gradients(&t->net, p->segment, p->from);
	void *const parameters = p4d_buffers_parameters(&t->net, p->segment, p->from);
	float *master = p4d_buffers_state(&t->net, P4D_STATE_MASTER);

	master = master ? master + in_state(t, p) : NULL;
	if (p->small) {
		d->adam(d, t->net.type, parameters, master, room_of(t, p, 0), room_of(t, p, 1), gradients,
			p->count, &step);
		return;
	}
	const p4d_byte_moments m = moments_of(t, p);
	d->adam_bytes(d, t->net.type, parameters, master, &m, gradients, &step);
}

int p4d_optimizer_bytes__update(p4d_trainer *t, double scale, p4d_error *err)
{
	if (agree_on_borders(t, scale, err) < 0)
		return -1;
	for (uint32_t i = 0; i < t->bytes.parts; i++)
		update_part(t, &t->bytes.part[i], scale);
	return 0;
}

/*
 * Moments in the form that checkpoints have. Each element has a code and a scale; for a small tensor the
 * scale is the fp32 moment itself.
 */

enum { CODES = P4D_MOST_STORED - 1, AT_ONCE = 4096 };

static void read_codes(p4d_trainer *t, const p4d_byte_part *p, float *to)
{
	uint8_t first[AT_ONCE], second[AT_ONCE];

	for (uint64_t at = 0, n; at < p->count; at += n) {
		n = p->count - at < AT_ONCE ? p->count - at : AT_ONCE;
		t->net.d->download(t->net.d, first, codes_of(t, p, 0) + at, n);
		t->net.d->download(t->net.d, second, codes_of(t, p, 1) + at, n);
		for (uint64_t i = 0; i < n; i++) {
			const uint32_t both = first[i] | (uint32_t)second[i] << 8;
			memcpy(&to[at + i], &both, sizeof(both));
		}
	}
}

static void write_codes(p4d_trainer *t, const p4d_byte_part *p, const float *from)
{
	uint8_t first[AT_ONCE], second[AT_ONCE];

	for (uint64_t at = 0, n; at < p->count; at += n) {
		n = p->count - at < AT_ONCE ? p->count - at : AT_ONCE;
		for (uint64_t i = 0; i < n; i++) {
			uint32_t both;
			memcpy(&both, &from[at + i], sizeof(both));
			first[i] = (uint8_t)both;
			second[i] = (uint8_t)(both >> 8);
		}
		t->net.d->upload(t->net.d, codes_of(t, p, 0) + at, first, n);
		t->net.d->upload(t->net.d, codes_of(t, p, 1) + at, second, n);
	}
}

/* Index of the element of a part at which one of its blocks begins. */
static uint64_t begin_of(const p4d_byte_part *p, uint64_t block)
{
	const uint64_t before = p->before % P4D_BYTE_BLOCK;

	return block ? block * P4D_BYTE_BLOCK - before : 0;
}

/* Writes a block's scale for each of its elements. */
static void read_scales(p4d_trainer *t, const p4d_byte_part *p, unsigned moment, float *to)
{
	const uint64_t blocks = blocks_of(p);

	for (uint64_t i = 0; i < blocks; i++) {
		const uint64_t end = i + 1 < blocks ? begin_of(p, i + 1) : p->count;
		float scale;
		t->net.d->download(t->net.d, &scale, room_of(t, p, moment) + i, sizeof(scale));
		for (uint64_t k = begin_of(p, i); k < end; k++)
			to[k] = scale;
	}
}

static void write_scales(p4d_trainer *t, const p4d_byte_part *p, unsigned moment, const float *from)
{
	for (uint64_t i = 0; i < blocks_of(p); i++)
		t->net.d->upload(t->net.d, room_of(t, p, moment) + i, from + begin_of(p, i), sizeof(*from));
}

int p4d_optimizer_bytes__read(p4d_trainer *t, uint32_t segment, p4d_state state, float *to, p4d_error *err)
{
	uint64_t first, count;

	p4d_trainer_shard(t, segment, &first, &count);
	memset(to, 0, count * sizeof(*to));
	for (uint32_t i = 0; i < t->bytes.parts; i++) {
		const p4d_byte_part *p = &t->bytes.part[i];
		if (p->segment != segment)
			continue;
		if (p->small && state != CODES)
			t->net.d->download(t->net.d, to + (p->from - first), room_of(t, p, state - 1),
					   p->count * sizeof(*to));
		else if (state == CODES && !p->small)
			read_codes(t, p, to + (p->from - first));
		else if (!p->small)
			read_scales(t, p, state - 1, to + (p->from - first));
	}
	return t->net.d->sync(t->net.d, err);
}

void p4d_optimizer_bytes__write(p4d_trainer *t, uint32_t segment, p4d_state state, const float *from)
{
	uint64_t first, count;

	p4d_trainer_shard(t, segment, &first, &count);
	for (uint32_t i = 0; i < t->bytes.parts; i++) {
		const p4d_byte_part *p = &t->bytes.part[i];
		if (p->segment != segment)
			continue;
		if (p->small && state != CODES)
			t->net.d->upload(t->net.d, room_of(t, p, state - 1), from + (p->from - first),
					 p->count * sizeof(*from));
		else if (state == CODES && !p->small)
			write_codes(t, p, from + (p->from - first));
		else if (!p->small)
			write_scales(t, p, state - 1, from + (p->from - first));
	}
}
