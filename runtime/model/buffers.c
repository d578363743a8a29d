/* SPDX-License-Identifier: Apache-2.0 */
#include "model/buffers.h"

#include <string.h>

#include "base/vector.h"
#include "model/gradient_window.h"
#include "model/sequence_order.h"
#include "model/swap.h"
#include "model/depth.h"
#include "model/window.h"
#include "plan/parameters.h"

/* Address of copy `number` of a row; NULL: the plan does not have the row. */
static void *copy_of(const p4d_net *m, p4d_buffer which, uint64_t number)
{
	const p4d_tensor *row = m->row[which];

	return row ? m->arena + row->offset + number * (row->bytes / row->shape[0]) : NULL;
}

p4d_layer p4d_buffers_layer(const p4d_net *m, uint32_t chunk, uint32_t slot, uint32_t layer)
{
	p4d_layer y = {.number = m->weights.segment[chunk * m->weights.of_chunk].layer + layer};

	const uint32_t place = m->swap ? p4d_swap__place(m, slot, layer) : layer;

	for (int i = 0; i < ACT_COUNT; i++)
		y.activation[i] =
		    p4d_buffers_at_slot(m, B_ACTIVATION + i, slot, i == ACT_INPUT ? layer : place);
	y.keys_values = copy_of(m, B_SLICE_KEYS_VALUES, m->sequences * m->layers + layer);
	y.key_gradients = copy_of(m, B_SLICE_GRADIENTS, layer);
	return y;
}

/* Offset of an element of a segment, in a buffer that contains only this rank's shards. */
static uint64_t in_shards(const p4d_net *m, uint32_t segment, uint64_t offset)
{
	uint64_t first, count;

	p4d_weights_shard_of(m->l, &m->weights.segment[segment], m->place, &first, &count);
	return m->weights.segment[segment].offset / m->shards + (offset - first);
}

void *p4d_buffers_parameters(const p4d_net *m, uint32_t segment, uint64_t offset)
{
	const uint64_t place = p4d_shards_parameters(m->l) ? in_shards(m, segment, offset) : offset;

	return (char *)p4d_buffers_at(m, B_PARAMETERS) + place * m->element;
}

float *p4d_buffers_gradients(const p4d_net *m, uint32_t segment, uint64_t offset)
{
	const uint64_t place = p4d_shards_gradients(m->l) ? in_shards(m, segment, offset) : offset;

	return (float *)p4d_buffers_at(m, B_GRADIENTS) + place;
}

void *p4d_buffers__weight(const p4d_net *m, p4d_weight_kind kind, uint32_t layer)
{
	const p4d_weight *w = p4d_weights__find(&m->weights, kind, layer);

	if (w && w->over_z)
		return p4d_depth__weight(m, w);
	if (w && w->quantized) /* the caller uses p4d_quantized__matrix, which expands the weight first */
		return NULL;
	if (w && m->window)
		return p4d_window__at(m, w);
	return w ? (char *)p4d_buffers_at(m, B_PARAMETERS) + w->offset * m->element : NULL;
}

/* Address of the gradient of a trained weight, to which a pass adds. */
static float *gradient_of(const p4d_net *m, const p4d_weight *w)
{
	if (m->gradient_window)
		return p4d_gradient_window__at(m, w->segment) + w->offset -
		       m->weights.segment[w->segment].offset;
	return (float *)p4d_buffers_at(m, B_GRADIENTS) + w->offset;
}

float *p4d_buffers__gradient(const p4d_net *m, p4d_weight_kind kind, uint32_t layer)
{
	const p4d_weight *w = p4d_weights__find(&m->weights, kind, layer);

	if (w && w->over_z)
		return m->row[B_GRADIENTS] ? p4d_depth__gradient(m, w) : NULL;
	return w && !w->frozen && m->row[B_GRADIENTS] ? gradient_of(m, w) : NULL;
}

