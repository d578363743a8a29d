/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "doubles/queued_streams.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void wait_here(void *args);

void queued_await(stream *s, uint64_t done)
{
	while (s->done < done && !s->owner->closing) {
		if (done < s->awaited)
			s->awaited = done;
		pthread_cond_wait(&s->reached, &s->owner->lock);
	}
}

void queued_put(queued_stream *calls, void (*work)(void *), const void *args, size_t bytes)
{
	stream *s = (stream *)calls;
	queued *q = s->owner;

	if (bytes > QUEUED_ARGUMENTS)
		abort();
	pthread_mutex_lock(&q->lock);
	if (s->queued - s->done == QUEUED_MOST)
		queued_await(s, s->done + 1);
	entry *e = &s->entries[s->queued % QUEUED_MOST];
	e->work = work;
	memcpy(e->args, args, bytes);
	s->queued++;
	q->beside += s != q->compute && work != wait_here;
	pthread_cond_signal(&s->more);
	pthread_mutex_unlock(&q->lock);
}

static void *run(void *context)
{
	stream *s = context;
	queued *q = s->owner;

	pthread_mutex_lock(&q->lock);
	for (;;) {
		while (s->queued == s->done && !q->closing)
			pthread_cond_wait(&s->more, &q->lock);
		if (s->queued == s->done)
			break;
		entry *e = &s->entries[s->done % QUEUED_MOST];
		pthread_mutex_unlock(&q->lock);
		if (s->lag)
			usleep(s->lag);
		e->work(e->args);
		pthread_mutex_lock(&q->lock);
		if (++s->done >= s->awaited) {
			s->awaited = UINT64_MAX;
			pthread_cond_broadcast(&s->reached);
		}
	}
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

stream *queued_add_stream(queued *q, unsigned lag)
{
	stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->calls.queue = queued_put;
	s->owner = q;
	s->lag = lag;
	s->awaited = UINT64_MAX;
	pthread_cond_init(&s->more, NULL);
	pthread_cond_init(&s->reached, NULL);
	if (pthread_create(&s->thread, NULL, run, s) != 0) {
		free(s);
		return NULL;
	}
	s->next = q->streams;
	q->streams = s;
	return s;
}

int queued_stream_open(p4d_device *device, void **opened, p4d_error *err)
{
	*opened = queued_add_stream(of(device), of(device)->side_lag);
	return *opened ? 0 : p4d_fail(err, P4D_E_NO_MEMORY, "cannot create a thread for a stream");
}

int queued_event_open(p4d_device *device, void **opened, p4d_error *err)
{
	queued *q = of(device);
	event *m = calloc(1, sizeof(*m));

	if (!m)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for an event");
	m->next = q->events;
	*opened = q->events = m;
	return 0;
}

void queued_event_record(p4d_device *device, void *opened, void *where)
{
	queued *q = of(device);
	event *m = opened;

	pthread_mutex_lock(&q->lock);
	m->where = stream_of(device, where);
	m->at = m->where->queued;
	pthread_mutex_unlock(&q->lock);
}

int queued_event_reached(p4d_device *device, void *opened, p4d_error *err)
{
	queued *q = of(device);
	const event *m = opened;

	if (q->failed) {
		*err = q->why;
		return -1;
	}
	pthread_mutex_lock(&q->lock);
	int reached = !m->where || m->where->done >= m->at;
	pthread_mutex_unlock(&q->lock);
	return reached;
}

static void wait_here(void *args)
{
	const event *m = args;
	queued *q = m->where->owner;

	pthread_mutex_lock(&q->lock);
	queued_await(m->where, m->at);
	pthread_mutex_unlock(&q->lock);
}

void queued_event_wait(p4d_device *device, void *waiter, void *opened)
{
	const event *m = opened;

	if (m->where)
		queued_put(&stream_of(device, waiter)->calls, wait_here, m, sizeof(*m));
}

void queued_stream_wait(p4d_device *device, void *waiter, void *awaited)
{
	event m;

	queued_event_record(device, &m, awaited);
	queued_event_wait(device, waiter, &m);
}

/* Waits until all operations are done. */
int queued_sync(p4d_device *device, p4d_error *err)
{
	const struct timespec nap = {.tv_nsec = 50000};
	queued *q = of(device);
	event m;
	int reached;

	queued_event_record(device, &m, NULL);
	q->waits += m.at != q->seen;
	q->seen = m.at;
	while ((reached = queued_event_reached(device, &m, err)) == 0) {
		if (device->watch && device->watch(device->watch_context, &q->why) < 0)
			q->failed = true;
		nanosleep(&nap, NULL);
	}
	return reached < 0 ? -1 : 0;
}

void queued_close_streams(queued *q)
{
	void *next;

	pthread_mutex_lock(&q->lock);
	q->closing = true;
	for (stream *s = q->streams; s; s = s->next) {
		pthread_cond_signal(&s->more);
		pthread_cond_broadcast(&s->reached);
	}
	pthread_mutex_unlock(&q->lock);
	for (stream *s = q->streams; s; s = s->next)
		pthread_join(s->thread, NULL);
	for (stream *s = q->streams; s; s = next) {
		next = s->next;
		free(s);
	}
	for (event *m = q->events; m; m = next) {
		next = m->next;
		free(m);
	}
}
