/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens groups of ranks, communicates around matmuls for tensor and sequence parallelism, and limits how far
 * the host runs ahead of the device.
 */
#include "model/parallel.h"

#include <stdlib.h>
#include <string.h>

#include "model/buffers.h"

/*
 * Opens the group of the cp ranks in the reverse order, in which they have the second chunks of a sequence.
 */
static int open_reversed(p4d_net *m, p4d_error *err)
{
	const uint32_t cp = (uint32_t)m->l->cp;
	uint32_t *ranks = malloc(cp * sizeof(*ranks));
	p4d_place place = m->place;
	int status;

	if (!ranks)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a rank group");
	for (place.cp = 0; place.cp < cp; place.cp++)
		ranks[cp - 1 - place.cp] = p4d_place_rank(m->l, place);
	status = p4d_group_open(&m->cp_reversed, m->set.world, ranks, cp, err);
	free(ranks);
	return status;
}

/* Directions in which the coordinates of ranks differ. X, Y and Z are those of a tp-grid. */
enum { X = 1, Y = 2, Z = 4, CP = 8, DP = 16, PP = 32 };

static unsigned differ(const p4d_layout *l, p4d_place a, p4d_place b)
{
	const p4d_tp_grid g = p4d_place_grid(l, a), h = p4d_place_grid(l, b);

	return (g.x != h.x ? X : 0) | (g.y != h.y ? Y : 0) | (g.z != h.z ? Z : 0) | (a.cp != b.cp ? CP : 0) |
	       (a.dp != b.dp ? DP : 0) | (a.pp != b.pp ? PP : 0);
}

/* Opens the group of the ranks whose places differ from this rank's only in these directions, in rank
 * order. */
static int open_group(p4d_net *m, p4d_group **group, unsigned directions, p4d_error *err)
{
	const p4d_layout *l = m->l;
	uint32_t *ranks = malloc(l->world * sizeof(*ranks)), count = 0;
	int status;

	if (!ranks)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a rank group");
	for (uint32_t rank = 0; rank < l->world; rank++)
		if (!(differ(l, p4d_place_of(l, rank), m->place) & ~directions))
			ranks[count++] = rank;
	status = p4d_group_open(group, m->set.world, ranks, count, err);
	free(ranks);
	return status;
}

/*
 * Opens a group of replicas. Without same_shard: the ranks that together have one copy of the optimizer
 * states. With same_shard: the ranks that have a copy of this rank's shard.
 */
static int open_sharing(p4d_net *m, p4d_group **group, bool same_shard, p4d_error *err)
{
	const uint32_t all = (uint32_t)(m->l->dp * m->l->cp);
	uint32_t *ranks = malloc(all * sizeof(*ranks)), count = 0;
	p4d_place p = m->place;
	int status;

	if (!ranks)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a rank group");
	for (uint32_t i = 0; i < all; i++) {
		p.cp = i % (uint32_t)m->l->cp;
		p.dp = i / (uint32_t)m->l->cp;
		if (same_shard ? p4d_weights_shard_number(m->l, p) == p4d_weights_shard_number(m->l, m->place)
			       : p4d_weights_copy_number(m->l, p) == p4d_weights_copy_number(m->l, m->place))
			ranks[count++] = p4d_place_rank(m->l, p);
	}
	status = p4d_group_open(group, m->set.world, ranks, count, err);
	free(ranks);
	return status;
}

/*
 * Opens the groups of replicas. Without a sharded optimizer there is only one: all replicas reduce gradients
 * together.
 */
static int open_replicas(p4d_net *m, p4d_error *err)
{
	const bool all = m->shards == 1;

	if ((all ? open_group(m, &m->dp_cp, CP | DP, err) : open_sharing(m, &m->dp_cp, false, err)) < 0)
		return -1;
	return all || m->shards == m->l->dp * m->l->cp ? 0 : open_sharing(m, &m->copies, true, err);
}

static int open_ends(p4d_net *m, p4d_error *err)
{
	p4d_place first = m->place, last = m->place;

	if (!m->tied_ends || (!m->first && !m->last))
		return 0;
	first.pp = 0;
	last.pp = m->last_stage;
	const uint32_t ranks[] = {p4d_place_rank(m->l, first), p4d_place_rank(m->l, last)};
	return p4d_group_open(&m->embedding_group, m->set.world, ranks, 2, err);
}

