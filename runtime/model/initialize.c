/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the weights of a new model. One core computes a billion normal numbers per minute, so a rank uses all
 * its cores. The values do not depend on the number of threads.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "model/buffers.h"
#include "model/quantized.h"
#include "plan/parameters.h"

enum { MOST_THREADS = 16, SHARE = 1 << 18 }; /* SHARE: elements that a thread generates at a time */
#define INITIAL_DEVIATION 0.02
#define PI 3.14159265358979323846

/* A hash: the finalizer of splitmix64. */
static uint64_t mixed(uint64_t z)
{
	z += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* A number from a normal distribution with this standard deviation (Box-Muller). */
static float normal(uint64_t key, uint64_t index, double deviation)
{
	const uint64_t a = mixed(key ^ mixed(2 * index)), b = mixed(key ^ mixed(2 * index + 1));
	const double u = ((double)(a >> 11) + 1) / 9007199254740993.0,
		     v = (double)(b >> 11) / 9007199254740992.0;

	return (float)(deviation * sqrt(-2 * log(u)) * cos(2 * PI * v));
}

static float uniform(uint64_t key, uint64_t index, double bound)
{
	return (float)(bound * ((double)(mixed(key ^ mixed(index)) >> 11) / 4503599627370496.0 - 1));
}

/* A thread's part: elements from..from+count-1 of a slice. */
typedef struct share {
	const p4d_weight_slice *slice;
	uint64_t key, from, count;
	double deviation; /* standard deviation; 0: all elements are `constant` */
	double bound;     /* if above 0: a uniform distribution between -bound and bound instead */
	float constant;
	float *to;
} share;

static void *draw(void *context)
{
	const share *s = context;
	const p4d_weight_slice *p = s->slice;
	const uint64_t width = p->tensor_columns ? p->tensor_columns : 1;
	uint64_t row = s->from / p->columns, column = s->from % p->columns;

	for (uint64_t i = 0; i < s->count; i++) {
		const uint64_t index = (p->first_row + row) * width + p->first_column + column;
		s->to[i] = s->bound > 0       ? uniform(s->key, index, s->bound)
			   : s->deviation > 0 ? normal(s->key, index, s->deviation)
					      : s->constant;
		if (++column == p->columns) {
			column = 0;
			row++;
		}
	}
	return NULL;
}

/* Number of threads of a rank: its share of the cores that this process may use. */
static unsigned threads_of(const p4d_net *m)
{
	cpu_set_t set;
	const int cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
	const uint64_t own = (uint64_t)cores / m->l->gpus_per_node;

	return own < 1 ? 1 : own < MOST_THREADS ? (unsigned)own : MOST_THREADS;
}

/* Generates the next elements of a slice, beginning where `like` begins. Returns how many. */
static uint64_t draw_some(const share *like, uint64_t left, unsigned threads)
{
	share shares[MOST_THREADS];
	pthread_t thread[MOST_THREADS];
	bool apart[MOST_THREADS] = {false};
	uint64_t made = 0;

	for (unsigned i = 0; i < threads && made < left; i++) {
		share *s = &shares[i];
		*s = *like;
		s->from += made;
		s->to += made;
		s->count = left - made < SHARE ? left - made : SHARE;
		made += s->count;
		apart[i] = made < left && i + 1 < threads && pthread_create(&thread[i], NULL, draw, s) == 0;
		if (!apart[i])
			draw(s);
	}
	for (unsigned i = 0; i < threads; i++)
		if (apart[i])
			pthread_join(thread[i], NULL);
	return made;
}

static bool is_norm(p4d_weight_kind kind)
{
	return kind == P4D_W_ATTENTION_NORM || kind == P4D_W_FFN_NORM || kind == P4D_W_FINAL_NORM ||
	       kind == P4D_W_QUERY_NORM || kind == P4D_W_KEY_NORM || kind == P4D_W_ATTENTION_POST_NORM ||
	       kind == P4D_W_FFN_POST_NORM || kind == P4D_W_LOCAL_NORM;
}

/*
 * Chooses the distribution. Norms start at 1 (at 0 if the norm adds 1 to its weights), biases at 0. Matrices
 * that write to the residual stream get smaller numbers in deeper models. Adapters start as in PEFT: A like
 * the weights of nn.Linear, B at 0, so that an adapter adds nothing at first.
 */
static void begin_with(share *all, const p4d_net *m, const p4d_weight *w, const p4d_weight_slice *p)
{
	const bool residual = w->kind == P4D_W_OUTPUT || w->kind == P4D_W_DOWN;

	if (p4d_weights_adapts(w->kind)) {
		const bool is_b = (w->kind - P4D_W_ADAPTER) % 2;
		all->bound = is_b ? 0 : 1 / sqrt((double)p->tensor_columns);
		return;
	}
	all->constant = is_norm(w->kind) && !m->l->architecture->unit_norms ? 1 : 0;
	if (w->decay)
		all->deviation =
		    residual ? INITIAL_DEVIATION / sqrt(2.0 * (double)m->l->layers) : INITIAL_DEVIATION;
}

static uint64_t key_of(uint64_t seed, const p4d_weight_slice *p)
{
	return mixed(seed) ^ p4d_hash_bytes(p->name, strlen(p->name));
}

void p4d_net_draw_local(const p4d_net *m, uint64_t seed, const p4d_weight_slice *p, uint64_t at,
			uint64_t count, float *to)
{
	p4d_weight_slice slices[P4D_SLICES_OF_WEIGHT];
	share all = {.slice = p, .key = key_of(seed, p), .from = at, .count = count, .to = to};

	for (uint32_t i = 0; i < m->weights.count; i++) {
		const p4d_weight *w = &m->weights.weight[i];
		if (p4d_weight_slices_of(m->l, m->place, m->set.vocab, w, slices) &&
		    !strcmp(slices[0].name, p->name))
			begin_with(&all, m, w, p);
	}
	draw(&all);
}

/*
 * Stores initial values. Values of trained weights go to the gradient buffer in fp32, until `store` makes
 * parameters of them. If gradients are sharded, these are only this rank's shards.
 */
static void put(p4d_net *m, const p4d_weight *w, uint64_t offset, float *numbers, uint64_t count)
{
	if (w->frozen)
		p4d_buffers_put_frozen(m, offset, numbers, count);
	else
		m->d->upload(m->d, p4d_buffers_gradients(m, w->segment, offset), numbers,
			     count * sizeof(*numbers));
}

/*
 * The range of a slice's elements that this rank needs: from *from up to, not including, the returned index.
 */
static uint64_t wanted(const p4d_net *m, const p4d_weight *w, const p4d_weight_slice *p, uint64_t *from)
{
	const uint64_t end = p->offset + p->rows * p->columns;
	uint64_t first, count;

	*from = 0;
	if (w->frozen || !p4d_shards_gradients(m->l))
		return end - p->offset;
	p4d_weights_shard_of(m->l, &m->weights.segment[w->segment], m->place, &first, &count);
	*from = first > p->offset ? first - p->offset : 0;
	if (first + count <= p->offset)
		return 0;
	return (first + count < end ? first + count : end) - p->offset;
}

static void initialize_slice(p4d_net *m, const p4d_weight *w, const p4d_weight_slice *p, uint64_t seed,
			     float *numbers, unsigned threads)
{
	share all = {.slice = p, .key = key_of(seed, p), .to = numbers};

	const uint64_t count = wanted(m, w, p, &all.from);

	begin_with(&all, m, w, p);
	while (all.from < count) {
		const uint64_t made = draw_some(&all, count - all.from, threads);
		put(m, w, p->offset + all.from, numbers, made);
		all.from += made;
	}
}

/* Initializes whole tensors, which are then quantized. */
static int initialize_quantized(p4d_net *m, const p4d_weight *w, const p4d_quantized_part *part,
				uint64_t seed, float *numbers, unsigned threads, p4d_error *err)
{
	const uint64_t count = part->slice.rows * part->slice.columns;
	share all = {.slice = &part->slice, .key = key_of(seed, &part->slice), .to = numbers};

	begin_with(&all, m, w, &part->slice);
	while (all.from < count) {
		const uint64_t made = draw_some(&all, count - all.from, threads);
		if (p4d_quantized_put(m, w, part, all.from, numbers, made, err) < 0)
			return -1;
		all.from += made;
	}
	return 0;
}

static int initialize_weight(p4d_net *m, const p4d_weight *w, uint64_t seed, float *numbers, unsigned threads,
			     p4d_error *err)
{
	p4d_weight_slice slices[P4D_SLICES_OF_WEIGHT];
	p4d_quantized_part parts[P4D_SLICES_OF_WEIGHT];
	unsigned count;

	if (!w->quantized) {
		count = p4d_weight_slices_of(m->l, m->place, m->set.vocab, w, slices);
		for (unsigned k = 0; k < count; k++)
			initialize_slice(m, w, &slices[k], seed, numbers, threads);
		return 0;
	}
	count = p4d_weights_quantized_parts(m->l, m->place, m->set.vocab, w, parts);
	for (unsigned k = 0; k < count; k++)
		if (initialize_quantized(m, w, &parts[k], seed, numbers, threads, err) < 0)
			return -1;
	return 0;
}

/*
 * Copies the elements in the gradient buffer to the parameters and, if there are any, to the master copies.
 * fp32 parameters on the host are their own master copies. Other parameters on the host are made when master
 * copies are restored.
 */
static void store(p4d_net *m, uint64_t here)
{
	const bool whole = !p4d_shards_gradients(m->l), away = p4d_buffers_is_away(m, B_PARAMETERS);
	float *master = p4d_buffers_state(m, P4D_STATE_MASTER);

	if (away && !master)
		m->d->move(m->d, NULL, p4d_buffers_at(m, B_PARAMETERS), p4d_buffers_at(m, B_GRADIENTS),
			   here * sizeof(float));
	else if (whole && !away)
		m->d->cast(m->d, m->type, p4d_buffers_at(m, B_PARAMETERS), P4D_DT_FP32,
			   p4d_buffers_at(m, B_GRADIENTS), here);
	for (uint32_t i = 0; i < m->weights.segments; i++) {
		uint64_t first, count;
		p4d_weights_shard_of(m->l, &m->weights.segment[i], m->place, &first, &count);
		const float *numbers = p4d_buffers_gradients(m, i, first);
		if (!whole && !away)
			m->d->cast(m->d, m->type, p4d_buffers_parameters(m, i, first), P4D_DT_FP32, numbers,
				   count);
		if (master)
			m->d->move(m->d, NULL, master + m->weights.segment[i].offset / m->shards, numbers,
				   count * sizeof(*master));
	}
}

static void clear_moments(p4d_net *m)
{
	const p4d_buffer rows[] = {B_STATE + P4D_STATE_MASTER + 1, B_STATE + P4D_STATE_MASTER + 2, B_SCALES,
				   B_SMALL_MOMENTS, B_SECOND_MOMENTS};
	p4d_device *d = p4d_buffers_states_away(m) ? m->host : m->d;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (m->row[rows[i]])
			d->zero(d, p4d_buffers_at(m, rows[i]), m->row[rows[i]]->bytes);
}

int p4d_net_initialize(p4d_net *m, uint64_t seed, bool trained_only, p4d_error *err)
{
	float *gradients = p4d_buffers_at(m, B_GRADIENTS);
	const uint64_t here = m->weights.elements / (p4d_shards_gradients(m->l) ? m->shards : 1);
	const unsigned threads = threads_of(m);
	float *numbers = malloc((size_t)threads * SHARE * sizeof(*numbers));

	if (!numbers)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for new weights");
	m->d->zero(m->d, gradients, here * sizeof(float));
	int rc = 0;
	for (uint32_t i = 0; rc == 0 && i < (trained_only ? m->weights.trained : m->weights.count); i++)
		rc = initialize_weight(m, &m->weights.weight[i], seed, numbers, threads, err);
	free(numbers);
	if (rc < 0)
		return -1;
	store(m, here);
	clear_moments(m);
	return m->d->sync(m->d, err);
}
