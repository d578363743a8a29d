/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the table of a stage's weights, in their order in the flat buffer. */
#include "model/weights.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "plan/parameters.h"

enum { WEIGHTS_OF_LAYER = 16 + 2 * P4D_ADAPTED_LAYERS, WEIGHTS_AT_ENDS = 5 };

/* A table under construction. */
typedef struct weights_builder {
	const p4d_layout *layout;
	p4d_weights *to;
	uint64_t at;
	uint32_t number; /* number of the segment under construction */
	bool frozen;     /* whether the weights that are being added are frozen */
} weights_builder;

p4d_matrix_layers p4d_weights_layers_of(p4d_weight_kind matrix)
{
	static const p4d_matrix_layers layers[P4D_W_KINDS] = {
	    [P4D_W_QKV] = {0, 3}, [P4D_W_OUTPUT] = {3, 1}, [P4D_W_GATE_UP] = {4, 2}, [P4D_W_DOWN] = {6, 1}};

	return layers[matrix];
}

/* A matrix of a layer that is stored in 4 bits. */
static void add_quantized(weights_builder *b, p4d_weight *w)
{
	const p4d_matrix_layers of = p4d_weights_layers_of(w->kind);

	w->quantized = true;
	w->offset = b->to->quantized_bytes;
	for (unsigned i = of.first; i < of.first + of.count; i++) {
		const p4d_nf4_shape s = p4d_nf4_shape_of(b->layout, i);
		b->to->quantized_bytes += s.rows ? p4d_nf4_bytes(&s) : 0;
	}
}

static void add(weights_builder *b, p4d_weight_kind kind, uint32_t layer, uint64_t rows, uint64_t columns)
{
	const bool of_heads = kind == P4D_W_QUERY_NORM || kind == P4D_W_KEY_NORM;
	const bool cut = kind == P4D_W_QKV_BIAS || kind == P4D_W_UP_BIAS ||
			 (of_heads && b->layout->qk_norm == P4D_QK_NORM_WIDE);
	/*
	 * All ranks have the whole weight. These are tables of positions, and all vectors except biases of
	 * columns that tp cuts.
	 */
	const bool whole = kind == P4D_W_POSITIONS || (columns == 1 && !cut);

	const bool of_layer = p4d_weights_layers_of(kind).count > 0;
	const bool of_columns = cut || of_heads;

	if (of_layer)
		rows /= b->layout->tp_z;
	b->to->weight[b->to->count++] = (p4d_weight){
	    .kind = kind,
	    .layer = layer,
	    .over_y = b->layout->tp_y > 1 && !of_columns,
	    .over_z = b->layout->tp_z > 1 && of_layer,
	    .rows = rows,
	    .columns = columns,
	    .offset = b->at,
	    .segment = b->number,
	    .decay = columns > 1,
	    .replicated = whole,
	    .frozen = b->frozen,
	};
	if (p4d_weights_adapts(kind)) /* an adapter is a matrix even if its rank is 1 */
		b->to->weight[b->to->count - 1].decay = true;
	if (b->frozen && of_layer && p4d_stores_nf4(b->layout))
		add_quantized(b, &b->to->weight[b->to->count - 1]);
	else
		b->at += rows * columns;
}

/* Adds a norm, with its bias if it has one. */
static void add_norm(weights_builder *b, p4d_weight_kind kind, uint32_t layer)
{
	add(b, kind, layer, p4d_rank_hidden(b->layout), 1);
	if (b->layout->norm_tensors > 1)
		add(b, p4d_weights__bias_of(kind), layer, p4d_rank_hidden(b->layout), 1);
}

static void add_layer(weights_builder *b, uint32_t layer)
{
	const p4d_layout *l = b->layout;
	const p4d_rank_sizes z = p4d_rank_sizes_of(l);
	const uint64_t h = z.h, d = l->head_dim;
	const bool wide = l->qk_norm == P4D_QK_NORM_WIDE;
	const bool before = l->architecture->place != P4D_NORMS_AFTER,
		   behind = l->architecture->place != P4D_NORMS_BEFORE;

	if (before)
		add_norm(b, P4D_W_ATTENTION_NORM, layer);
	add(b, P4D_W_QKV, layer, z.columns, h);
	if (l->biased & P4D_BIASED_QKV)
		add(b, P4D_W_QKV_BIAS, layer, z.columns, 1);
	if (l->qk_norm) {
		add(b, P4D_W_QUERY_NORM, layer, wide ? z.q : d, 1);
		add(b, P4D_W_KEY_NORM, layer, wide ? z.kv : d, 1);
	}
	add(b, P4D_W_OUTPUT, layer, h, z.q);
	if (l->biased & P4D_BIASED_OUTPUT)
		add(b, P4D_W_OUTPUT_BIAS, layer, h, 1);
	if (behind)
		add_norm(b, P4D_W_ATTENTION_POST_NORM, layer);
	if (before)
		add_norm(b, P4D_W_FFN_NORM, layer);
	add(b, P4D_W_GATE_UP, layer, z.up, h);
	if (l->biased & P4D_BIASED_MLP)
		add(b, P4D_W_UP_BIAS, layer, z.up, 1);
	add(b, P4D_W_DOWN, layer, h, z.f);
	if (l->biased & P4D_BIASED_MLP)
		add(b, P4D_W_DOWN_BIAS, layer, h, 1);
	if (behind)
		add_norm(b, P4D_W_FFN_POST_NORM, layer);
}

