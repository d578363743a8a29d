/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products by cuBLASLt: fp32 sums; of bf16 operands by tensor cores, of fp32 operands in full fp32. A
 * row-major (r, c) matrix is a column-major (c, r) one, so operands are swapped.
 */
#include "device/cuda/gemm.h"

#include <cublasLt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SHAPES = 512, MOST_ALIGNMENT = 256 };

/*
 * A column-major product: to (m, n) = op(a) op(b), summed over k; accumulation does not affect the choice of
 * algorithm. Compared as bytes: no padding.
 */
typedef struct form {
	uint64_t m, n, k, lda, ldb, ldc;
	uint32_t a_alignment, b_alignment, add_alignment, to_alignment;
	int32_t a_transposed, b_transposed;
	int32_t from, to; /* cudaDataType_t */
} form;
_Static_assert(sizeof(form) == 6 * sizeof(uint64_t) + 8 * sizeof(int32_t), "no padding");

/* The algorithm of a form. */
typedef struct gemm_shape {
	form form;
	cublasLtMatmulDesc_t operation;
	cublasLtMatrixLayout_t a, b, to;
	cublasLtMatmulAlgo_t algorithm;
	size_t workspace;
} gemm_shape;

struct p4d_gemm {
	cublasLtHandle_t library;
	void *workspace;
	size_t workspace_bytes;
	unsigned count;
	gemm_shape shapes[SHAPES];
};

int p4d_gemm_open(p4d_gemm **products, p4d_error *err)
{
	p4d_gemm *p = calloc(1, sizeof(*p));

	if (!p)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the table of matrix products");
	const cublasStatus_t status = cublasLtCreate(&p->library);
	if (status != CUBLAS_STATUS_SUCCESS) {
		free(p);
		return p4d_fail(err, P4D_E_DEVICE, "cannot initialize cuBLASLt %zu: %s", cublasLtGetVersion(),
				cublasLtGetStatusString(status));
	}
	*products = p;
	return 0;
}

static void drop(gemm_shape *s)
{
	if (s->operation)
		cublasLtMatmulDescDestroy(s->operation);
	if (s->a)
		cublasLtMatrixLayoutDestroy(s->a);
	if (s->b)
		cublasLtMatrixLayoutDestroy(s->b);
	if (s->to)
		cublasLtMatrixLayoutDestroy(s->to);
	*s = (gemm_shape){.workspace = 0};
}

static void forget(p4d_gemm *p)
{
	while (p->count > 0)
		drop(&p->shapes[--p->count]);
}

void p4d_gemm_close(p4d_gemm *p)
{
	if (!p)
		return;
	forget(p);
	cublasLtDestroy(p->library);
	free(p);
}

void p4d_gemm_set_workspace(p4d_gemm *p, void *workspace, uint64_t bytes)
{
	p->workspace = workspace;
	p->workspace_bytes = bytes;
	forget(p); /* what was chosen depends on it */
}

static uint32_t alignment_of(const void *address)
{
	const uintptr_t lowest = (uintptr_t)address & -(uintptr_t)address;

	return lowest < MOST_ALIGNMENT ? (uint32_t)lowest : MOST_ALIGNMENT;
}

/* x and w are swapped: w is the left operand. */
static form form_of(const p4d_gemm_call *p)
{
	const int32_t type = p->type == P4D_DT_BF16 ? CUDA_R_16BF : CUDA_R_32F;
	form f = {.from = type,
		  .to = type,
		  .a_alignment = alignment_of(p->w),
		  .b_alignment = alignment_of(p->x),
		  .add_alignment = alignment_of(p->add ? p->add : p->to),
		  .to_alignment = alignment_of(p->to),
		  .lda = p->in};

	switch (p->kind) {
	case P4D_PRODUCT_LINEAR:
		f.m = p->out, f.n = p->n, f.k = p->in;
		f.ldb = p->in, f.ldc = p->stride;
		f.a_transposed = 1;
		break;
	case P4D_PRODUCT_INPUT:
		f.m = p->in, f.n = p->n, f.k = p->out;
		f.ldb = p->stride, f.ldc = p->in;
		break;
	case P4D_PRODUCT_WEIGHT:
		f.m = p->in, f.n = p->out, f.k = p->n;
		f.ldb = p->stride, f.ldc = p->in;
		f.b_transposed = 1;
		f.to = CUDA_R_32F;
		break;
	}
	return f;
}

