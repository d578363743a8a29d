/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the communicators of a group. The group has no transport until they are open, so it communicates
 * between hosts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/transport/nccl.h"

/* Number of events for a step's asynchronous collectives: more than a stage has layers. */
enum { ASIDE_EVENTS = 256 };

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

static int first_shards(const p4d_nccl *n, const p4d_nccl_setup *s, void *comm)
{
	const size_t shard = s->shards_bytes / sizeof(float) / (size_t)s->ranks;
	float *own = (float *)s->scratch + shard * (size_t)s->rank;
	const int result =
	    n->ReduceScatter(s->scratch, own, shard, P4D_NCCL_FP32, P4D_NCCL_SUM, comm, s->stream);

	if (result != P4D_NCCL_SUCCESS)
		return result;
	return n->AllGather(own, s->scratch, shard * sizeof(float), P4D_NCCL_BYTES, comm, s->stream);
}

static int first_maximum(const p4d_nccl *n, const p4d_nccl_setup *s, void *comm)
{
	return n->AllReduce(s->scratch, s->scratch, s->maximum_bytes / sizeof(float), P4D_NCCL_FP32,
			    P4D_NCCL_MAX, comm, s->stream);
}

static int first_rooted(const p4d_nccl *n, const p4d_nccl_setup *s, void *comm)
{
	const size_t count = s->rooted_bytes / sizeof(float);
	const int result = n->Broadcast(s->scratch, s->scratch, count, P4D_NCCL_FP32, 0, comm, s->stream);

	if (result != P4D_NCCL_SUCCESS)
		return result;
	return n->Reduce(s->scratch, s->rank == 0 ? s->scratch : NULL, count, P4D_NCCL_FP32, P4D_NCCL_SUM, 0,
			 comm, s->stream);
}

/*
 * NCCL chooses an algorithm by collective, operation and size, and connects its channels at its first use,
 * which takes GPU memory and blocks on the other ranks. So each kind of collective runs once when a group
 * opens: a lack of memory then ends the program at its start, while the world is watched. If no collective's
 * size is known, one number is summed.
 */
static int first_collectives(const p4d_nccl *n, const p4d_nccl_setup *s, void *comm)
{
	const bool shards = s->shards_bytes >= sizeof(float) * (size_t)s->ranks;
	const struct {
		bool used;
		int (*first)(const p4d_nccl *n, const p4d_nccl_setup *s, void *comm);
	} kinds[] = {{s->sum_bytes || !(shards || s->maximum_bytes || s->rooted_bytes), first_sums},
		     {s->maximum_bytes, first_maximum},
		     {shards, first_shards},
		     {s->rooted_bytes, first_rooted}};
	int result = P4D_NCCL_SUCCESS;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds) && result == P4D_NCCL_SUCCESS; i++)
		if (kinds[i].used)
			result = kinds[i].first(n, s, comm);
	return result;
}

static int first_message(const p4d_nccl *n, const p4d_nccl_setup *s, void *comm)
{
	return s->rank == 0 ? n->Send(s->scratch, 1, P4D_NCCL_BYTES, 1, comm, s->stream)
			    : n->Recv(s->scratch, 1, P4D_NCCL_BYTES, 0, comm, s->stream);
}

/*
 * Opens the stream, with events for its last `count` calls. A wait for an older call waits for a newer call
 * instead.
 */
static int open_stream(p4d_device *d, p4d_nccl_stream *stream, unsigned count, p4d_error *err)
{
	stream->events = calloc(count, sizeof(*stream->events));
	if (!stream->events)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the events of a stream");
	if (d->stream_open(d, &stream->handle, err) < 0)
		return -1;
	for (stream->event_count = 0; stream->event_count < count; stream->event_count++)
		if (d->event_open(d, &stream->events[stream->event_count], err) < 0)
			return -1;
	return 0;
}