/*
 * Adds A and B of each adapter. If tp cuts `in`, a rank has its part of A and all of B; if tp cuts `out`, its
 * part of B and all of A.
 */
static void add_adapters(weights_builder *b, uint32_t layer)
{
	for (unsigned i = 0; i < P4D_ADAPTED_LAYERS; i++) {
		const p4d_adapted of = p4d_adapted_of(b->layout, i);
		if (!p4d_is_adapted(b->layout, i))
			continue;
		add(b, p4d_weights_adapter(i, false), layer, b->layout->lora.rank, of.in);
		b->to->weight[b->to->count - 1].replicated = !of.split_in;
		add(b, p4d_weights_adapter(i, true), layer, of.out, b->layout->lora.rank);
		b->to->weight[b->to->count - 1].replicated = of.split_in;
	}
}

/* Whether the chunks at the ends of the model contain the tables. */
static bool tables_are_inside(const p4d_layout *l)
{
	return !l->vocab_parallel && !p4d_cuts_segments(l);
}

/* Adds the weights after the model's last layer. begins: the stage also has the model's embedding. */
static void add_end(weights_builder *b, bool begins)
{
	const p4d_layout *l = b->layout;

	add_norm(b, P4D_W_FINAL_NORM, 0);
	if (tables_are_inside(l) && !(l->tied && begins))
		add(b, P4D_W_HEAD, 0, l->vocab / l->tp, p4d_rank_hidden(l));
}

/* Adds the norm and head of the stage's own loss, after layer `layer`. */
static void add_local_end(weights_builder *b, uint32_t layer)
{
	add_norm(b, P4D_W_LOCAL_NORM, layer);
	add(b, P4D_W_LOCAL_HEAD, layer, b->layout->vocab / b->layout->tp, b->layout->hidden);
}

static void begin_segment(weights_builder *b, uint32_t layer)
{
	p4d_segment *s = &b->to->segment[b->number];

	if (b->frozen)
		s->frozen_offset = b->at;
	else
		*s = (p4d_segment){.offset = b->at, .layer = layer, .first_weight = b->to->count};
}

static void end_segment(weights_builder *b)
{
	p4d_segment *s = &b->to->segment[b->number++];
	const uint64_t unit = p4d_segment_unit(b->layout);
	const uint64_t elements = b->at - (b->frozen ? s->frozen_offset : s->offset),
		       padded = (elements + unit - 1) / unit * unit;

	if (!b->frozen) {
		s->weights = b->to->count - s->first_weight;
		s->elements = elements;
		s->padded = padded;
		b->at = s->offset + padded;
	} else if (p4d_windows_parameters(b->layout)) {
		s->frozen_padded = padded;
		b->at = s->frozen_offset + padded;
	}
}

/* Whether the table also gets the weights of the model, and not only adapters. */
static bool adds_model(const weights_builder *b)
{
	return b->frozen || b->layout->finetune == P4D_TUNE_FULL;
}

static void add_chunk(weights_builder *b, const p4d_schedule *schedule, uint32_t stage, uint32_t chunk)
{
	const p4d_layout *l = b->layout;
	const uint32_t position = p4d_schedule_position_of(schedule, stage, chunk);
	const uint32_t layers = l->stage_layers[stage] / (uint32_t)l->vpp;
	const bool whole = adds_model(b);
	uint32_t first = 0;

	for (uint32_t i = 0; i < position; i++)
		first += l->stage_layers[p4d_schedule_stage_at(schedule, i, NULL)] / (uint32_t)l->vpp;
	for (uint32_t i = 0; i < b->to->of_chunk; i++) {
		begin_segment(b, first + i);
		if (whole && i == 0 && position == 0 && tables_are_inside(l))
			add(b, P4D_W_EMBEDDING, 0, l->vocab / l->tp, p4d_rank_hidden(l));
		if (whole && i == 0 && position == 0 && l->positions)
			add(b, P4D_W_POSITIONS, 0, l->positions, p4d_rank_hidden(l));
		for (uint32_t k = i; k < (b->to->of_chunk == 1 ? layers : i + 1); k++)
			if (whole)
				add_layer(b, first + k);
			else
				add_adapters(b, first + k);
		if (whole && i == b->to->of_chunk - 1 && position == p4d_schedule_positions(schedule) - 1)
			add_end(b, stage == 0);
		else if (whole && i == b->to->of_chunk - 1 && p4d_schedule_has_loss(schedule, position))
			add_local_end(b, first + layers - 1);
		end_segment(b);
	}
}

