/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/breakdown.h"

#include <stdlib.h>

#include "cost/cost_internal.h"

const char *p4d_breakdown_name(p4d_breakdown_part loss)
{
	static const char *const names[] = {
#define LOSS(id, name) name,
	    P4D_LOSSES(LOSS)
#undef LOSS
	};

	return names[loss];
}

/*
 * The part of a step's model FLOPs that belongs to attention: 6*A*s per token and layer, half of that for
 * causal attention, divided by all model FLOPs.
 */
static double attention_share(const p4d_layout *l)
{
	const double tokens = (double)l->global_batch * (double)l->seq_len;

	return 6 * tokens * (double)l->layers * p4d_cost__query_width(l) * (double)l->seq_len *
	       p4d_cost__scores_share(l) / p4d_cost_model_flops(l);
}

/* Adds the seconds of the passes of all stages, for one micro-batch. */
static void add_passes(const p4d_layout *l, const p4d_gpu *gpu, double *seconds)
{
	p4d_cost_passes_of_chunk cost;

	for (uint32_t stage = 0; stage < l->pp; stage++)
		for (uint32_t chunk = 0; chunk < l->vpp; chunk++) {
			p4d_cost__pass(l, gpu, stage, chunk, &cost);
			seconds[P4D_LOSS_GEMM] += cost.gemm;
			seconds[P4D_LOSS_ATTENTION] += cost.attention;
			seconds[P4D_LOSS_MEMORY_BOUND] += cost.memory_bound;
			seconds[P4D_LOSS_TENSOR_COMM] += cost.tensor_comm;
			seconds[P4D_LOSS_CONTEXT_COMM] += cost.context_comm;
			seconds[P4D_LOSS_HOST] += cost.host;
			seconds[P4D_LOSS_DATA_COMM] += cost.data_comm;
			seconds[P4D_LOSS_RECOMPUTE] += cost.recompute;
		}
}

static double of_stage(const double *values, uint32_t stage)
{
	return values ? values[stage] : 0;
}

static void rank(p4d_breakdown *losses)
{
	const double *f = losses->fraction;

	losses->largest = 0;
	for (int i = 1; i < P4D_LOSS_COUNT; i++)
		if (f[i] > f[losses->largest])
			losses->largest = (p4d_breakdown_part)i;
	losses->second = losses->largest == 0 ? 1 : 0;
	for (int i = 0; i < P4D_LOSS_COUNT; i++)
		if (i != (int)losses->largest && f[i] > f[losses->second])
			losses->second = (p4d_breakdown_part)i;
}

int p4d_breakdown_of(const p4d_layout *l, const p4d_gpu *gpu, const p4d_step *step, p4d_breakdown *losses,
		     p4d_error *err)
{
	const double stages = (double)l->pp, whole = stages * step->seconds, attention = attention_share(l);
	double seconds[P4D_LOSS_COUNT] = {0}, *storage = calloc(p4d_cost_storage(l), sizeof(*storage));
	p4d_durations d;

	if (!storage)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the durations of %u stages",
				(unsigned)l->pp);
	p4d_cost_durations(l, gpu, storage, &d);
	add_passes(l, gpu, seconds);
	seconds[P4D_LOSS_GEMM] += stages * (d.vocabulary_forward + d.vocabulary_backward);
	seconds[P4D_LOSS_MEMORY_BOUND] += stages * (d.embed_forward + d.embed_backward);
	for (int i = 0; i < P4D_LOSS_COUNT; i++)
		seconds[i] *= (double)l->micro_batches;
	for (uint32_t stage = 0; stage < l->pp; stage++) {
		seconds[P4D_LOSS_DATA_COMM] += of_stage(d.gather, stage) + of_stage(d.reduce, stage);
		seconds[P4D_LOSS_OPTIMIZER] += of_stage(d.optimizer, stage);
	}
	free(storage);
	seconds[P4D_LOSS_BUBBLE] = step->bubble_fraction * whole;
	seconds[P4D_LOSS_GEMM] -= step->mfu * (1 - attention) * whole;
	seconds[P4D_LOSS_ATTENTION] -= step->mfu * attention * whole;
	double rest = 1 - step->mfu;
	for (int i = 0; i < P4D_LOSS_COUNT; i++)
		rest -= losses->fraction[i] = seconds[i] / whole;
	losses->fraction[P4D_LOSS_PIPELINE_COMM] = rest > 0 ? rest : 0;
	rank(losses);
	return 0;
}
