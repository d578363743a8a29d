/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA runtime on the host. */
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

p4d_shim_machine p4d_shim_gpu = {.devices = 1, .driver = 13000, .sm = 90, .bytes = (size_t)1 << 40};

const char *cudaGetErrorString(cudaError_t error)
{
	return error == cudaSuccess                 ? "no error"
	       : error == cudaErrorMemoryAllocation ? "out of memory"
	       : error == cudaErrorLaunchFailure    ? "unspecified launch failure"
						    : "an error";
}

/* The last result other than success, until it is queried, as in the CUDA runtime. */
static cudaError_t last_error;

static cudaError_t result(cudaError_t status)
{
	if (status != cudaSuccess)
		last_error = status;
	return status;
}

cudaError_t cudaGetLastError(void)
{
	const cudaError_t status = last_error;

	last_error = cudaSuccess;
	return status != cudaSuccess ? status : p4d_shim_gpu.fails;
}

cudaError_t cudaDriverGetVersion(int *version)
{
	*version = p4d_shim_gpu.driver;
	return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
	*version = 13000;
	return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
	if (p4d_shim_gpu.driver < 13000)
		return result(cudaErrorInsufficientDriver);
	*count = p4d_shim_gpu.devices;
	return result(*count ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device)
{
	return result(device < p4d_shim_gpu.devices ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
	(void)device;
	*value = attribute == cudaDevAttrMultiProcessorCount      ? 132
		 : attribute == cudaDevAttrComputeCapabilityMajor ? p4d_shim_gpu.sm / 10
								  : p4d_shim_gpu.sm % 10;
	return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
	snprintf(properties->name, sizeof(properties->name), "Host %d", device);
	properties->totalGlobalMem = p4d_shim_gpu.bytes;
	memset(properties->uuid.bytes, 0xa0 + device, sizeof(properties->uuid.bytes));
	return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
	*total = p4d_shim_gpu.bytes;
	*available = p4d_shim_gpu.bytes - p4d_shim_gpu.taken;
	return result(p4d_shim_gpu.fails);
}

/* The arena of a dry run. Any access to its addresses ends the program, because a dry run has no memory. */
static struct {
	char *from;
	size_t bytes;
} reserved;

static cudaError_t reserve(void **memory, size_t bytes)
{
	*memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	reserved.from = *memory;
	reserved.bytes = bytes;
	return result(*memory != MAP_FAILED ? cudaSuccess : cudaErrorMemoryAllocation);
}

/* With P4D_SHIM_GUARD=1, the GPU's memory is accessible only while a queued operation runs. So the host
 * cannot access it, as with a real GPU. */
enum { APART = 1 << 30, BLOCKS = 4096, PAGE = 4096, MARKED = 1 << 20 };
static struct {
	char *from;
	size_t used;
	int opened;
	unsigned blocks; /* blocks follow each other; a freed block is reused only after all later blocks
			  * are free */
	struct {
		size_t at;
		bool freed;
	} block[BLOCKS];
} apart;

static bool is_guarded(void)
{
	const char *wanted = getenv("P4D_SHIM_GUARD");

	return wanted && !strcmp(wanted, "1");
}

void p4d_shim_enter(void)
{
	if (apart.from && apart.opened++ == 0)
		mprotect(apart.from, apart.used, PROT_READ | PROT_WRITE);
}

void p4d_shim_leave(void)
{
	if (apart.from && --apart.opened == 0)
		mprotect(apart.from, apart.used, PROT_NONE);
}

static cudaError_t allocate_apart(void **memory, size_t bytes)
{
	if (!apart.from) {
		apart.from = mmap(NULL, APART, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (apart.from == MAP_FAILED)
			abort();
	}
	if (apart.blocks == BLOCKS || bytes > APART - PAGE - apart.used)
		return result(cudaErrorMemoryAllocation);
	*memory = apart.from + apart.used;
	apart.block[apart.blocks++].at = apart.used;
	apart.used += (bytes + PAGE) / PAGE * PAGE;
	p4d_shim_enter();
	memset(*memory, 0xff,
	       bytes < MARKED ? bytes : MARKED); /* only the beginning is marked, to save time */
	p4d_shim_leave();
	return cudaSuccess;
}

static void free_apart(const char *memory)
{
	for (unsigned i = 0; i < apart.blocks; i++)
		if (apart.from + apart.block[i].at == memory)
			apart.block[i].freed = true;
	for (; apart.blocks > 0 && apart.block[apart.blocks - 1].freed; apart.blocks--) {
		apart.block[apart.blocks - 1].freed = false;
		apart.used = apart.block[apart.blocks - 1].at;
	}
}

/* Memory that was never written is NaN, so that no test passes by luck. */
cudaError_t cudaMalloc(void **memory, size_t bytes)
{
	if (p4d_shim_gpu.dry)
		return reserve(memory, bytes);
	if (is_guarded())
		return allocate_apart(memory, bytes);
	if (bytes > SIZE_MAX / 2 || posix_memalign(memory, 256, bytes) != 0)
		return result(cudaErrorMemoryAllocation);
	memset(*memory, 0xff, bytes);
	return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
	if (!p4d_shim_gpu.dry && is_guarded())
		free_apart(memory);
	else if (!p4d_shim_gpu.dry)
		free(memory);
	return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
	(void)flags;
	*memory = calloc(bytes, 1);
	return result(*memory ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void *memory)
{
	free(memory);
	return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
	(void)stream;
	p4d_shim_gpu.launches++;
	p4d_shim_enter();
	if (!p4d_shim_gpu.dry)
		memset(memory, value, bytes);
	p4d_shim_leave();
	return result(p4d_shim_gpu.fails);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
			    cudaStream_t stream)
{
	(void)kind, (void)stream;
	p4d_shim_gpu.launches++;
	p4d_shim_enter();
	if (!p4d_shim_gpu.dry)
		memcpy(to, from, bytes);
	else if ((uintptr_t)to - (uintptr_t)reserved.from >= reserved.bytes)
		memset(to, 0, bytes); /* the host gets zeros: losses and gradients are 0 */
	p4d_shim_leave();
	return result(p4d_shim_gpu.fails);
}

cudaError_t cudaMemset2DAsync(void *memory, size_t pitch, int value, size_t width, size_t height,
			      cudaStream_t stream)
{
	(void)stream;
	p4d_shim_gpu.launches++;
	p4d_shim_enter();
	for (size_t i = 0; i < height && !p4d_shim_gpu.dry; i++)
		memset((char *)memory + i * pitch, value, width);
	p4d_shim_leave();
	return result(p4d_shim_gpu.fails);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
			      size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	(void)kind, (void)stream;
	p4d_shim_gpu.launches++;
	p4d_shim_enter();
	for (size_t i = 0; i < height && !p4d_shim_gpu.dry; i++)
		memcpy((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width);
	p4d_shim_leave();
	return result(p4d_shim_gpu.fails);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
	(void)flags;
	*stream = malloc(1);
	return result(*stream ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	*least = 0;
	*greatest = -5;
	return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
	if (priority > 0 || priority < -5)
		return result(cudaErrorInvalidValue);
	return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	free(stream);
	return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	(void)stream;
	return result(p4d_shim_gpu.fails);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
	(void)stream, (void)event, (void)flags;
	return result(p4d_shim_gpu.fails);
}

/* milliseconds: the time when the event was recorded. times: whether it may be queried. */
struct CUevent_st {
	double milliseconds;
	bool times;
};

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
	*event = calloc(1, sizeof(**event));
	if (*event)
		(*event)->times = !(flags & cudaEventDisableTiming);
	return result(*event ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	free(event);
	return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	(void)stream;
	event->milliseconds = p4d_shim_gpu.milliseconds;
	return result(p4d_shim_gpu.fails);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	(void)event;
	return result(p4d_shim_gpu.fails);
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end)
{
	*milliseconds = (float)(end->milliseconds - begin->milliseconds);
	return result(begin->times && end->times ? p4d_shim_gpu.fails : cudaErrorInvalidValue);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
	(void)event;
	if (p4d_shim_gpu.behind > 0) {
		p4d_shim_gpu.behind--;
		return result(cudaErrorNotReady);
	}
	return result(p4d_shim_gpu.fails);
}
