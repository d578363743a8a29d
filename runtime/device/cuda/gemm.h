/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_CUDA_PRODUCTS_H
#define P4D_CUDA_PRODUCTS_H

#include <cuda_runtime_api.h>

#include "device/device.h"

/* Matrix products, by cuBLASLt. Tests have them of the cpu device instead (shim_gemm.c). */
typedef struct p4d_products p4d_products;

typedef enum p4d_product_kind {
	P4D_PRODUCT_LINEAR, /* to (n, out) = x (n, in) * w (out, in)^T */
	P4D_PRODUCT_LOGITS, /* the same into fp32 */
	P4D_PRODUCT_INPUT,  /* to (n, in) = x (n, out) * w (out, in) */
	P4D_PRODUCT_WEIGHT  /* to (out, in), fp32, = x (n, out)^T * w (n, in) */
} p4d_product_kind;

typedef struct p4d_product {
	p4d_product_kind kind;
	p4d_dtype type;
	bool accumulate;
	uint64_t n, out, in;
	void *to;
	const void *x, *w;
} p4d_product;

/* Errors: DEVICE, NO_MEMORY. */
int p4d_products_open(p4d_products **products, p4d_error *err);
void p4d_products_close(p4d_products *products);
/* What products may work in from now on; before, nothing. */
void p4d_products_lend(p4d_products *products, void *workspace, uint64_t bytes);
/*
 * Queues a product. The first of its shape looks for the fastest way, and allocates on the host; the next
 * ones take it, so results repeat. Errors: DEVICE.
 */
int p4d_products_multiply(p4d_products *products, cudaStream_t stream, const p4d_product *product,
			  p4d_error *err);

#endif
