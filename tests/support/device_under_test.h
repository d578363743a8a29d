/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Tests of a device are compiled three times: for the cpu; for the cuda device with its kernels compiled for
 * the host, where products are those of the cpu (P4D_TEST_CUDA); and, by tests/gpu/run, for a GPU
 * (P4D_TEST_GPU). Their memory is the host's; a GPU's is managed, so that it is where it is used. Include
 * after support.h.
 */
#include "device/device.h"

#if defined(P4D_TEST_CUDA) || defined(P4D_TEST_GPU)
#include "config.h"
#ifdef P4D_TEST_GPU
#include <cuda_runtime_api.h>
#else
#include "doubles/cuda/cuda_runtime_api.h"
#endif
#include "device/device_cuda.h"
#endif

/* Memory that the device and the host see, of zeros; to be freed by drop_memory. */
static inline void *make_memory(uint64_t bytes)
{
	void *memory;

#ifdef P4D_TEST_GPU
	assert_int_equal(cudaMallocManaged(&memory, bytes ? bytes : 1, cudaMemAttachGlobal), cudaSuccess);
	memset(memory, 0, bytes);
#else
	memory = calloc(bytes ? bytes : 1, 1); /* exactly so much: checkers see what lies beyond */
	assert_non_null(memory);
#endif
	return memory;
}

static inline void drop_memory(void *memory)
{
#ifdef P4D_TEST_GPU
	cudaFree(memory);
#else
	free(memory);
#endif
}

/* Before the host reads what an operation wrote, or writes what one reads. */
static inline void finish(p4d_device *device)
{
	p4d_error err;

	if (device->sync(device, &err) < 0)
		fail_msg("%s", err.text);
}

#if defined(P4D_TEST_CUDA) || defined(P4D_TEST_GPU)
static inline int open_cuda(p4d_device *device, p4d_error *err)
{
#ifdef P4D_TEST_GPU
	return p4d_device_cuda_load(device, 0, err);
#else
	const p4d_cuda_request request = {PACKAGE_VERSION, sizeof(*device), 0};

	return p4d_device_cuda_open(device, &request, err);
#endif
}
#endif

#ifdef P4D_TEST_GPU
enum { WORKSPACE_BYTES = 32 << 20 }; /* as planned for a GPU */
#else
enum { WORKSPACE_BYTES = P4D_CPU_PRODUCT_BYTES };
#endif
enum { SUMS_BYTES = 64 << 20 };

/* Memory that only the device sees. */
static inline void *make_device_memory(uint64_t bytes)
{
#ifdef P4D_TEST_GPU
	void *memory;

	assert_int_equal(cudaMalloc(&memory, bytes), cudaSuccess);
	return memory;
#else
	return make_memory(bytes);
#endif
}

/* Lends what a trainer would take from its arena. */
static inline int open_device_under_test(p4d_device *device, p4d_error *err)
{
	static void *workspace, *sums;

#if defined(P4D_TEST_CUDA) || defined(P4D_TEST_GPU)
	const int status = open_cuda(device, err);
#else
	const int status = p4d_device_cpu_open(device, err);
#endif
	if (status < 0)
		return -1;
	if (!workspace) {
		workspace = make_device_memory(WORKSPACE_BYTES);
		sums = make_device_memory(SUMS_BYTES);
	}
	device->set_workspace(device, workspace, WORKSPACE_BYTES, sums, SUMS_BYTES);
	return 0;
}

#ifdef P4D_TEST_CUDA
enum p4d_shim_order { P4D_SHIM_FORWARD, P4D_SHIM_BACKWARD };
void p4d_shim_set_order(enum p4d_shim_order order);
#endif
