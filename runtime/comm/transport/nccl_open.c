/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators of a group on GPUs. A group has no transport yet while it opens, so it talks between hosts.
 */
#include <stdio.h>
#include <stdlib.h>

#include "comm/transport/nccl.h"

/* Thread blocks of what runs beside operations; each may keep a multiprocessor from them while it waits. */
enum { ASIDE_CTAS = 8, MESSAGE_CTAS = 4 };
/* Of a step's collectives that run asynchronously: more than a stage has layers. */
enum { ASIDE_MARKS = 256 };

static int first_sums(const p4d_nccl *n, const p4d_nccl_setup *s, void *comm)
{
	const size_t counts[] = {1, s->sum_bytes / sizeof(float)};
	int result = P4D_NCCL_SUCCESS;

	for (int i = 0; i < 2 && result == P4D_NCCL_SUCCESS; i++)
		if (counts[i])
			result = n->AllReduce(s->scratch, s->scratch, counts[i], P4D_NCCL_FP32, P4D_NCCL_SUM,
					      comm, s->stream);
	return result;
}

static int first_pieces(const p4d_nccl *n, const p4d_nccl_setup *s, void *comm)
{
	const size_t piece = s->pieces_bytes / sizeof(float) / (size_t)s->ranks;
	float *own = (float *)s->scratch + piece * (size_t)s->rank;
	const int result =
	    n->ReduceScatter(s->scratch, own, piece, P4D_NCCL_FP32, P4D_NCCL_SUM, comm, s->stream);

	if (result != P4D_NCCL_SUCCESS)
		return result;
	return n->AllGather(own, s->scratch, piece * sizeof(float), P4D_NCCL_BYTES, comm, s->stream);
}

/*
 * NCCL chooses a way by collective and size, and connects it, which takes memory of the GPU and waits for the
 * other ranks, when it is first chosen. Here somebody listens, and what does not fit shows at the start.
 */
static int first_collectives(const p4d_nccl *n, const p4d_nccl_setup *s, void *comm)
{
	const bool pieces = s->pieces_bytes >= sizeof(float) * (size_t)s->ranks;
	int result = P4D_NCCL_SUCCESS;

	if (s->sum_bytes || !pieces)
		result = first_sums(n, s, comm);
	return result == P4D_NCCL_SUCCESS && pieces ? first_pieces(n, s, comm) : result;
}

static int first_message(const p4d_nccl *n, const p4d_nccl_setup *s, void *comm)
{
	return s->rank == 0 ? n->Send(s->scratch, 1, P4D_NCCL_BYTES, 1, comm, s->stream)
			    : n->Recv(s->scratch, 1, P4D_NCCL_BYTES, 0, comm, s->stream);
}

/* With marks of the last so many calls: who waits for an older one waits for a newer one, too. */
static int open_stream(p4d_device *d, p4d_nccl_stream *lane, unsigned marks, p4d_error *err)
{
	lane->marks = calloc(marks, sizeof(*lane->marks));
	if (!lane->marks)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the marks of a stream");
	if (d->stream_open(d, &lane->stream, err) < 0)
		return -1;
	for (lane->most_marks = 0; lane->most_marks < marks; lane->most_marks++)
		if (d->event_open(d, &lane->marks[lane->most_marks], err) < 0)
			return -1;
	return 0;
}

/* Opens the communicator, and waits until its first operation is done. */
static int open_lane(p4d_transport *t, p4d_nccl_stream *lane, p4d_nccl_setup *s, p4d_error *err)
{
	p4d_device *d = t->device;

	s->stream = lane->stream ? lane->stream : d->stream;
	if (p4d_nccl__comm_open(t->state, t->world, d, s, &lane->comm, err) < 0)
		return p4d_comm_device_blame(t->world, err);
	if (!lane->stream)
		return d->sync(d, err);
	d->mark(d, lane->marks[0], lane->stream);
	return p4d_comm_device_reach(d, lane->marks[0], err);
}

static int open_collectives(p4d_group *g, p4d_transport *t, const p4d_traffic *traffic, p4d_error *err)
{
	const p4d_nccl *n = t->state;
	p4d_nccl_stream *lane = &((p4d_nccl_group *)g->transport_state)->collectives;
	p4d_nccl_setup s = {
	    .ranks = (int)g->size,
	    .rank = (int)g->index,
	    .most_ctas = traffic->async ? ASIDE_CTAS : 0,
	    .first = first_collectives,
	    .scratch = traffic->scratch,
	    .sum_bytes = traffic->sum_bytes,
	    .pieces_bytes = traffic->pieces_bytes,
	};
	const p4d_nccl_comm none = {.about = "a new group"};

	snprintf(s.about, sizeof(s.about), "group of %u from rank %u on", g->size, g->ranks[0]);
	if (g->index == 0 && p4d_nccl__result(n, n->GetUniqueId(&s.id), &none, "unique id", err) < 0)
		return -1;
	if (p4d_comm_broadcast(g, &s.id, sizeof(s.id), 0, err) < 0)
		return -1;
	if (traffic->async && open_stream(t->device, lane, ASIDE_MARKS, err) < 0)
		return -1;
	return open_lane(t, lane, &s, err);
}

