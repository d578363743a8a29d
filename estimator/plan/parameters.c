/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/parameters.h"

#include "plan/nf4.h"

/* Parameters at the start of the model, outside of its layers. */
static p4d_wide begin_parameters(const p4d_layout *l)
{
	return (l->vocab_parallel ? 0 : p4d_size_of_table(l)) + p4d_size_of_begin(l);
}

/* Computes closed forms where all chunks have equally many layers. */
uint64_t p4d_parameters_first_layer(const p4d_layout *l, uint32_t stage, uint32_t chunk)
{
	/* the second chunks of a V run back: those of later stages come first */
	const bool back = chunk == 1 && p4d_is_v_shaped(l->schedule);
	const uint64_t from = back ? stage + 1 : 0, to = back ? l->pp : stage;
	uint64_t before = 0;

	if (l->uneven_chunks) {
		const uint64_t position = p4d_chunk_position(l, stage, chunk);
		for (uint64_t i = 0; i < position; i++)
			before += l->chunk_layers[i];
		return before;
	}
	for (uint64_t i = from; i < to; i++)
		before += l->stage_layers[i];
	return chunk * (l->layers / l->vpp) + before / l->vpp;
}

/*
 * Elements of a chunk's layers, without experts. In a model with experts, every layer counts as if it had
 * none, except in models with a pattern.
 */
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
		/* A tied table exists once if one stage has both embedding and head; otherwise, each of
		 * the two stages has it. */
		bool shared = l->tied && stage == 0;
		n += (shared ? 0 : table) + p4d_size_of_end(l);
		if (l->mtp_layers)
			n += l->mtp_layers * p4d_size_of_further(l);
		if (l->mtp_layers && stage > 0 && !l->tied) /* layers of multi-token prediction need the
							       embedding, so this stage has a copy */
			n += begin_parameters(l);
	} else if (l->local_loss) {
		n += p4d_size_of_table(l) + p4d_size_of_end(l);
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
	if (!l->experts)
		return 0;
	const uint64_t before = p4d_parameters_first_layer(l, stage, chunk);
	return (uint32_t)(p4d_expert_layers_before(l, before + p4d_chunk_layers(l, stage, chunk)) -
			  p4d_expert_layers_before(l, before));
}

/* The sum of floor((a * i + b) / m) for i from 0 to n - 1, in as many steps as Euclid's algorithm. */
static uint64_t sum_of_quotients(uint64_t n, uint64_t a, uint64_t b, uint64_t m)
{
	uint64_t sum = 0;

	while (n) {
		sum += n * (n - 1) / 2 * (a / m) + n * (b / m);
		const uint64_t most = a % m * n + b % m, step = m;
		n = most / m;
		b = most % m;
		m = a % m;
		a = step;
	}
	return sum;
}

/*
 * Layers with experts before each chunk of a stage, summed over its chunks, in closed form. Successive chunks
 * of a stage are one round of chunks apart.
 */
static uint64_t expert_layers_before_chunks(const p4d_layout *l, uint64_t from)
{
	const uint64_t round = l->layers / l->vpp, every = l->expert_every, dense = l->dense_layers;
	uint64_t none = from < dense ? (dense - from + round - 1) / round : 0;

	none = none < l->vpp ? none : l->vpp;
	return sum_of_quotients(l->vpp, round, from, every) - sum_of_quotients(none, round, from, every) -
	       (l->vpp - none) * (dense / every);
}

uint32_t p4d_parameters_expert_layers_of_stage(const p4d_layout *l, uint32_t stage)
{
	uint32_t sum = 0;

	if (!l->experts)
		return 0;
	/* a loop would be slow: there may be a thousand stages with many chunks each, and several callers */
	if (!l->uneven_chunks && !l->pattern_length) {
		const uint64_t from = p4d_parameters_first_layer(l, stage, 0);
		return (uint32_t)(expert_layers_before_chunks(l, from + p4d_chunk_layers(l, stage, 0)) -
				  expert_layers_before_chunks(l, from));
	}
	for (uint32_t chunk = 0; chunk < l->vpp; chunk++)
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
	const uint64_t last = p4d_is_v_shaped(l->schedule) ? 0 : l->pp - 1;
	const uint64_t further = stage == last ? l->mtp_layers : 0;
	const p4d_wide layers = p4d_parameters_expert_layers_of_stage(l, stage) + further;

	return l->experts ? layers * (l->experts / l->ep) * p4d_size_of_expert(l) : 0;
}

