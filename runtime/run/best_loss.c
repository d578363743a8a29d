/* SPDX-License-Identifier: Apache-2.0 */
#include "run/best_loss.h"

#include <math.h>

void p4d_best_loss_seen(p4d_best_loss *best, uint64_t step, double loss)
{
	best->lowest = isfinite(loss) && (!best->step || loss < best->loss);
	if (!best->lowest) {
		best->worse++;
		return;
	}
	best->loss = loss;
	best->step = step;
	best->worse = 0;
}