/* A lane of messages there may be; this rank is one of its ends. */
typedef struct between {
	uint32_t from, to;
	unsigned channel;
} between;

static uint64_t count_of_lanes(const p4d_group *g)
{
	return 2ull * g->size * g->size * P4D_CHANNELS;
}

/*
 * Both ends of a lane open it together, and close it together: NCCL leaves a communicator when the other rank
 * on its node does, too. All members go through all lanes in the same order, so somewhere two are always at
 * the same one; of senders first the even, then the odd, so that mostly many are. False: another's lane.
 */
static bool lane_number(const p4d_group *g, uint64_t number, between *lane)
{
	const uint64_t pair = number / P4D_CHANNELS;
	const bool odd = pair / g->size / g->size;

	lane->channel = number % P4D_CHANNELS;
	lane->to = (uint32_t)(pair % g->size);
	lane->from = (uint32_t)(pair / g->size % g->size);
	return lane->from % 2 == odd && lane->from != lane->to &&
	       (lane->from == g->index || lane->to == g->index);
}

static p4d_nccl_stream *lane_between(const p4d_group *g, const between *lane)
{
	const uint32_t other = lane->from == g->index ? lane->to : lane->from;

	return &((p4d_nccl_group *)g->transport_state)->messages[other][lane->channel][other == lane->from];
}

static int open_messages(p4d_group *g, p4d_transport *t, const between *b, void *scratch, p4d_error *err)
{
	const p4d_nccl *n = t->state;
	const bool sends = b->from == g->index;
	const uint32_t other = sends ? b->to : b->from;
	p4d_nccl_stream *lane = lane_between(g, b);
	const p4d_nccl_comm none = {.about = "new messages"};
	p4d_nccl_setup s = {.ranks = 2,
			    .rank = !sends,
			    .most_ctas = MESSAGE_CTAS,
			    .first = first_message,
			    .scratch = scratch};
	uint64_t ticket;
	char text[96];

	p4d_world_peer_text(&t->world->peers[g->ranks[other]], text);
	snprintf(s.about, sizeof(s.about), "messages %s %.60s", sends ? "to" : "from", text);
	if (sends) {
		if (p4d_nccl__result(n, n->GetUniqueId(&s.id), &none, "unique id", err) < 0 ||
		    p4d_comm_send(g, other, b->channel, &s.id, sizeof(s.id), &ticket, err) < 0 ||
		    p4d_comm_send_wait(g, other, b->channel, ticket, err) < 0)
			return -1;
	} else if (p4d_comm_recv(g, other, b->channel, &s.id, sizeof(s.id), err) < 0) {
		return -1;
	}
	return open_stream(t->device, lane, P4D_SENDS, err) < 0 ? -1 : open_lane(t, lane, &s, err);
}

static int open_all_messages(p4d_group *g, p4d_transport *t, const p4d_traffic *traffic, p4d_error *err)
{
	p4d_nccl_group *own = g->transport_state;
	uint8_t *sends = malloc((size_t)g->size * g->size);
	int rc = -1;

	own->messages = calloc(g->size, sizeof(*own->messages));
	if (!own->messages || !sends)
		p4d_fail(err, P4D_E_NO_MEMORY, "no memory for messages between %u ranks", g->size);
	else
		rc = p4d_comm_all_gather(g, sends, traffic->sends, g->size, err);
	for (uint64_t i = 0; rc == 0 && i < count_of_lanes(g); i++) {
		between b;
		if (lane_number(g, i, &b) && sends[(size_t)b.from * g->size + b.to] >> b.channel & 1)
			rc = open_messages(g, t, &b, traffic->scratch, err);
	}
	free(sends);
	return rc;
}

int p4d_nccl__group_open(p4d_group *g, p4d_transport *t, const p4d_traffic *traffic, p4d_error *err)
{
	g->transport_state = calloc(1, sizeof(p4d_nccl_group));
	if (!g->transport_state)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a group of %u ranks", g->size);
	if (traffic->collectives && open_collectives(g, t, traffic, err) < 0)
		return -1;
	return traffic->sends ? open_all_messages(g, t, traffic, err) : 0;
}

void p4d_nccl__group_close(p4d_group *g, p4d_transport *t)
{
	const bool orderly = !t->broken && !t->world->failed;
	p4d_nccl_group *own = g->transport_state;

	if (!own)
		return;
	p4d_nccl__comm_close(t->state, own->collectives.comm, orderly);
	free(own->collectives.marks);
	for (uint64_t i = 0; own->messages && i < count_of_lanes(g); i++) {
		between b;
		if (!lane_number(g, i, &b))
			continue;
		p4d_nccl__comm_close(t->state, lane_between(g, &b)->comm, orderly);
		free(lane_between(g, &b)->marks);
	}
	free(own->messages);
	free(own);
	g->transport_state = NULL;
}