/* Adds a segment with the embedding, the head, or both. */
static void add_tables(weights_builder *b, bool embedding, bool head)
{
	const p4d_layout *l = b->layout;
	const uint64_t rows = l->vocab / l->tp / (l->vocab_parallel ? l->pp : 1);

	if (!embedding && !head)
		return;
	begin_segment(b, 0);
	if (adds_model(b) && embedding)
		add(b, P4D_W_EMBEDDING, 0, rows, l->hidden);
	if (adds_model(b) && head)
		add(b, P4D_W_HEAD, 0, rows, l->hidden);
	end_segment(b);
}

static void add_stage(weights_builder *b, const p4d_schedule *schedule, uint32_t stage)
{
	const p4d_layout *l = b->layout;
	const bool first = stage == 0, last = p4d_schedule_is_last(schedule, stage);
	const bool embedding = first || l->vocab_parallel,
		   head = (last || l->vocab_parallel) && !(l->tied && embedding);

	b->number = 0;
	for (uint32_t chunk = 0; chunk < l->vpp; chunk++)
		add_chunk(b, schedule, stage, chunk);
	b->to->in_chunks = b->number;
	if (p4d_cuts_segments(l)) {
		add_tables(b, embedding, false);
		add_tables(b, false, head);
	} else if (l->vocab_parallel) {
		add_tables(b, embedding, head);
	}
	b->to->segments = b->number;
}

int p4d_weights_open(p4d_weights *weights, const p4d_layout *l, uint32_t stage, p4d_error *err)
{
	const p4d_schedule schedule = p4d_schedule_of(l);
	const uint64_t most = (uint64_t)l->stage_layers[stage] * WEIGHTS_OF_LAYER + WEIGHTS_AT_ENDS;
	const uint64_t of_chunk = p4d_chunk_segments(l, stage);
	p4d_weights made = {.of_chunk = (uint32_t)of_chunk,
			    .segment = calloc(l->vpp * of_chunk + 2, sizeof(*made.segment)),
			    .weight = calloc(most, sizeof(*made.weight))};
	weights_builder b = {.layout = l, .to = &made};

	if (!made.segment || !made.weight) {
		p4d_weights_close(&made);
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the table of %" PRIu64 " weights", most);
	}
	add_stage(&b, &schedule, stage);
	made.elements = b.at;
	made.trained = made.count;
	if (l->finetune != P4D_TUNE_FULL) {
		b.frozen = true;
		add_stage(&b, &schedule, stage);
	}
	made.frozen = b.at - made.elements;
	*weights = made;
	return 0;
}

void p4d_weights_close(p4d_weights *weights)
{
	free(weights->segment);
	free(weights->weight);
	memset(weights, 0, sizeof(*weights));
}

p4d_weight_kind p4d_weights__bias_of(p4d_weight_kind norm)
{
	return norm == P4D_W_ATTENTION_NORM ? P4D_W_ATTENTION_NORM_BIAS
	       : norm == P4D_W_FFN_NORM     ? P4D_W_FFN_NORM_BIAS
	       : norm == P4D_W_FINAL_NORM   ? P4D_W_FINAL_NORM_BIAS
	       : norm == P4D_W_LOCAL_NORM   ? P4D_W_LOCAL_NORM_BIAS
					    : P4D_W_KINDS;
}

const p4d_weight *p4d_weights__find(const p4d_weights *weights, p4d_weight_kind kind, uint32_t layer)
{
	for (uint32_t i = 0; i < weights->count; i++)
		if (weights->weight[i].kind == kind && weights->weight[i].layer == layer)
			return &weights->weight[i];
	return NULL;
}

uint32_t p4d_weights_table_segment(const p4d_weights *weights, p4d_weight_kind kind)
{
	const p4d_weight *w = p4d_weights__find(weights, kind, 0);

	return (w ? w : p4d_weights__find(weights, P4D_W_EMBEDDING, 0))->segment;
}

uint64_t p4d_weights__table_row(const p4d_layout *l, p4d_place place, const p4d_weight *weight)
{
	const uint64_t x = p4d_place_grid(l, place).x;

	return weight->rows * (l->vocab_parallel ? x + l->tp * place.pp : x);
}

uint32_t p4d_weights_shard_number(const p4d_layout *layout, p4d_place place)
{
	return (uint32_t)((place.cp + layout->cp * place.dp) % p4d_optimizer_shards(layout));
}

uint32_t p4d_weights_copy_number(const p4d_layout *layout, p4d_place place)
{
	return (uint32_t)((place.cp + layout->cp * place.dp) / p4d_optimizer_shards(layout));
}

void p4d_weights_shard_of(const p4d_layout *layout, const p4d_segment *segment, p4d_place place,
			  uint64_t *first, uint64_t *count)
{
	*count = segment->padded / p4d_optimizer_shards(layout);
	*first = segment->offset + *count * p4d_weights_shard_number(layout, place);
}
