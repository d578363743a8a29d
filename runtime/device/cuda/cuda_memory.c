/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the device table: the arena, and copies. */
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "device/cuda/cuda_internal.h"
#include "device/cuda/kernels.h"

static double gib(uint64_t bytes)
{
	return (double)bytes / (1 << 30);
}

int p4d_cuda_open_staging(p4d_cuda *c, p4d_error *err)
{
	void *memory;
	cudaError_t status =
	    cudaHostAlloc(&memory, (size_t)P4D_STAGING_SLOTS * P4D_STAGING_BYTES, cudaHostAllocDefault);

	if (status == cudaSuccess)
		c->staging = memory;
	for (int i = 0; i < P4D_STAGING_SLOTS && status == cudaSuccess; i++)
		status = cudaEventCreateWithFlags(&c->staged[i], cudaEventDisableTiming);
	if (status != cudaSuccess)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no pinned host memory for copies to the GPU: %s",
				cudaGetErrorString(status));
	return 0;
}

void p4d_cuda_close_staging(p4d_cuda *c)
{
	for (int i = 0; i < P4D_STAGING_SLOTS; i++)
		if (c->staged[i])
			cudaEventDestroy(c->staged[i]);
	if (c->staging)
		cudaFreeHost(c->staging);
}

/* Allocates the arena, the only allocation on the device. */
static int allocate(p4d_device *device, uint64_t bytes, void **arena, p4d_error *err)
{
	size_t available = 0, total = 0;
	void *memory;

	cudaError_t status = cudaMemGetInfo(&available, &total);
	if (status == cudaSuccess && bytes <= available)
		status = cudaMalloc(&memory, bytes ? bytes : 1);
	else if (status == cudaSuccess)
		status = cudaErrorMemoryAllocation;
	if (status == cudaSuccess) {
		device->allocated_bytes += bytes;
		*arena = memory;
		return 0;
	}
	(void)cudaGetLastError(); /* clears the error, which is reported here */
	if (status != cudaErrorMemoryAllocation)
		return p4d_fail(err, P4D_E_DEVICE, "%s: cannot allocate the arena: %s", device->text,
				cudaGetErrorString(status));
	p4d_fail(err, P4D_E_DEVICE,
		 "%s: the arena of %.2f GiB does not fit: %.2f GiB are free, %.2f of %.2f GiB are in use",
		 device->text, gib(bytes), gib(available), gib(total - available), gib(total));
	return p4d_fix(
	    err, "nvidia-smi lists the processes on the GPU; p4d plan finds a layout that needs less memory");
}

static void release(p4d_device *device, void *arena)
{
	p4d_cuda *c = p4d_cuda_of(device);

	p4d_gemm_set_workspace(c->products, NULL, 0);
	p4d_sdpa_lend(c->fused, NULL, 0);
	c->sums = NULL;
	c->sums_bytes = 0;
	p4d_cuda_check(c, cudaFree(arena), "release");
}

static int host_allocate(p4d_device *device, uint64_t bytes, void **arena, p4d_error *err)
{
	const cudaError_t status = cudaHostAlloc(arena, bytes ? bytes : 1, cudaHostAllocDefault);

	if (status == cudaSuccess) {
		device->host_allocated_bytes += bytes;
		return 0;
	}
	(void)cudaGetLastError(); /* clears the error, which is reported here */
	return p4d_fail(err, P4D_E_NO_MEMORY, "the host cannot provide %.1f GiB of pinned memory: %s",
			gib(bytes), cudaGetErrorString(status));
}

static void host_release(p4d_device *device, void *arena)
{
	p4d_cuda_check(p4d_cuda_of(device), cudaFreeHost(arena), "release");
}

static void move(p4d_device *device, void *stream, void *to, const void *from, uint64_t bytes)
{
	p4d_cuda *c = p4d_cuda_of(device);

	if (bytes)
		p4d_cuda_check(c,
			       cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault,
					       stream ? (cudaStream_t)stream : c->stream),
			       "move");
}

static void set_workspace(p4d_device *device, void *workspace, uint64_t workspace_bytes, void *sums,
			  uint64_t sums_bytes)
{
	p4d_cuda *c = p4d_cuda_of(device);

	p4d_gemm_set_workspace(c->products, workspace, workspace_bytes);
	p4d_sdpa_lend(c->fused, workspace, workspace_bytes);
	c->sums = sums;
	c->sums_bytes = sums_bytes;
}

static void usage(p4d_device *device, uint64_t *used, uint64_t *total)
{
	size_t available = 0, all = 0;

	p4d_cuda_check(p4d_cuda_of(device), cudaMemGetInfo(&available, &all), "usage");
	*used = all - available;
	*total = all;
}

static void zero(p4d_device *device, void *to, uint64_t bytes)
{
	p4d_cuda *c = p4d_cuda_of(device);

	if (bytes)
		p4d_cuda_check(c, cudaMemsetAsync(to, 0, bytes, c->stream), "zero");
}

/* The driver infers the direction of the copy from the pointers. In tests, all memory is host memory. */
static void copy(p4d_device *device, void *to, const void *from, uint64_t bytes)
{
	p4d_cuda *c = p4d_cuda_of(device);

	if (bytes)
		p4d_cuda_check(c, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, c->stream), "copy");
}