/* Finds on which channels this stage sends to each other stage, from its instruction list. */
static void find_sends(const p4d_net *m, uint8_t *sends)
{
	memset(sends, 0, m->l->pp);
	for (size_t i = 0; i < m->list.count; i++) {
		const p4d_instruction *in = &m->list.at[i];
		if (in->op == P4D_OP_SEND_FORWARD)
			sends[in->peer] |= 1 << CHANNEL_FORWARD;
		if (in->op == P4D_OP_SEND_BACKWARD)
			sends[in->peer] |= 1 << CHANNEL_BACKWARD;
	}
}

/*
 * Like find_sends, for the ring of context parallelism: keys and values go on one channel, their gradients in
 * fp32 on another.
 */
static void find_ring(const p4d_net *m, uint8_t *sends)
{
	memset(sends, 0, m->l->cp);
	sends[(m->place.cp + 1) % m->l->cp] = 1 << CHANNEL_RING | 1 << CHANNEL_RING_GRADIENTS;
}

/*
 * Thread blocks of the collectives of gradients and parameters. Each block may occupy a multiprocessor.
 * These collectives may take as long as a whole pass, so a few blocks suffice. Collectives of tensor
 * parallelism must end during one matmul, so they get more blocks (P4D_TP_BLOCKS).
 */
enum { REPLICAS_BLOCKS = 8 };

/*
 * Number of elements of the largest trained segment. *frozen: number of elements of the largest frozen part
 * that is gathered.
 */
static uint64_t largest_segment(const p4d_net *m, uint64_t *frozen)
{
	uint64_t most = 0;

	*frozen = 0;
	for (uint32_t i = 0; i < m->weights.segments; i++) {
		const p4d_segment *s = &m->weights.segment[i];
		most = s->padded > most ? s->padded : most;
		*frozen = s->frozen_padded > *frozen ? s->frozen_padded : *frozen;
	}
	return most;
}

/*
 * Traffic of a group whose collectives run in order with the operations. The arena is the scratch memory,
 * because it is still empty.
 */
static p4d_traffic collectives_of(const p4d_net *m, uint64_t sum_bytes, uint64_t shards_bytes)
{
	return (p4d_traffic){
	    .collectives = true, .sum_bytes = sum_bytes, .shards_bytes = shards_bytes, .scratch = m->arena};
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/*
 * Number of elements of the largest gradient that is summed over tp ranks (of a norm, a bias or an adapter).
 */
static uint64_t largest_replicated(const p4d_net *m)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < m->weights.count; i++) {
		const p4d_weight *w = &m->weights.weight[i];
		if (w->replicated && !w->frozen)
			most = larger(most, w->rows * w->columns);
	}
	return most;
}

/*
 * Traffic over tp: rows of hidden states or their partial sums; gradients of weights of which every tp rank
 * has all; sums of the softmax and of norms over all heads; Muon's Gram matrices.
 */
static p4d_traffic between_tp(const p4d_net *m)
{
	const uint64_t rows = m->n * m->h * m->element, tokens = p4d_logits_tokens(m->l);
	const uint64_t wide = m->l->qk_norm == P4D_QK_NORM_WIDE ? m->n * P4D_WIDE_NORMS : 0;
	const p4d_tensor *grams = m->row[B_MUON_GRAMS];
	const uint64_t gram = grams ? grams->shape[1] * grams->shape[2] * sizeof(float) : 0;
	const uint64_t sums =
	    larger(gram, larger(largest_replicated(m), larger(tokens, wide)) * sizeof(float));

	p4d_traffic y = m->l->sequence_parallel ? collectives_of(m, sums, rows)
						: collectives_of(m, larger(sums, rows), 0);

	y.maximum_bytes = tokens * sizeof(float); /* maxima of the softmax over the vocabulary */
	y.async = m->l->tp_comm_overlap;
	y.blocks = y.async ? P4D_TP_BLOCKS : 0;
	return y;
}

