/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "device/device.h"

/*
 * The cuda backend is a separate shared object, libp4d-cuda.so, so that the same program starts on machines
 * without CUDA. It is opened if a GPU is requested, and stays open.
 */
typedef struct p4d_cuda_request {
	const char *version;  /* version of the program */
	uint64_t table_bytes; /* sizeof(p4d_device), as the program was compiled */
	uint32_t local_rank;  /* takes GPU number local_rank modulo those that are visible */
} p4d_cuda_request;

/*
 * The one symbol of libp4d-cuda.so. One device per process, used by the thread that opens it; types are BF16
 * and FP32; attention takes heads of up to 256. Errors: DEVICE (another version's program, no driver, a
 * driver that is too old, no GPU, no code for its architecture).
 */
int p4d_device_cuda_open(p4d_device *device, const p4d_cuda_request *request, p4d_error *err);

/*
 * Opens libp4d-cuda.so (see library.h), then the device. Puts CUDA_MODULE_LOADING=LAZY and
 * CUDA_DEVICE_MAX_CONNECTIONS=32 into the environment where they are not set. Errors: DEVICE.
 */
int p4d_device_cuda_load(p4d_device *device, uint32_t local_rank, p4d_error *err);

/*
 * Whether p4d_device_cuda_load would succeed; *err says why not. Tried in a child: CUDA does not survive a
 * fork, and this process may still have ranks to fork.
 */
bool p4d_device_cuda_there(p4d_error *err);