p4d_wide p4d_parameters_of_stage(const p4d_layout *l, const p4d_schedule *schedule, uint32_t stage)
{
	const uint32_t last = (uint32_t)l->vpp - 1;
	uint32_t between = l->stage_layers[stage] - p4d_chunk_layers(l, stage, 0);
	p4d_wide n = p4d_parameters__of_vocabulary(l) + p4d_parameters__of_chunk(l, schedule, stage, 0);

	/* only the first and the last chunk differ; up to a thousand chunks in between are equal */
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

/* Parameters of the model's start that are in a chunk's first segment. */
static p4d_wide start_of(const p4d_layout *l, const p4d_schedule *schedule, uint32_t stage, uint32_t chunk)
{
	if (p4d_schedule_position_of(schedule, stage, chunk) > 0)
		return 0;
	return p4d_cuts_segments(l) ? p4d_size_of_begin(l) : begin_parameters(l);
}

/* Parameters of the model's end that are in a chunk's last segment. */
static p4d_wide end_of(const p4d_layout *l, const p4d_schedule *schedule, uint32_t stage, uint32_t chunk)
{
	/* if one stage has both ends of the model, a tied table belongs to the model's start */
	const bool apart = l->vocab_parallel || p4d_cuts_segments(l) || (l->tied && stage == 0);

	if (p4d_schedule_position_of(schedule, stage, chunk) < p4d_schedule_positions(schedule) - 1)
		return l->local_loss ? p4d_size_of_end(l) + p4d_size_of_table(l) : 0;
	return p4d_size_of_end(l) + (apart ? 0 : p4d_size_of_table(l));
}

/*
 * Elements of segment i of a chunk: of one layer, or of all layers. The first segment of the model includes
 * its start, and the last one its end.
 */
static p4d_wide segment_parameters(const p4d_layout *l, const p4d_schedule *schedule, uint32_t stage,
				   uint32_t chunk, uint64_t i)
{
	const uint64_t segments = p4d_chunk_segments(l, stage);
	const p4d_wide layers = segments > 1 ? p4d_size_of_layer(l) : chunk_layers(l, stage, chunk);

	return layers + (i == 0 ? start_of(l, schedule, stage, chunk) : 0) +
	       (i == segments - 1 ? end_of(l, schedule, stage, chunk) : 0);
}

/*
 * Elements of the segments that consist of tables: with vocabulary parallelism, one for all tables; with
 * p4d_cuts_segments, one per table.
 */
typedef struct tables {
	p4d_wide of[2];
} tables;

static tables tables_of(const p4d_layout *l, const p4d_schedule *schedule, uint32_t stage)
{
	const p4d_wide shared = p4d_parameters__of_vocabulary(l), table = p4d_size_of_table(l);

	if (!p4d_cuts_segments(l))
		return (tables){{shared, 0}};
	if (l->vocab_parallel)
		return l->tied ? (tables){{shared, 0}} : (tables){{shared / 2, shared / 2}};
	const bool first = stage == 0, last = p4d_schedule_is_last(schedule, stage);
	return (tables){{first ? table : 0, last && !(l->tied && first) ? table : 0}};
}

/* Padded elements of a chunk. All its segments are equal, except at the ends of the model. */
static p4d_wide padded_chunk(const p4d_layout *l, const p4d_schedule *schedule, uint32_t stage,
			     uint32_t chunk, p4d_wide layer)
{
	const uint64_t segments = p4d_chunk_segments(l, stage);
	const uint32_t position = p4d_schedule_position_of(schedule, stage, chunk);

	if (segments > 1 && position > 0 && !p4d_schedule_has_loss(schedule, position))
		return segments * layer;
	p4d_wide n = padded(l, segment_parameters(l, schedule, stage, chunk, 0));
	if (segments > 1)
		n += padded(l, segment_parameters(l, schedule, stage, chunk, segments - 1));
	return segments > 2 ? n + (segments - 2) * layer : n;
}

static p4d_wide padded_model(const p4d_layout *l, const p4d_schedule *schedule, uint32_t stage)
{
	const p4d_wide layer = padded(l, p4d_size_of_layer(l));
	const uint32_t last = (uint32_t)l->vpp - 1;
	const tables t = tables_of(l, schedule, stage);
	p4d_wide n = padded(l, t.of[0]) + padded(l, t.of[1]) + padded_chunk(l, schedule, stage, 0, layer);

	if (last)
		n += padded_chunk(l, schedule, stage, last, layer);
	/* all chunks between the first and the last are equal */
	return last > 1 ? n + (last - 1) * padded_chunk(l, schedule, stage, 1, layer) : n;
}

static p4d_wide adapters_of_layer(const p4d_layout *l)
{
	p4d_wide n = 0;

	for (unsigned i = 0; i < P4D_ADAPTED_LAYERS; i++) {
		const p4d_adapted matrix = p4d_adapted_of(l, i);
		if (p4d_is_adapted(l, i))
			n += (p4d_wide)l->lora.rank * (matrix.in + matrix.out);
	}
	return n;
}

/* Elements of the adapters in a segment; all segments have equally many. */
static p4d_wide adapters_of_segment(const p4d_layout *l, uint32_t stage)
{
	const uint64_t layers = l->stage_layers[stage] / l->vpp;

	return padded(l, layers / p4d_chunk_segments(l, stage) * adapters_of_layer(l));
}

/* Number of quantized parameters, which are not stored as elements. */
static p4d_wide quantized_elements(const p4d_layout *l, uint32_t stage)
{
	const p4d_rank_sizes z = p4d_rank_sizes_of(l);

	return p4d_stores_nf4(l) ? l->stage_layers[stage] * p4d_layer_matrices(&z) : 0;
}

p4d_wide p4d_parameters_frozen(const p4d_layout *l, const p4d_schedule *schedule, uint32_t stage)
{
	if (l->finetune == P4D_TUNE_FULL)
		return 0;
	if (p4d_windows_parameters(l))
		return padded_model(l, schedule, stage);
	return p4d_parameters_of_stage(l, schedule, stage) - quantized_elements(l, stage);
}

p4d_wide p4d_parameters_padded(const p4d_layout *l, const p4d_schedule *schedule, uint32_t stage)
{
	if (l->finetune != P4D_TUNE_FULL)
		return l->vpp * p4d_chunk_segments(l, stage) * adapters_of_segment(l, stage);
	return padded_model(l, schedule, stage);
}

/* Elements of the largest segment of layers on a stage. */
static p4d_wide largest_of_chunks(const p4d_layout *l, const p4d_schedule *schedule, uint32_t stage)
{
	const uint64_t last = p4d_chunk_segments(l, stage) - 1;
	p4d_wide most = 0;

	/* segments between the first and the last one of a chunk are never larger, and neither are those of
	 * middle chunks */
	for (uint32_t i = 0; i < (l->vpp > 1 ? 2 : 1); i++) {
		const uint32_t chunk = i ? (uint32_t)l->vpp - 1 : 0;
		most = P4D_MOST(most, segment_parameters(l, schedule, stage, chunk, 0));
		most = P4D_MOST(most, segment_parameters(l, schedule, stage, chunk, last));
	}
	return padded(l, most);
}

p4d_windows p4d_parameters_windows(const p4d_layout *l, const p4d_schedule *schedule, uint32_t stage,
				   bool all)
{
	const bool model = all || l->finetune == P4D_TUNE_FULL;
	const tables t = tables_of(l, schedule, stage);
	p4d_windows w = {.table = model ? padded(l, P4D_MOST(t.of[0], t.of[1])) : 0};

	w.layer = model ? largest_of_chunks(l, schedule, stage) : 0;
	if (l->finetune != P4D_TUNE_FULL) /* adapters are needed in addition to the frozen matrices */
		w.layer += adapters_of_segment(l, stage);
	return w;
}

p4d_wide p4d_parameters__largest_segment(const p4d_layout *l, const p4d_schedule *schedule, uint32_t stage)
{
	const tables t = tables_of(l, schedule, stage);

	if (l->finetune != P4D_TUNE_FULL)
		return adapters_of_segment(l, stage);
	return P4D_MOST(padded(l, P4D_MOST(t.of[0], t.of[1])), largest_of_chunks(l, schedule, stage));
}

/*
 * Upper bound of the elements that AdamW updates in a rank's shard of a segment with this many parameters and
 * layers.
 */
static p4d_wide adamw_of(const p4d_layout *l, p4d_wide parameters, p4d_wide layers)
{
	const p4d_rank_sizes z = p4d_rank_sizes_of(l);
	const p4d_wide others = parameters - layers * p4d_layer_matrices(&z);

	return P4D_LEAST(others, padded(l, parameters) / p4d_optimizer_shards(l));
}

p4d_wide p4d_parameters__of_adamw(const p4d_layout *l, const p4d_schedule *schedule, uint32_t stage)
{
	const tables t = tables_of(l, schedule, stage);
	const uint64_t segments = p4d_chunk_segments(l, stage);
	p4d_wide n = adamw_of(l, t.of[0], 0) + adamw_of(l, t.of[1], 0);

	for (uint32_t chunk = 0; chunk < l->vpp; chunk++)
		for (uint64_t i = 0; i < segments; i++)
			n += adamw_of(l, segment_parameters(l, schedule, stage, chunk, i),
				      l->stage_layers[stage] / l->vpp / segments);
	return n;
}
