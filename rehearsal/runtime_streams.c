/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA runtime: streams and events. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "abi.h"
#include "account.h"
#include "report.h"
#include "result.h"
#include "settings.h"
#include "stream.h"

struct p4d_runtime_stream {
	unsigned long long capture;
	int priority;
	unsigned flags;
	int device;
	struct p4d_runtime_stream *next;
};
struct p4d_event {
	unsigned long long capture;
};

enum { LEAST_PRIORITY = 0, GREATEST_PRIORITY = -5 };
/* enum cudaStreamCaptureStatus */
enum { CAPTURE_NONE = 0, CAPTURE_ACTIVE = 1 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static p4d_runtime_stream *all;
static p4d_runtime_stream
    own; /* the streams cudaStreamLegacy, cudaStreamPerThread and 0, which share one state */
static unsigned long long captures;

static p4d_runtime_stream *stream_of(const p4d_runtime_stream *handle)
{
	return (uintptr_t)handle <= 2 ? &own : (p4d_runtime_stream *)(uintptr_t)handle;
}

unsigned long long p4d_stream_capture(const p4d_runtime_stream *stream)
{
	return stream_of(stream)->capture;
}

ENTRY int cudaStreamCreateWithPriority(p4d_runtime_stream **stream, unsigned flags, int priority)
{
	p4d_runtime_stream *s = calloc(1, sizeof(*s));

	if (!s)
		return p4d_result(CUDA_OUT_OF_MEMORY);
	*s = (p4d_runtime_stream){.priority = priority, .flags = flags, .device = p4d_account_device()};
	pthread_mutex_lock(&lock);
	s->next = all;
	all = s;
	pthread_mutex_unlock(&lock);
	p4d_report_add(P4D_REPORT_STREAMS, 1);
	*stream = s;
	return CUDA_OK;
}

ENTRY int cudaStreamCreateWithFlags(p4d_runtime_stream **stream, unsigned flags)
{
	return cudaStreamCreateWithPriority(stream, flags, LEAST_PRIORITY);
}

ENTRY int cudaStreamCreate(p4d_runtime_stream **stream)
{
	return cudaStreamCreateWithFlags(stream, 0);
}

ENTRY int cudaStreamDestroy(p4d_runtime_stream *stream)
{
	pthread_mutex_lock(&lock);
	for (p4d_runtime_stream **s = &all; *s; s = &(*s)->next)
		if (*s == stream) {
			*s = stream->next;
			free(stream);
			p4d_report_add(P4D_REPORT_STREAMS_ENDED, 1);
			break;
		}
	pthread_mutex_unlock(&lock);
	return CUDA_OK;
}

ENTRY int cudaStreamGetPriority(const p4d_runtime_stream *stream, int *priority)
{
	*priority = stream_of(stream)->priority;
	return CUDA_OK;
}

ENTRY int cudaStreamGetFlags(const p4d_runtime_stream *stream, unsigned *flags)
{
	*flags = stream_of(stream)->flags;
	return CUDA_OK;
}

ENTRY int cudaStreamGetDevice(const p4d_runtime_stream *stream, int *device)
{
	*device = stream_of(stream) == &own ? p4d_account_device() : stream->device;
	return CUDA_OK;
}

ENTRY int cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	*least = LEAST_PRIORITY;
	*greatest = GREATEST_PRIORITY;
	return CUDA_OK;
}

ENTRY int cudaStreamSynchronize(void)
{
	p4d_report_add(P4D_REPORT_WAITS, 1);
	return CUDA_OK;
}

ENTRY int cudaStreamQuery(void)
{
	return CUDA_OK;
}

ENTRY int cudaDeviceSynchronize(void)
{
	p4d_report_add(P4D_REPORT_WAITS, 1);
	return CUDA_OK;
}

ENTRY int cudaStreamWaitEvent(p4d_runtime_stream *stream, const p4d_event *event)
{
	if (event->capture && stream_of(stream) != &own)
		stream->capture = event->capture;
	return CUDA_OK;
}

ENTRY int cudaStreamAddCallback(p4d_runtime_stream *stream, void (*call)(void *, int, void *), void *data)
{
	call(stream, CUDA_OK, data);
	return CUDA_OK;
}

ENTRY int cudaLaunchHostFunc(p4d_runtime_stream *stream, void (*call)(void *), void *data)
{
	(void)stream;
	call(data);
	return CUDA_OK;
}

/* Captures of graphs */

ENTRY int cudaStreamBeginCapture(p4d_runtime_stream *stream)
{
	pthread_mutex_lock(&lock);
	stream_of(stream)->capture = ++captures;
	pthread_mutex_unlock(&lock);
	return CUDA_OK;
}

