/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the rows of the plan in the device's arena, or in the host's. */
#include "model/buffers.h"

void p4d_buffers__find(p4d_net *m)
{
	for (unsigned i = 0; i < m->plan.count; i++)
		m->row[m->plan.tensor[i].id] = &m->plan.tensor[i];
}

static void *place_of(const p4d_net *m, const p4d_tensor *row, uint64_t slot, uint64_t layer)
{
	if (!row)
		return NULL;
	char *arena = row->lifetime == P4D_LIVES_ON_HOST ? m->host_arena : m->arena;
	return arena + row->offset + slot * row->slot_stride + layer * row->layer_stride;
}

void *p4d_buffers_at(const p4d_net *m, p4d_buffer which)
{
	return place_of(m, m->row[which], 0, 0);
}

void *p4d_buffers_state(const p4d_net *m, p4d_state which)
{
	return place_of(m, m->row[B_STATE + which], 0, 0);
}

bool p4d_buffers_is_away(const p4d_net *m, p4d_buffer which)
{
	return m->row[which] && m->row[which]->lifetime == P4D_LIVES_ON_HOST;
}

bool p4d_buffers_states_away(const p4d_net *m)
{
	return m->row[B_HOST_GRADIENTS];
}

bool p4d_buffers__keeps(const p4d_net *m, p4d_activation which)
{
	const p4d_tensor *row = m->row[B_ACTIVATION + which];

	return row && row->lifetime != P4D_LIVES_IN_RANGE;
}

void *p4d_buffers_at_slot(const p4d_net *m, p4d_buffer which, uint32_t slot, uint32_t layer)
{
	return place_of(m, m->row[which], slot, layer);
}

void *p4d_buffers_boundary(const p4d_net *m, p4d_buffer which, uint64_t number)
{
	const p4d_tensor *row = m->row[which];

	return m->arena + row->offset + number % P4D_SEND_BUFFERS * (row->bytes / P4D_SEND_BUFFERS);
}
