/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the final norm and the cross-entropy in chunks of tokens, so that few logits exist at a time. */
#include "model/head.h"

#include <string.h>

#include "base/vector.h"
#include "model/buffers.h"
#include "model/norm.h"
#include "model/pairs.h"
#include "model/parallel.h"

/* The part of the vocabulary's table on this rank. Padding rows do not take part in the softmax. */
typedef struct table {
	void *weight;
	float *gradient;
	uint64_t first, rows;
} table;

static table table_of(const p4d_net *m)
{
	const p4d_weight_kind kind = m->head.table;
	const uint32_t layer = m->head.layer;
	const p4d_weight *w = p4d_weights__find(&m->weights, kind, layer);
	table y = {.weight = p4d_buffers__weight(m, kind, layer),
		   .gradient = p4d_buffers__gradient(m, kind, layer)};

	y.first = p4d_weights__table_row(m->l, m->place, w);
	if (y.first < m->set.vocab)
		y.rows = m->set.vocab - y.first < w->rows ? m->set.vocab - y.first : w->rows;
	return y;
}

/* A chunk of the tokens for which the head is computed. */
typedef struct logits_chunk {
	uint64_t from, n;
	const void *x;
	const int32_t *labels;
	float *maximum, *sum, *target;
	void *logits, *dx;
	uint64_t stride; /* elements between the beginnings of two rows of logits */
} logits_chunk;

static logits_chunk chunk_of(const p4d_net *m, const p4d_head_work *work, uint64_t from)
{
	const uint64_t *logits = m->row[B_LOGITS]->shape, left = m->n - from, row = m->h * m->element;

	return (logits_chunk){.from = from,
			      .n = left < logits[0] ? left : logits[0],
			      .x = (const char *)work->x + from * row,
			      .labels = work->labels + from,
			      .maximum = work->softmax + from,
			      .sum = work->softmax + m->n + from,
			      .target = work->softmax + 2 * m->n + from,
			      .logits = p4d_buffers_at(m, B_LOGITS),
			      .dx = (char *)work->input_gradient + from * row,
			      .stride = logits[1]};
}

/*
 * Merges the softmax maxima and sums of a chunk over the group. Uses the memory of dx, which the gradient
 * does not need yet.
 */
static int merge(p4d_net *m, p4d_group *group, const logits_chunk *c, p4d_error *err)
{
	float *old = c->dx;

	m->d->copy(m->d, old, c->maximum, c->n * sizeof(*old));
	if (p4d_comm_all_reduce(group, c->maximum, c->n, P4D_DT_FP32, P4D_MAX, err) < 0 ||
	    p4d_comm_settle(group, err) < 0)
		return -1;
	m->d->rescale(m->d, c->sum, old, c->maximum, c->n);
	if (p4d_comm_all_reduce(group, c->sum, c->n, P4D_DT_FP32, P4D_SUM, err) < 0)
		return -1;
	if (p4d_comm_all_reduce(group, c->target, c->n, P4D_DT_FP32, P4D_SUM, err) < 0)
		return -1;
	return p4d_comm_settle(group, err);
}

/* Computes the softmax sums if work->merge is set, and then the gradient, which replaces the logits. */
static int softmax(p4d_net *m, const p4d_head_work *work, const table *rows, const logits_chunk *c,
		   bool gradient, p4d_error *err)
{
	const float scale = (float)(1 / ((double)m->l->global_batch * (double)m->l->seq_len));
	const bool alone = p4d_group_size(work->group) == 1;
	const float cap = m->l->architecture->logit_cap;

	if (work->merge && gradient && alone && cap <= 0) {
		m->d->cross_entropy(m->d, m->type, c->maximum, c->sum, c->target, c->logits, c->stride,
				    c->labels, c->n, rows->rows, scale, m->set.z_loss);
		return 0;
	}
	if (work->merge)
		m->d->softmax_sums(m->d, m->type, c->maximum, c->sum, c->target, c->logits, c->stride,
				   c->labels, c->n, rows->rows, rows->first);
	if (work->merge && !alone && merge(m, work->group, c, err) < 0)
		return -1;
	if (gradient && rows->rows && cap > 0)
		m->d->capped_gradient(m->d, m->type, c->logits, c->stride, c->maximum, c->sum, c->labels,
				      c->n, rows->rows, rows->first, scale, m->set.z_loss, cap);
	else if (gradient && rows->rows)
		m->d->logits_gradient(m->d, m->type, c->logits, c->stride, c->maximum, c->sum, c->labels,
				      c->n, rows->rows, rows->first, scale, m->set.z_loss);
	return 0;
}

