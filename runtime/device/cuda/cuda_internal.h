/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cuda_runtime_api.h>

#include "device/cuda/gemm.h"
#include "device/cuda/sdpa.h"
#include "device/device_cuda.h"

/* Internals that the files of the cuda backend share. */

enum { P4D_STAGING_SLOTS = 4, P4D_STAGING_BYTES = 16 << 20 };

/* A stream or event, to be closed with the device. */
typedef struct p4d_cuda_opened {
	cudaStream_t stream; /* NULL: an event */
	cudaEvent_t event;
	struct p4d_cuda_opened *next;
} p4d_cuda_opened;

typedef struct p4d_cuda {
	int number;          /* number of the GPU */
	cudaStream_t stream; /* stream of all operations */
	cudaEvent_t order;   /* event that stream_wait uses */
	cudaEvent_t end;     /* event after all operations queued so far; sync waits for it */
	p4d_cuda_opened *opened;
	p4d_gemm *products;
	int sm; /* compute capability, as 90 for 9.0 */
	int multiprocessors;
	p4d_sdpa *fused; /* cuDNN's attention; NULL: it is not used */
	bool noted;      /* device->attention_text already has the reason why fused attention is not used */
	float *sums;     /* memory for partial sums, which set_workspace lends; NULL before that call */
	uint64_t sums_bytes;
	/* Pinned staging slots for host data, so that the host does not wait for the GPU. */
	char *staging;
	cudaEvent_t staged[P4D_STAGING_SLOTS]; /* event after the last copy from or to each slot */
	unsigned next_slot;
	bool careful;      /* P4D_CUDA_SYNC=1: waits after each operation, so that an error names the
			    * operation that failed */
	p4d_error failure; /* the first failure; code P4D_OK: there was none */
} p4d_cuda;

static inline p4d_cuda *p4d_cuda_of(const p4d_device *device)
{
	return device->state;
}

/* Stores the first failure; later ones may be its consequences. */
void p4d_cuda_check(p4d_cuda *c, cudaError_t status, const char *what);
/* Call it after an operation was queued. */
void p4d_cuda_queued(p4d_cuda *c, const char *operation);

/*
 * Waits for an event and calls the device's watch while it waits. False: the wait failed, or the watch
 * reported that the event will never be reached.
 */
bool p4d_cuda_wait(p4d_device *device, cudaEvent_t event, const char *what);

/* These functions set the members of p4d_device that their file implements. */
void p4d_cuda_memory_table(p4d_device *device);     /* cuda_memory.c */
void p4d_cuda_streams_table(p4d_device *device);    /* cuda_streams.c */
void p4d_cuda_operations_table(p4d_device *device); /* cuda_operations.c */
void p4d_cuda_attention_table(p4d_device *device);  /* cuda_attention.c */

/*
 * sdpa_blocks.c. p4d_cuda_attention_fused queues an attention call through fused attention, block by block.
 * It returns false if that is not supported, and device->attention_text then says why. The call's operands
 * are whole matrices. Its row_sums and query_gradient are not used.
 */
typedef enum p4d_attention_pass {
	P4D_ATTENTION_FORWARD,
	P4D_ATTENTION_SET, /* writes dq, dk and dv, with the type and strides of q, k and v */
	P4D_ATTENTION_ADD  /* adds to them, in fp32 */
} p4d_attention_pass;
/* Stores why fused attention is not used, in device->attention_text and attention_slow. */
void p4d_cuda_own_attention(p4d_device *device, const char *why);
bool p4d_cuda_attention_fused(p4d_device *device, p4d_dtype type, p4d_attention_pass pass,
			      const p4d_attention_shape *shape, const p4d_sdpa_call *call);

/* cuda_memory.c. Errors: DEVICE, NO_MEMORY. */
int p4d_cuda_open_staging(p4d_cuda *c, p4d_error *err);
void p4d_cuda_close_staging(p4d_cuda *c);

/* cuda_streams.c. Errors: DEVICE. */
int p4d_cuda_open_streams(p4d_cuda *c, p4d_error *err);
void p4d_cuda_close_streams(p4d_cuda *c);
