/* SPDX-License-Identifier: Apache-2.0 */
/* From names of the plan's rows to places in the arena. */
#include "model/buffers.h"

#include <stdio.h>

static const char *const names[B_BUFFERS] = {
    [B_PARAMETERS] = "parameters",
    [B_GRADIENTS] = "gradients",
    [B_MASTER] = "optimizer.master",
    [B_FIRST] = "optimizer.first_moment",
    [B_SECOND] = "optimizer.second_moment",
    [B_TOKENS] = "data.tokens",
    [B_LABELS] = "data.labels",
    [B_DOCUMENTS] = "data.documents",
    [B_SEND_FORWARD] = "send.forward",
    [B_SEND_BACKWARD] = "send.backward",
    [B_EMBEDDING_OUTPUT] = "embedding.output",
    [B_EMBEDDING_GRADIENT] = "embedding.gradient",
    [B_HEAD_OUTPUT] = "head.output",
    [B_HEAD_GRADIENT] = "head.gradient",
    [B_ROPE] = "rope",
    [B_POSITIONS] = "positions",
    [B_SCALARS] = "scalars",
    [B_REDUCTIONS] = "reductions",
    [B_LIBRARY] = "library.gemm",
    [B_HEAD_INPUT] = "head.input",
    [B_HEAD_RSTD] = "head.rstd",
    [B_LOGITS] = "head.logits",
    [B_LOGITS_GRADIENT] = "head.logits_gradient",
    [B_SOFTMAX] = "head.statistics",
    [B_VOCABULARY_HIDDEN] = "vocabulary.hidden",
    [B_VOCABULARY_STATISTICS] = "vocabulary.statistics",
    [B_VOCABULARY_HIDDEN_GRADIENT] = "vocabulary.hidden_gradient",
    [B_HIDDEN] = "hidden",
    [B_NORM_OUT] = "normed",
    [B_NORM_OUT_GRADIENT] = "normed_gradient",
    [B_PARTIAL] = "partial",
    [B_GATHERED] = "gathered",
    [B_GATHERED_GRADIENT] = "gathered_gradient",
    [B_FFN_ACT] = "product",
    [B_FFN_ACT_GRADIENT] = "product_gradient",
    [B_ATTENTION_GRADIENT] = "attention_gradient",
    [B_QKV_GRADIENT] = "qkv_gradient",
    [B_FORWARD_WORKSPACE] = "attention.forward_workspace",
    [B_BACKWARD_WORKSPACE] = "attention.backward_workspace",
    [B_ROW_SUMS] = "attention.row_sums",
    [B_QKV_SUMS] = "attention.qkv_gradient",
    [B_RING_KEYS_VALUES] = "ring.keys_values",
    [B_RING_OUTPUT] = "ring.output",
    [B_RING_LSE] = "ring.lse",
    [B_RING_BACK_KEYS_VALUES] = "ring.backward.keys_values",
    [B_RING_BACK_GRADIENTS] = "ring.backward.gradients",
    [B_GATHERED_KEYS_VALUES] = "gathered.keys_values",
    [B_GATHERED_BACK_KEYS_VALUES] = "gathered.backward.keys_values",
    [B_GATHERED_BACK_GRADIENTS] = "gathered.backward.gradients",
};

static const char *const made[ACT_COUNT] = {
    [ACT_INPUT] = "input",
    [ACT_INPUT_RSTD] = "input_rstd",
    [ACT_QKV] = "qkv",
    [ACT_QK_RSTD] = "qk_rstd",
    [ACT_ATTENTION] = "attention",
    [ACT_LSE] = "lse",
    [ACT_POST_ATTENTION] = "middle",
    [ACT_POST_ATTENTION_RSTD] = "middle_rstd",
    [ACT_GATE_UP] = "gate_up",
};

static const p4d_tensor *find(const p4d_net *m, const char *before, const char *name)
{
	char text[64];

	snprintf(text, sizeof(text), "%s.%s", before, name);
	return p4d_plan_find(&m->plan, text);
}

void p4d_buffers__find(p4d_net *m)
{
	for (int i = 0; i < B_BUFFERS; i++)
		m->row[i] = p4d_plan_find(&m->plan, names[i]);
	for (int i = 0; i < ACT_COUNT; i++) {
		m->saved[i] = find(m, "layer", made[i]);
		m->recomputed[i] = find(m, "again", made[i]);
	}
}