/* Opens the communicator, and waits until its first operations are done. */
static int open_comm(p4d_transport *t, p4d_nccl_stream *stream, p4d_nccl_setup *s, p4d_error *err)
{
	p4d_device *d = t->device;

	s->stream = stream->handle ? stream->handle : d->stream;
	if (p4d_nccl__comm_open(t->state, t->world, d, s, &stream->comm, err) < 0)
		return p4d_comm_device_blame(t->world, err);
	if (!stream->handle)
		return d->sync(d, err);
	d->event_record(d, stream->events[0], stream->handle);
	return p4d_comm_device_reach(d, stream->events[0], err);
}

static int open_collectives(p4d_group *g, p4d_transport *t, const p4d_traffic *traffic, p4d_error *err)
{
	const p4d_nccl *n = t->state;
	p4d_nccl_stream *stream = &((p4d_nccl_group *)g->transport_state)->collectives;
	p4d_nccl_setup s = {
	    .ranks = (int)g->size,
	    .rank = (int)g->index,
	    .most_ctas = (int)traffic->blocks,
	    .first = first_collectives,
	    .scratch = traffic->scratch,
	    .sum_bytes = traffic->sum_bytes,
	    .maximum_bytes = traffic->maximum_bytes,
	    .shards_bytes = traffic->shards_bytes,
	    .rooted_bytes = traffic->rooted_bytes,
	};
	const p4d_nccl_comm none = {.about = "a new group"};

	snprintf(s.about, sizeof(s.about), "group of %u from rank %u on", g->size, g->ranks[0]);
	if (g->index == 0 && p4d_nccl__result(n, n->GetUniqueId(&s.id), &none, "unique id", err) < 0)
		return -1;
	if (p4d_comm_broadcast(g, &s.id, sizeof(s.id), 0, err) < 0)
		return -1;
	if (traffic->async && open_stream(t->device, stream, ASIDE_EVENTS, err) < 0)
		return -1;
	return open_comm(t, stream, &s, err);
}

/* One direction of a channel between two members. */
typedef struct p4d_nccl_route {
	uint32_t from, to;
	unsigned channel;
} p4d_nccl_route;

static uint64_t route_count(const p4d_group *g)
{
	return 2ull * g->size * g->size * P4D_CHANNELS;
}

/*
 * Both ends open and close a route together, because NCCL destroys a communicator only when the other rank on
 * its node does so as well. All members visit all routes in the same order, so that both ends are always at
 * the same route. Routes from even members come before routes from odd ones, so that many pairs can open at
 * the same time. Returns false if this rank is not an end of the route.
 */
static bool is_own_route(const p4d_group *g, uint64_t number, p4d_nccl_route *route)
{
	const uint64_t pair = number / P4D_CHANNELS;
	const bool odd = pair / g->size / g->size;

	route->channel = number % P4D_CHANNELS;
	route->to = (uint32_t)(pair % g->size);
	route->from = (uint32_t)(pair / g->size % g->size);
	return route->from % 2 == odd && route->from != route->to &&
	       (route->from == g->index || route->to == g->index);
}

static p4d_nccl_stream *stream_of_route(const p4d_group *g, const p4d_nccl_route *route)
{
	const uint32_t other = route->from == g->index ? route->to : route->from;

	return &((p4d_nccl_group *)g->transport_state)->messages[other][route->channel][other == route->from];
}

