/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/parameters.h"

/* The start of the model, outside its layers. */
static p4d_wide begin_parameters(const p4d_layout *l)
{
	return (l->vocab_parallel ? 0 : p4d_size_of_table(l)) + p4d_size_of_begin(l);
}

uint64_t p4d_parameters_first_layer(const p4d_layout *l, uint32_t stage, uint32_t chunk)
{
	const uint64_t position = chunk * l->pp + stage;
	uint64_t before = 0;

	for (uint64_t i = 0; i < position; i++)
		before += p4d_chunk_layers(l, (uint32_t)(i % l->pp), (uint32_t)(i / l->pp));
	return before;
}

/* Without experts; of models that have them, all layers as if they had none, but of those with a pattern. */
static p4d_wide chunk_layers(const p4d_layout *l, uint32_t stage, uint32_t chunk)
{
	const uint32_t n = p4d_chunk_layers(l, stage, chunk);

	return l->pattern_length ? p4d_size_of_layers(l, p4d_parameters_first_layer(l, stage, chunk), n)
				 : n * p4d_size_of_layer(l);
}

p4d_wide p4d_parameters__of_chunk(const p4d_layout *l, const p4d_schedule *schedule, uint32_t stage,
				  uint32_t chunk)
{
	p4d_wide table = l->vocab_parallel ? 0 : p4d_size_of_table(l);
	p4d_wide n = chunk_layers(l, stage, chunk);
	uint32_t position = p4d_schedule_position_of(schedule, stage, chunk);

	if (position == 0)
		n += begin_parameters(l);
	if (position == p4d_schedule_positions(schedule) - 1) {
		/* a tied table exists once where one stage has both ends of the model, else at both ends */
		bool shared = l->tied && stage == 0;
		n += (shared ? 0 : table) + p4d_size_of_end(l) + l->mtp_layers * p4d_size_of_further(l);
		if (l->mtp_layers && stage > 0 && !l->tied) /* they have the embedding, too */
			n += begin_parameters(l);
	}
	return n;
}

p4d_wide p4d_parameters__of_vocabulary(const p4d_layout *l)
{
	if (!l->vocab_parallel)
		return 0;
	return (l->tied ? 1 : 2) * p4d_div_up((p4d_wide)l->vocab * l->hidden, (p4d_wide)l->tp * l->pp);
}

uint32_t p4d_parameters_expert_layers(const p4d_layout *l, uint32_t stage, uint32_t chunk)
{
	const uint64_t position = chunk * l->pp + stage, all = p4d_chunk_layers(l, stage, chunk);
	uint64_t before = 0;

	if (!l->experts)
		return 0;
	/* behind those without experts all are alike, unless they alternate */
	const bool differ = l->expert_every > 1 || l->pattern_length;
	for (uint64_t i = 0; i < position && (before < l->dense_layers || differ); i++)
		before += p4d_chunk_layers(l, (uint32_t)(i % l->pp), (uint32_t)(i / l->pp));
	return (uint32_t)(p4d_expert_layers_before(l, before + all) - p4d_expert_layers_before(l, before));
}

uint32_t p4d_parameters_expert_layers_of_stage(const p4d_layout *l, uint32_t stage)
{
	uint32_t sum = 0;

	for (uint32_t chunk = 0; l->experts && chunk < l->vpp; chunk++)
		sum += p4d_parameters_expert_layers(l, stage, chunk);
	return sum;
}

p4d_layer_counts p4d_parameters_layers_of_stage(const p4d_layout *l, uint32_t stage)
{
	p4d_layer_counts sum = {0};

	for (uint32_t chunk = 0; chunk < l->vpp; chunk++) {
		const p4d_layer_counts c = p4d_layers_count(l, p4d_parameters_first_layer(l, stage, chunk),
							    p4d_chunk_layers(l, stage, chunk));
		for (int m = 0; m < P4D_MIXERS; m++)
			for (int f = 0; f < P4D_FEEDS; f++)
				sum.of[m][f] += c.of[m][f];
	}
	return sum;
}

p4d_wide p4d_parameters_of_experts(const p4d_layout *l, uint32_t stage)
{
	const uint64_t further = stage == l->pp - 1 ? l->mtp_layers : 0;
	const p4d_wide layers = p4d_parameters_expert_layers_of_stage(l, stage) + further;

	return l->experts ? layers * (l->experts / l->ep) * p4d_size_of_expert(l) : 0;
}

p4d_wide p4d_parameters_of_stage(const p4d_layout *l, const p4d_schedule *schedule, uint32_t stage)
{
	const uint32_t last = (uint32_t)l->vpp - 1;
	uint32_t between = l->stage_layers[stage] - p4d_chunk_layers(l, stage, 0);
	p4d_wide n = p4d_parameters__of_vocabulary(l) + p4d_parameters__of_chunk(l, schedule, stage, 0);

	/* the model begins in a first chunk and ends in a last one; there may be a thousand between */
	if (l->pattern_length) {
		for (uint32_t chunk = 1; chunk <= last; chunk++)
			n += p4d_parameters__of_chunk(l, schedule, stage, chunk);
		return n;
	}
	if (last) {
		between -= p4d_chunk_layers(l, stage, last);
		n += p4d_parameters__of_chunk(l, schedule, stage, last);
	}
	n += between * p4d_size_of_layer(l);
	if (!l->experts)
		return n;
	const uint32_t with = p4d_parameters_expert_layers_of_stage(l, stage);
	return n - with * p4d_size_of_layer(l) + with * p4d_size_of_expert_layer(l);
}

