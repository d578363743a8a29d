/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cuda_runtime_api.h>

#include "device/device.h"

/*
 * Functions that queue the kernels for operations of device.h on a stream; device.h has the contracts. sums:
 * scratch memory for partial sums, which the caller of set_workspace lends. The interface is C, so that only
 * kernels are C++.
 */
#ifdef __cplusplus
extern "C" {
#endif

/* Loads all kernels onto the GPU. cudaErrorNoKernelImageForDevice: this build has no code for this GPU. */
cudaError_t p4d_kernel_load(void);

/*
 * Number of floats in `sums`: P4D_NORM_SUMS * h for all kinds of norms and for a bias; P4D_HEAD_SUMS * 2 *
 * columns of qkv for heads_backward; P4D_FP8_MAXIMA for quantize.
 */
enum { P4D_FP8_MAXIMA = 512 };
#define TYPED(name, parameters, arguments) \
	void p4d_kernel_##name(cudaStream_t stream, p4d_dtype type, P4D_LIST parameters);
#define SUMMED(name, parameters, arguments) \
	void p4d_kernel_##name(cudaStream_t stream, float *sums, p4d_dtype type, P4D_LIST parameters);
#define PLAIN(name, parameters, arguments) void p4d_kernel_##name(cudaStream_t stream, P4D_LIST parameters);
#include "device/operations.def"

void p4d_kernel_attention(cudaStream_t stream, p4d_dtype type, void *o, float *lse, const void *q,
			  const void *k, const void *v, const p4d_attention_shape *shape);
/*
 * For attention_backward and attention_gradient of device.h. to: the type of dq, dk and dv, which have the
 * row strides of q, k and v. add: adds to dq, dk and dv, which then must be fp32; otherwise sets them.
 */
void p4d_kernel_attention_backward(cudaStream_t stream, p4d_dtype type, p4d_dtype to, bool add, void *dq,
				   void *dk, void *dv, const void *d_o, const float *lse,
				   const float *row_sums, const void *q, const void *k, const void *v,
				   const p4d_attention_shape *shape);
/* The largest head size that these attention kernels support. */
enum { P4D_KERNEL_HEAD_DIM = 256 };

/* sums: P4D_SQUARES_SUMS doubles */
enum { P4D_SQUARES_SUMS = 512 };
void p4d_kernel_sum_squares(cudaStream_t stream, float *sums, double *sum, const float *x, uint64_t count);
void p4d_kernel_count_nonfinite(cudaStream_t stream, float *sums, uint64_t *number, const float *x,
				uint64_t count);
/* *number += the number of words that equal `word`; sums: P4D_SQUARES_SUMS doubles */
void p4d_kernel_count_words(cudaStream_t stream, float *sums, uint64_t *number, const void *from,
			    uint32_t word, uint64_t words);

void p4d_kernel_fill(cudaStream_t stream, void *to, uint32_t word, uint64_t words);
/* y = x, converted to type `to`; x has the other of the two types */
void p4d_kernel_cast(cudaStream_t stream, p4d_dtype to, void *y, const void *x, uint64_t count);
void p4d_kernel_accumulate(cudaStream_t stream, float *y, p4d_dtype type, const void *x, uint64_t count);
/* y (rows of `stride`) += x (rows, columns) */
void p4d_kernel_accumulate_rows(cudaStream_t stream, float *y, uint64_t stride, p4d_dtype type, const void *x,
				uint64_t columns, uint64_t rows);
void p4d_kernel_copy_rows(cudaStream_t stream, void *to, uint64_t to_stride, const void *from,
			  uint64_t from_stride, uint64_t row_bytes, uint64_t rows);

#ifdef __cplusplus
}
#endif
