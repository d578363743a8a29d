/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuBLAS and cuBLASLt: handles, and matmuls, which are only counted. cuBLASLt's functions that only fill
 * structures are NVIDIA's own.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"
#include "real.h"
#include "report.h"
#include "settings.h"

/* cublasStatus_t */
enum { BLAS_OK = 0, BLAS_NO_MEMORY = 3 };

typedef struct blas_handle {
	void *stream;
	int math, pointer, atomics, multiprocessors;
} blas_handle;

ENTRY int cublasCreate_v2(blas_handle **h)
{
	*h = calloc(1, sizeof(**h));
	return *h ? BLAS_OK : BLAS_NO_MEMORY;
}

ENTRY int cublasDestroy_v2(blas_handle *h)
{
	free(h);
	return BLAS_OK;
}

ENTRY int cublasSetStream_v2(blas_handle *h, void *stream)
{
	h->stream = stream;
	return BLAS_OK;
}

ENTRY int cublasGetStream_v2(const blas_handle *h, void **stream)
{
	*stream = h->stream;
	return BLAS_OK;
}

#define MEMBER(name, member) \
	ENTRY int cublasSet##name(blas_handle *h, int value) \
	{ \
		h->member = value; \
		return BLAS_OK; \
	} \
	ENTRY int cublasGet##name(const blas_handle *h, int *value) \
	{ \
		*value = h->member; \
		return BLAS_OK; \
	}
MEMBER(MathMode, math)
MEMBER(PointerMode_v2, pointer)
MEMBER(AtomicsMode, atomics)
MEMBER(SmCountTarget, multiprocessors)

/* Workspaces are the program's own memory, which is counted already. */
ENTRY int cublasSetWorkspace_v2(void)
{
	return BLAS_OK;
}

static int version(void)
{
	return p4d_settings_cuda() < 13 ? 120805 : 130200;
}

ENTRY int cublasGetVersion_v2(const blas_handle *h, int *value)
{
	(void)h;
	*value = version();
	return BLAS_OK;
}

/* cudaDataType_t; and the values of cublasMath_t and cublasComputeType_t that use tf32 for 32-bit types */
enum { TYPE_R_32F = 0, TYPE_R_64F = 1, TYPE_R_16F = 2, TYPE_R_16BF = 14 };
enum { MATH_TF32 = 3, COMPUTE_32F_FAST_TF32 = 77 };

/* Bytes of an element; 1 also for 4-bit elements. */
static uint64_t bytes_of(int type)
{
	return type == TYPE_R_64F                          ? 8
	       : type == TYPE_R_32F                        ? 4
	       : type == TYPE_R_16F || type == TYPE_R_16BF ? 2
							   : 1;
}

/* Counts `batch` matmuls with elements of this type. */
static void count(uint64_t m, uint64_t n, uint64_t k, uint64_t batch, int type, bool tf32)
{
	const uint64_t flops = 2 * m * n * k * batch, bytes = bytes_of(type);

	p4d_report_add(P4D_REPORT_PRODUCTS, 1);
	p4d_report_add(P4D_REPORT_FLOPS, flops);
	p4d_report_add(P4D_REPORT_PRODUCT_DEPTH, k * batch);
	p4d_report_add(P4D_REPORT_PRODUCT_BYTES,
		       batch * ((m + n) * k * bytes + m * n * (bytes > 1 ? bytes : 2)));
	if (bytes == 1)
		p4d_report_add(P4D_REPORT_FLOPS_8, flops);
	else if (bytes >= 4)
		p4d_report_add(tf32 && bytes == 4 ? P4D_REPORT_FLOPS_TF32 : P4D_REPORT_FLOPS_32, flops);
}

/* Matmuls whose first arguments are handle, two transpositions, m, n, k. */
#define GEMM(name, type) \
	ENTRY int name(const blas_handle *h, int ta, int tb, int m, int n, int k) \
	{ \
		(void)ta, (void)tb; \
		count((uint64_t)m, (uint64_t)n, (uint64_t)k, 1, type, h && h->math == MATH_TF32); \
		return BLAS_OK; \
	}
GEMM(cublasSgemm_v2, TYPE_R_32F)
GEMM(cublasDgemm_v2, TYPE_R_64F)
GEMM(cublasHgemm, TYPE_R_16F)

ENTRY int cublasSgemmEx(const blas_handle *h, int ta, int tb, int m, int n, int k, const void *alpha,
			const void *a, int type)
{
	(void)ta, (void)tb, (void)alpha, (void)a;
	count((uint64_t)m, (uint64_t)n, (uint64_t)k, 1, type, h && h->math == MATH_TF32);
	return BLAS_OK;
}

ENTRY int cublasGemmEx(const blas_handle *h, int ta, int tb, int m, int n, int k, const void *alpha,
		       const void *a, int type, int lda, const void *b, int type_b, int ldb, const void *beta,
		       void *c, int type_c, int ldc, int compute)
{
	(void)ta, (void)tb, (void)alpha, (void)a, (void)lda, (void)b, (void)type_b, (void)ldb, (void)beta;
	(void)c, (void)type_c, (void)ldc;
	count((uint64_t)m, (uint64_t)n, (uint64_t)k, 1, type,
	      compute == COMPUTE_32F_FAST_TF32 || (h && h->math == MATH_TF32));
	return BLAS_OK;
}

