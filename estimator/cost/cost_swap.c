/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Activations that p4d-train swaps to the host or recomputes (plan/offload.h): the time that passes do not
 * hide.
 */
#include <string.h>

#include "cost/cost_internal.h"
#include "plan/offload.h"
#include "plan/parameters.h"

static double behind(double seconds)
{
	return seconds > 0 ? seconds : 0;
}

/* Additional seconds of a layer's backward passes if all its activations are recomputed. */
static double recomputation(const p4d_layout *l, const p4d_cost_rates *r)
{
	p4d_layout full;

	memcpy(&full, l, sizeof(full));
	full.recompute = P4D_RECOMPUTE_FULL;
	const p4d_cost_passes once = p4d_cost__layer_passes(l, r, NULL),
			      again = p4d_cost__layer_passes(&full, r, NULL);
	return again.input + again.weight - once.input - once.weight;
}

/* Bytes of a layer's parameters that are copied over the same link during a pass. */
static double lifted(const p4d_layout *l, const p4d_cost_rates *r)
{
	const double elements = p4d_cost__layer_matrices(l) / (double)l->tp;

	if (!p4d_streams_parameters(l))
		return 0;
	return r->element * elements / (double)p4d_optimizer_shards(l) * r->lift * p4d_offload_misses(l);
}

void p4d_cost__add_swaps(const p4d_layout *l, const p4d_gpu *gpu, p4d_cost_terms *t)
{
	p4d_cost_swaps s;

	t->layer_again = 0;
	if (!p4d_cost__swaps(l, gpu, &s))
		return;
	const double moved = s.share * s.bytes * t->rates.lift;

	t->layer_again = (1 - s.share) * recomputation(l, &t->rates);
	t->layer.input += t->layer_again;
	/* in forward passes, no parameters are copied to the host */
	const double forward = behind(moved - t->layer.forward),
		     backward = behind(moved + lifted(l, &t->rates) - t->layer.input - t->layer.weight);
	t->layer.forward += forward;
	t->layer.input += backward;
	t->layer_data += forward + backward;
}
