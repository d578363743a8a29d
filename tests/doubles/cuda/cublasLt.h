/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The part of cuBLASLt that p4d's cuda device uses, for tests on the host. Names and meanings are the
 * library's. */
#include <stdint.h>

#include <cuda_runtime_api.h>

#define CUBLAS_VERSION 130000

typedef enum cublasStatus_t {
	CUBLAS_STATUS_SUCCESS = 0,
	CUBLAS_STATUS_ALLOC_FAILED = 3,
	CUBLAS_STATUS_INVALID_VALUE = 7,
	CUBLAS_STATUS_NOT_SUPPORTED = 15
} cublasStatus_t;
typedef enum cudaDataType_t {
	CUDA_R_32F = 0,
	CUDA_R_16BF = 14,
	CUDA_R_8F_E4M3 = 28,
	CUDA_R_8F_E5M2 = 29
} cudaDataType_t;
typedef enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T } cublasOperation_t;
typedef enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68 } cublasComputeType_t;

typedef enum cublasLtMatmulDescAttributes_t {
	CUBLASLT_MATMUL_DESC_TRANSA,
	CUBLASLT_MATMUL_DESC_TRANSB,
	CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET,
	CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
	CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
	CUBLASLT_MATMUL_DESC_A_SCALE_MODE,
	CUBLASLT_MATMUL_DESC_B_SCALE_MODE
} cublasLtMatmulDescAttributes_t;
typedef enum cublasLtMatmulPreferenceAttributes_t {
	CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
	CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
	CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
	CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
	CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
	CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES
} cublasLtMatmulPreferenceAttributes_t;
enum { CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2, CUBLASLT_REDUCTION_SCHEME_MASK = 7 };
enum {
	CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F = 0,
	CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0 = 2,
	CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F = 4,
	CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F = 5
};

typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct cublasLtDesc *cublasLtMatmulDesc_t;
typedef struct cublasLtLayout *cublasLtMatrixLayout_t;
typedef struct cublasLtPreference *cublasLtMatmulPreference_t;
typedef struct cublasLtMatmulAlgo_t {
	uint64_t data[8]; /* number of the algorithm, and the workspace that it needs */
} cublasLtMatmulAlgo_t;
typedef struct cublasLtMatmulHeuristicResult_t {
	cublasLtMatmulAlgo_t algo;
	size_t workspaceSize;
	cublasStatus_t state;
} cublasLtMatmulHeuristicResult_t;

size_t cublasLtGetVersion(void);
const char *cublasLtGetStatusString(cublasStatus_t status);
cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle);
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle);
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
					cudaDataType_t scale);
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc);
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name,
					      const void *value, size_t bytes);
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType_t type, uint64_t rows,
					  uint64_t columns, int64_t ld);
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout);
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference);
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference);
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
						    cublasLtMatmulPreferenceAttributes_t name,
						    const void *value, size_t bytes);
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
					      cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
					      cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
					      cublasLtMatmulPreference_t preference, int asked,
					      cublasLtMatmulHeuristicResult_t *found, int *number);
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
			      const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
			      cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
			      cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
			      const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspace_bytes,
			      cudaStream_t stream);

/* Simulated time of an algorithm for a matmul. It depends on the machine's `seed`, because two GPUs never
 * measure the same times. One of eight algorithms fails. */
float p4d_shim_milliseconds(uint64_t m, uint64_t n, uint64_t k, unsigned algorithm);
enum { P4D_SHIM_ALGORITHMS = 8, P4D_SHIM_NOT_RUN = 5 };
