/* SPDX-License-Identifier: Apache-2.0 */
/* Final norm and cross-entropy, in chunks of tokens, so that few logits exist at a time. */
#include "model/head.h"

#include <string.h>

#include "model/buffers.h"
#include "model/parallel.h"

/* This rank's rows of the vocabulary; padding rows are in no softmax. */
typedef struct table {
	p4d_weight_kind kind;
	void *weight;
	float *gradient;
	uint64_t first, rows;
} table;

static table table_of(const p4d_net *m)
{
	const p4d_weight *w = p4d_weights__find(&m->weights, P4D_W_HEAD, 0);
	const p4d_weight_kind kind = w ? P4D_W_HEAD : P4D_W_EMBEDDING;
	table y = {.kind = kind,
		   .weight = p4d_buffers__weight(m, kind, 0),
		   .gradient = p4d_buffers__gradient(m, kind, 0)};

	w = w ? w : p4d_weights__find(&m->weights, P4D_W_EMBEDDING, 0);
	y.first = p4d_weights__table_row(m->l, m->place, w);
	if (y.first < m->set.vocab)
		y.rows = m->set.vocab - y.first < w->rows ? m->set.vocab - y.first : w->rows;
	return y;
}

/* Softmax maximum and sum of a chunk, over all ranks. The gradient buffer is still free here. */
static int merge(p4d_net *m, p4d_group *group, float *maximum, float *sum, float *target, uint64_t n,
		 p4d_error *err)
{
	float *old = p4d_buffers_at(m, B_LOGITS_GRADIENT);

	if (p4d_group_size(group) == 1)
		return 0;
	m->d->copy(m->d, old, maximum, n * sizeof(*old));
	if (p4d_comm_all_reduce(group, maximum, n, P4D_DT_FP32, P4D_MAX, err) < 0)
		return -1;
	m->d->rescale(m->d, sum, old, maximum, n);
	if (p4d_comm_all_reduce(group, sum, n, P4D_DT_FP32, P4D_SUM, err) < 0)
		return -1;
	return p4d_comm_all_reduce(group, target, n, P4D_DT_FP32, P4D_SUM, err);
}

static int head_chunk(p4d_net *m, const p4d_head_work *work, const table *rows, uint64_t from, uint64_t n,
		      p4d_error *err)
{
	const void *x = (const char *)work->x + from * m->h * m->element;
	const int32_t *labels = work->labels + from;
	float *maximum = work->softmax + from, *sum = maximum + m->n, *target = sum + m->n;
	float *logits = p4d_buffers_at(m, B_LOGITS);
	void *gradient = p4d_buffers_at(m, B_LOGITS_GRADIENT);
	void *dx = work->input ? (char *)work->input_gradient + from * m->h * m->element : NULL;
	const float scale = (float)(1 / ((double)m->l->global_batch * (double)m->l->seq_len));
	p4d_scalars *scalars = p4d_buffers_at(m, B_SCALARS);

	if (rows->rows)
		m->d->linear_logits(m->d, m->type, logits, x, rows->weight, n, rows->rows, m->h);
	if (work->merge) {
		m->d->softmax_sums(m->d, maximum, sum, target, logits, labels, n, rows->rows, rows->first);
		if (merge(m, work->group, maximum, sum, target, n, err) < 0)
			return -1;
	}
	if (work->count)
		m->d->losses(m->d, &scalars->loss, maximum, sum, target, labels, n, m->set.z_loss);
	if (!work->input && !work->weight)
		return 0;
	if (!rows->rows) {
		if (dx)
			m->d->zero(m->d, dx, n * m->h * m->element);
		return 0;
	}
	m->d->logits_gradient(m->d, m->type, gradient, logits, maximum, sum, labels, n, rows->rows,
			      rows->first, scale, m->set.z_loss);
	if (work->weight && rows->gradient)
		m->d->linear_weight(m->d, m->type, rows->gradient, gradient, x, n, rows->rows, m->h,
				    p4d_buffers__has_part(m, rows->kind, 0, rows->rows));
	if (work->input)
		m->d->linear_input(m->d, m->type, dx, gradient, rows->weight, n, rows->rows, m->h, false);
	return 0;
}

