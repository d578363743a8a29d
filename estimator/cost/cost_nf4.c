/* SPDX-License-Identifier: Apache-2.0 */
/* The time of expanding frozen matrices that are stored in 4 bits. */
#include "cost/cost_internal.h"
#include "plan/nf4.h"

void p4d_cost__expands(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z,
		       p4d_cost_part *y)
{
	const double matrices = z->h * (2 * z->A + 2 * z->G + z->up + z->f);
	/* bytes read and written per element: the code, its scale, and the expanded element */
	const double bytes = 0.5 + 1.0 / P4D_NF4_BLOCK + r->element;

	if (!p4d_cost__freezes(l) || !p4d_stores_nf4(l))
		return;
	y->forward.memory_bound += p4d_cost__memory_seconds(r, bytes * matrices);
	y->backward_input.memory_bound += p4d_cost__memory_seconds(r, bytes * matrices);
}