static cublasStatus_t describe(gemm_shape *s)
{
	const form *f = &s->form;
	const cublasOperation_t a = f->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
	const cublasOperation_t b = f->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
	const cudaDataType_t from = (cudaDataType_t)f->from;
	cublasStatus_t status = cublasLtMatmulDescCreate(&s->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);

	if (status == CUBLAS_STATUS_SUCCESS)
		status =
		    cublasLtMatmulDescSetAttribute(s->operation, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof(a));
	if (status == CUBLAS_STATUS_SUCCESS)
		status =
		    cublasLtMatmulDescSetAttribute(s->operation, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof(b));
	if (status == CUBLAS_STATUS_SUCCESS)
		status = cublasLtMatrixLayoutCreate(&s->a, from, f->a_transposed ? f->k : f->m,
						    f->a_transposed ? f->m : f->k, (int64_t)f->lda);
	if (status == CUBLAS_STATUS_SUCCESS)
		status = cublasLtMatrixLayoutCreate(&s->b, from, f->b_transposed ? f->n : f->k,
						    f->b_transposed ? f->k : f->n, (int64_t)f->ldb);
	if (status == CUBLAS_STATUS_SUCCESS)
		status =
		    cublasLtMatrixLayoutCreate(&s->to, (cudaDataType_t)f->to, f->m, f->n, (int64_t)f->ldc);
	return status;
}

static cublasStatus_t choose(const p4d_gemm *p, gemm_shape *s)
{
	const struct {
		cublasLtMatmulPreferenceAttributes_t name;
		uint32_t value;
	} wishes[] = {
	    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, s->form.a_alignment},
	    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, s->form.b_alignment},
	    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, s->form.add_alignment},
	    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, s->form.to_alignment},
	    /* split-k partial results are added in fp32, even where the output is bf16 */
	    {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, s->form.to == CUDA_R_32F
							     ? CUBLASLT_REDUCTION_SCHEME_MASK
							     : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE},
	};
	cublasLtMatmulPreference_t preference;
	cublasLtMatmulHeuristicResult_t found;
	int number = 0;
	cublasStatus_t status = cublasLtMatmulPreferenceCreate(&preference);

	if (status != CUBLAS_STATUS_SUCCESS)
		return status;
	status = cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
						      &p->workspace_bytes, sizeof(p->workspace_bytes));
	for (size_t i = 0; i < sizeof(wishes) / sizeof(*wishes) && status == CUBLAS_STATUS_SUCCESS; i++)
		status = cublasLtMatmulPreferenceSetAttribute(preference, wishes[i].name, &wishes[i].value,
							      sizeof(uint32_t));
	if (status == CUBLAS_STATUS_SUCCESS)
		status = cublasLtMatmulAlgoGetHeuristic(p->library, s->operation, s->a, s->b, s->to, s->to,
							preference, 1, &found, &number);
	cublasLtMatmulPreferenceDestroy(preference);
	if (status != CUBLAS_STATUS_SUCCESS)
		return status;
	if (number == 0)
		return CUBLAS_STATUS_NOT_SUPPORTED;
	s->algorithm = found.algo;
	s->workspace = found.workspaceSize;
	return CUBLAS_STATUS_SUCCESS;
}

/* A model has a few tens of shapes: a linear search is enough. */
static cublasStatus_t find(p4d_gemm *p, const form *f, const gemm_shape **found)
{
	for (unsigned i = 0; i < p->count; i++)
		if (!memcmp(&p->shapes[i].form, f, sizeof(*f))) {
			*found = &p->shapes[i];
			return CUBLAS_STATUS_SUCCESS;
		}
	if (p->count == SHAPES)
		forget(p);
	gemm_shape *s = &p->shapes[p->count];
	s->form = *f;
	cublasStatus_t status = describe(s);
	if (status == CUBLAS_STATUS_SUCCESS)
		status = choose(p, s);
	if (status != CUBLAS_STATUS_SUCCESS) {
		drop(s);
		return status;
	}
	p->count++;
	*found = s;
	return CUBLAS_STATUS_SUCCESS;
}

int p4d_gemm_multiply(p4d_gemm *p, cudaStream_t stream, const p4d_gemm_call *product, p4d_error *err)
{
	const form f = form_of(product);
	const float alpha = product->scale, beta = product->add ? 1 : 0;
	const gemm_shape *s = NULL;

	if (f.m == 0 || f.n == 0 || f.k == 0)
		return 0;
	cublasStatus_t status = find(p, &f, &s);
	if (status == CUBLAS_STATUS_SUCCESS)
		status = cublasLtMatmul(p->library, s->operation, &alpha, product->w, s->a, product->x, s->b,
					&beta, product->add ? product->add : product->to, s->to, product->to,
					s->to, &s->algorithm, p->workspace, s->workspace, stream);
	if (status == CUBLAS_STATUS_SUCCESS)
		return 0;
	return p4d_fail(
	    err, P4D_E_DEVICE,
	    "cuBLASLt: no product of %" PRIu64 " x %" PRIu64 " and %" PRIu64 " x %" PRIu64 " %s numbers: %s",
	    f.n, f.k, f.k, f.m, f.from == CUDA_R_16BF ? "bf16" : "fp32", cublasLtGetStatusString(status));
}
