/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the grid for --tp-grid=auto: the one with the fastest passes among the grids of tp ranks. */
#include <math.h>

#include "cost/cost_internal.h"

/*
 * Seconds per sequence for a stage's passes with this grid, including embedding and head; infinity: the grid
 * is not possible.
 */
static double seconds_with(p4d_layout *l, const p4d_cost_rates *r, p4d_tp_grid grid)
{
	const p4d_framework *framework = p4d_framework_of(l->framework);

	if (!p4d_layout_grid_works(l, grid))
		return INFINITY;
	p4d_layout_put_grid(l, grid);
	if (framework->check_layout && framework->check_layout(l, NULL) < 0)
		return INFINITY;
	const p4d_cost_passes layer = p4d_cost__layer_passes(l, r, NULL),
			      head = p4d_cost__head_passes(l, r, NULL);
	const double layers = (double)l->layers / (double)l->pp;

	return layers * (layer.forward + layer.input + layer.weight) + head.forward + head.input +
	       head.weight;
}

p4d_tp_grid p4d_cost_best_grid(const p4d_layout *layout, const p4d_gpu *gpu)
{
	const uint64_t tp = p4d_tp_ranks(layout);
	p4d_layout l = *layout;
	const p4d_cost_rates r = p4d_cost__rates_of(&l, gpu);
	p4d_tp_grid best = {tp, 1, 1};
	double least = INFINITY;

	for (uint64_t x = tp; x >= 1; x--)
		for (uint64_t y = 1; tp % x == 0 && y <= tp / x; y++) {
			const p4d_tp_grid grid = {x, y, tp / x / y};
			const double seconds = tp / x % y == 0 ? seconds_with(&l, &r, grid) : INFINITY;
			if (seconds < least) {
				least = seconds;
				best = grid;
			}
		}
	return best;
}
