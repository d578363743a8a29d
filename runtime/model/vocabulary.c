/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the passes of vocabulary parallelism, which all stages run together. Each stage has some rows of
 * both tables. The passes S and T are those of arXiv 2411.05288. The gradient of the hidden state is computed
 * in S (vocab-2) or in T (vocab-1). S merges the softmax sums over the stages, chunk by chunk, so T needs
 * nothing from other stages.
 */
#include "model/buffers.h"
#include "model/embedding.h"
#include "model/head.h"
#include "model/parallel.h"

static int embed_forward(p4d_net *m, const p4d_instruction *in, p4d_error *err)
{
	void *hidden = p4d_buffers_at(m, B_HIDDEN);

	if (p4d_embedding__rows(m, in->micro_batch, hidden, err) < 0 ||
	    p4d_comm_reduce(m->pp, hidden, m->ns * m->h, m->type, 0, err) < 0)
		return -1;
	if (!m->first)
		return 0;
	p4d_embedding__finish(m, hidden);
	m->d->copy(m->d, p4d_buffers_boundary(m, B_EMBEDDING_OUTPUT, in->micro_batch), hidden,
		   m->ns * m->h * m->element);
	return 0;
}

/*
 * Whether both tables are frozen. All ranks must get the same answer, because a rank would wait for a chunk
 * that another rank skips.
 */
static bool tables_are_frozen(const p4d_net *m)
{
	return p4d_weights__find(&m->weights, P4D_W_EMBEDDING, 0)->frozen;
}

static int embed_backward(p4d_net *m, const p4d_instruction *in, p4d_error *err)
{
	const uint64_t bytes = m->ns * m->h * m->element;
	void *hidden = p4d_buffers_at(m, B_HIDDEN);

	if (tables_are_frozen(m))
		return 0;
	if (m->first)
		m->d->copy(m->d, hidden, p4d_buffers_boundary(m, B_EMBEDDING_GRADIENT, in->micro_batch),
			   bytes);
	if (p4d_comm_broadcast(m->pp, hidden, bytes, 0, err) < 0)
		return -1;
	return p4d_embedding__rows_back(m, in->micro_batch, hidden, err);
}

/* Sums the hidden state's gradient in fp32 over tp, then over the stages; the last stage gets the result. */
static int return_gradient(p4d_net *m, const p4d_instruction *in, p4d_error *err)
{
	void *gradient = p4d_buffers_at(m, B_NORM_OUT_GRADIENT);
	float *sum = p4d_buffers_at(m, B_VOCABULARY_HIDDEN_GRADIENT);
	const uint64_t count = m->ns * m->h;

	if (p4d_parallel__reduce_partial(m, gradient, err) < 0)
		return -1;
	m->d->cast(m->d, P4D_DT_FP32, sum, m->type, gradient, count);
	if (p4d_comm_reduce(m->pp, sum, count, P4D_DT_FP32, m->last_stage, err) < 0)
		return -1;
	if (m->last)
		m->d->cast(m->d, m->type, p4d_buffers_boundary(m, B_HEAD_GRADIENT, in->micro_batch),
			   P4D_DT_FP32, sum, count);
	return 0;
}

static int head_pass(p4d_net *m, const p4d_instruction *in, p4d_error *err)
{
	const bool forward = in->op == P4D_OP_VOCAB_FORWARD;
	const bool input = !m->evaluating && forward == (m->schedule.vocabulary == P4D_VOCAB_2);
	const uint64_t bytes = m->ns * m->h * m->element;
	void *hidden = p4d_buffers_at_slot(m, B_VOCABULARY_HIDDEN, in->slot, 0);
	p4d_head_work work = {
	    .softmax = p4d_buffers_at_slot(m, B_VOCABULARY_STATISTICS, in->slot, 0),
	    .group = m->vocabulary,
	    .merge = forward,
	    .count = forward && m->last && m->place.tp == 0,
	    .input = input,
	    .weight = !forward,
	    .input_gradient = p4d_parallel__partial(m, p4d_buffers_at(m, B_NORM_OUT_GRADIENT)),
	};

	if (!forward && !input && tables_are_frozen(m))
		return 0;
	work.labels = p4d_buffers__labels(m, in->micro_batch, err);
	if (!work.labels)
		return -1;
	m->trained += work.count ? p4d_buffers__trained(m, in->micro_batch) : 0;
	if (forward && m->last)
		m->d->copy(m->d, hidden, p4d_buffers_boundary(m, B_HEAD_OUTPUT, in->micro_batch), bytes);
	if (forward && p4d_comm_broadcast(m->pp, hidden, bytes, m->last_stage, err) < 0)
		return -1;
	work.x = p4d_parallel__gather_rows(m, hidden, p4d_buffers_at(m, B_GATHERED), err);
	if (!work.x || p4d_head__chunks(m, in->micro_batch, &work, err) < 0)
		return -1;
	return input ? return_gradient(m, in, err) : 0;
}

int p4d_vocabulary_pass(p4d_net *m, const p4d_instruction *in, p4d_error *err)
{
	return in->op == P4D_OP_EMBED_FORWARD    ? embed_forward(m, in, err)
	       : in->op == P4D_OP_EMBED_BACKWARD ? embed_backward(m, in, err)
						 : head_pass(m, in, err);
}