/* Batches with strides: with one element type, and with a type for each matrix. */
#define BATCHED(name, type) \
	ENTRY int name(const blas_handle *h, int ta, int tb, int m, int n, int k, const void *alpha, \
		       const void *a, int lda, long long stride_a, const void *b, int ldb, \
		       long long stride_b, const void *beta, void *c, int ldc, long long stride_c, \
		       int batch) \
	{ \
		(void)ta, (void)tb, (void)alpha, (void)a, (void)lda, (void)stride_a, (void)b, (void)ldb, \
		    (void)stride_b, (void)beta, (void)c, (void)ldc, (void)stride_c; \
		count((uint64_t)m, (uint64_t)n, (uint64_t)k, (uint64_t)batch, type, \
		      h && h->math == MATH_TF32); \
		return BLAS_OK; \
	}
BATCHED(cublasSgemmStridedBatched, TYPE_R_32F)
BATCHED(cublasDgemmStridedBatched, TYPE_R_64F)
BATCHED(cublasHgemmStridedBatched, TYPE_R_16F)

ENTRY int cublasGemmStridedBatchedEx(const blas_handle *h, int ta, int tb, int m, int n, int k,
				     const void *alpha, const void *a, int type_a, int lda,
				     long long stride_a, const void *b, int type_b, int ldb,
				     long long stride_b, const void *beta, void *c, int type_c, int ldc,
				     long long stride_c, int batch, int compute)
{
	(void)ta, (void)tb, (void)alpha, (void)a, (void)lda, (void)stride_a, (void)b;
	(void)type_b, (void)ldb, (void)stride_b, (void)beta, (void)c, (void)type_c, (void)ldc, (void)stride_c;
	count((uint64_t)m, (uint64_t)n, (uint64_t)k, (uint64_t)batch, type_a,
	      compute == COMPUTE_32F_FAST_TF32 || (h && h->math == MATH_TF32));
	return BLAS_OK;
}

ENTRY int cublasLtCreate(void **h)
{
	*h = calloc(1, sizeof(blas_handle));
	return *h ? BLAS_OK : BLAS_NO_MEMORY;
}

ENTRY int cublasLtDestroy(void *h)
{
	free(h);
	return BLAS_OK;
}

/* cublasLtMatmulHeuristicResult_t: an algorithm of 64 bytes, its workspace, a status, ... */
enum { HEURISTIC_BYTES = 96 };

/* Returns one algorithm, without any additional workspace. */
ENTRY int cublasLtMatmulAlgoGetHeuristic(const void *h, const void *operation, const void *a, const void *b,
					 const void *c, const void *d, const void *preference, int asked,
					 void *results, int *found)
{
	(void)h, (void)operation, (void)a, (void)b, (void)c, (void)d, (void)preference;
	*found = asked > 0;
	memset(results, 0, asked > 0 ? HEURISTIC_BYTES : 0);
	p4d_report_add(P4D_REPORT_QUESTIONS, 1);
	return BLAS_OK;
}

typedef int get_attribute(const void *, int, void *, size_t, size_t *);

/* Reads a member of a cuBLASLt descriptor with NVIDIA's own function; 0: unknown. */
static uint64_t member(get_attribute **get, const char *name, const void *of, int attribute, size_t bytes)
{
	uint64_t value = 0;
	size_t written;

	if (!*get)
		*(void **)get =
		    p4d_real(p4d_settings_cuda() < 13 ? "libcublasLt.so.12" : "libcublasLt.so.13", name);
	return *get && !(*get)(of, attribute, &value, bytes, &written) ? value : 0;
}

static uint64_t layout_member(const void *layout, int attribute, size_t bytes)
{
	static get_attribute *get;

	return member(&get, "cublasLtMatrixLayoutGetAttribute", layout, attribute, bytes);
}

/* cublasComputeType_t */
static int compute_type(const void *operation)
{
	static get_attribute *get;

	return (int)member(&get, "cublasLtMatmulDescGetAttribute", operation, 0, 4);
}

/* enum cublasLtMatrixLayoutAttribute_t */
enum { LAYOUT_TYPE = 0, LAYOUT_ROWS = 2, LAYOUT_COLUMNS = 3, LAYOUT_BATCH = 5 };

ENTRY int cublasLtMatmul(const void *h, const void *operation, const void *alpha, const void *a,
			 const void *layout_a, const void *b, const void *layout_b, const void *beta,
			 const void *c, const void *layout_c, void *d, const void *layout_d)
{
	uint64_t m = layout_member(layout_d, LAYOUT_ROWS, 8), n = layout_member(layout_d, LAYOUT_COLUMNS, 8);
	uint64_t rows = layout_member(layout_a, LAYOUT_ROWS, 8),
		 columns = layout_member(layout_a, LAYOUT_COLUMNS, 8);
	uint64_t batch = layout_member(layout_d, LAYOUT_BATCH, 4);

	(void)h, (void)alpha, (void)a, (void)b, (void)layout_b, (void)beta, (void)c, (void)layout_c, (void)d;
	/* A is stored as (m, k) or (k, m). The side that is not m is k. */
	count(m, n, rows == m ? columns : rows, batch ? batch : 1,
	      (int)layout_member(layout_a, LAYOUT_TYPE, 4), compute_type(operation) == COMPUTE_32F_FAST_TF32);
	return BLAS_OK;
}
