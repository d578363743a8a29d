/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of the device table: their order, and waiting for them. */
#include <stdlib.h>

#include "device/cuda/cuda_internal.h"
#include "device/device_wait.h"

/*
 * Like cudaEventQuery. "Not ready" is a valid answer, but CUDA stores it as the last error. This clears the
 * error, because otherwise the next operation would seem to have failed.
 */
static cudaError_t query(cudaEvent_t event)
{
	const cudaError_t status = cudaEventQuery(event);

	if (status == cudaErrorNotReady)
		(void)cudaGetLastError();
	return status;
}

bool p4d_cuda_wait(p4d_device *device, cudaEvent_t event, const char *what)
{
	p4d_cuda *c = p4d_cuda_of(device);
	cudaError_t status;
	p4d_error err;
	unsigned turn = 0;

	while (c->failure.code == P4D_OK && (status = query(event)) != cudaSuccess) {
		if (status != cudaErrorNotReady)
			p4d_cuda_check(c, status, what);
		else if (p4d_device_pause(device, &turn, &err) < 0)
			c->failure = err;
	}
	return c->failure.code == P4D_OK;
}

static int failed(const p4d_cuda *c, p4d_error *err)
{
	if (c->failure.code == P4D_OK)
		return 0;
	if (err)
		*err = c->failure;
	return -1;
}

static int sync(p4d_device *device, p4d_error *err)
{
	p4d_cuda *c = p4d_cuda_of(device);

	p4d_cuda_check(c, cudaEventRecord(c->end, c->stream), "sync");
	p4d_cuda_wait(device, c->end, "sync");
	return failed(c, err);
}

static cudaStream_t stream_of(const p4d_cuda *c, void *stream)
{
	return stream ? stream : c->stream;
}

static p4d_cuda_opened *add_opened(p4d_cuda *c, p4d_error *err)
{
	p4d_cuda_opened *o = calloc(1, sizeof(*o));

	if (!o) {
		p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a GPU stream");
		return NULL;
	}
	o->next = c->opened;
	c->opened = o;
	return o;
}

/*
 * Opens a stream of high priority. A kernel of communication can then start when any thread block of an
 * operation ends, and need not wait for the whole operation.
 */
static int stream_open(p4d_device *device, void **stream, p4d_error *err)
{
	p4d_cuda_opened *o = add_opened(p4d_cuda_of(device), err);
	int least, greatest;

	if (!o)
		return -1;
	cudaError_t status = cudaDeviceGetStreamPriorityRange(&least, &greatest);
	if (status == cudaSuccess)
		status = cudaStreamCreateWithPriority(&o->stream, cudaStreamNonBlocking, greatest);
	if (status != cudaSuccess)
		return p4d_fail(err, P4D_E_DEVICE, "%s: cannot create a stream: %s", device->text,
				cudaGetErrorString(status));
	*stream = o->stream;
	return 0;
}

static int event_open(p4d_device *device, void **event, p4d_error *err)
{
	p4d_cuda_opened *o = add_opened(p4d_cuda_of(device), err);

	if (!o)
		return -1;
	const cudaError_t status = cudaEventCreateWithFlags(&o->event, cudaEventDisableTiming);
	if (status != cudaSuccess)
		return p4d_fail(err, P4D_E_DEVICE, "%s: cannot create an event: %s", device->text,
				cudaGetErrorString(status));
	*event = o->event;
	return 0;
}

static void event_record(p4d_device *device, void *event, void *stream)
{
	p4d_cuda *c = p4d_cuda_of(device);

	p4d_cuda_check(c, cudaEventRecord(event, stream_of(c, stream)), "an event");
}

static void event_wait(p4d_device *device, void *waiter, void *event)
{
	p4d_cuda *c = p4d_cuda_of(device);

	p4d_cuda_check(c, cudaStreamWaitEvent(stream_of(c, waiter), event, 0), "event_wait");
}

/*
 * Makes one stream wait for another. All calls share one event, because a wait refers to the event's most
 * recent record.
 */
static void stream_wait(p4d_device *device, void *waiter, void *awaited)
{
	p4d_cuda *c = p4d_cuda_of(device);

	event_record(device, c->order, awaited);
	event_wait(device, waiter, c->order);
}

static int event_reached(p4d_device *device, void *event, p4d_error *err)
{
	p4d_cuda *c = p4d_cuda_of(device);
	const cudaError_t status = query(event);

	if (status != cudaErrorNotReady)
		p4d_cuda_check(c, status, "an event");
	if (failed(c, err) < 0)
		return -1;
	return status == cudaSuccess;
}

static int attach(p4d_device *device, p4d_error *err)
{
	const cudaError_t status = cudaSetDevice(p4d_cuda_of(device)->number);

	if (status == cudaSuccess)
		return 0;
	return p4d_fail(err, P4D_E_DEVICE, "%s: cannot be used from another thread: %s", device->text,
			cudaGetErrorString(status));
}

int p4d_cuda_open_streams(p4d_cuda *c, p4d_error *err)
{
	cudaError_t status = cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking);

	if (status == cudaSuccess)
		status = cudaEventCreateWithFlags(&c->order, cudaEventDisableTiming);
	if (status == cudaSuccess)
		status = cudaEventCreateWithFlags(&c->end, cudaEventDisableTiming);
	if (status == cudaSuccess)
		return 0;
	return p4d_fail(err, P4D_E_DEVICE, "cannot create a CUDA stream: %s", cudaGetErrorString(status));
}

static void drop_event(cudaEvent_t event)
{
	if (event)
		cudaEventDestroy(event);
}

static void drop_stream(cudaStream_t stream)
{
	if (stream)
		cudaStreamDestroy(stream);
}

void p4d_cuda_close_streams(p4d_cuda *c)
{
	while (c->opened) {
		p4d_cuda_opened *o = c->opened;
		c->opened = o->next;
		drop_event(o->event);
		drop_stream(o->stream);
		free(o);
	}
	drop_event(c->order);
	drop_event(c->end);
	drop_stream(c->stream);
}

void p4d_cuda_streams_table(p4d_device *device)
{
	device->stream = p4d_cuda_of(device)->stream;
	device->sync = sync;
	device->stream_open = stream_open;
	device->stream_wait = stream_wait;
	device->event_open = event_open;
	device->event_record = event_record;
	device->event_wait = event_wait;
	device->event_reached = event_reached;
	device->attach = attach;
}
