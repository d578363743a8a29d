/* SPDX-License-Identifier: Apache-2.0 */
#include "timeline/timeline_cost.h"

#include "timeline/timeline_graph.h"

enum { TABLE_PASSES = P4D_OP_VOCAB_BACKWARD - P4D_OP_EMBED_FORWARD + 1 };

uint32_t p4d_timeline_graph__cost_count(const p4d_schedule *s, bool paired)
{
	const uint32_t passes = p4d_timeline_graph__passes(s);

	return passes + 3 * s->stages + TABLE_PASSES + 1 + (paired ? passes : 0);
}

/* Fills the costs of passes without a partner, and of two passes that run at the same time. */
static void alone_costs(const p4d_schedule *s, const double *alone, double *cost)
{
	const uint32_t units = p4d_timeline_graph__passes(s) / 3;
	double *of = cost + p4d_timeline_graph__cost_count(s, false);

	for (uint32_t i = 0; i < units; i++, of += 3) {
		of[0] = cost[3 * i] + alone[i];
		of[1] = cost[3 * i + 1] + alone[i];
		/* with two chunks, the other chunk is the neighbour */
		of[2] = p4d_schedule_kinds[s->kind]->crosswise ? cost[3 * (i ^ 1)] + cost[3 * i + 1] : 0;
	}
}

/* Costs of one slice in a stage's chunk: of its forward, backward (input) and weight passes. */
static void chunk_costs(const p4d_schedule *s, const p4d_durations *d, uint32_t stage, p4d_instruction pass,
			double *of)
{
	const uint32_t position = p4d_schedule_position_of(s, stage, pass.chunk);

	for (unsigned op = 0; op < 3; op++) {
		pass.op = op == 0                 ? P4D_OP_FORWARD
			  : op == 2               ? P4D_OP_BACKWARD_WEIGHT
			  : p4d_is_split(s->kind) ? P4D_OP_BACKWARD_INPUT
						  : P4D_OP_BACKWARD;
		of[op] = p4d_cost(s, d, stage, &pass);
	}
	if (position > 0 && p4d_schedule_stage_at(s, position - 1, NULL) != stage)
		of[0] += d->recv;
	if (p4d_schedule_is_told(s, position) && p4d_schedule_stage_at(s, position + 1, NULL) != stage)
		of[1] += d->recv;
}

void p4d_timeline_graph__costs(const p4d_schedule *s, const p4d_durations *d, double *cost)
{
	double *of = cost, *once = cost + p4d_timeline_graph__passes(s);

	for (uint32_t stage = 0; stage < s->stages; stage++) {
		for (uint32_t chunk = 0; chunk < s->chunks; chunk++)
			for (uint32_t slice = 0; slice < p4d_schedule_slices(s); slice++, of += 3)
				chunk_costs(s, d, stage,
					    (p4d_instruction){.chunk = (uint16_t)chunk, .micro_batch = slice},
					    of);
		for (unsigned op = 0; op < 3; op++) {
			const p4d_instruction in = {.op = op == 0   ? P4D_OP_GATHER_PARAMS
							  : op == 1 ? P4D_OP_REDUCE_GRADS
								    : P4D_OP_OPTIMIZER};
			*once++ = p4d_cost(s, d, stage, &in);
		}
	}
	for (unsigned i = 0; i < TABLE_PASSES; i++) {
		const p4d_instruction in = {.op = (uint8_t)(P4D_OP_EMBED_FORWARD + i)};
		*once++ = p4d_cost(s, d, 0, &in);
	}
	*once = 0; /* the nodes of a barrier take no time themselves; the collective's time is in the lag */
	if (d->alone)
		alone_costs(s, d->alone, cost);
}

double p4d_timeline_graph__busy(const p4d_schedule *s, const double *cost)
{
	const uint32_t passes = p4d_timeline_graph__passes(s), once = 3 * s->stages;
	const unsigned shares = s->chunks + (s->vocabulary != P4D_VOCAB_OFF ? 1 : 0);
	double each = 0, tables = 0, busy = 0;

	for (uint32_t i = 0; i < passes; i++)
		each += i % 3 == 2 && !p4d_is_split(s->kind) ? 0 : cost[i];
	for (uint32_t i = 0; s->vocabulary != P4D_VOCAB_OFF && i < TABLE_PASSES; i++)
		tables += cost[passes + once + i];
	for (uint32_t i = 0; i < once; i++)
		busy += cost[passes + i] * (i % 3 == 2 ? 1 : shares);
	return busy + (double)s->micro_batches / p4d_schedule_slices(s) * (each + s->stages * tables);
}
