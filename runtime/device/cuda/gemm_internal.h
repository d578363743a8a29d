/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cublasLt.h>

#include "device/cuda/gemm.h"

/* gemm.c describes matmuls to cuBLASLt; gemm_algorithms.c chooses the algorithm. */

enum { P4D_GEMM_SHAPES = 512, P4D_GEMM_ALGORITHMS = 8 };

/*
 * A column-major matmul: to (m, n) = op(a) op(b), summed over k. It does not say whether the matmul
 * accumulates, because the choice of algorithm does not depend on that. Forms are compared as bytes, so the
 * struct has no padding.
 */
typedef struct p4d_gemm_form {
	uint64_t m, n, k, lda, ldb, ldc;
	uint32_t a_alignment, b_alignment, add_alignment, to_alignment;
	int32_t a_transposed, b_transposed;
	int32_t a_type, b_type, to; /* cudaDataType_t */
	/* scaled: operands are in FP8. a_scales, b_scales: their cublasLtMatmulMatrixScale_t */
	int32_t scaled, a_scales, b_scales;
	int32_t target; /* number of multiprocessors; 0: all */
	int32_t none;
} p4d_gemm_form;
_Static_assert(sizeof(p4d_gemm_form) == 6 * sizeof(uint64_t) + 14 * sizeof(int32_t), "no padding");

typedef struct p4d_gemm_algorithm {
	cublasLtMatmulAlgo_t how;
	size_t workspace;
} p4d_gemm_algorithm;

typedef struct p4d_gemm_shape {
	p4d_gemm_form form;
	cublasLtMatmulDesc_t operation;
	cublasLtMatrixLayout_t a, b, to;
	/* the library's proposals, beginning with its first choice; `chosen`: index of the one in use */
	p4d_gemm_algorithm algorithm[P4D_GEMM_ALGORITHMS];
	unsigned algorithms, chosen;
	bool timed;
	uint64_t used;                           /* value of p4d_gemm.products when the shape was last used */
	float milliseconds[P4D_GEMM_ALGORITHMS]; /* time of each algorithm, if it was measured; INFINITY: the
						    GPU cannot run it */
} p4d_gemm_shape;

struct p4d_gemm {
	cublasLtHandle_t library;
	void *workspace;
	size_t workspace_bytes;
	int32_t target;
	bool times;               /* the first matmul of a shape is timed */
	cudaEvent_t begin, until; /* NULL until a matmul is timed */
	uint64_t products;        /* number of matmuls so far */
	unsigned count;
	p4d_gemm_shape shapes[P4D_GEMM_SHAPES];
};

/* The operands of one matmul of a shape. */
typedef struct p4d_gemm_operands {
	void *to;
	const void *add, *a, *b; /* add NULL: nothing is added */
	float scale;
} p4d_gemm_operands;

/* Queues the matmul with the algorithm of this index. */
cublasStatus_t p4d_gemm__queue(const p4d_gemm *products, cudaStream_t stream, const p4d_gemm_shape *shape,
			       unsigned algorithm, const p4d_gemm_operands *operands);
/* Asks the library for algorithms. The contents of `to` and of the operands do not matter. */
cublasStatus_t p4d_gemm__propose(const p4d_gemm *products, p4d_gemm_shape *shape);
/*
 * Times the proposed algorithms and chooses the fastest, unless timing is off or this was done before. Waits
 * for the stream.
 */
cudaError_t p4d_gemm__time(p4d_gemm *products, cudaStream_t stream, p4d_gemm_shape *shape,
			   const p4d_gemm_operands *operands);
void p4d_gemm__close_timing(p4d_gemm *products);
