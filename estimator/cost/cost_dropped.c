/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Activations that p4d-train swaps to the host: the number of layers for which the host has room, and those
 * whose activations are dropped instead.
 */
#include "cost/cost_internal.h"
#include "plan/offload.h"
#include "plan/plan.h"

bool p4d_cost__swaps(const p4d_layout *l, const p4d_gpu *gpu, p4d_cost_swaps *s)
{
	p4d_plan plan;

	if (!p4d_swaps_activations(l) || p4d_plan_build(l, gpu, 0, &plan, NULL) < 0)
		return false;
	const p4d_tensor *row = p4d_plan_find(&plan, B_HOST_ACTIVATIONS);
	*s = (p4d_cost_swaps){row ? row->layers / (double)(l->stage_layers[0] / l->vpp) : 0,
			      row ? (double)row->bytes : 0};
	return true;
}

double p4d_cost__dropped_share(const p4d_layout *l, const p4d_gpu *gpu)
{
	p4d_cost_swaps s;

	return p4d_cost__swaps(l, gpu, &s) ? 1 - s.share : 0;
}
