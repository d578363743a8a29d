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
	int32_t a_type, b_type, to;         /* cudaDataType_t */
	int32_t scaled, a_scales, b_scales; /* whether in FP8; cublasLtMatmulMatrixScale_t */
	int32_t target;                     /* multiprocessors; 0: all */
	int32_t none;
} form;
_Static_assert(sizeof(form) == 6 * sizeof(uint64_t) + 14 * sizeof(int32_t), "no padding");

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
	int32_t target;
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

void p4d_gemm_target(p4d_gemm *p, int multiprocessors)
{
	p->target = multiprocessors;
}

static uint32_t alignment_of(const void *address)
{
	const uintptr_t lowest = (uintptr_t)address & -(uintptr_t)address;

	return lowest < MOST_ALIGNMENT ? (uint32_t)lowest : MOST_ALIGNMENT;
}

static int32_t type_of_codes(const p4d_fp8_operand *operand)
{
	return operand->shape.format == P4D_E4M3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
}

#if CUBLAS_VERSION >= 120900
static int32_t mode_of_scales(const p4d_fp8_operand *operand)
{
	const p4d_fp8_operand_shape *s = &operand->shape;

	return !s->block             ? CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F
	       : s->scale_bytes == 1 ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0
	       : s->block_rows > 1   ? CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F
				     : CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
}

static cublasStatus_t describe_scales(const gemm_shape *s)
{
	const cublasStatus_t status = cublasLtMatmulDescSetAttribute(
	    s->operation, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &s->form.a_scales, sizeof(s->form.a_scales));

	return status != CUBLAS_STATUS_SUCCESS
		   ? status
		   : cublasLtMatmulDescSetAttribute(s->operation, CUBLASLT_MATMUL_DESC_B_SCALE_MODE,
						    &s->form.b_scales, sizeof(s->form.b_scales));
}
#else
/* cuBLASLt has scales of blocks from CUDA 12.9 on. */
static int32_t mode_of_scales(const p4d_fp8_operand *operand)
{
	return (int32_t)operand->shape.block;
}

static cublasStatus_t describe_scales(const gemm_shape *s)
{
	return s->form.a_scales || s->form.b_scales ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}
#endif