static p4d_wide padded(const p4d_layout *l, p4d_wide n)
{
	const p4d_wide unit = p4d_segment_unit(l);

	return p4d_div_up(n, unit) * unit;
}

/* Segment i of a chunk: one of its layers; the first includes the start of the model, the last its end. */
static p4d_wide segment_parameters(const p4d_layout *l, const p4d_schedule *schedule, uint32_t stage,
				   uint32_t chunk, uint64_t i)
{
	const p4d_wide layer = p4d_size_of_layer(l),
		       all = p4d_parameters__of_chunk(l, schedule, stage, chunk);
	const uint64_t segments = p4d_chunk_segments(l, stage);
	const p4d_wide ends = all - segments * layer;
	const bool begins = p4d_schedule_position_of(schedule, stage, chunk) == 0;
	/* where one chunk has both ends, the table belongs to the start */
	const p4d_wide end = begins ? ends - begin_parameters(l) : ends;

	if (segments == 1)
		return all;
	return layer + (begins && i == 0 ? begin_parameters(l) : 0) + (i == segments - 1 ? end : 0);
}

/* All segments are equal except those at the ends of the model. */
static p4d_wide padded_chunk(const p4d_layout *l, const p4d_schedule *schedule, uint32_t stage,
			     uint32_t chunk, p4d_wide layer)
{
	const uint64_t segments = p4d_chunk_segments(l, stage);
	const uint32_t position = p4d_schedule_position_of(schedule, stage, chunk);

	if (segments > 1 && position > 0 && position < p4d_schedule_positions(schedule) - 1)
		return segments * layer;
	p4d_wide n = padded(l, segment_parameters(l, schedule, stage, chunk, 0));
	if (segments > 1)
		n += padded(l, segment_parameters(l, schedule, stage, chunk, segments - 1));
	return segments > 2 ? n + (segments - 2) * layer : n;
}

static p4d_wide adapters_of_layer(const p4d_layout *l)
{
	p4d_wide n = 0;

	for (unsigned i = 0; i < P4D_ADAPTED_LAYERS; i++) {
		const p4d_adapted matrix = p4d_adapted_of(l, i);
		if (p4d_is_adapted(l, i))
			n += (p4d_wide)l->lora_rank * (matrix.in + matrix.out);
	}
	return n;
}

/* All segments are alike. */
static p4d_wide adapters_of_segment(const p4d_layout *l, uint32_t stage)
{
	const uint64_t layers = l->stage_layers[stage] / l->vpp;

	return padded(l, layers / p4d_chunk_segments(l, stage) * adapters_of_layer(l));
}

p4d_wide p4d_parameters_frozen(const p4d_layout *l, const p4d_schedule *schedule, uint32_t stage)
{
	return l->finetune == P4D_TUNE_FULL ? 0 : p4d_parameters_of_stage(l, schedule, stage);
}

p4d_wide p4d_parameters_padded(const p4d_layout *l, const p4d_schedule *schedule, uint32_t stage)
{
	const p4d_wide layer = padded(l, p4d_size_of_layer(l));
	const uint32_t last = (uint32_t)l->vpp - 1;

	if (l->finetune != P4D_TUNE_FULL)
		return l->vpp * p4d_chunk_segments(l, stage) * adapters_of_segment(l, stage);
	p4d_wide n = padded(l, p4d_parameters__of_vocabulary(l)) + padded_chunk(l, schedule, stage, 0, layer);

	if (last)
		n += padded_chunk(l, schedule, stage, last, layer);
	/* those between are equal */
	return last > 1 ? n + (last - 1) * padded_chunk(l, schedule, stage, 1, layer) : n;
}

static p4d_wide larger(p4d_wide a, p4d_wide b)
{
	return a > b ? a : b;
}

p4d_wide p4d_parameters__largest_segment(const p4d_layout *l, const p4d_schedule *schedule, uint32_t stage)
{
	const uint64_t last = p4d_chunk_segments(l, stage) - 1;
	p4d_wide most = p4d_parameters__of_vocabulary(l);

	if (l->finetune != P4D_TUNE_FULL)
		return adapters_of_segment(l, stage);
	/* none between the first and the last of a chunk is larger, nor in the chunks between */
	for (uint32_t i = 0; i < 2; i++) {
		const uint32_t chunk = i ? (uint32_t)l->vpp - 1 : 0;
		most = larger(most, segment_parameters(l, schedule, stage, chunk, 0));
		most = larger(most, segment_parameters(l, schedule, stage, chunk, last));
	}
	return padded(l, most);
}