static p4d_traffic between_replicas(const p4d_net *m)
{
	uint64_t frozen;
	const uint64_t gradients = largest_segment(m, &frozen) * sizeof(float);
	const uint64_t gathered = frozen * m->element > gradients ? frozen * m->element : gradients;
	p4d_traffic y = m->shards == 1 ? collectives_of(m, gradients, 0) : collectives_of(m, 0, gathered);

	y.maximum_bytes = m->row[B_BORDERS] ? m->row[B_BORDERS]->bytes : 0;
	y.async = true;
	y.blocks = REPLICAS_BLOCKS;
	return y;
}

/* Traffic among the ranks that share the vocabulary's tables: sums and maxima of the softmax. */
static p4d_traffic between_vocabulary(const p4d_net *m)
{
	p4d_traffic y = collectives_of(m, p4d_logits_tokens(m->l) * sizeof(float), 0);

	y.maximum_bytes = y.sum_bytes;
	return y;
}

/* Traffic among the ranks that have copies of one shard: sums of shards. */
static p4d_traffic between_copies(const p4d_net *m)
{
	uint64_t frozen;

	return collectives_of(m, largest_segment(m, &frozen) / m->shards * sizeof(float), 0);
}

/* Traffic of a tp-grid over Y: sums of matmuls over a part of the features, and of norms' squares. */
static p4d_traffic between_y(const p4d_net *m)
{
	const uint64_t most = m->columns > m->up ? m->columns : m->up;
	const uint64_t logits = p4d_logits_tokens(m->l) * p4d_logits_columns(m->l);
	const uint64_t product = m->n * most > logits ? m->n * most : logits;

	return collectives_of(m, product * m->element, 0);
}

/*
 * Traffic over Z: matrices of layers, their gradients, and gradients of weights of which every rank of Z has
 * all.
 */
static p4d_traffic between_z(const p4d_net *m)
{
	uint64_t whole = 0, cut = 0;

	for (uint32_t i = 0; i < m->weights.count; i++) {
		const p4d_weight *w = &m->weights.weight[i];
		uint64_t *most = w->over_z ? &cut : &whole;
		*most = w->rows * w->columns > *most ? w->rows * w->columns : *most;
	}
	p4d_traffic y = collectives_of(m, whole * sizeof(float), cut * m->l->tp_z * sizeof(float));

	y.async = true;
	y.blocks = REPLICAS_BLOCKS;
	return y;
}

/* Adds the arena to the traffic of a group. Its members must have the same arena layout. */
static p4d_traffic in_arena(const p4d_net *m, p4d_traffic traffic)
{
	traffic.memory = m->arena;
	traffic.memory_bytes = m->plan.arena_bytes;
	return traffic;
}

static int put_grid_on_device(p4d_net *m, p4d_error *err)
{
	const p4d_traffic y = in_arena(m, between_y(m)), z = in_arena(m, between_z(m));

	if (m->tp_y && p4d_comm_on_device(m->tp_y, m->set.transport, &y, err) < 0)
		return -1;
	return m->tp_z ? p4d_comm_on_device(m->tp_z, m->set.transport, &z, err) : 0;
}