/* x and w are swapped: w is the left operand. */
static form form_of(const p4d_gemm_call *p)
{
	const int32_t type = p->type == P4D_DT_BF16 ? CUDA_R_16BF : CUDA_R_32F;
	form f = {.a_type = type,
		  .b_type = type,
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

/* Codes of both lie by rows along the depth, which is how all GPUs with FP8 take them. b is the left operand.
 */
static form form_of_fp8(const p4d_gemm_fp8_call *p)
{
	const form f = {
	    .m = p->b->shape.rows,
	    .n = p->a->shape.rows,
	    .k = p->a->shape.depth,
	    .lda = p->a->shape.depth,
	    .ldb = p->a->shape.depth,
	    .ldc = p->b->shape.rows,
	    .a_alignment = alignment_of(p->b->codes),
	    .b_alignment = alignment_of(p->a->codes),
	    .add_alignment = alignment_of(p->add ? p->add : p->to),
	    .to_alignment = alignment_of(p->to),
	    .a_transposed = 1,
	    .a_type = type_of_codes(p->b),
	    .b_type = type_of_codes(p->a),
	    .to = p->type == P4D_DT_BF16 ? CUDA_R_16BF : CUDA_R_32F,
	    .scaled = 1,
	    .a_scales = mode_of_scales(p->b),
	    .b_scales = mode_of_scales(p->a),
	};

	return f;
}

static cublasStatus_t describe(gemm_shape *s)
{
	const form *f = &s->form;
	const cublasOperation_t a = f->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
	const cublasOperation_t b = f->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
	cublasStatus_t status = cublasLtMatmulDescCreate(&s->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);

	if (status == CUBLAS_STATUS_SUCCESS)
		status =
		    cublasLtMatmulDescSetAttribute(s->operation, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof(a));
	if (status == CUBLAS_STATUS_SUCCESS)
		status =
		    cublasLtMatmulDescSetAttribute(s->operation, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof(b));
	if (status == CUBLAS_STATUS_SUCCESS)
		status = cublasLtMatrixLayoutCreate(&s->a, (cudaDataType_t)f->a_type,
						    f->a_transposed ? f->k : f->m,
						    f->a_transposed ? f->m : f->k, (int64_t)f->lda);
	if (status == CUBLAS_STATUS_SUCCESS)
		status = cublasLtMatrixLayoutCreate(&s->b, (cudaDataType_t)f->b_type,
						    f->b_transposed ? f->n : f->k,
						    f->b_transposed ? f->k : f->n, (int64_t)f->ldb);
	if (status == CUBLAS_STATUS_SUCCESS)
		status =
		    cublasLtMatrixLayoutCreate(&s->to, (cudaDataType_t)f->to, f->m, f->n, (int64_t)f->ldc);
	if (status == CUBLAS_STATUS_SUCCESS && f->target)
		status = cublasLtMatmulDescSetAttribute(s->operation, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET,
							&f->target, sizeof(f->target));
	if (status == CUBLAS_STATUS_SUCCESS && f->scaled)
		status = describe_scales(s);
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

/* Where the scales are is described, too; what is chosen does not depend on it. */
static cublasStatus_t set_scales(const gemm_shape *s, const void *a, const void *b)
{
	if (!s->form.scaled)
		return CUBLAS_STATUS_SUCCESS;
	const cublasStatus_t status =
	    cublasLtMatmulDescSetAttribute(s->operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &a, sizeof(a));

	return status != CUBLAS_STATUS_SUCCESS
		   ? status
		   : cublasLtMatmulDescSetAttribute(s->operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &b,
						    sizeof(b));
}

/* A model has a few tens of shapes: a linear search is enough. Scales: in FP8. */
static cublasStatus_t find(p4d_gemm *p, const form *f, const void *a_scales, const void *b_scales,
			   const gemm_shape **found)
{
	for (unsigned i = 0; i < p->count; i++)
		if (!memcmp(&p->shapes[i].form, f, sizeof(*f))) {
			*found = &p->shapes[i];
			return set_scales(*found, a_scales, b_scales);
		}
	if (p->count == SHAPES)
		forget(p);
	gemm_shape *s = &p->shapes[p->count];
	s->form = *f;
	cublasStatus_t status = describe(s);
	if (status == CUBLAS_STATUS_SUCCESS)
		status = set_scales(s, a_scales, b_scales);
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

static cublasStatus_t multiply(p4d_gemm *p, cudaStream_t stream, const gemm_shape *s, float scale, void *to,
			       const void *add, const void *a, const void *b)
{
	const float beta = add ? 1 : 0;

	return cublasLtMatmul(p->library, s->operation, &scale, a, s->a, b, s->b, &beta, add ? add : to,
			      s->to, to, s->to, &s->algorithm, p->workspace, s->workspace, stream);
}

static int fail_product(const form *f, cublasStatus_t status, p4d_error *err)
{
	return p4d_fail(err, P4D_E_DEVICE,
			"cuBLASLt %zu: no product of %" PRIu64 " x %" PRIu64 " and %" PRIu64 " x %" PRIu64
			" %s numbers: %s",
			cublasLtGetVersion(), f->n, f->k, f->k, f->m,
			f->scaled                  ? "FP8"
			: f->a_type == CUDA_R_16BF ? "bf16"
						   : "fp32",
			cublasLtGetStatusString(status));
}

static form with_target(const p4d_gemm *p, form f)
{
	f.target = p->target;
	return f;
}

static bool is_empty(const form *f)
{
	return f->m == 0 || f->n == 0 || f->k == 0;
}

int p4d_gemm_multiply(p4d_gemm *p, cudaStream_t stream, const p4d_gemm_call *product, p4d_error *err)
{
	const form f = with_target(p, form_of(product));
	const gemm_shape *s = NULL;

	if (is_empty(&f))
		return 0;
	cublasStatus_t status = find(p, &f, NULL, NULL, &s);
	if (status == CUBLAS_STATUS_SUCCESS)
		status =
		    multiply(p, stream, s, product->scale, product->to, product->add, product->w, product->x);
	return status == CUBLAS_STATUS_SUCCESS ? 0 : fail_product(&f, status, err);
}

int p4d_gemm_multiply_fp8(p4d_gemm *p, cudaStream_t stream, const p4d_gemm_fp8_call *product, p4d_error *err)
{
	const form f = with_target(p, form_of_fp8(product));
	const gemm_shape *s = NULL;

	if (is_empty(&f))
		return 0;
	cublasStatus_t status = find(p, &f, product->b->scales, product->a->scales, &s);
	if (status == CUBLAS_STATUS_SUCCESS)
		status = multiply(p, stream, s, 1, product->to, product->add, product->b->codes,
				  product->a->codes);
	return status == CUBLAS_STATUS_SUCCESS ? 0 : fail_product(&f, status, err);
}