static void product(p4d_net *m, const table *rows, const logits_chunk *c)
{
	if (rows->rows)
		m->d->columns(m->d, m->type, c->logits, c->stride, c->x, rows->weight, c->n, rows->rows, m->h,
			      (float)m->l->factor.logit, false);
}

/*
 * Computes a chunk's logits. Sums them over Y if each rank has only some features, and caps them if the model
 * has a soft cap.
 */
static int logits_of(p4d_net *m, const table *rows, const logits_chunk *c, p4d_error *err)
{
	const float cap = m->l->architecture->logit_cap;

	product(m, rows, c);
	if (rows->rows && m->tp_y &&
	    p4d_comm_all_reduce(m->tp_y, c->logits, c->n * c->stride, m->type, P4D_SUM, err) < 0)
		return -1;
	if (rows->rows && cap > 0)
		m->d->soft_cap(m->d, m->type, c->logits, c->stride, c->n, rows->rows, cap);
	return 0;
}

static void gradient_of_table(p4d_net *m, const table *rows, const logits_chunk *c, bool accumulate)
{
	m->d->columns_weight(m->d, m->type, rows->gradient, c->logits, c->stride, c->x, c->n, rows->rows,
			     m->h, (float)m->l->factor.logit, accumulate);
}

static void gradient_of_input(p4d_net *m, const table *rows, const logits_chunk *c)
{
	if (rows->rows)
		m->d->columns_input(m->d, m->type, c->dx, c->logits, c->stride, rows->weight, c->n,
				    rows->rows, m->h, (float)m->l->factor.logit);
	else
		m->d->zero(m->d, c->dx, c->n * m->h * m->element);
}

static int head_chunk(p4d_net *m, const p4d_head_work *work, const table *rows, const logits_chunk *c,
		      p4d_error *err)
{
	if (logits_of(m, rows, c, err) < 0 || softmax(m, work, rows, c, work->input || work->weight, err) < 0)
		return -1;
	if (work->factors && rows->rows)
		m->d->scale_rows(m->d, m->type, c->logits, c->stride, work->factors + c->from, c->n,
				 rows->rows);
	if (work->weight && rows->gradient && rows->rows)
		gradient_of_table(m, rows, c,
				  p4d_buffers__has_part(m, m->head.table, m->head.layer, rows->rows));
	if (work->input)
		gradient_of_input(m, rows, c);
	return 0;
}

static int all_chunks(p4d_net *m, const p4d_head_work *work, p4d_error *err)
{
	const table all = table_of(m);

	for (uint64_t from = 0; from < m->n; from += m->row[B_LOGITS]->shape[0]) {
		const logits_chunk c = chunk_of(m, work, from);
		if (head_chunk(m, work, &all, &c, err) < 0)
			return -1;
	}
	return 0;
}

/*
 * Computes all chunks twice for preference learning: first the statistics, then the gradients, because each
 * gradient needs the statistics of all chunks.
 */
static int chunks_of_pairs(p4d_net *m, uint32_t micro_batch, const p4d_head_work *work, p4d_error *err)
{
	p4d_head_work statistics = *work, gradients = *work;

	statistics.input = statistics.weight = false;
	gradients.merge = false;
	gradients.factors = p4d_buffers_at(m, B_PAIR_FACTORS);
	if ((work->merge && all_chunks(m, &statistics, err) < 0) ||
	    p4d_pairs__weigh(m, micro_batch, work, err) < 0)
		return -1;
	return work->input || work->weight ? all_chunks(m, &gradients, err) : 0;
}

int p4d_head__chunks(p4d_net *m, uint32_t micro_batch, const p4d_head_work *work, p4d_error *err)
{
	p4d_scalars *scalars = p4d_buffers_at(m, B_SCALARS);
	float *softmax = work->softmax;

	if (m->l->pairs)
		return chunks_of_pairs(m, micro_batch, work, err);
	if (all_chunks(m, work, err) < 0)
		return -1;
	/* the loss that is reported has no z-loss, which only affects gradients */
	if (work->count)
		m->d->losses(m->d, &scalars->loss, softmax, softmax + m->n, softmax + 2 * m->n, work->labels,
			     m->n, 0);
	return 0;
}