/* Moves the groups to the device: from here on they transfer data in the arena. */
static int put_on_device(p4d_net *m, uint8_t *sends, p4d_error *err)
{
	/*
	 * arenas of different stages have different layouts; that rules out registering them for collectives,
	 * but not for messages
	 */
	const p4d_traffic tp = in_arena(m, between_tp(m)), replicas = in_arena(m, between_replicas(m));
	const p4d_traffic copies = in_arena(m, between_copies(m));
	const p4d_traffic keys =
	    in_arena(m, collectives_of(m, 0, m->l->seq_len / 2 * 2 * m->kv * sizeof(float)));
	const p4d_traffic vocabulary = between_vocabulary(m);
	const p4d_traffic ends = collectives_of(m, m->l->vocab / m->l->tp * m->h * sizeof(float), 0);
	const p4d_traffic stages = {.collectives = m->l->vocab_parallel,
				    .rooted_bytes = m->ns * m->h * sizeof(float),
				    .sends = sends,
				    .message_bytes = m->ns * m->h * m->element,
				    .messages = 2 * P4D_SEND_BUFFERS,
				    .memory = m->l->vocab_parallel ? NULL : m->arena,
				    .memory_bytes = m->plan.arena_bytes,
				    .scratch = m->arena};
	const p4d_traffic ring = {.sends = sends,
				  .message_bytes = m->n * 2 * m->kv * sizeof(float),
				  .messages = 2,
				  .memory = m->arena,
				  .memory_bytes = m->plan.arena_bytes,
				  .scratch = m->arena};

	if (p4d_comm_on_device(m->tp, m->set.transport, &tp, err) < 0 ||
	    p4d_comm_on_device(m->dp_cp, m->set.transport, &replicas, err) < 0 ||
	    put_grid_on_device(m, err) < 0)
		return -1;
	if (m->copies && p4d_comm_on_device(m->copies, m->set.transport, &copies, err) < 0)
		return -1;
	find_ring(m, sends);
	if (m->l->cp_comm == P4D_CP_P2P && p4d_comm_on_device(m->cp, m->set.transport, &ring, err) < 0)
		return -1;
	if (m->cp_reversed && (p4d_comm_on_device(m->cp, m->set.transport, &keys, err) < 0 ||
			       p4d_comm_on_device(m->cp_reversed, m->set.transport, &keys, err) < 0))
		return -1;
	find_sends(m, sends);
	if (p4d_comm_on_device(m->pp, m->set.transport, &stages, err) < 0)
		return -1;
	if (m->l->vocab_parallel && p4d_comm_on_device(m->vocabulary, m->set.transport, &vocabulary, err) < 0)
		return -1;
	return m->embedding_group ? p4d_comm_on_device(m->embedding_group, m->set.transport, &ends, err) : 0;
}

/*
 * Number of thread blocks that waiting receives occupy. A stage begins the next receive of each direction as
 * soon as its buffer is free (executor.c), so nearly always one receive per direction waits on the device. A
 * send rarely waits, because the other stage has usually begun to receive.
 */
static unsigned count_waiting_blocks(const p4d_net *m)
{
	bool forward = false, backward = false;

	for (size_t i = 0; i < m->list.count; i++) {
		forward = forward || m->list.at[i].op == P4D_OP_RECV_FORWARD;
		backward = backward || m->list.at[i].op == P4D_OP_RECV_BACKWARD;
	}
	return p4d_comm_message_blocks(m->pp) * ((unsigned)forward + (unsigned)backward);
}

static int open_device_groups(p4d_net *m, p4d_error *err)
{
	const uint64_t most = m->l->pp > m->l->cp ? m->l->pp : m->l->cp;
	uint8_t *sends = malloc(most);
	int status;

	if (!sends)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a rank group");
	status = put_on_device(m, sends, err);
	free(sends);
	m->waiting_blocks = count_waiting_blocks(m);
	for (int i = 0; status == 0 && i < P4D_AHEAD; i++)
		status = m->d->event_open(m->d, &m->layer_events[i], err);
	return status;
}

int p4d_parallel__open(p4d_net *m, p4d_error *err)
{
	if (open_group(m, &m->tp, X, err) < 0 || open_group(m, &m->cp, CP, err) < 0 ||
	    open_replicas(m, err) < 0 || open_group(m, &m->pp, PP, err) < 0 ||
	    open_group(m, &m->vocabulary, X | PP, err) < 0 ||
	    open_group(m, &m->world, X | Y | Z | CP | DP | PP, err) < 0)
		return -1;
	if ((m->l->tp_y > 1 && open_group(m, &m->tp_y, Y, err) < 0) ||
	    (m->l->tp_z > 1 && open_group(m, &m->tp_z, Z, err) < 0))
		return -1;
	if (m->l->cp_comm == P4D_CP_ALL_GATHER && open_reversed(m, err) < 0)
		return -1;
	return open_ends(m, err) < 0 ? -1 : open_device_groups(m, err);
}

void p4d_parallel__close(p4d_net *m)
{
	p4d_group **groups[] = {&m->tp,         &m->cp,    &m->cp_reversed,     &m->dp_cp, &m->copies, &m->pp,
				&m->vocabulary, &m->world, &m->embedding_group, &m->tp_y,  &m->tp_z};

	for (size_t i = 0; i < sizeof(groups) / sizeof(*groups); i++) {
		if (*groups[i])
			p4d_group_close(*groups[i]);
		*groups[i] = NULL;
	}
}

