/* SPDX-License-Identifier: Apache-2.0 */
/* What a trainer begins with: tables, new weights; and its state as checkpoints see it. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "trainer_parts.h"

enum { BLOCK = 1024 }; /* numbers made at a time */
#define INITIAL_DEVIATION 0.02
#define PI 3.14159265358979323846

void p4d_fill_rope(p4d_trainer *t, float *scratch)
{
	const uint64_t d = t->l->head_dim, half = d / 2;

	for (uint64_t i = 0; i < t->length; i++) {
		const uint64_t position = p4d_place_in_sequence(t->l, t->place.cp, i);
		for (uint64_t j = 0; j < half; j++) {
			const double angle = (double)position * p4d_rope_frequency(&t->set.rope, d, j);
			scratch[i * d + j] = (float)cos(angle);
			scratch[i * d + half + j] = (float)sin(angle);
		}
	}
	t->d->upload(t->d, p4d_at(t, B_ROPE), scratch, t->length * d * sizeof(*scratch));
}

/* splitmix64 */
static uint64_t mixed(uint64_t z)
{
	z += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static uint64_t hash_of(const char *name)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
	return hash;
}

/* Of a normal distribution (Box-Muller). */
static float normal(uint64_t key, uint64_t index, double deviation)
{
	const uint64_t a = mixed(key ^ mixed(2 * index)), b = mixed(key ^ mixed(2 * index + 1));
	const double u = ((double)(a >> 11) + 1) / 9007199254740993.0,
		     v = (double)(b >> 11) / 9007199254740992.0;

	return (float)(deviation * sqrt(-2 * log(u)) * cos(2 * PI * v));
}

/* Norms begin as 1, biases as 0, matrices that write to the residual stream the smaller the more there are.
 */
static void initialize_piece(p4d_trainer *t, const p4d_weight *w, const p4d_piece *p, uint64_t seed)
{
	const uint64_t key = mixed(seed) ^ hash_of(p->name);
	const bool norm = w->replicated, residual = w->kind == P4D_W_OUTPUT || w->kind == P4D_W_DOWN;
	const double deviation =
	    residual ? INITIAL_DEVIATION / sqrt(2.0 * (double)t->l->layers) : INITIAL_DEVIATION;
	float block[BLOCK], *gradients = p4d_at(t, B_GRADIENTS);
	const uint64_t width = p->tensor_columns ? p->tensor_columns : 1, count = p->rows * p->columns;

	for (uint64_t i = 0; i < count; i += BLOCK) {
		const uint64_t n = count - i < BLOCK ? count - i : BLOCK;
		for (uint64_t k = 0; k < n; k++) {
			const uint64_t row = p->first_row + (i + k) / p->columns;
			const uint64_t column = p->first_column + (i + k) % p->columns;
			block[k] = norm ? 1 : w->decay ? normal(key, row * width + column, deviation) : 0;
		}
		t->d->upload(t->d, gradients + p->offset + i, block, n * sizeof(*block));
	}
}

int p4d_trainer_initialize(p4d_trainer *t, uint64_t seed, p4d_error *err)
{
	p4d_piece pieces[P4D_PIECES_OF_WEIGHT];
	float *gradients = p4d_at(t, B_GRADIENTS), *master = p4d_at(t, B_MASTER);
	const uint64_t state = t->weights.elements / t->shards * sizeof(float);

	/* the gradients' buffer holds the weights in fp32 until they are where they belong */
	t->d->zero(t->d, gradients, t->weights.elements * sizeof(float));
	for (uint32_t i = 0; i < t->weights.count; i++) {
		const p4d_weight *w = &t->weights.weight[i];
		const unsigned count = p4d_pieces_of(t->l, t->place, t->set.vocab, w, pieces);
		for (unsigned k = 0; k < count; k++)
			initialize_piece(t, w, &pieces[k], seed);
	}
	t->d->cast(t->d, t->type, p4d_at(t, B_PARAMETERS), P4D_DT_FP32, gradients, t->weights.elements);
	for (uint32_t i = 0; master && i < t->weights.segments; i++) {
		uint64_t first, count;
		p4d_trainer_shard(t, i, &first, &count);
		t->d->copy(t->d, master + t->weights.segment[i].offset / t->shards, gradients + first,
			   count * sizeof(*master));
	}
	t->d->zero(t->d, p4d_at(t, B_FIRST), state);
	t->d->zero(t->d, p4d_at(t, B_SECOND), state);
	return t->d->sync(t->d, err);
}

/* This rank's shard of a segment. In fp32 the parameters are their own masters. */
static float *state_at(p4d_trainer *t, uint32_t segment, p4d_state state, uint64_t *count)
{
	const p4d_buffer of[P4D_STATES] = {B_MASTER, B_FIRST, B_SECOND};
	float *all = p4d_at(t, of[state]);
	uint64_t first;

	p4d_trainer_shard(t, segment, &first, count);
	if (!all)
		return (float *)p4d_at(t, B_PARAMETERS) + first;
	return all + t->weights.segment[segment].offset / t->shards;
}

static int check_segment(const p4d_trainer *t, uint32_t segment, p4d_error *err)
{
	if (segment < t->weights.segments)
		return 0;
	return p4d_fail(err, P4D_E_VALUE, "segment %u of %u", segment, t->weights.segments);
}

int p4d_trainer_read(p4d_trainer *t, uint32_t segment, p4d_state state, float *to, p4d_error *err)
{
	uint64_t count;

	if (check_segment(t, segment, err) < 0)
		return -1;
	const float *from = state_at(t, segment, state, &count);
	t->d->download(t->d, to, from, count * sizeof(*to));
	return t->d->sync(t->d, err);
}

int p4d_trainer_write(p4d_trainer *t, uint32_t segment, p4d_state state, const float *from, p4d_error *err)
{
	uint64_t count;

	if (check_segment(t, segment, err) < 0)
		return -1;
	float *to = state_at(t, segment, state, &count);
	t->d->upload(t->d, to, from, count * sizeof(*from));
	return 0;
}

int p4d_trainer_restore(p4d_trainer *t, p4d_error *err)
{
	for (uint32_t i = 0; i < t->weights.segments; i++) {
		uint64_t first, count;
		p4d_trainer_shard(t, i, &first, &count);
		if (p4d_at(t, B_MASTER)) {
			const float *master = state_at(t, i, P4D_STATE_MASTER, &count);
			t->d->cast(t->d, t->type, (char *)p4d_at(t, B_PARAMETERS) + first * t->element,
				   P4D_DT_FP32, master, count);
		}
		if (p4d_gather_segment(t, i, err) < 0)
			return -1;
	}
	if (p4d_group_await(t->replicas, p4d_group_called(t->replicas), err) < 0)
		return -1;
	return t->d->sync(t->d, err);
}
