/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NCCL transport.
 *
 * Collectives whose result the next operation needs share the stream of all operations. Asynchronous
 * collectives and messages have their own streams: a call starts after the operations that were queued before
 * it, and operations wait for it only if they need its result. Each direction between two ranks has a stream
 * per channel. So a message that is not received yet delays only later messages of its channel, as with
 * messages between hosts. An instruction list that cannot deadlock with messages between hosts therefore
 * cannot deadlock with NCCL. Communicators do not share NCCL's resources (ncclCommSplit's splitShare) for the
 * same reason: NCCL runs the calls of communicators that share resources one after another.
 */
#include "comm/transport/nccl.h"

static p4d_nccl *nccl_of(const p4d_group *g)
{
	return g->transport->state;
}

static p4d_nccl_stream *stream_of(p4d_group *g, uint32_t member, unsigned channel, bool from)
{
	p4d_nccl_group *own = g->transport_state;

	return own->messages ? &own->messages[member][channel][from] : NULL;
}

static void begin(const p4d_group *g, const p4d_nccl_stream *stream)
{
	p4d_device *d = g->transport->device;

	if (stream->handle)
		d->stream_wait(d, stream->handle, NULL);
}

static void end(const p4d_group *g, p4d_nccl_stream *stream)
{
	p4d_device *d = g->transport->device;

	if (stream->handle)
		d->event_record(d, stream->events[stream->calls % stream->event_count], stream->handle);
	stream->calls++;
}

/*
 * Makes later operations wait for call number `call` of the stream. If the call's event was reused, they wait
 * for a later call, which is also safe.
 */
static void wait_for(const p4d_group *g, const p4d_nccl_stream *stream, uint64_t call)
{
	p4d_device *d = g->transport->device;

	if (stream->handle)
		d->event_wait(d, NULL, stream->events[call % stream->event_count]);
}

static int outcome(const p4d_group *g, int result, const p4d_nccl_stream *stream, const char *doing,
		   p4d_error *err)
{
	if (p4d_nccl__result(nccl_of(g), result, stream->comm, doing, err) == 0)
		return 0;
	g->transport->broken = true;
	return p4d_comm_device_blame(g->world, err);
}

static int nccl_type(p4d_dtype type)
{
	switch (type) {
	case P4D_DT_BF16:
		return P4D_NCCL_BF16;
	case P4D_DT_FP16:
		return P4D_NCCL_FP16;
	case P4D_DT_FP32:
		return P4D_NCCL_FP32;
	case P4D_DT_FP64:
		return P4D_NCCL_FP64;
	default:
		return P4D_NCCL_BYTES;
	}
}

static int call(p4d_group *g, const p4d_nccl_stream *on, const p4d_collective *c, const char **name)
{
	const p4d_nccl *n = nccl_of(g);
	void *comm = on->comm->comm, *stream = on->handle ? on->handle : g->transport->device->stream;
	const int type = nccl_type(c->type), how = c->how == P4D_MAX ? P4D_NCCL_MAX : P4D_NCCL_SUM;

	switch (c->call) {
	case P4D_CALL_ALL_REDUCE:
		*name = "all-reduce";
		return n->AllReduce(c->from, c->to, c->count, type, how, comm, stream);
	case P4D_CALL_REDUCE_SCATTER:
		*name = "reduce-scatter";
		return n->ReduceScatter(c->from, c->to, c->count, type, how, comm, stream);
	case P4D_CALL_ALL_GATHER:
		*name = "all-gather";
		return n->AllGather(c->from, c->to, c->count, type, comm, stream);
	case P4D_CALL_BROADCAST:
		*name = "broadcast";
		return n->Broadcast(c->from, c->to, c->count, type, (int)c->root, comm, stream);
	default:
		*name = "reduce";
		return n->Reduce(c->from, c->root == g->index ? c->to : NULL, c->count, type, how,
				 (int)c->root, comm, stream);
	}
}

static int nccl_collective(p4d_group *g, const p4d_collective *c, p4d_error *err)
{
	p4d_nccl_stream *stream = &((p4d_nccl_group *)g->transport_state)->collectives;
	const char *name;

	if (!stream->comm)
		return p4d_fail(err, P4D_E_VALUE,
				"collective on a group of %u that was opened for messages only", g->size);
	begin(g, stream);
	int result = call(g, stream, c, &name);
	end(g, stream);
	return outcome(g, result, stream, name, err);
}

static bool nccl_runs_async(const p4d_group *g)
{
	return ((p4d_nccl_group *)g->transport_state)->collectives.handle != NULL;
}

static void *nccl_stream(const p4d_group *g)
{
	return ((p4d_nccl_group *)g->transport_state)->collectives.handle;
}

static uint64_t nccl_called(const p4d_group *g)
{
	const p4d_nccl_stream *stream = &((p4d_nccl_group *)g->transport_state)->collectives;

	return stream->handle ? stream->calls : 0;
}

