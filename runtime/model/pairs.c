/* SPDX-License-Identifier: Apache-2.0 */
#include "model/pairs.h"

#include "model/buffers.h"
#include "model/sequence_order.h"

/* The documents of this rank's tokens, in the order of the rows. */
static const int32_t *documents_of(const p4d_net *m)
{
	return m->documents + p4d_sequence__own_block(m) * m->batch * m->length;
}

/* Index of the micro-batch's first pair in the step's batch. */
static uint64_t first_pair(const p4d_net *m)
{
	return (m->micro_batch * m->l->dp + m->place.dp) * m->l->micro_batch +
	       p4d_place_grid(m->l, m->place).z * m->batch;
}

static int sum(p4d_net *m, const p4d_head_work *work, double *sums, p4d_error *err)
{
	const float *s = work->softmax;

	m->d->pair_sums(m->d, m->type, sums, s, s + m->n, s + 2 * m->n, work->labels, documents_of(m),
			m->batch, m->length);
	if (p4d_group_size(m->cp) == 1)
		return 0;
	if (p4d_comm_all_reduce(m->cp, sums, 2 * m->batch, P4D_DT_FP64, P4D_SUM, err) < 0)
		return -1;
	return p4d_comm_settle(m->cp, err);
}

int p4d_pairs__weigh(p4d_net *m, uint32_t micro_batch, const p4d_head_work *work, p4d_error *err)
{
	double *sums = p4d_buffers_at(m, B_PAIR_SUMS), *reference = sums + 2 * m->batch;
	p4d_scalars *scalars = p4d_buffers_at(m, B_SCALARS);
	const bool counts = work->count && m->place.cp == 0;
	const p4d_batch batch = {.reference = m->host_reference};

	if (sum(m, work, sums, err) < 0)
		return -1;
	if (m->pair_sums) {
		if (counts)
			m->d->download(m->d, m->pair_sums + 2 * first_pair(m), sums,
				       2 * m->batch * sizeof(*sums));
		return 0;
	}
	if (m->source(m->context, m->number, micro_batch, &batch, err) < 0)
		return -1;
	m->d->upload(m->d, reference, m->host_reference, 2 * m->batch * sizeof(*reference));
	m->d->pair_factors(m->d, m->type, p4d_buffers_at(m, B_PAIR_FACTORS), counts ? &scalars->loss : NULL,
			   sums, reference, documents_of(m), m->batch, m->length, m->set.beta);
	return 0;
}
