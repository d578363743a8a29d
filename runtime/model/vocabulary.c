/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes of vocabulary parallelism, which all stages run together: each holds some rows of both tables. The
 * gradient of the hidden state is made in S (vocab-2) or T (vocab-1); see arXiv 2411.05288. Statistics are
 * merged inside S, piece by piece, so T needs nothing from others.
 */
#include "trainer/trainer_parts.h"

static int embed_forward(p4d_trainer *t, const p4d_instruction *in, p4d_error *err)
{
	void *hidden = p4d_at(t, B_HIDDEN);

	if (p4d_embed(t, in->micro_batch, hidden, err) < 0 ||
	    p4d_reduce(t->pp, hidden, t->ns * t->h, t->type, 0, err) < 0)
		return -1;
	if (t->first)
		t->d->copy(t->d, p4d_hand_over(t, B_EMBEDDING_OUTPUT, in->micro_batch), hidden,
			   t->ns * t->h * t->element);
	return 0;
}

static int embed_backward(p4d_trainer *t, const p4d_instruction *in, p4d_error *err)
{
	const uint64_t bytes = t->ns * t->h * t->element;
	void *hidden = p4d_at(t, B_HIDDEN);

	if (t->first)
		t->d->copy(t->d, hidden, p4d_hand_over(t, B_EMBEDDING_GRADIENT, in->micro_batch), bytes);
	if (p4d_broadcast(t->pp, hidden, bytes, 0, err) < 0)
		return -1;
	return p4d_embed_back(t, in->micro_batch, hidden, err);
}

/* Sums of the hidden state's gradient over tp, then over the stages, in fp32, to the last one. */
static int return_gradient(p4d_trainer *t, const p4d_instruction *in, p4d_error *err)
{
	void *gradient = p4d_at(t, B_NORMED_GRADIENT);
	float *sum = p4d_at(t, B_VOCABULARY_HIDDEN_GRADIENT);
	const uint64_t count = t->ns * t->h;

	if (p4d_add_terms(t, gradient, err) < 0)
		return -1;
	t->d->cast(t->d, P4D_DT_FP32, sum, t->type, gradient, count);
	if (p4d_reduce(t->pp, sum, count, P4D_DT_FP32, t->last_stage, err) < 0)
		return -1;
	if (t->last)
		t->d->cast(t->d, t->type, p4d_hand_over(t, B_HEAD_GRADIENT, in->micro_batch), P4D_DT_FP32,
			   sum, count);
	return 0;
}

static int head_pass(p4d_trainer *t, const p4d_instruction *in, p4d_error *err)
{
	const bool forward = in->op == P4D_OP_VOCAB_FORWARD;
	const bool input = !t->evaluating && forward == (t->schedule.vocabulary == P4D_VOCAB_2);
	const uint64_t bytes = t->ns * t->h * t->element;
	void *hidden = p4d_at_slot(t, B_VOCABULARY_HIDDEN, in->slot, 0);
	p4d_head_work work = {
	    .statistics = p4d_at_slot(t, B_VOCABULARY_STATISTICS, in->slot, 0),
	    .group = t->vocabulary,
	    .merge = forward,
	    .count = forward && t->last && t->place.tp == 0,
	    .input = input,
	    .weight = !forward,
	    .input_gradient = p4d_terms(t, p4d_at(t, B_NORMED_GRADIENT)),
	};

	work.labels = p4d_labels_of(t, in->micro_batch, err);
	if (!work.labels)
		return -1;
	t->trained += work.count ? p4d_trained_of(t, in->micro_batch) : 0;
	if (forward && t->last)
		t->d->copy(t->d, hidden, p4d_hand_over(t, B_HEAD_OUTPUT, in->micro_batch), bytes);
	if (forward && p4d_broadcast(t->pp, hidden, bytes, t->last_stage, err) < 0)
		return -1;
	work.x = p4d_gather_rows(t, hidden, p4d_at(t, B_GATHERED), err);
	if (!work.x || p4d_head_pieces(t, &work, err) < 0)
		return -1;
	return input ? return_gradient(t, in, err) : 0;
}

int p4d_vocabulary_pass(p4d_trainer *t, const p4d_instruction *in, p4d_error *err)
{
	return in->op == P4D_OP_EMBED_FORWARD    ? embed_forward(t, in, err)
	       : in->op == P4D_OP_EMBED_BACKWARD ? embed_backward(t, in, err)
						 : head_pass(t, in, err);
}
