/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A test of a device is compiled for three devices: the cpu device; the cuda device with kernels compiled
 * for the host and with the cpu device's matmuls (P4D_TEST_CUDA); and, by tests/gpu/run, a GPU
 * (P4D_TEST_GPU). Operands are in the device's memory. Tests copy numbers there and back, and do not
 * access this memory from the host. With P4D_SHIM_GUARD=1, the host cannot access the shim's memory.
 * Include after support.h.
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

/* Waits for the device. Call it before the host reads a result, or overwrites an operand of a queued
 * operation. */
static inline void finish(p4d_device *device)
{
	p4d_error err;

	if (device->sync(device, &err) < 0)
		fail_msg("%s", err.text);
}

/* Whether operands are in memory that the host cannot access. */
static inline bool is_apart(const p4d_device *device)
{
#ifdef P4D_TEST_CUDA
	const char *guard = getenv("P4D_SHIM_GUARD");

	return device->identity[0] && guard && !strcmp(guard, "1");
#else
	return device->identity[0];
#endif
}

/* Allocates memory of the device. drop_memory frees it. make_memory also fills it with zeros. */
static inline void *make_room(p4d_device *device, uint64_t bytes)
{
	void *memory = NULL;

#if defined(P4D_TEST_CUDA) || defined(P4D_TEST_GPU)
	if (is_apart(device)) {
		assert_int_equal(cudaMalloc(&memory, bytes ? bytes : 1), cudaSuccess);
		return memory;
	}
#endif
	(void)device;
	memory = calloc(bytes ? bytes : 1, 1); /* exactly this size, so that sanitizers find accesses
						* beyond the end */
	assert_non_null(memory);
	return memory;
}

static inline void *make_memory(p4d_device *device, uint64_t bytes)
{
	void *memory = make_room(device, bytes);

	if (is_apart(device))
		device->zero(device, memory, bytes);
	return memory;
}

static inline void drop_memory(p4d_device *device, void *memory)
{
#if defined(P4D_TEST_CUDA) || defined(P4D_TEST_GPU)
	if (is_apart(device)) {
		cudaFree(memory);
		return;
	}
#endif
	(void)device;
	free(memory);
}

/* Copies numbers to the device's memory, and results of operations back. */
static inline void put(p4d_device *device, void *to, const void *from_host, uint64_t bytes)
{
	device->upload(device, to, from_host, bytes);
}

static inline void fetch(p4d_device *device, void *to_host, const void *from, uint64_t bytes)
{
	device->download(device, to_host, from, bytes);
	finish(device);
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
enum { WORKSPACE_BYTES = 32 << 20 }; /* as many bytes as the plan reserves on a GPU */
#else
enum { WORKSPACE_BYTES = P4D_CPU_PRODUCT_BYTES };
#endif
enum { SUMS_BYTES = 64 << 20 };

/* Opens the device and gives it the scratch memory that a trainer would take from its arena. */
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
		/* nothing may depend on the old content, as in a trainer's arena */
		workspace = make_room(device, WORKSPACE_BYTES);
		sums = make_room(device, SUMS_BYTES);
	}
	device->set_workspace(device, workspace, WORKSPACE_BYTES, sums, SUMS_BYTES);
	return 0;
}

#ifdef P4D_TEST_CUDA
enum p4d_shim_order { P4D_SHIM_FORWARD, P4D_SHIM_BACKWARD };
void p4d_shim_set_order(enum p4d_shim_order order);
#endif
