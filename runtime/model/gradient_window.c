/* SPDX-License-Identifier: Apache-2.0 */
#include "model/gradient_window.h"

#include <stdlib.h>

#include "model/buffers.h"

/* A place of the window. busy: a reduction has started, but its result is not in the shard yet. */
typedef struct gradient_place {
	uint32_t segment;
	bool busy;
	uint64_t ticket;
	float *at;
} gradient_place;

/* The window. Layers use its places in turn; the last place may be for tables. */
struct p4d_gradient_window {
	uint32_t layers, count, turn;
	uint32_t *holder; /* for each segment: the place that it is in, or was in last */
	gradient_place *place;
};

static void fill_places(p4d_net *m, p4d_gradient_window *w)
{
	const p4d_tensor *row = m->row[B_LAYER_GRADIENTS];

	for (uint32_t i = 0; i < w->layers; i++)
		w->place[i].at = (float *)p4d_buffers_at(m, B_LAYER_GRADIENTS) +
				 i * (row->bytes / w->layers / sizeof(float));
	if (w->count > w->layers)
		w->place[w->layers].at = p4d_buffers_at(m, B_TABLE_GRADIENTS);
	for (uint32_t i = m->weights.in_chunks; i < m->weights.segments; i++)
		w->holder[i] = w->layers;
}

int p4d_gradient_window_open(p4d_net *m, p4d_error *err)
{
	p4d_gradient_window *w;

	if (!m->row[B_LAYER_GRADIENTS])
		return 0;
	w = m->gradient_window = calloc(1, sizeof(*w));
	if (!w)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a window of gradients");
	w->layers = (uint32_t)m->row[B_LAYER_GRADIENTS]->shape[0];
	w->count = w->layers + (m->row[B_TABLE_GRADIENTS] ? 1 : 0);
	w->place = calloc(w->count, sizeof(*w->place));
	w->holder = calloc(m->weights.segments, sizeof(*w->holder));
	if (!w->place || !w->holder)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a window of gradients");
	fill_places(m, w);
	return 0;
}

void p4d_gradient_window_close(p4d_net *m)
{
	p4d_gradient_window *w = m->gradient_window;

	if (!w)
		return;
	free(w->place);
	free(w->holder);
	free(w);
	m->gradient_window = NULL;
}

float *p4d_gradient_window__at(const p4d_net *m, uint32_t segment)
{
	const p4d_gradient_window *w = m->gradient_window;

	return w->place[w->holder[segment]].at;
}

float *p4d_gradient_window_room(const p4d_net *m, uint32_t segment)
{
	const p4d_gradient_window *w = m->gradient_window;

	return w->place[segment >= m->weights.in_chunks ? w->layers : 0].at;
}

/*
 * The address of this rank's part of the reduced gradients: where it would be if the place had the parts of
 * all ranks, one after another.
 */
static float *own_part(const p4d_net *m, const gradient_place *p, uint64_t *count)
{
	const p4d_segment *s = &m->weights.segment[p->segment];

	*count = s->padded / m->shards;
	return p->at + *count * p4d_weights_shard_number(m->l, m->place);
}

/* Waits for the reduction and adds its result to the shard. Does nothing if none is running. */
static int finish(p4d_net *m, gradient_place *p, p4d_error *err)
{
	uint64_t count;

	if (!p->busy)
		return 0;
	p->busy = false;
	if (p4d_comm_await(m->dp_cp, p->ticket, err) < 0)
		return -1;
	const float *part = own_part(m, p, &count);
	m->d->accumulate(
	    m->d, (float *)p4d_buffers_at(m, B_GRADIENTS) + m->weights.segment[p->segment].offset / m->shards,
	    P4D_DT_FP32, part, count);
	return 0;
}

/* Whether a segment has gradients. With adapters, tables have none. */
static bool is_trained(const p4d_net *m, uint32_t segment)
{
	return m->gradient_window && m->weights.segment[segment].padded;
}

int p4d_gradient_window_begin(p4d_net *m, uint32_t segment, p4d_error *err)
{
	p4d_gradient_window *w = m->gradient_window;

	if (!is_trained(m, segment))
		return 0;
	const uint32_t number = segment >= m->weights.in_chunks ? w->layers : w->turn++ % w->layers;
	gradient_place *p = &w->place[number];
	if (finish(m, p, err) < 0)
		return -1;
	p->segment = segment;
	w->holder[segment] = number;
	p4d_buffers_clear_segment(m, segment);
	return 0;
}

int p4d_gradient_window_end(p4d_net *m, uint32_t segment, p4d_error *err)
{
	uint64_t count;

	if (!is_trained(m, segment))
		return 0;
	gradient_place *p = &m->gradient_window->place[m->gradient_window->holder[segment]];
	p4d_buffers_complete_gradients(m, segment);
	float *part = own_part(m, p, &count);
	if (p4d_comm_reduce_scatter(m->dp_cp, part, p->at, count, P4D_DT_FP32, err) < 0)
		return -1;
	p->busy = true;
	p->ticket = p4d_comm_called(m->dp_cp);
	return 0;
}

int p4d_gradient_window_settle(p4d_net *m, p4d_error *err)
{
	for (uint32_t i = 0; m->gradient_window && i < m->gradient_window->count; i++)
		if (finish(m, &m->gradient_window->place[i], err) < 0)
			return -1;
	return 0;
}