static void *place_of(const p4d_net *m, const p4d_tensor *row, uint64_t slot, uint64_t layer)
{
	return row ? m->arena + row->offset + slot * row->slot_stride + layer * row->layer_stride : NULL;
}

void *p4d_buffers_at(const p4d_net *m, p4d_buffer which)
{
	return place_of(m, m->row[which], 0, 0);
}

void *p4d_buffers_at_slot(const p4d_net *m, p4d_buffer which, uint32_t slot, uint32_t layer)
{
	return place_of(m, m->row[which], slot, layer);
}

void *p4d_buffers_boundary(const p4d_net *m, p4d_buffer which, uint64_t number)
{
	const p4d_tensor *row = m->row[which];

	return m->arena + row->offset + number % P4D_SEND_BUFFERS * (row->bytes / P4D_SEND_BUFFERS);
}

p4d_layer p4d_buffers_layer(const p4d_net *m, uint32_t chunk, uint32_t slot, uint32_t layer)
{
	p4d_layer y = {.number = m->weights.segment[chunk * m->weights.of_chunk].layer + layer};

	for (int i = 0; i < ACT_COUNT; i++)
		y.activation[i] =
		    m->saved[i] ? place_of(m, m->saved[i], slot, layer) : place_of(m, m->recomputed[i], 0, 0);
	return y;
}

void *p4d_buffers__weight(const p4d_net *m, p4d_weight_kind kind, uint32_t layer)
{
	const p4d_weight *w = p4d_weights__find(&m->weights, kind, layer);

	return w ? (char *)p4d_buffers_at(m, B_PARAMETERS) + w->offset * m->element : NULL;
}

float *p4d_buffers__gradient(const p4d_net *m, p4d_weight_kind kind, uint32_t layer)
{
	const p4d_weight *w = p4d_weights__find(&m->weights, kind, layer);

	return w ? (float *)p4d_buffers_at(m, B_GRADIENTS) + w->offset : NULL;
}

static const int32_t *data_of(p4d_net *m, uint32_t micro_batch, p4d_buffer which, uint32_t *holder,
			      int32_t *host, p4d_error *err)
{
	const p4d_batch batch = {.tokens = which == B_TOKENS ? host : NULL,
				 .labels = which == B_LABELS ? host : NULL};
	const p4d_tensor *row = m->row[which];
	const uint64_t copies = row->shape[0], copy = micro_batch % copies;
	char *to = m->arena + row->offset + copy * (row->bytes / copies);

	if (holder[copy] == micro_batch)
		return (const int32_t *)to;
	if (m->source(m->context, m->number, micro_batch, &batch, err) < 0)
		return NULL;
	for (uint64_t i = 0; i < m->n; i++)
		if (host[i] >= (int64_t)m->set.vocab || (which == B_TOKENS && host[i] < 0)) {
			p4d_fail(err, P4D_E_DATA, "token %d is outside of the vocabulary of %llu", host[i],
				 (unsigned long long)m->set.vocab);
			return NULL;
		}
	m->d->upload(m->d, to, host, m->n * sizeof(*host));
	holder[copy] = micro_batch;
	return (const int32_t *)to;
}

const int32_t *p4d_buffers__tokens(p4d_net *m, uint32_t micro_batch, p4d_error *err)
{
	return data_of(m, micro_batch, B_TOKENS, m->token_holder, m->host_tokens, err);
}

const int32_t *p4d_buffers__labels(p4d_net *m, uint32_t micro_batch, p4d_error *err)
{
	const uint64_t copy = micro_batch % m->row[B_LABELS]->shape[0];
	const bool here = m->label_holder[copy] == micro_batch;
	const int32_t *labels = data_of(m, micro_batch, B_LABELS, m->label_holder, m->host_labels, err);

	if (!labels || here)
		return labels;
	m->label_trained[copy] = 0;
	for (uint64_t i = 0; i < m->n; i++)
		m->label_trained[copy] += m->host_labels[i] >= 0;
	return labels;
}

uint64_t p4d_buffers__trained(const p4d_net *m, uint32_t micro_batch)
{
	return m->label_trained[micro_batch % m->row[B_LABELS]->shape[0]];
}
