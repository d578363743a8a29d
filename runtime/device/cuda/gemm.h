/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cuda_runtime_api.h>

#include "device/device.h"

/* Matmuls, by cuBLASLt. */
typedef struct p4d_gemm p4d_gemm;

typedef enum p4d_gemm_kind {
	P4D_PRODUCT_LINEAR, /* to (n, out) = x (n, in) * w (out, in)^T */
	P4D_PRODUCT_INPUT,  /* to (n, in) = x (n, out) * w (out, in) */
	P4D_PRODUCT_WEIGHT  /* to (out, in), fp32, = x (n, out)^T * w (n, in) */
} p4d_gemm_kind;

typedef struct p4d_gemm_call {
	p4d_gemm_kind kind;
	p4d_dtype type;
	/*
	 * added to the product: to = add + product. Has the layout of `to`, and may be `to`. NULL: nothing is
	 * added
	 */
	const void *add;
	uint64_t n, out, in;
	void *to;
	const void *x, *w;
	uint64_t stride; /* elements between rows of the (n, out) matrix */
	float scale;     /* factor of the matmul's result */
} p4d_gemm_call;

/* to (a.rows, b.rows), of type `type`, = add + a * b^T, with operands in FP8. add: as in p4d_gemm_call */
typedef struct p4d_gemm_fp8_call {
	p4d_dtype type;
	void *to;
	const void *add;
	const p4d_fp8_operand *a, *b;
} p4d_gemm_fp8_call;

/* Errors: DEVICE, NO_MEMORY. */
int p4d_gemm_open(p4d_gemm **products, p4d_error *err);
void p4d_gemm_close(p4d_gemm *products);
/* The workspace for later matmuls. Before the first call there is no workspace. */
void p4d_gemm_set_workspace(p4d_gemm *products, void *workspace, uint64_t bytes);
/* The number of multiprocessors that later matmuls may use; 0: all. */
void p4d_gemm_target(p4d_gemm *products, int multiprocessors);
/* These implement time_products, timed_product and choose_product of p4d_device. */
void p4d_gemm_time(p4d_gemm *products, bool on);
bool p4d_gemm_timed(const p4d_gemm *products, unsigned number, p4d_timed_product *product);
void p4d_gemm_choose(p4d_gemm *products, const p4d_product_choice *choice);
/*
 * Queues a matmul. The first matmul of a shape searches for an algorithm, and allocates on the host. Later
 * ones reuse that algorithm, so equal operands give equal results. Errors: DEVICE.
 */
int p4d_gemm_multiply(p4d_gemm *products, cudaStream_t stream, const p4d_gemm_call *product, p4d_error *err);
int p4d_gemm_multiply_fp8(p4d_gemm *products, cudaStream_t stream, const p4d_gemm_fp8_call *product,
			  p4d_error *err);
