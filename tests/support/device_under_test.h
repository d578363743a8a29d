/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Tests of a device are compiled three times: for the cpu; for the cuda device with its kernels compiled for
 * the host, where products are those of the cpu (P4D_TEST_CUDA); and, by tests/gpu/run, for a GPU
 * (P4D_TEST_GPU). Operands are in the device's memory, which the host does not touch: numbers are put there,
 * and fetched. With P4D_SHIM_GUARD=1 in the environment, the host cannot touch the shim's memory either.
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

/* Before the host reads what an operation wrote, or writes what one reads. */
static inline void finish(p4d_device *device)
{
	p4d_error err;

	if (device->sync(device, &err) < 0)
		fail_msg("%s", err.text);
}

/* Whether operands are not in the host's memory. */
static inline bool is_apart(const p4d_device *device)
{
#ifdef P4D_TEST_CUDA
	const char *guard = getenv("P4D_SHIM_GUARD");

	return device->identity[0] && guard && !strcmp(guard, "1");
#else
	return device->identity[0];
#endif
}

/* Memory of the device, to be freed by drop_memory; make_memory: filled with zeros. */
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
	memory = calloc(bytes ? bytes : 1, 1); /* exactly so much: checkers see what lies beyond */
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

/* Copies to the device's memory, and back what operations left there. */
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
enum { WORKSPACE_BYTES = 32 << 20 }; /* as planned for a GPU */
#else
enum { WORKSPACE_BYTES = P4D_CPU_PRODUCT_BYTES };
#endif
enum { SUMS_BYTES = 64 << 20 };

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
		/* contents do not matter: like a trainer's arena before it is filled */
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