static int nccl_await(p4d_group *g, uint64_t count, p4d_error *err)
{
	const p4d_nccl_stream *stream = &((p4d_nccl_group *)g->transport_state)->collectives;

	if (count > stream->calls)
		return p4d_fail(err, P4D_E_VALUE, "cannot wait for %llu calls, only %llu were made",
				(unsigned long long)count, (unsigned long long)stream->calls);
	wait_for(g, stream, count - 1);
	return 0;
}

static int not_opened(p4d_group *g, uint32_t member, unsigned channel, p4d_error *err)
{
	return p4d_fail(err, P4D_E_VALUE,
			"a group of %u was opened without messages between members %u and %u "
			"on channel %u",
			g->size, g->index, member, channel);
}

static int nccl_send(p4d_group *g, uint32_t to, unsigned channel, const void *data, uint64_t bytes,
		     uint64_t *ticket, p4d_error *err)
{
	const p4d_nccl *n = nccl_of(g);
	p4d_nccl_stream *stream = stream_of(g, to, channel, false);

	if (!stream || !stream->comm)
		return not_opened(g, to, channel, err);
	*ticket = stream->calls;
	begin(g, stream);
	/* a message's communicator has two ranks, and the sender is rank 0 */
	int result = bytes ? n->Send(data, bytes, P4D_NCCL_BYTES, 1, stream->comm->comm, stream->handle) : 0;
	end(g, stream);
	return outcome(g, result, stream, "send", err);
}

static int find_ticket(p4d_group *g, uint32_t to, unsigned channel, uint64_t ticket, p4d_nccl_stream **stream,
		       p4d_error *err)
{
	*stream = stream_of(g, to, channel, false);
	if (!*stream || !(*stream)->comm)
		return not_opened(g, to, channel, err);
	if (ticket >= (*stream)->calls)
		return p4d_fail(err, P4D_E_VALUE, "no message with ticket %llu was sent on channel %u",
				(unsigned long long)ticket, channel);
	return 0;
}

static int nccl_send_wait(p4d_group *g, uint32_t to, unsigned channel, uint64_t ticket, p4d_error *err)
{
	p4d_nccl_stream *stream;

	if (find_ticket(g, to, channel, ticket, &stream, err) < 0)
		return -1;
	wait_for(g, stream, ticket);
	return 0;
}

static int nccl_sent(p4d_group *g, uint32_t to, unsigned channel, uint64_t ticket, p4d_error *err)
{
	p4d_device *d = g->transport->device;
	p4d_nccl_stream *stream;

	if (find_ticket(g, to, channel, ticket, &stream, err) < 0)
		return -1;
	return d->event_reached(d, stream->events[ticket % stream->event_count], err);
}

static int nccl_recv_begin(p4d_group *g, uint32_t from, unsigned channel, void *data, uint64_t bytes,
			   p4d_error *err)
{
	const p4d_nccl *n = nccl_of(g);
	p4d_nccl_stream *stream = stream_of(g, from, channel, true);

	if (!stream || !stream->comm)
		return not_opened(g, from, channel, err);
	begin(g, stream);
	int result = bytes ? n->Recv(data, bytes, P4D_NCCL_BYTES, 0, stream->comm->comm, stream->handle) : 0;
	end(g, stream);
	return outcome(g, result, stream, "receive", err);
}

static int nccl_recv_end(p4d_group *g, uint32_t from, unsigned channel, void *data, uint64_t bytes,
			 p4d_error *err)
{
	p4d_nccl_stream *stream = stream_of(g, from, channel, true);

	(void)data, (void)bytes;
	if (!stream || stream->ended == stream->calls)
		return p4d_fail(err, P4D_E_VALUE, "no receive from member %u was begun on channel %u", from,
				channel);
	wait_for(g, stream, stream->ended++);
	return 0;
}

static int nccl_watch(p4d_transport *t, p4d_error *err)
{
	return p4d_nccl__watch(t->state, err);
}

static void nccl_end(p4d_transport *t)
{
	/* after a failure, a thread that is still opening a communicator might use the memory */
	if (!t->world->failed && !t->broken)
		p4d_nccl__close(t->state);
}

const p4d_transport_ops p4d_nccl__transport = {
    .open = p4d_nccl__group_open,
    .close = p4d_nccl__group_close,
    .collective = nccl_collective,
    .runs_async = nccl_runs_async,
    .stream = nccl_stream,
    .called = nccl_called,
    .await = nccl_await,
    .send = nccl_send,
    .send_wait = nccl_send_wait,
    .sent = nccl_sent,
    .recv_begin = nccl_recv_begin,
    .recv_end = nccl_recv_end,
    .message_blocks = P4D_NCCL_MESSAGE_CTAS,
    .watch = nccl_watch,
    .end = nccl_end,
};
