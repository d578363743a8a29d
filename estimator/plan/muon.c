/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/muon.h"

#include "plan/parameters.h"

p4d_muon_room p4d_muon_room_of(const p4d_layout *l, const p4d_schedule *schedule, uint32_t stage)
{
	p4d_muon_room y = {.second = p4d_parameters__of_adamw(l, schedule, stage)};

	for (unsigned i = 0; i < P4D_ADAPTED_LAYERS; i++) {
		const p4d_adapted m = p4d_adapted_of(l, i);
		const uint64_t side = p4d_muon_by_columns(l, &m) ? m.in : m.out;
		y.matrix = P4D_MOST(y.matrix, (p4d_wide)m.in * m.out);
		y.side = P4D_MOST(y.side, m.out ? side : 0);
	}
	return y;
}
