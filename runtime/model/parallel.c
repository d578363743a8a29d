/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of ranks, what tensor and sequence parallelism add to a product, and the pace of the host. */
#include <stdlib.h>
#include <string.h>

#include "trainer/trainer_parts.h"

/* Second pieces of a sequence lie on the context-parallel ranks in this order. */
static int open_reversed(p4d_trainer *t, p4d_error *err)
{
	const uint32_t cp = (uint32_t)t->l->cp;
	uint32_t *ranks = malloc(cp * sizeof(*ranks));
	p4d_place place = t->place;
	int status;

	if (!ranks)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a group of ranks");
	for (place.cp = 0; place.cp < cp; place.cp++)
		ranks[cp - 1 - place.cp] = p4d_rank_at(t->l, place);
	status = p4d_group_open(&t->cp_reversed, t->set.world, ranks, cp, err);
	free(ranks);
	return status;
}

/* The ranks whose places agree with `place` outside of the directions that vary, in the order of ranks. */
static int open_group(p4d_trainer *t, p4d_group **group, bool tp, bool cp, bool dp, bool pp, p4d_error *err)
{
	const p4d_layout *l = t->l;
	uint32_t *ranks = malloc(l->world * sizeof(*ranks)), count = 0;
	int status;

	if (!ranks)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a group of ranks");
	for (uint32_t rank = 0; rank < l->world; rank++) {
		const p4d_place p = p4d_place_of(l, rank);
		if ((tp || p.tp == t->place.tp) && (cp || p.cp == t->place.cp) &&
		    (dp || p.dp == t->place.dp) && (pp || p.pp == t->place.pp))
			ranks[count++] = rank;
	}
	status = p4d_group_open(group, t->set.world, ranks, count, err);
	free(ranks);
	return status;
}

static int open_ends(p4d_trainer *t, p4d_error *err)
{
	p4d_place first = t->place, last = t->place;

	if (!t->tied_ends || (!t->first && !t->last))
		return 0;
	first.pp = 0;
	last.pp = t->last_stage;
	const uint32_t ranks[] = {p4d_rank_at(t->l, first), p4d_rank_at(t->l, last)};
	return p4d_group_open(&t->ends, t->set.world, ranks, 2, err);
}

/* What the stages send each other: as the list says. */
static void find_sends(const p4d_trainer *t, uint8_t *sends)
{
	memset(sends, 0, t->l->pp);
	for (size_t i = 0; i < t->list.count; i++) {
		const p4d_instruction *in = &t->list.at[i];
		if (in->op == P4D_OP_SEND_FORWARD)
			sends[in->peer] |= 1 << CHANNEL_FORWARD;
		if (in->op == P4D_OP_SEND_BACKWARD)
			sends[in->peer] |= 1 << CHANNEL_BACKWARD;
	}
}

/* Round the ring of context parallelism: keys and values of the storage type, their gradients in fp32. */
static void find_ring(const p4d_trainer *t, uint8_t *sends)
{
	memset(sends, 0, t->l->cp);
	sends[(t->place.cp + 1) % t->l->cp] = 1 << CHANNEL_RING | 1 << CHANNEL_RING_GRADIENTS;
}

static uint64_t largest_segment(const p4d_trainer *t)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < t->weights.segments; i++)
		most = t->weights.segment[i].padded > most ? t->weights.segment[i].padded : most;
	return most;
}

/* Collectives in the order of operations. The arena is free until it is filled. */
static p4d_traffic collectives_of(const p4d_trainer *t, uint64_t sum_bytes, uint64_t pieces_bytes)
{
	return (p4d_traffic){
	    .collectives = true, .sum_bytes = sum_bytes, .pieces_bytes = pieces_bytes, .scratch = t->arena};
}

/* Rows, or terms of them. Beside rows that are cut, sums are of norms' gradients and of logits' statistics.
 */
static p4d_traffic between_tp(const p4d_trainer *t)
{
	const uint64_t rows = t->n * t->h * t->element;
	const uint64_t numbers = t->h > P4D_CROSS_ENTROPY_CHUNK ? t->h : P4D_CROSS_ENTROPY_CHUNK;

	return t->l->sequence_parallel ? collectives_of(t, numbers * sizeof(float), rows)
				       : collectives_of(t, rows, 0);
}

static p4d_traffic between_replicas(const p4d_trainer *t)
{
	const uint64_t gradients = largest_segment(t) * sizeof(float);
	p4d_traffic y = t->shards == 1 ? collectives_of(t, gradients, 0) : collectives_of(t, 0, gradients);

	y.aside = true;
	return y;
}

