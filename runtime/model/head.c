/* SPDX-License-Identifier: Apache-2.0 */
/* Final norm and cross-entropy, in pieces of tokens, so that few logits exist at a time. */
#include "trainer/trainer_parts.h"

/* This rank's rows of the vocabulary; those that pad it are in no softmax. */
typedef struct table {
	void *weight;
	float *gradient;
	uint64_t first, rows;
} table;

static table table_of(const p4d_trainer *t)
{
	const p4d_weight *w = p4d_weight_find(&t->weights, P4D_W_HEAD, 0);
	const p4d_weight_kind kind = w ? P4D_W_HEAD : P4D_W_EMBEDDING;
	table y = {.weight = p4d_weight_of(t, kind, 0), .gradient = p4d_gradient_of(t, kind, 0)};

	w = w ? w : p4d_weight_find(&t->weights, P4D_W_EMBEDDING, 0);
	y.first = p4d_table_row(t->l, t->place, w);
	if (y.first < t->set.vocab)
		y.rows = t->set.vocab - y.first < w->rows ? t->set.vocab - y.first : w->rows;
	return y;
}

/* Statistics of a piece over all ranks. The gradients' buffer is free until they are made. */
static int merge(p4d_trainer *t, p4d_group *group, float *maximum, float *sum, float *target, uint64_t n,
		 p4d_error *err)
{
	float *old = p4d_at(t, B_LOGITS_GRADIENT);

	if (p4d_group_size(group) == 1)
		return 0;
	t->d->copy(t->d, old, maximum, n * sizeof(*old));
	if (p4d_all_reduce(group, maximum, n, P4D_DT_FP32, P4D_MAX, err) < 0)
		return -1;
	t->d->rescale(t->d, sum, old, maximum, n);
	if (p4d_all_reduce(group, sum, n, P4D_DT_FP32, P4D_SUM, err) < 0)
		return -1;
	return p4d_all_reduce(group, target, n, P4D_DT_FP32, P4D_SUM, err);
}

static int piece(p4d_trainer *t, const p4d_head_work *work, const table *rows, uint64_t from, uint64_t n,
		 p4d_error *err)
{
	const void *x = (const char *)work->x + from * t->h * t->element;
	const int32_t *labels = work->labels + from;
	float *maximum = work->statistics + from, *sum = maximum + t->n, *target = sum + t->n;
	float *logits = p4d_at(t, B_LOGITS);
	void *gradient = p4d_at(t, B_LOGITS_GRADIENT);
	void *dx = work->input ? (char *)work->input_gradient + from * t->h * t->element : NULL;
	const float scale = (float)(1 / ((double)t->l->global_batch * (double)t->l->seq_len));
	p4d_scalars *scalars = p4d_at(t, B_SCALARS);

	if (rows->rows)
		t->d->linear_logits(t->d, t->type, logits, x, rows->weight, n, rows->rows, t->h);
	if (work->merge) {
		t->d->statistics(t->d, maximum, sum, target, logits, labels, n, rows->rows, rows->first);
		if (merge(t, work->group, maximum, sum, target, n, err) < 0)
			return -1;
	}
	if (work->count)
		t->d->losses(t->d, &scalars->loss, maximum, sum, target, labels, n, t->set.z_loss);
	if (!work->input && !work->weight)
		return 0;
	if (!rows->rows) {
		if (dx)
			t->d->zero(t->d, dx, n * t->h * t->element);
		return 0;
	}
	t->d->logits_gradient(t->d, t->type, gradient, logits, maximum, sum, labels, n, rows->rows,
			      rows->first, scale, t->set.z_loss);
	if (work->weight)
		t->d->linear_weight(t->d, t->type, rows->gradient, gradient, x, n, rows->rows, t->h);
	if (work->input)
		t->d->linear_input(t->d, t->type, dx, gradient, rows->weight, n, rows->rows, t->h, false);
	return 0;
}

int p4d_head_pieces(p4d_trainer *t, const p4d_head_work *work, p4d_error *err)
{
	const table all = table_of(t);

	for (uint64_t from = 0; from < t->n; from += P4D_CROSS_ENTROPY_CHUNK) {
		const uint64_t left = t->n - from;
		if (piece(t, work, &all, from,
			  left < P4D_CROSS_ENTROPY_CHUNK ? left : P4D_CROSS_ENTROPY_CHUNK, err) < 0)
			return -1;
	}
	return 0;
}

/* Pieces of the usual size, and what is left over. */
void p4d_warm_head(p4d_trainer *t)
{
	const bool has = t->last || t->l->vocab_parallel;
	const uint64_t whole = t->n / P4D_CROSS_ENTROPY_CHUNK,
		       sizes[] = {whole ? P4D_CROSS_ENTROPY_CHUNK : 0, t->n % P4D_CROSS_ENTROPY_CHUNK};

	for (int i = 0; has && i < 2; i++) {
		const table all = table_of(t);
		if (sizes[i] && all.rows)
			p4d_warm_product(t, all.weight, all.gradient, sizes[i], all.rows, t->h, true);
	}
}

void p4d_head_norm(p4d_trainer *t, uint32_t slot, void *to)
{
	t->d->norm(t->d, t->type, to, p4d_at_slot(t, B_HEAD_RSTD, slot, 0),
		   p4d_at_slot(t, B_HEAD_INPUT, slot, 0), p4d_weight_of(t, P4D_W_FINAL_NORM, 0), t->ns, t->h,
		   t->set.norm_epsilon);
}

void p4d_head_norm_back(p4d_trainer *t, uint32_t slot, const void *gradient)
{
	t->d->zero(t->d, p4d_at(t, B_HIDDEN), t->ns * t->h * t->element);
	t->d->norm_backward(t->d, t->type, p4d_at(t, B_HIDDEN), p4d_gradient_of(t, P4D_W_FINAL_NORM, 0),
			    gradient, p4d_at_slot(t, B_HEAD_INPUT, slot, 0),
			    p4d_weight_of(t, P4D_W_FINAL_NORM, 0), p4d_at_slot(t, B_HEAD_RSTD, slot, 0),
			    t->ns, t->h);
}

int p4d_head(p4d_trainer *t, uint32_t micro_batch, uint32_t slot, p4d_error *err)
{
	void *normed = p4d_at(t, B_NORMED), *gradient = p4d_at(t, B_NORMED_GRADIENT);
	p4d_head_work work = {
	    .statistics = p4d_at(t, B_STATISTICS),
	    .group = t->tp,
	    .merge = true,
	    .count = t->place.tp == 0,
	    .input = !t->evaluating,
	    .weight = !t->evaluating,
	    .input_gradient = p4d_terms(t, gradient),
	};

	work.labels = p4d_labels_of(t, micro_batch, err);
	if (!work.labels)
		return -1;
	t->trained += work.count ? p4d_trained_of(t, micro_batch) : 0;
	p4d_head_norm(t, slot, normed);
	work.x = p4d_gather_rows(t, normed, p4d_at(t, B_GATHERED), err);
	if (!work.x || p4d_head_pieces(t, &work, err) < 0)
		return -1;
	if (t->evaluating)
		return 0;
	if (p4d_add_terms(t, gradient, err) < 0)
		return -1;
	p4d_head_norm_back(t, slot, gradient);
	return 0;
}