static void zero_numbers(p4d_net *m, float *from, const float *to)
{
	if (from < to)
		m->d->zero(m->d, from, (uint64_t)(to - from) * sizeof(float));
}

/*
 * Whether one matmul computes a weight's gradient and overwrites it. Gradients of norms, biases and adapters
 * are small, so they are accumulated. Gradients that are summed over the ranks of Z are accumulated too.
 */
static bool is_set_by_product(const p4d_weight *w)
{
	const p4d_weight_kind kind = w->kind;

	if (w->over_z)
		return false;
	return kind == P4D_W_QKV || kind == P4D_W_OUTPUT || kind == P4D_W_GATE_UP || kind == P4D_W_DOWN ||
	       kind == P4D_W_EMBEDDING || kind == P4D_W_HEAD;
}

/* Clears the gradients of the trained weights first .. behind-1 that are between `from` and `end`. */
static void clear(p4d_net *m, uint32_t first, uint32_t behind, float *from, const float *end)
{
	for (uint32_t i = first; i < behind; i++) {
		const p4d_weight *w = &m->weights.weight[i];
		float *at = gradient_of(m, w);
		m->begun[i] = !is_set_by_product(w);
		if (m->begun[i])
			continue;
		zero_numbers(m, from, at); /* zeroes what is between two gradients that matmuls overwrite */
		from = at + w->rows * w->columns;
	}
	zero_numbers(m, from, end);
}

void p4d_buffers_clear_segment(p4d_net *m, uint32_t segment)
{
	const p4d_segment *s = &m->weights.segment[segment];
	float *at = p4d_gradient_window__at(m, segment);

	clear(m, s->first_weight, s->first_weight + s->weights, at, at + s->padded);
}

void p4d_buffers_clear_gradients(p4d_net *m)
{
	float *all = p4d_buffers_at(m, B_GRADIENTS);

	if (m->gradient_window)
		m->d->zero(m->d, all, m->weights.elements / m->shards * sizeof(*all));
	else
		clear(m, 0, m->weights.trained, all, all + m->weights.elements);
}

bool p4d_buffers__has_part(p4d_net *m, p4d_weight_kind kind, uint32_t layer, uint64_t rows)
{
	const p4d_weight *w = p4d_weights__find(&m->weights, kind, layer);
	bool *begun = &m->begun[w - m->weights.weight];
	float *at = gradient_of(m, w);

	if (w->over_z) {
		p4d_depth__compute(m, w);
		return false;
	}
	if (*begun)
		return true;
	*begun = true;
	zero_numbers(m, at + rows * w->columns, at + w->rows * w->columns);
	return false;
}

void p4d_buffers_complete_gradients(p4d_net *m, uint32_t segment)
{
	const p4d_segment *s = &m->weights.segment[segment];

	for (uint32_t i = s->first_weight; i < s->first_weight + s->weights; i++)
		if (!m->weights.weight[i].over_z)
			(void)p4d_buffers__has_part(m, m->weights.weight[i].kind, m->weights.weight[i].layer,
						    0);
}

static void put(p4d_net *m, uint64_t place, const void *elements, uint64_t count)
{
	char *to = (char *)p4d_buffers_at(m, B_PARAMETERS) + place * m->element;

	if (p4d_buffers_is_away(m, B_PARAMETERS))
		memcpy(to, elements, count * m->element);
	else
		m->d->upload(m->d, to, elements, count * m->element);
}

/*
 * Copies elements to this rank's shard of one part of the flat buffer, as far as they belong to that shard.
 * offset: where the elements begin in the flat buffer.
 */
static void put_shard(p4d_net *m, uint64_t part, uint64_t padded, uint64_t offset, const char *elements,
		      uint64_t count)
{
	const uint64_t size = padded / m->shards,
		       first = part + size * p4d_weights_shard_number(m->l, m->place);
	const uint64_t from = offset > first ? offset : first, end = offset + count;
	const uint64_t to = end < first + size ? end : first + size;

	if (from < to)
		put(m, part / m->shards + from - first, elements + (from - offset) * m->element, to - from);
}