int p4d_head__chunks(p4d_net *m, const p4d_head_work *work, p4d_error *err)
{
	const table all = table_of(m);

	for (uint64_t from = 0; from < m->n; from += P4D_CROSS_ENTROPY_CHUNK) {
		const uint64_t left = m->n - from;
		if (head_chunk(m, work, &all, from,
			       left < P4D_CROSS_ENTROPY_CHUNK ? left : P4D_CROSS_ENTROPY_CHUNK, err) < 0)
			return -1;
	}
	return 0;
}

/* Full chunks, and the remainder. */
void p4d_head__warm_up(p4d_net *m)
{
	const bool has = m->last || m->l->vocab_parallel;
	const uint64_t whole = m->n / P4D_CROSS_ENTROPY_CHUNK,
		       sizes[] = {whole ? P4D_CROSS_ENTROPY_CHUNK : 0, m->n % P4D_CROSS_ENTROPY_CHUNK};

	for (int i = 0; has && i < 2; i++) {
		const table all = table_of(m);
		if (sizes[i] && all.rows)
			p4d_parallel__warm_up(m, all.weight, all.gradient, sizes[i], all.rows, m->h, true);
	}
}

void p4d_head_norm(p4d_net *m, uint32_t slot, void *to)
{
	m->d->norm(m->d, m->type, to, p4d_buffers_at_slot(m, B_HEAD_RSTD, slot, 0),
		   p4d_buffers_at_slot(m, B_HEAD_INPUT, slot, 0), p4d_buffers__weight(m, P4D_W_FINAL_NORM, 0),
		   m->ns, m->h, m->set.norm_epsilon);
}

void p4d_head_norm_backward(p4d_net *m, uint32_t slot, const void *gradient)
{
	m->d->zero(m->d, p4d_buffers_at(m, B_HIDDEN), m->ns * m->h * m->element);
	m->d->norm_backward(m->d, m->type, p4d_buffers_at(m, B_HIDDEN),
			    p4d_buffers__gradient(m, P4D_W_FINAL_NORM, 0), gradient,
			    p4d_buffers_at_slot(m, B_HEAD_INPUT, slot, 0),
			    p4d_buffers__weight(m, P4D_W_FINAL_NORM, 0),
			    p4d_buffers_at_slot(m, B_HEAD_RSTD, slot, 0), m->ns, m->h);
}

int p4d_head__logits(p4d_net *m, float *logits, p4d_error *err)
{
	const table rows = table_of(m);
	float *here = p4d_buffers_at(m, B_LOGITS);
	void *x = p4d_buffers_at(m, B_NORM_OUT);

	p4d_head_norm(m, 0, x);
	memset(logits, 0, m->set.vocab * sizeof(*logits));
	if (rows.rows) {
		m->d->linear_logits(m->d, m->type, here, x, rows.weight, 1, rows.rows, m->h);
		m->d->download(m->d, logits + rows.first, here, rows.rows * sizeof(*logits));
	}
	if (m->d->sync(m->d, err) < 0)
		return -1;
	return m->l->tp > 1 ? p4d_comm_all_reduce(m->world, logits, m->set.vocab, P4D_DT_FP32, P4D_SUM, err)
			    : 0;
}

int p4d_head_loss(p4d_net *m, uint32_t micro_batch, uint32_t slot, p4d_error *err)
{
	void *norm_out = p4d_buffers_at(m, B_NORM_OUT), *gradient = p4d_buffers_at(m, B_NORM_OUT_GRADIENT);
	p4d_head_work work = {
	    .softmax = p4d_buffers_at(m, B_SOFTMAX),
	    .group = m->tp,
	    .merge = true,
	    .count = m->place.tp == 0,
	    .input = !m->evaluating,
	    .weight = !m->evaluating,
	    .input_gradient = p4d_parallel__partial(m, gradient),
	};

	work.labels = p4d_buffers__labels(m, micro_batch, err);
	if (!work.labels)
		return -1;
	m->trained += work.count ? p4d_buffers__trained(m, micro_batch) : 0;
	p4d_head_norm(m, slot, norm_out);
	work.x = p4d_parallel__gather_rows(m, norm_out, p4d_buffers_at(m, B_GATHERED), err);
	if (!work.x || p4d_head__chunks(m, &work, err) < 0)
		return -1;
	if (m->evaluating)
		return 0;
	if (p4d_parallel__reduce_partial(m, gradient, err) < 0)
		return -1;
	p4d_head_norm_backward(m, slot, gradient);
	return 0;
}
