/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "device/device.h"

/*
 * The cuda backend is a separate shared object, libp4d-cuda.so, so that the same program also starts on
 * machines without CUDA. The program opens it if a GPU is requested, and never closes it.
 */
typedef struct p4d_cuda_request {
	const char *version;  /* version of the program */
	uint64_t table_bytes; /* sizeof(p4d_device), as the program was compiled */
	uint32_t local_rank;  /* opens GPU number local_rank modulo the number of visible GPUs */
} p4d_cuda_request;

/*
 * The only symbol of libp4d-cuda.so. One device per process, used only by the thread that opens it. Types are
 * BF16 and FP32; attention supports heads of up to 256. Errors: DEVICE (the program has another version, no
 * driver, a driver that is too old, no GPU, no code for its architecture).
 */
int p4d_device_cuda_open(p4d_device *device, const p4d_cuda_request *request, p4d_error *err);

/*
 * Opens libp4d-cuda.so (see library.h), then the device. Sets CUDA_MODULE_LOADING=LAZY and
 * CUDA_DEVICE_MAX_CONNECTIONS=32 in the environment unless they are set. Errors: DEVICE.
 */
int p4d_device_cuda_load(p4d_device *device, uint32_t local_rank, p4d_error *err);

/*
 * Whether p4d_device_cuda_load would succeed; if not, *err says why. A child process tries it, because this
 * process may still have to fork ranks, and CUDA does not survive a fork.
 */
bool p4d_device_cuda_there(p4d_error *err);