void p4d_buffers_put_frozen(p4d_net *m, uint64_t offset, float *numbers, uint64_t count)
{
	for (uint64_t i = 0; m->type == P4D_DT_BF16 && i < count; i++) {
		const uint16_t rounded = p4d_to_bf16(numbers[i]);
		memcpy((char *)numbers + i * sizeof(rounded), &rounded, sizeof(rounded));
	}
	if (!p4d_shards_parameters(m->l)) {
		put(m, offset, numbers, count);
		return;
	}
	for (uint32_t i = 0; i < m->weights.segments; i++) {
		const p4d_segment *s = &m->weights.segment[i];
		put_shard(m, s->offset, s->padded, offset, (const char *)numbers, count);
		put_shard(m, s->frozen_offset, s->frozen_padded, offset, (const char *)numbers, count);
	}
}

static const int32_t *data_of(p4d_net *m, uint32_t micro_batch, p4d_buffer which, uint32_t *holder,
			      int32_t *host, p4d_error *err)
{
	const p4d_batch batch = {.tokens = which == B_TOKENS ? host : NULL,
				 .labels = which == B_LABELS ? host : NULL};
	const p4d_tensor *row = m->row[which];
	const uint64_t copies = row->shape[0], copy = micro_batch % copies;
	const uint64_t count = m->l->slices > 1 ? m->whole : m->n;
	int32_t *to = copy_of(m, which, copy);

	if (holder[copy] == micro_batch)
		return to + m->slice_first;
	if (m->source(m->context, m->number, micro_batch, &batch, err) < 0)
		return NULL;
	for (uint64_t i = 0; i < count; i++)
		if (host[i] >= (int64_t)m->set.vocab || (which == B_TOKENS && host[i] < 0)) {
			p4d_fail(err, P4D_E_DATA, "token %d is outside the vocabulary of %llu", host[i],
				 (unsigned long long)m->set.vocab);
			return NULL;
		}
	if (m->l->slices > 1) {
		p4d_sequence__by_slices(m, host + count, host);
		host += count;
	}
	m->d->upload(m->d, to, host, count * sizeof(*host));
	holder[copy] = micro_batch;
	return to + m->slice_first;
}

/* The data loader's micro-batch to which a slice belongs. */
static uint32_t whole_of(const p4d_net *m, uint32_t micro_batch)
{
	return micro_batch / (uint32_t)m->l->slices;
}

const int32_t *p4d_buffers__tokens(p4d_net *m, uint32_t micro_batch, p4d_error *err)
{
	return data_of(m, whole_of(m, micro_batch), B_TOKENS, m->token_holder, m->host_tokens, err);
}

const int32_t *p4d_buffers__labels(p4d_net *m, uint32_t micro_batch, p4d_error *err)
{
	const uint32_t whole = whole_of(m, micro_batch);
	const uint64_t copy = whole % m->row[B_LABELS]->shape[0], count = m->l->slices > 1 ? m->whole : m->n;
	const bool here = m->label_holder[copy] == whole;
	const int32_t *labels = data_of(m, whole, B_LABELS, m->label_holder, m->host_labels, err);

	if (!labels || here)
		return labels;
	m->label_trained[copy] = 0;
	for (uint64_t i = 0; i < count; i++)
		m->label_trained[copy] += m->host_labels[i] >= 0;
	return labels;
}

uint64_t p4d_buffers__trained(const p4d_net *m, uint32_t micro_batch)
{
	/* with pairs, this counts pairs instead, and only the first rank of cp counts them */
	if (m->l->pairs)
		return m->place.cp ? 0 : m->batch;
	/* the first slice counts the labels of the whole sequences */
	if (p4d_schedule_slice_of(&m->schedule, micro_batch))
		return 0;
	return m->label_trained[whole_of(m, micro_batch) % m->row[B_LABELS]->shape[0]];
}