static int open_messages(p4d_group *g, p4d_transport *t, const p4d_nccl_route *r, void *scratch,
			 p4d_error *err)
{
	const p4d_nccl *n = t->state;
	const bool sends = r->from == g->index;
	const uint32_t other = sends ? r->to : r->from;
	p4d_nccl_stream *stream = stream_of_route(g, r);
	const p4d_nccl_comm none = {.about = "new messages"};
	p4d_nccl_setup s = {.ranks = 2,
			    .rank = !sends,
			    .most_ctas = P4D_NCCL_MESSAGE_CTAS,
			    .first = first_message,
			    .scratch = scratch};
	uint64_t ticket;
	char text[96];

	p4d_world_peer_text(&t->world->peers[g->ranks[other]], text);
	snprintf(s.about, sizeof(s.about), "messages %s %.60s", sends ? "to" : "from", text);
	if (sends) {
		if (p4d_nccl__result(n, n->GetUniqueId(&s.id), &none, "unique id", err) < 0 ||
		    p4d_comm_send(g, other, r->channel, &s.id, sizeof(s.id), &ticket, err) < 0 ||
		    p4d_comm_send_wait(g, other, r->channel, ticket, err) < 0)
			return -1;
	} else if (p4d_comm_recv(g, other, r->channel, &s.id, sizeof(s.id), err) < 0) {
		return -1;
	}
	return open_stream(t->device, stream, P4D_SENDS, err) < 0 ? -1 : open_comm(t, stream, &s, err);
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
	for (uint64_t i = 0; rc == 0 && i < route_count(g); i++) {
		p4d_nccl_route r;
		if (is_own_route(g, i, &r) && sends[(size_t)r.from * g->size + r.to] >> r.channel & 1)
			rc = open_messages(g, t, &r, traffic->scratch, err);
	}
	free(sends);
	return rc;
}

/* Calls `use` for each communicator of a group. */
typedef bool using(const p4d_nccl *n, p4d_nccl_comm *comm, const p4d_traffic *traffic);

static bool for_each(p4d_group *g, const p4d_nccl *n, using *use, const p4d_traffic *traffic)
{
	p4d_nccl_group *own = g->transport_state;
	bool all = !own->collectives.comm || use(n, own->collectives.comm, traffic);

	for (uint64_t i = 0; own->messages && i < route_count(g); i++) {
		p4d_nccl_route r;
		if (is_own_route(g, i, &r) && stream_of_route(g, &r)->comm)
			all = use(n, stream_of_route(g, &r)->comm, traffic) && all;
	}
	return all;
}

static bool give_memory(const p4d_nccl *n, p4d_nccl_comm *comm, const p4d_traffic *traffic)
{
	return p4d_nccl__comm_register(n, comm, traffic->memory, traffic->memory_bytes);
}

static bool take_memory(const p4d_nccl *n, p4d_nccl_comm *comm, const p4d_traffic *traffic)
{
	(void)traffic;
	p4d_nccl__comm_forget(n, comm);
	return true;
}

/*
 * Registers the memory on all members or on none, because NCCL does not define what happens if only some
 * members have registered.
 */
static int register_memory(p4d_group *g, const p4d_nccl *n, const p4d_traffic *traffic, p4d_error *err)
{
	const char *wanted = getenv("P4D_NCCL_REGISTER");
	double without;

	if (!traffic->memory || !wanted || strcmp(wanted, "1") != 0)
		return 0;
	without = !for_each(g, n, give_memory, traffic);
	if (p4d_comm_all_reduce(g, &without, 1, P4D_DT_FP64, P4D_SUM, err) < 0)
		return -1;
	if (without > 0)
		for_each(g, n, take_memory, traffic);
	return 0;
}

int p4d_nccl__group_open(p4d_group *g, p4d_transport *t, const p4d_traffic *traffic, p4d_error *err)
{
	g->transport_state = calloc(1, sizeof(p4d_nccl_group));
	if (!g->transport_state)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a group of %u ranks", g->size);
	if (traffic->collectives && open_collectives(g, t, traffic, err) < 0)
		return -1;
	if (traffic->sends && open_all_messages(g, t, traffic, err) < 0)
		return -1;
	return register_memory(g, t->state, traffic, err);
}

void p4d_nccl__group_close(p4d_group *g, p4d_transport *t)
{
	const bool orderly = !t->broken && !t->world->failed;
	p4d_nccl_group *own = g->transport_state;

	if (!own)
		return;
	p4d_nccl__comm_close(t->state, own->collectives.comm, orderly);
	free(own->collectives.events);
	for (uint64_t i = 0; own->messages && i < route_count(g); i++) {
		p4d_nccl_route r;
		if (!is_own_route(g, i, &r))
			continue;
		p4d_nccl__comm_close(t->state, stream_of_route(g, &r)->comm, orderly);
		free(stream_of_route(g, &r)->events);
	}
	free(own->messages);
	free(own);
	g->transport_state = NULL;
}
