/* SPDX-License-Identifier: Apache-2.0 */
/* cuBLAS and cuBLASLt: handles, and products, which are counted. What of cuBLASLt only fills structures stays
 * NVIDIA's. */
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

/* The program's own memory: it counts already. */
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

static void count(uint64_t m, uint64_t n, uint64_t k, uint64_t batch)
{
	p4d_report_add(P4D_REPORT_PRODUCTS, 1);
	p4d_report_add(P4D_REPORT_FLOPS, 2 * m * n * k * batch);
}

/* Products whose first arguments are handle, two transpositions, m, n, k. */
#define GEMM(name) \
	ENTRY int name(const void *h, int ta, int tb, int m, int n, int k) \
	{ \
		(void)h, (void)ta, (void)tb; \
		count((uint64_t)m, (uint64_t)n, (uint64_t)k, 1); \
		return BLAS_OK; \
	}
GEMM(cublasSgemm_v2)
GEMM(cublasDgemm_v2)
GEMM(cublasHgemm)
GEMM(cublasSgemmEx)
GEMM(cublasGemmEx)

/* Strided batches, with one type and with a type for each matrix. */
#define BATCHED(name) \
	ENTRY int name(const void *h, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, \
		       int lda, long long stride_a, const void *b, int ldb, long long stride_b, \
		       const void *beta, void *c, int ldc, long long stride_c, int batch) \
	{ \
		(void)h, (void)ta, (void)tb, (void)alpha, (void)a, (void)lda, (void)stride_a, (void)b, \
		    (void)ldb, (void)stride_b, (void)beta, (void)c, (void)ldc, (void)stride_c; \
		count((uint64_t)m, (uint64_t)n, (uint64_t)k, (uint64_t)batch); \
		return BLAS_OK; \
	}
BATCHED(cublasSgemmStridedBatched)
BATCHED(cublasDgemmStridedBatched)
BATCHED(cublasHgemmStridedBatched)

ENTRY int cublasGemmStridedBatchedEx(const void *h, int ta, int tb, int m, int n, int k, const void *alpha,
				     const void *a, int type_a, int lda, long long stride_a, const void *b,
				     int type_b, int ldb, long long stride_b, const void *beta, void *c,
				     int type_c, int ldc, long long stride_c, int batch)
{
	(void)h, (void)ta, (void)tb, (void)alpha, (void)a, (void)type_a, (void)lda, (void)stride_a, (void)b;
	(void)type_b, (void)ldb, (void)stride_b, (void)beta, (void)c, (void)type_c, (void)ldc, (void)stride_c;
	count((uint64_t)m, (uint64_t)n, (uint64_t)k, (uint64_t)batch);
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

/* One algorithm, without a workspace beyond what the program offers. */
ENTRY int cublasLtMatmulAlgoGetHeuristic(const void *h, const void *operation, const void *a, const void *b,
					 const void *c, const void *d, const void *preference, int asked,
					 void *results, int *found)
{
	(void)h, (void)operation, (void)a, (void)b, (void)c, (void)d, (void)preference;
	*found = asked > 0;
	memset(results, 0, asked > 0 ? HEURISTIC_BYTES : 0);
	return BLAS_OK;
}

/* A member of a matrix's layout, as NVIDIA's own function knows it; 0: unknown. */
static uint64_t layout_member(const void *layout, int attribute, size_t bytes)
{
	static int (*get)(const void *, int, void *, size_t, size_t *);
	uint64_t value = 0;
	size_t written;

	if (!get)
		*(void **)&get =
		    p4d_real(p4d_settings_cuda() < 13 ? "libcublasLt.so.12" : "libcublasLt.so.13",
			     "cublasLtMatrixLayoutGetAttribute");
	return get && !get(layout, attribute, &value, bytes, &written) ? value : 0;
}

/* enum cublasLtMatrixLayoutAttribute_t */
enum { LAYOUT_ROWS = 2, LAYOUT_COLUMNS = 3, LAYOUT_BATCH = 5 };

ENTRY int cublasLtMatmul(const void *h, const void *operation, const void *alpha, const void *a,
			 const void *layout_a, const void *b, const void *layout_b, const void *beta,
			 const void *c, const void *layout_c, void *d, const void *layout_d)
{
	uint64_t m = layout_member(layout_d, LAYOUT_ROWS, 8), n = layout_member(layout_d, LAYOUT_COLUMNS, 8);
	uint64_t rows = layout_member(layout_a, LAYOUT_ROWS, 8),
		 columns = layout_member(layout_a, LAYOUT_COLUMNS, 8);
	uint64_t batch = layout_member(layout_d, LAYOUT_BATCH, 4);

	(void)h, (void)operation, (void)alpha, (void)a, (void)b, (void)layout_b, (void)beta, (void)c,
	    (void)layout_c, (void)d;
	/* One of A's two sides is m, transposed or not; the other is k. */
	count(m, n, rows == m ? columns : rows, batch ? batch : 1);
	return BLAS_OK;
}