p4d_token_part p4d_parallel__part(const p4d_net *m, unsigned number)
{
	const uint64_t count = m->n / m->parts;

	return (p4d_token_part){number * count, count};
}

/* Address of row `first` of a matrix of hidden states. */
static char *row(const p4d_net *m, void *rows, uint64_t first)
{
	return (char *)rows + first * m->h * m->element;
}

int p4d_parallel__gather(p4d_net *m, const void *x, void *to, p4d_gathering *g, p4d_error *err)
{
	const uint64_t own = m->ns / m->parts;

	*g = (p4d_gathering){.rows = x};
	if (!m->l->sequence_parallel)
		return 0;
	*g = (p4d_gathering){.rows = to, .calls = p4d_comm_called(m->tp)};
	for (unsigned i = 0; i < m->parts; i++)
		if (p4d_comm_all_gather(m->tp, row(m, to, p4d_parallel__part(m, i).first),
					row(m, (void *)x, i * own), own * m->h * m->element, err) < 0)
			return -1;
	return 0;
}

int p4d_parallel__gathered(p4d_net *m, const p4d_gathering *g, unsigned part, p4d_error *err)
{
	return m->l->sequence_parallel ? p4d_comm_await(m->tp, g->calls + part + 1, err) : 0;
}

const void *p4d_parallel__gather_rows(p4d_net *m, const void *x, void *to, p4d_error *err)
{
	p4d_gathering g;

	if (p4d_parallel__gather(m, x, to, &g, err) < 0 ||
	    p4d_parallel__gathered(m, &g, m->parts - 1, err) < 0)
		return NULL;
	return g.rows;
}

void *p4d_parallel__partial(p4d_net *m, void *to)
{
	return m->l->tp > 1 ? p4d_buffers_at(m, B_PARTIAL) : to;
}

int p4d_parallel__reduce_part(p4d_net *m, void *to, unsigned part, p4d_error *err)
{
	const uint64_t own = m->ns / m->parts;
	void *partial = p4d_buffers_at(m, B_PARTIAL);

	if (m->l->tp == 1)
		return 0;
	if (m->l->sequence_parallel)
		return p4d_comm_reduce_scatter(m->tp, row(m, to, part * own),
					       row(m, partial, p4d_parallel__part(m, part).first), own * m->h,
					       m->type, err);
	if (p4d_comm_all_reduce(m->tp, partial, m->n * m->h, m->type, P4D_SUM, err) < 0)
		return -1;
	m->d->copy(m->d, to, partial, m->n * m->h * m->element);
	return 0;
}

int p4d_parallel__sum_features(p4d_net *m, void *product, uint64_t columns, p4d_error *err)
{
	return m->tp_y ? p4d_comm_all_reduce(m->tp_y, product, m->n * columns, m->type, P4D_SUM, err) : 0;
}

int p4d_parallel__reduced(p4d_net *m, p4d_error *err)
{
	return p4d_comm_settle(m->tp, err);
}

int p4d_parallel__reduce_partial(p4d_net *m, void *to, p4d_error *err)
{
	for (unsigned i = 0; i < m->parts; i++)
		if (p4d_parallel__reduce_part(m, to, i, err) < 0)
			return -1;
	return p4d_parallel__reduced(m, err);
}

void p4d_parallel_leave(p4d_net *m, bool replicas)
{
	const unsigned own = m->l->tp_comm_overlap                     ? P4D_TP_BLOCKS
			     : m->tp_z && p4d_comm_runs_async(m->tp_z) ? REPLICAS_BLOCKS
								       : 0;
	const unsigned beside = replicas && p4d_comm_runs_async(m->dp_cp) ? REPLICAS_BLOCKS : 0;

	if (m->d->leave)
		m->d->leave(m->d, own + beside + m->waiting_blocks);
}

int p4d_parallel_throttle(p4d_net *m, p4d_error *err)
{
	void *event = m->layer_events[m->throttled++ % P4D_AHEAD];

	if (p4d_comm_device_reach(m->d, event, err) < 0)
		return -1;
	m->d->event_record(m->d, event, NULL);
	return 0;
}
