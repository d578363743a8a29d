/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_KERNELS_H
#define P4D_KERNELS_H

#include <cuda_runtime_api.h>

#include "device/device.h"

/*
 * Queues the kernels of the operations of device.h, whose contracts hold, on a stream. sums: what the device
 * was lent. C, so that all but the kernels is C.
 */
#ifdef __cplusplus
extern "C" {
#endif

/* Loads all of them onto the GPU. cudaErrorNoKernelImageForDevice: this build has no code for it. */
cudaError_t p4d_kernel_load(void);

void p4d_kernel_norm(cudaStream_t stream, p4d_dtype type, void *y, float *rstd, const void *x,
		     const void *weight, uint64_t n, uint64_t h, float epsilon);
/* sums: P4D_NORM_SUMS * h */
void p4d_kernel_norm_backward(cudaStream_t stream, float *sums, p4d_dtype type, void *dx, float *dweight,
			      const void *dy, const void *x, const void *weight, const float *rstd,
			      uint64_t n, uint64_t h);

void p4d_kernel_heads(cudaStream_t stream, p4d_dtype type, void *qkv, float *rstd, const p4d_heads *heads);
/* sums: P4D_HEAD_SUMS * 2 * columns of qkv */
void p4d_kernel_heads_backward(cudaStream_t stream, float *sums, p4d_dtype type, void *dqkv, const void *qkv,
			       const float *rstd, const p4d_heads *heads, float *dbias, float *dquery_weight,
			       float *dkey_weight);

void p4d_kernel_attention(cudaStream_t stream, p4d_dtype type, void *o, float *lse, const void *q,
			  const void *k, const void *v, const p4d_attention_shape *shape);
void p4d_kernel_attention_merge(cudaStream_t stream, p4d_dtype type, float *total, float *total_lse,
				const void *o, const float *lse, uint64_t n, uint64_t heads,
				uint64_t head_dim, bool first);
void p4d_kernel_attention_row_sums(cudaStream_t stream, p4d_dtype type, float *row_sums, const void *d_o,
				   const void *o, uint64_t n, uint64_t heads, uint64_t head_dim);
/*
 * Both forms of the backward pass. to: the type of dq, dk, dv, whose rows are as far apart as those of q, k
 * and v; add: fp32 sums that are added to.
 */
void p4d_kernel_attention_backward(cudaStream_t stream, p4d_dtype type, p4d_dtype to, bool add, void *dq,
				   void *dk, void *dv, const void *d_o, const float *lse,
				   const float *row_sums, const void *q, const void *k, const void *v,
				   const p4d_attention_shape *shape);
/* The largest head that they take. */
enum { P4D_KERNEL_HEAD_DIM = 256 };

void p4d_kernel_swiglu(cudaStream_t stream, p4d_dtype type, void *product, const void *gate_up, uint64_t n,
		       uint64_t f);
void p4d_kernel_swiglu_backward(cudaStream_t stream, p4d_dtype type, void *gate_up, const void *dproduct,
				uint64_t n, uint64_t f);

void p4d_kernel_embed(cudaStream_t stream, p4d_dtype type, void *out, const void *table,
		      const int32_t *tokens, uint64_t n, uint64_t h, uint64_t first, uint64_t rows);
void p4d_kernel_embed_backward(cudaStream_t stream, p4d_dtype type, float *dtable, const void *dy,
			       const int32_t *tokens, uint64_t n, uint64_t h, uint64_t first, uint64_t rows);

void p4d_kernel_statistics(cudaStream_t stream, float *maximum, float *sum, float *target,
			   const float *logits, const int32_t *labels, uint64_t n, uint64_t vocab,
			   uint64_t first);
void p4d_kernel_rescale(cudaStream_t stream, float *sum, const float *old_maximum, const float *new_maximum,
			uint64_t n);
void p4d_kernel_logits_gradient(cudaStream_t stream, p4d_dtype type, void *dlogits, const float *logits,
				const float *maximum, const float *sum, const int32_t *labels, uint64_t n,
				uint64_t vocab, uint64_t first, float scale, float z_loss);
void p4d_kernel_losses(cudaStream_t stream, double *loss, const float *maximum, const float *sum,
		       const float *target, const int32_t *labels, uint64_t n, float z_loss);

/* sums: P4D_SQUARES_SUMS doubles */
enum { P4D_SQUARES_SUMS = 512 };
void p4d_kernel_sum_squares(cudaStream_t stream, float *sums, double *sum, const float *x, uint64_t count);
void p4d_kernel_count_nonfinite(cudaStream_t stream, float *sums, uint64_t *number, const float *x,
				uint64_t count);
/* sums: the same; *number += words that are this one */
void p4d_kernel_count_words(cudaStream_t stream, float *sums, uint64_t *number, const void *from,
			    uint32_t word, uint64_t words);
void p4d_kernel_adam(cudaStream_t stream, p4d_dtype type, void *parameter, float *master, float *first,
		     float *second, const float *gradient, uint64_t count, const p4d_adam *adam);

void p4d_kernel_fill(cudaStream_t stream, void *to, uint32_t word, uint64_t words);
void p4d_kernel_add(cudaStream_t stream, p4d_dtype type, void *y, const void *a, const void *b,
		    uint64_t count);
/* from the other type */
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

#endif
