/* SPDX-License-Identifier: Apache-2.0 */
#include "parameters.h"

enum { SHARD_MULTIPLE = 128 };

p4d_wide p4d_layer_parameters(const p4d_layout *l)
{
	p4d_wide h = l->hidden, f = l->ffn, t = l->tp;
	p4d_wide A = (p4d_wide)l->heads * l->head_dim, G = (p4d_wide)l->kv_heads * l->head_dim;
	p4d_wide n =
	    p4d_div_up(2 * h * A + 2 * h * G + (l->glu ? 3 : 2) * h * f, t) + 2 * h * l->norm_tensors;

	if (l->bias != P4D_BIAS_NONE)
		n += p4d_div_up(A + 2 * G, t);
	if (l->bias == P4D_BIAS_ALL) /* row-parallel layers keep their bias whole */
		n += p4d_div_up((l->glu ? 2 : 1) * f, t) + 2 * h;
	if (l->qk_norm)
		n += 2 * (p4d_wide)l->head_dim;
	return n;
}

p4d_wide p4d_chunk_parameters(const p4d_layout *l, const p4d_schedule *schedule, uint32_t stage,
			      uint32_t chunk)
{
	p4d_wide table = l->vocab_parallel ? 0 : p4d_div_up((p4d_wide)l->vocab * l->hidden, l->tp);
	p4d_wide n = l->stage_layers[stage] / l->vpp * p4d_layer_parameters(l);
	uint32_t position = p4d_position_of(schedule, stage, chunk);

	if (position == 0)
		n += table + (p4d_wide)l->positions * l->hidden;
	if (position == p4d_positions(schedule) - 1) {
		/* a tied table exists once where one stage has both ends of the model, else at both ends */
		bool shared = l->tied && p4d_is_first(schedule, stage);
		n += (shared ? 0 : table) + (p4d_wide)l->hidden * l->norm_tensors;
	}
	return n;
}

p4d_wide p4d_vocabulary_parameters(const p4d_layout *l)
{
	if (!l->vocab_parallel)
		return 0;
	return (l->tied ? 1 : 2) * p4d_div_up((p4d_wide)l->vocab * l->hidden, (p4d_wide)l->tp * l->pp);
}

p4d_wide p4d_stage_parameters(const p4d_layout *l, const p4d_schedule *schedule, uint32_t stage)
{
	p4d_wide n = p4d_vocabulary_parameters(l);

	for (uint32_t chunk = 0; chunk < l->vpp; chunk++)
		n += p4d_chunk_parameters(l, schedule, stage, chunk);
	return n;
}

static p4d_wide padded(const p4d_layout *l, p4d_wide n)
{
	p4d_wide unit = (p4d_wide)p4d_optimizer_shards(l) * SHARD_MULTIPLE;

	return p4d_div_up(n, unit) * unit;
}

/* Chunks that are no end of the model are all the same. */
p4d_wide p4d_padded_parameters(const p4d_layout *l, const p4d_schedule *schedule, uint32_t stage)
{
	const uint32_t last = p4d_positions(schedule) - 1;
	p4d_wide n = padded(l, p4d_vocabulary_parameters(l)), inner = 0;

	for (uint32_t chunk = 0; chunk < l->vpp; chunk++) {
		const uint32_t position = p4d_position_of(schedule, stage, chunk);
		const bool end = position == 0 || position == last;
		if (end || !inner) {
			const p4d_wide of_chunk = padded(l, p4d_chunk_parameters(l, schedule, stage, chunk));
			n += of_chunk;
			inner = end ? inner : of_chunk;
		} else {
			n += inner;
		}
	}
	return n;
}

p4d_wide p4d_largest_segment(const p4d_layout *l, const p4d_schedule *schedule, uint32_t stage)
{
	p4d_wide most = padded(l, p4d_vocabulary_parameters(l));

	for (uint32_t chunk = 0; chunk < l->vpp; chunk++) {
		p4d_wide n = padded(l, p4d_chunk_parameters(l, schedule, stage, chunk));
		most = n > most ? n : most;
	}
	return most;
}
