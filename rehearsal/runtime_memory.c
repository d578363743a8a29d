/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA runtime: device memory and pinned host memory. Streams are in order and always finished, so a call
 * on a stream does its work immediately.
 */
#include <string.h>

#include "abi.h"
#include "account.h"
#include "pinned.h"
#include "report.h"
#include "result.h"
#include "settings.h"

ENTRY int cudaMalloc(void **address, size_t bytes)
{
	*address = bytes ? p4d_account_take(bytes, p4d_account_device()) : NULL;
	return p4d_result(*address || !bytes ? CUDA_OK : CUDA_OUT_OF_MEMORY);
}

ENTRY int cudaFree(void *address)
{
	if (!address || p4d_account_give(address) || p4d_pinned_end(address))
		return CUDA_OK;
	return p4d_result(CUDA_INVALID_VALUE);
}

/*
 * Managed memory moves to the host if the device has no room for it, so it is not counted as device memory.
 */
ENTRY int cudaMallocManaged(void **address, size_t bytes, unsigned flags)
{
	(void)flags;
	*address = p4d_pinned_take(bytes, P4D_PINNED_MANAGED);
	return p4d_result(*address ? CUDA_OK : CUDA_OUT_OF_MEMORY);
}

ENTRY int cudaMemPrefetchAsync(void)
{
	return CUDA_OK;
}

ENTRY int cudaMemAdvise(void)
{
	return CUDA_OK;
}

ENTRY int cudaHostAlloc(void **address, size_t bytes, unsigned flags)
{
	(void)flags;
	*address = p4d_pinned_take(bytes, P4D_PINNED_OWN);
	return p4d_result(*address ? CUDA_OK : CUDA_OUT_OF_MEMORY);
}

ENTRY int cudaMallocHost(void **address, size_t bytes)
{
	return cudaHostAlloc(address, bytes, 0);
}

ENTRY int cudaFreeHost(void *address)
{
	return p4d_result(!address || p4d_pinned_end(address) ? CUDA_OK : CUDA_INVALID_VALUE);
}

ENTRY int cudaHostRegister(void *address, size_t bytes, unsigned flags)
{
	(void)flags;
	return p4d_result(p4d_pinned_register(address, bytes) ? CUDA_OK : CUDA_OUT_OF_MEMORY);
}

ENTRY int cudaHostUnregister(void *address)
{
	return p4d_result(p4d_pinned_end(address) ? CUDA_OK : CUDA_INVALID_VALUE);
}

ENTRY int cudaHostGetDevicePointer(void **on_device, void *on_host, unsigned flags)
{
	(void)flags;
	*on_device = on_host;
	return CUDA_OK;
}

ENTRY int cudaHostGetFlags(unsigned *flags, void *address)
{
	(void)address;
	*flags = 0;
	return CUDA_OK;
}

ENTRY int cudaMemGetInfo(size_t *left, size_t *total)
{
	*total = p4d_settings()->bytes;
	*left = *total - p4d_account_used(p4d_account_device());
	return CUDA_OK;
}

ENTRY int cudaPointerGetAttributes(cuda_pointer *a, const void *address)
{
	p4d_pinned_kind kind;
	void *there = (void *)(uintptr_t)address;
	int device = p4d_account_device_of(address);

	memset(a, 0, p4d_settings_cuda() < 13 ? CUDA_POINTER_BYTES_12 : sizeof(*a));
	a->device = device < 0 ? p4d_account_device() : device;
	if (p4d_account_is_device(address)) {
		a->type = MEMORY_DEVICE;
		a->on_device = there;
	} else if (p4d_pinned_find(address, &kind)) {
		a->type = kind == P4D_PINNED_MANAGED ? MEMORY_MANAGED : MEMORY_HOST;
		a->on_device = there;
		a->on_host = there;
	}
	return CUDA_OK;
}

ENTRY int cudaMemcpyAsync(void *to, const void *from, size_t bytes)
{
	p4d_account_copy(to, from, bytes);
	p4d_report_add(P4D_REPORT_COPIES, 1);
	return CUDA_OK;
}

ENTRY int cudaMemcpy(void *to, const void *from, size_t bytes)
{
	p4d_report_add(P4D_REPORT_WAITS, 1);
	return cudaMemcpyAsync(to, from, bytes);
}

ENTRY int cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes)
{
	(void)to_device, (void)from_device;
	return cudaMemcpy(to, from, bytes);
}

ENTRY int cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes)
{
	return cudaMemcpyPeer(to, to_device, from, from_device, bytes);
}

ENTRY int cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
		       size_t height)
{
	size_t bytes;

	p4d_report_add(P4D_REPORT_COPIES, 1);
	if (__builtin_mul_overflow(width, height, &bytes) || bytes > P4D_ACCOUNT_SMALL)
		return CUDA_OK;
	for (size_t i = 0; i < height; i++)
		memmove((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width);
	return CUDA_OK;
}

ENTRY int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
			    size_t height)
{
	return cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height);
}

ENTRY int cudaMemset(void *to, int value, size_t bytes)
{
	p4d_account_fill(to, value, bytes);
	p4d_report_add(P4D_REPORT_COPIES, 1);
	return CUDA_OK;
}

ENTRY int cudaMemsetAsync(void *to, int value, size_t bytes)
{
	return cudaMemset(to, value, bytes);
}
