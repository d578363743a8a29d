/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The part of the CUDA runtime that p4d's cuda device uses, on the host for tests: memory is the host's
 * memory, and each operation runs when it is queued. Names and meanings are the runtime's. */
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef enum cudaError {
	cudaSuccess = 0,
	cudaErrorInvalidValue = 1,
	cudaErrorMemoryAllocation = 2,
	cudaErrorInsufficientDriver = 35,
	cudaErrorNoDevice = 100,
	cudaErrorInvalidDevice = 101,
	cudaErrorNoKernelImageForDevice = 209,
	cudaErrorNotReady = 600,
	cudaErrorLaunchFailure = 719
} cudaError_t;

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;

enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
enum cudaDeviceAttr {
	cudaDevAttrMultiProcessorCount = 16,
	cudaDevAttrComputeCapabilityMajor = 75,
	cudaDevAttrComputeCapabilityMinor = 76
};
enum {
	cudaStreamNonBlocking = 1,
	cudaEventDefault = 0,
	cudaEventDisableTiming = 2,
	cudaHostAllocDefault = 0
};

struct cudaDeviceProp {
	char name[256];
	struct {
		char bytes[16];
	} uuid;
	size_t totalGlobalMem;
};

/* The simulated machine; tests change it. */
typedef struct p4d_shim_machine {
	int devices, driver; /* driver: 13000 is CUDA 13.0 */
	int sm;              /* compute capability, 90 for 9.0 */
	size_t bytes, taken; /* memory of the GPU; memory of other processes */
	cudaError_t fails;   /* the error that the GPU reports */
	unsigned behind;     /* an event counts as reached after this many queries */
	size_t attention;    /* workspace of fused attention in addition to the plan's; calls overwrite it */
	int dry; /* kernels, copies and matmuls are counted, not executed, and there is no memory */
	/* set by the last matmul: the number of multiprocessors that it expects (0: all), and its
	 * algorithm */
	int target, algorithm;
	double milliseconds;    /* total time of matmuls */
	unsigned seed;          /* decides the time of algorithms (shim_cublaslt.c) */
	unsigned long launches; /* number of all queued operations: kernels, copies, matmuls, attention */
} p4d_shim_machine;
extern p4d_shim_machine p4d_shim_gpu;
/* Called before and after everything that uses the GPU's memory (shim_runtime.c). */
void p4d_shim_enter(void);
void p4d_shim_leave(void);

const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError(void);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device);
cudaError_t cudaMemGetInfo(size_t *available, size_t *total);
cudaError_t cudaMalloc(void **memory, size_t bytes);
cudaError_t cudaFree(void *memory);
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
			    cudaStream_t stream);
cudaError_t cudaMemset2DAsync(void *memory, size_t pitch, int value, size_t width, size_t height,
			      cudaStream_t stream);
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
			      size_t height, enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end);

#ifdef __cplusplus
}
#endif