/* From here on these groups carry what lies in the arena. */
static int put_on_device(p4d_trainer *t, uint8_t *sends, p4d_error *err)
{
	const p4d_traffic tp = between_tp(t), replicas = between_replicas(t);
	const p4d_traffic keys = collectives_of(t, 0, t->l->seq_len / 2 * 2 * t->kv * sizeof(float));
	const p4d_traffic vocabulary = collectives_of(t, P4D_CROSS_ENTROPY_CHUNK * sizeof(float), 0);
	const p4d_traffic ends = collectives_of(t, t->l->vocab / t->l->tp * t->h * sizeof(float), 0);
	const p4d_traffic stages = {.collectives = t->l->vocab_parallel,
				    .pieces_bytes = t->ns * t->h * t->element,
				    .sends = sends,
				    .message_bytes = t->ns * t->h * t->element,
				    .messages = 2 * P4D_SEND_BUFFERS,
				    .scratch = t->arena};
	const p4d_traffic ring = {.sends = sends,
				  .message_bytes = t->n * 2 * t->kv * sizeof(float),
				  .messages = 2,
				  .scratch = t->arena};

	if (p4d_group_on_device(t->tp, t->set.transport, &tp, err) < 0 ||
	    p4d_group_on_device(t->replicas, t->set.transport, &replicas, err) < 0)
		return -1;
	find_ring(t, sends);
	if (t->l->cp_comm == P4D_CP_P2P && p4d_group_on_device(t->cp, t->set.transport, &ring, err) < 0)
		return -1;
	if (t->cp_reversed && (p4d_group_on_device(t->cp, t->set.transport, &keys, err) < 0 ||
			       p4d_group_on_device(t->cp_reversed, t->set.transport, &keys, err) < 0))
		return -1;
	find_sends(t, sends);
	if (p4d_group_on_device(t->pp, t->set.transport, &stages, err) < 0)
		return -1;
	if (t->l->vocab_parallel &&
	    p4d_group_on_device(t->vocabulary, t->set.transport, &vocabulary, err) < 0)
		return -1;
	return t->ends ? p4d_group_on_device(t->ends, t->set.transport, &ends, err) : 0;
}

static int open_device_groups(p4d_trainer *t, p4d_error *err)
{
	const uint64_t most = t->l->pp > t->l->cp ? t->l->pp : t->l->cp;
	uint8_t *sends = malloc(most);
	int status;

	if (!sends)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a group of ranks");
	status = put_on_device(t, sends, err);
	free(sends);
	for (int i = 0; status == 0 && i < P4D_AHEAD; i++)
		status = t->d->mark_open(t->d, &t->pace[i], err);
	return status;
}

int p4d_open_groups(p4d_trainer *t, p4d_error *err)
{
	if (open_group(t, &t->tp, true, false, false, false, err) < 0 ||
	    open_group(t, &t->cp, false, true, false, false, err) < 0 ||
	    open_group(t, &t->replicas, false, true, true, false, err) < 0 ||
	    open_group(t, &t->pp, false, false, false, true, err) < 0 ||
	    open_group(t, &t->vocabulary, true, false, false, true, err) < 0 ||
	    open_group(t, &t->world, true, true, true, true, err) < 0)
		return -1;
	if (t->l->cp_comm == P4D_CP_ALL_GATHER && open_reversed(t, err) < 0)
		return -1;
	return open_ends(t, err) < 0 ? -1 : open_device_groups(t, err);
}

void p4d_close_groups(p4d_trainer *t)
{
	p4d_group **groups[] = {&t->tp, &t->cp,         &t->cp_reversed, &t->replicas,
				&t->pp, &t->vocabulary, &t->world,       &t->ends};

	for (size_t i = 0; i < sizeof(groups) / sizeof(*groups); i++) {
		if (*groups[i])
			p4d_group_close(*groups[i]);
		*groups[i] = NULL;
	}
}

const void *p4d_gather_rows(p4d_trainer *t, const void *x, void *to, p4d_error *err)
{
	if (!t->l->sequence_parallel)
		return x;
	return p4d_all_gather(t->tp, to, x, t->ns * t->h * t->element, err) < 0 ? NULL : to;
}

void *p4d_terms(p4d_trainer *t, void *to)
{
	return t->l->tp > 1 ? p4d_at(t, B_PARTIAL) : to;
}

int p4d_add_terms(p4d_trainer *t, void *to, p4d_error *err)
{
	void *partial = p4d_at(t, B_PARTIAL);

	if (t->l->tp == 1)
		return 0;
	if (t->l->sequence_parallel)
		return p4d_reduce_scatter(t->tp, to, partial, t->ns * t->h, t->type, err);
	if (p4d_all_reduce(t->tp, partial, t->n * t->h, t->type, P4D_SUM, err) < 0)
		return -1;
	t->d->copy(t->d, to, partial, t->n * t->h * t->element);
	return 0;
}

int p4d_keep_pace(p4d_trainer *t, p4d_error *err)
{
	void *mark = t->pace[t->paced++ % P4D_AHEAD];

	if (p4d_device_reach(t->d, mark, err) < 0)
		return -1;
	t->d->mark(t->d, mark, NULL);
	return 0;
}