static void copy_rows(p4d_device *device, void *to, uint64_t to_stride, const void *from,
		      uint64_t from_stride, uint64_t row_bytes, uint64_t rows)
{
	p4d_cuda *c = p4d_cuda_of(device);

	p4d_kernel_copy_rows(c->stream, to, to_stride, from, from_stride, row_bytes, rows);
	p4d_cuda_queued(c, "copy_rows");
}

static void fill(p4d_device *device, void *to, uint32_t word, uint64_t words)
{
	p4d_kernel_fill(p4d_cuda_of(device)->stream, to, word, words);
	p4d_cuda_queued(p4d_cuda_of(device), "fill");
}

static uint64_t slot_bytes(uint64_t left)
{
	return left < P4D_STAGING_BYTES ? left : P4D_STAGING_BYTES;
}

static char *slot_at(const p4d_cuda *c, unsigned slot)
{
	return c->staging + (size_t)slot * P4D_STAGING_BYTES;
}

typedef struct host_copy {
	void *to;
	const void *from;
	size_t bytes;
} host_copy;

static void *copy_here(void *context)
{
	const host_copy *c = context;

	memcpy(c->to, c->from, c->bytes);
	return NULL;
}

/*
 * From this size on, a second thread helps to copy, because one core copies at about half the rate of a PCIe
 * 5 slot.
 */
enum { ALONE_BYTES = 1 << 20 };

static void copy_by_two(void *to, const void *from, size_t bytes)
{
	host_copy own = {to, from, bytes / 2},
		  other = {(char *)to + own.bytes, (const char *)from + own.bytes, bytes - own.bytes};
	pthread_t helper;
	const bool helped = bytes > ALONE_BYTES && pthread_create(&helper, NULL, copy_here, &other) == 0;

	copy_here(&own);
	if (helped)
		pthread_join(helper, NULL);
	else
		copy_here(&other);
}

/*
 * Copies from the caller's memory to a pinned slot, and queues the transfer. Waits only if all slots are
 * still in flight.
 */
static void upload(p4d_device *device, void *to, const void *from_host, uint64_t bytes)
{
	p4d_cuda *c = p4d_cuda_of(device);

	for (uint64_t at = 0; at < bytes; at += P4D_STAGING_BYTES) {
		const unsigned slot = c->next_slot++ % P4D_STAGING_SLOTS;
		const uint64_t count = slot_bytes(bytes - at);
		if (!p4d_cuda_wait(device, c->staged[slot], "upload"))
			return;
		copy_by_two(slot_at(c, slot), (const char *)from_host + at, count);
		p4d_cuda_check(
		    c,
		    cudaMemcpyAsync((char *)to + at, slot_at(c, slot), count, cudaMemcpyDefault, c->stream),
		    "upload");
		p4d_cuda_check(c, cudaEventRecord(c->staged[slot], c->stream), "upload");
	}
}

/* Copies to the caller's memory, slot by slot. While the host empties one slot, the GPU fills the others. */
static void download(p4d_device *device, void *to_host, const void *from, uint64_t bytes)
{
	p4d_cuda *c = p4d_cuda_of(device);
	uint64_t asked = 0;

	for (uint64_t at = 0; at < bytes; at += P4D_STAGING_BYTES) {
		for (; asked < bytes && asked < at + (uint64_t)P4D_STAGING_SLOTS * P4D_STAGING_BYTES;
		     asked += P4D_STAGING_BYTES) {
			const unsigned slot = (unsigned)(asked / P4D_STAGING_BYTES % P4D_STAGING_SLOTS);
			p4d_cuda_check(c,
				       cudaMemcpyAsync(slot_at(c, slot), (const char *)from + asked,
						       slot_bytes(bytes - asked), cudaMemcpyDefault,
						       c->stream),
				       "download");
			p4d_cuda_check(c, cudaEventRecord(c->staged[slot], c->stream), "download");
		}
		const unsigned slot = (unsigned)(at / P4D_STAGING_BYTES % P4D_STAGING_SLOTS);
		if (!p4d_cuda_wait(device, c->staged[slot], "download"))
			return;
		copy_by_two((char *)to_host + at, slot_at(c, slot), slot_bytes(bytes - at));
	}
}

/* Counts words. The counter is stored after the partial sums, and this waits for it. */
static int count(p4d_device *device, uint64_t *number, const void *from, uint32_t word, uint64_t words)
{
	p4d_cuda *c = p4d_cuda_of(device);
	void *sum = (char *)c->sums + P4D_SQUARES_SUMS * sizeof(double);

	zero(device, sum, sizeof(*number));
	p4d_kernel_count_words(c->stream, c->sums, sum, from, word, words);
	p4d_cuda_queued(c, "count");
	download(device, number, sum, sizeof(*number));
	return c->failure.code == P4D_OK ? 0 : -1;
}

void p4d_cuda_memory_table(p4d_device *device)
{
	device->allocate = allocate;
	device->release = release;
	device->host_allocate = host_allocate;
	device->host_release = host_release;
	device->move = move;
	device->set_workspace = set_workspace;
	device->usage = usage;
	device->fill = fill;
	device->count = count;
	device->zero = zero;
	device->copy = copy;
	device->copy_rows = copy_rows;
	device->upload = upload;
	device->download = download;
}
