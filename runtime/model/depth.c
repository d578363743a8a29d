/* SPDX-License-Identifier: Apache-2.0 */
#include "model/depth.h"

#include <string.h>

#include "model/buffers.h"

static const p4d_weight_kind matrices[P4D_DEPTH_MATRICES] = {P4D_W_QKV, P4D_W_OUTPUT, P4D_W_GATE_UP,
							     P4D_W_DOWN};

/* The index of the place for a layer's gathered matrices. Consecutive layers have different places. */
static unsigned place_of(uint32_t layer)
{
	return layer % P4D_DEPTH_PLACES;
}

/* Number of elements that precede a matrix in a buffer of a whole layer's matrices. */
static uint64_t offset_of(const p4d_net *m, const p4d_weight *w)
{
	const uint64_t elements[P4D_DEPTH_MATRICES] = {m->columns * m->h, m->h * m->q, m->up * m->h,
						       m->h * m->f};
	uint64_t at = place_of(w->layer) * (elements[0] + elements[1] + elements[2] + elements[3]);

	for (unsigned i = 0; matrices[i] != w->kind; i++)
		at += elements[i];
	return at;
}

void *p4d_depth__weight(const p4d_net *m, const p4d_weight *w)
{
	return (char *)p4d_buffers_at(m, B_GRID_MATRICES) + offset_of(m, w) * m->element;
}

float *p4d_depth__gradient(const p4d_net *m, const p4d_weight *w)
{
	return (float *)p4d_buffers_at(m, B_GRID_GRADIENTS) + offset_of(m, w);
}

void p4d_depth__compute(p4d_net *m, const p4d_weight *w)
{
	for (unsigned i = 0; i < P4D_DEPTH_MATRICES; i++)
		m->depth.computed |= matrices[i] == w->kind ? 1u << i : 0;
}

void p4d_depth__forget(p4d_net *m)
{
	memset(m->depth.layer, 0xff, sizeof(m->depth.layer));
}

int p4d_depth_gather(p4d_net *m, uint32_t layer, p4d_error *err)
{
	const unsigned place = place_of(layer);

	if (!m->tp_z || m->depth.layer[place] == layer)
		return 0;
	for (unsigned i = 0; i < P4D_DEPTH_MATRICES; i++) {
		const p4d_weight *w = p4d_weights__find(&m->weights, matrices[i], layer);
		const char *own = (char *)p4d_buffers_at(m, B_PARAMETERS) + w->offset * m->element;
		if (p4d_comm_all_gather(m->tp_z, p4d_depth__weight(m, w), own,
					w->rows * w->columns * m->element, err) < 0)
			return -1;
	}
	m->depth.layer[place] = layer;
	m->depth.calls[place] = p4d_comm_called(m->tp_z);
	return 0;
}

int p4d_depth_await(p4d_net *m, uint32_t layer, p4d_error *err)
{
	return m->tp_z ? p4d_comm_await(m->tp_z, m->depth.calls[place_of(layer)], err) : 0;
}

/* Address of this rank's rows in the buffer in which a matrix's gradient is summed. */
static float *own_rows(const p4d_net *m, const p4d_weight *w)
{
	return p4d_depth__gradient(m, w) + p4d_group_index(m->tp_z) * w->rows * w->columns;
}

int p4d_depth_end(p4d_net *m, p4d_error *err)
{
	const unsigned summed = m->depth.summed;

	m->depth.summed = 0;
	if (summed && p4d_comm_await(m->tp_z, m->depth.sum_calls, err) < 0)
		return -1;
	for (unsigned i = 0; i < P4D_DEPTH_MATRICES; i++) {
		if (!(summed >> i & 1))
			continue;
		const p4d_weight *w = p4d_weights__find(&m->weights, matrices[i], m->depth.sum_layer);
		m->d->accumulate(m->d, (float *)p4d_buffers_at(m, B_GRADIENTS) + w->offset, P4D_DT_FP32,
				 own_rows(m, w), w->rows * w->columns);
	}
	return 0;
}

int p4d_depth_reduce(p4d_net *m, uint32_t layer, p4d_error *err)
{
	const unsigned computed = m->depth.computed;

	if (!m->tp_z)
		return 0;
	for (unsigned i = 0; i < P4D_DEPTH_MATRICES; i++) {
		if (!(computed >> i & 1))
			continue;
		const p4d_weight *w = p4d_weights__find(&m->weights, matrices[i], layer);
		if (p4d_comm_reduce_scatter(m->tp_z, own_rows(m, w), p4d_depth__gradient(m, w),
					    w->rows * w->columns, P4D_DT_FP32, err) < 0)
			return -1;
	}
	const uint64_t calls = p4d_comm_called(m->tp_z);
	if (p4d_depth_end(m, err) < 0)
		return -1;
	m->depth.computed = 0;
	m->depth.summed = computed;
	m->depth.sum_layer = layer;
	m->depth.sum_calls = calls;
	return 0;
}
