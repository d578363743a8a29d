/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_TEST_DEVICE_UNDER_TEST_H
#define P4D_TEST_DEVICE_UNDER_TEST_H

/*
 * Tests of a device are compiled twice: for the cpu, and (P4D_TEST_CUDA) for the cuda device with its kernels
 * compiled for the host, where products are those of the cpu. Include after support.h.
 */
#include "device.h"

#ifdef P4D_TEST_CUDA
#include "config.h"
#include "cuda_runtime_api.h"
#include "device_cuda.h"

enum p4d_shim_order { P4D_SHIM_FORWARD, P4D_SHIM_BACKWARD };
void p4d_shim_set_order(enum p4d_shim_order order);

enum { TEST_SUMS_BYTES = 64 << 20 };

/* Lends partial sums, too, which a trainer would take from its arena. */
static inline int open_device_under_test(p4d_device *device, p4d_error *err)
{
	static float *sums;
	const p4d_cuda_request request = {PACKAGE_VERSION, sizeof(*device), 0};

	if (!sums)
		sums = malloc(TEST_SUMS_BYTES);
	assert_non_null(sums);
	if (p4d_device_cuda_open(device, &request, err) < 0)
		return -1;
	device->lend(device, NULL, 0, sums, TEST_SUMS_BYTES);
	return 0;
}
#else
static inline int open_device_under_test(p4d_device *device, p4d_error *err)
{
	return p4d_device_cpu_open(device, err);
}
#endif

#endif
