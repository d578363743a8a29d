/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the model forward, one token at a time. */
#include "model/generate.h"

#include <string.h>

#include "model/buffers.h"
#include "model/embedding.h"
#include "model/head.h"
#include "model/layer.h"

static int one_token(void *context, uint64_t step, uint32_t micro_batch, const p4d_batch *batch,
		     p4d_error *err)
{
	(void)step, (void)micro_batch, (void)err;
	batch->tokens[0] = *(const int32_t *)context;
	return 0;
}

/*
 * The layer's buffers. Queries, keys and values begin at the row of the token that is computed; layers share
 * all other activations.
 */
static p4d_layer layer_of(const p4d_net *m, uint32_t number)
{
	p4d_layer y = p4d_buffers_layer(m, 0, 0, number);

	y.activation[ACT_QKV] = (char *)y.activation[ACT_QKV] + m->before * m->columns * m->element;
	return y;
}

static int forward(p4d_net *m, float *logits, p4d_error *err)
{
	p4d_layer y = layer_of(m, 0);

	if (p4d_embedding_forward(m, 0, y.activation[ACT_INPUT], err) < 0)
		return -1;
	for (uint32_t i = 0; i < m->layers; i++) {
		const bool more = i + 1 < m->layers;
		const p4d_layer next = layer_of(m, more ? i + 1 : i);
		if (p4d_layer_forward(
			m, &y, more ? next.activation[ACT_INPUT] : p4d_buffers_at_slot(m, B_HEAD_INPUT, 0, 0),
			err) < 0)
			return -1;
		y = next;
	}
	return p4d_head__logits(m, logits, err);
}

int p4d_net_predict(p4d_net *m, int32_t token, uint64_t position, float *logits, p4d_error *err)
{
	const uint64_t n = m->n, ns = m->ns, length = m->length;

	m->n = m->ns = m->length = 1;
	m->before = position;
	m->documents = NULL;
	m->packed.most = 0;
	p4d_net_begin(m, 1, true, one_token, &token);
	int rc = forward(m, logits, err);
	m->n = n;
	m->ns = ns;
	m->length = length;
	m->before = 0;
	return rc;
}