ENTRY int cudaStreamBeginCaptureToGraph(p4d_runtime_stream *stream)
{
	return cudaStreamBeginCapture(stream);
}

ENTRY int cudaStreamEndCapture(p4d_runtime_stream *stream, void **graph)
{
	unsigned long long ended = stream_of(stream)->capture;

	*graph = ended ? calloc(1, sizeof(ended)) : NULL;
	if (!*graph)
		return p4d_result(ended ? CUDA_OUT_OF_MEMORY : CUDA_INVALID_VALUE);
	pthread_mutex_lock(&lock);
	own.capture = own.capture == ended ? 0 : own.capture;
	for (p4d_runtime_stream *s = all; s; s = s->next)
		s->capture = s->capture == ended ? 0 : s->capture;
	pthread_mutex_unlock(&lock);
	return CUDA_OK;
}

ENTRY int cudaStreamIsCapturing(const p4d_runtime_stream *stream, int *status)
{
	*status = stream_of(stream)->capture ? CAPTURE_ACTIVE : CAPTURE_NONE;
	return CUDA_OK;
}

static int capture_info(const p4d_runtime_stream *stream, int *status, unsigned long long *id, void **graph,
			const void **dependencies, size_t *count)
{
	static int captured; /* stands for a graph that is being captured; only its address matters */

	cudaStreamIsCapturing(stream, status);
	if (id)
		*id = stream_of(stream)->capture;
	if (graph)
		*graph = *status ? &captured : NULL;
	if (dependencies)
		*dependencies = NULL;
	if (count)
		*count = 0;
	return CUDA_OK;
}

ENTRY int cudaStreamGetCaptureInfo_v2(const p4d_runtime_stream *stream, int *status, unsigned long long *id,
				      void **graph, const void **dependencies, size_t *count)
{
	return capture_info(stream, status, id, graph, dependencies, count);
}

ENTRY int cudaStreamGetCaptureInfo_v3(const p4d_runtime_stream *stream, int *status, unsigned long long *id,
				      void **graph, const void **dependencies, const void **edges,
				      size_t *count)
{
	if (edges)
		*edges = NULL;
	return capture_info(stream, status, id, graph, dependencies, count);
}

/* Three arguments in CUDA 12, seven in 13. */
ENTRY int cudaStreamGetCaptureInfo(const p4d_runtime_stream *stream, int *status, unsigned long long *id,
				   void **graph, const void **dependencies, const void **edges, size_t *count)
{
	if (p4d_settings_cuda() < 13)
		return capture_info(stream, status, id, NULL, NULL, NULL);
	return cudaStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, edges, count);
}

ENTRY int cudaStreamUpdateCaptureDependencies(void)
{
	return CUDA_OK;
}

ENTRY int cudaThreadExchangeStreamCaptureMode(int *mode)
{
	static _Thread_local int now;
	int before = now;

	now = *mode;
	*mode = before;
	return CUDA_OK;
}

/* Events */

p4d_event *p4d_event_new(void)
{
	p4d_event *event = calloc(1, sizeof(*event));

	if (event)
		p4d_report_add(P4D_REPORT_EVENTS, 1);
	return event;
}

void p4d_event_record(p4d_event *event, const p4d_runtime_stream *stream)
{
	event->capture = stream_of(stream)->capture;
}

ENTRY int cudaEventCreate(p4d_event **event)
{
	*event = p4d_event_new();
	return p4d_result(*event ? CUDA_OK : CUDA_OUT_OF_MEMORY);
}

ENTRY int cudaEventCreateWithFlags(p4d_event **event)
{
	return cudaEventCreate(event);
}

ENTRY int cudaEventRecord(p4d_event *event, const p4d_runtime_stream *stream)
{
	p4d_event_record(event, stream);
	return CUDA_OK;
}

ENTRY int cudaEventRecordWithFlags(p4d_event *event, const p4d_runtime_stream *stream)
{
	return cudaEventRecord(event, stream);
}

ENTRY int cudaEventQuery(void)
{
	return CUDA_OK;
}

ENTRY int cudaEventSynchronize(void)
{
	p4d_report_add(P4D_REPORT_WAITS, 1);
	return CUDA_OK;
}

ENTRY int cudaEventDestroy(p4d_event *event)
{
	if (event)
		p4d_report_add(P4D_REPORT_EVENTS_ENDED, 1);
	free(event);
	return CUDA_OK;
}

/* Nothing is timed. The result is not 0, because programs divide by it. */
ENTRY int cudaEventElapsedTime(float *milliseconds)
{
	*milliseconds = P4D_STREAM_ELAPSED_MS;
	return CUDA_OK;
}
