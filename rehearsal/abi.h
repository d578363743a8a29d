/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Those parts of the documented interfaces of CUDA 12 and 13 that the stand-ins use (a stand-in is a library
 * that replaces one of NVIDIA's). They are declared here so that the stand-ins build without NVIDIA's
 * headers. A handle is a pointer to an object of the stand-in.
 */

/* Marks a function that programs call instead of NVIDIA's. */
#define ENTRY __attribute__((visibility("default")))

/* cudaError_t, and the values of CUresult with the same numbers */
enum {
	CUDA_OK = 0,
	CUDA_INVALID_VALUE = 1,
	CUDA_OUT_OF_MEMORY = 2,
	CUDA_INVALID_DEVICE = 101,
	CUDA_NOT_FOUND = 500,
	CUDA_NOT_SUPPORTED = 801,
	CUDA_UNKNOWN = 999,
};

/* enum cudaMemoryType */
enum { MEMORY_UNREGISTERED = 0, MEMORY_HOST = 1, MEMORY_DEVICE = 2, MEMORY_MANAGED = 3 };

/* struct cudaPointerAttributes; CUDA 13 added `reserved` */
typedef struct cuda_pointer {
	int type;
	int device;
	void *on_device;
	void *on_host;
	long reserved[8];
} cuda_pointer;
enum { CUDA_POINTER_BYTES_12 = 24 };

/* struct cudaFuncAttributes: the members that are set */
typedef struct cuda_function {
	size_t shared_bytes, const_bytes, local_bytes;
	int max_threads, registers, ptx, binary, cache_mode, max_dynamic_shared_bytes;
	int rest[23];
} cuda_function;
_Static_assert(sizeof(cuda_function) == 144, "struct cudaFuncAttributes has 144 bytes in CUDA 12 and 13");

/* dim3 */
typedef struct cuda_dim {
	unsigned x, y, z;
} cuda_dim;

/* CUmemLocation and CUmemAllocationProp */
typedef struct cuda_location {
	int type;
	int id;
} cuda_location;
typedef struct cuda_allocation {
	int type, handle_types;
	cuda_location location;
	void *windows;
	unsigned char flags[8];
} cuda_allocation;