/* Runs the head's matmuls once, for full chunks and for the remainder. */
void p4d_head__warm_up(p4d_net *m, void *at)
{
	const table all = m->row[B_LOGITS] ? table_of(m) : (table){.rows = 0};
	const p4d_head_work any = {.x = at, .softmax = at, .input_gradient = at};

	if (!all.rows)
		return;
	const uint64_t each = m->row[B_LOGITS]->shape[0], last = (m->n - 1) / each * each;
	for (uint64_t from = 0; from <= last; from += last ? last : 1) {
		const logits_chunk c = chunk_of(m, &any, from);
		product(m, &all, &c);
		if (m->l->evaluates)
			continue;
		gradient_of_input(m, &all, &c);
		if (all.gradient)
			gradient_of_table(m, &all, &c, true);
	}
}

int p4d_head_norm(p4d_net *m, uint32_t slot, void *to, p4d_error *err)
{
	return p4d_norm__forward(m, m->head.norm, m->head.layer, to,
				 p4d_buffers_at_slot(m, B_HEAD_RSTD, slot, 0),
				 p4d_buffers_at_slot(m, B_HEAD_INPUT, slot, 0), err);
}

int p4d_head_norm_backward(p4d_net *m, uint32_t slot, const void *gradient, p4d_error *err)
{
	m->d->zero(m->d, p4d_buffers_at(m, B_HIDDEN), m->ns * m->h * m->element);
	return p4d_norm__backward(m, m->head.norm, m->head.layer, p4d_buffers_at(m, B_HIDDEN), gradient,
				  p4d_buffers_at_slot(m, B_HEAD_INPUT, slot, 0),
				  p4d_buffers_at_slot(m, B_HEAD_RSTD, slot, 0), err);
}

/*
 * Converts bf16 numbers to fp32 in place. It starts at the last element, so that it never overwrites an
 * element that it has yet to read.
 */
static void widen(const p4d_net *m, float *numbers, uint64_t count)
{
	for (uint64_t i = count; m->type == P4D_DT_BF16 && i-- > 0;) {
		uint16_t rounded;
		memcpy(&rounded, (const char *)numbers + i * sizeof(rounded), sizeof(rounded));
		numbers[i] = p4d_from_bf16(rounded);
	}
}

int p4d_head__logits(p4d_net *m, float *logits, p4d_error *err)
{
	const table rows = table_of(m);
	void *here = p4d_buffers_at(m, B_LOGITS), *x = p4d_buffers_at(m, B_NORM_OUT);
	const float cap = m->l->architecture->logit_cap;

	if (p4d_head_norm(m, 0, x, err) < 0)
		return -1;
	memset(logits, 0, m->set.vocab * sizeof(*logits));
	if (rows.rows) {
		m->d->columns(m->d, m->type, here, rows.rows, x, rows.weight, 1, rows.rows, m->h,
			      (float)m->l->factor.logit, false);
		if (cap > 0)
			m->d->soft_cap(m->d, m->type, here, rows.rows, 1, rows.rows, cap);
		m->d->download(m->d, logits + rows.first, here, rows.rows * m->element);
	}
	if (m->d->sync(m->d, err) < 0)
		return -1;
	widen(m, logits + rows.first, rows.rows);
	return m->l->tp > 1 ? p4d_comm_all_reduce(m->world, logits, m->set.vocab, P4D_DT_FP32, P4D_SUM, err)
			    : 0;
}

int p4d_head_loss(p4d_net *m, uint32_t micro_batch, uint32_t slot, p4d_error *err)
{
	void *norm_out = p4d_buffers_at(m, B_NORM_OUT), *gradient = p4d_buffers_at(m, B_NORM_OUT_GRADIENT);
	const p4d_tp_grid at = p4d_place_grid(m->l, m->place);
	p4d_head_work work = {
	    .softmax = p4d_buffers_at(m, B_SOFTMAX),
	    .group = m->tp,
	    .merge = true,
	    .count = at.x == 0 && at.y == 0 &&
		     m->last, /* counts the model's loss once; each rank of Z has its own tokens */
	    .input = !m->evaluating,
	    .weight = !m->evaluating,
	    .input_gradient = p4d_parallel__partial(m, gradient),
	};

	work.labels = p4d_buffers__labels(m, micro_batch, err);
	if (!work.labels)
		return -1;
	m->trained += work.count ? p4d_buffers__trained(m, micro_batch) : 0;
	if (p4d_head_norm(m, slot, norm_out, err) < 0)
		return -1;
	work.x = p4d_parallel__gather_rows(m, norm_out, p4d_buffers_at(m, B_GATHERED), err);
	if (!work.x || p4d_head__chunks(m, micro_batch, &work, err) < 0)
		return -1;
	if (m->evaluating)
		return 0;
	if (p4d_parallel__reduce_partial(m, gradient, err) < 0)
		return -1;
	return p4d_head_norm_backward(m, slot, gradient, err);
}
