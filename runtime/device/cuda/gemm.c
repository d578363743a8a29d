/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matmuls by cuBLASLt: Sums are fp32. bf16 operands use tensor cores, fp32 operands are multiplied in full
 * fp32. cuBLASLt's matrices are column-major. A row-major (r, c) matrix is a column-major (c, r) matrix, so
 * the two operands are swapped.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/gemm_internal.h"

/*
 * In bytes: the alignment that cuBLASLt assumes by default, and the alignment that its widest access needs.
 */
enum { MOST_ALIGNMENT = 256, WIDEST_ACCESS = 16 };

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

static void drop(p4d_gemm_shape *s)
{
	if (s->operation)
		cublasLtMatmulDescDestroy(s->operation);
	if (s->a)
		cublasLtMatrixLayoutDestroy(s->a);
	if (s->b)
		cublasLtMatrixLayoutDestroy(s->b);
	if (s->to)
		cublasLtMatrixLayoutDestroy(s->to);
	*s = (p4d_gemm_shape){.algorithms = 0};
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
	p4d_gemm__close_timing(p);
	cublasLtDestroy(p->library);
	free(p);
}

void p4d_gemm_set_workspace(p4d_gemm *p, void *workspace, uint64_t bytes)
{
	p->workspace = workspace;
	p->workspace_bytes = bytes;
	forget(p); /* the choice of algorithms depends on the workspace */
}

void p4d_gemm_time(p4d_gemm *p, bool on)
{
	p->times = on;
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

/*
 * Matrices follow one another in a buffer. If their sizes are not multiples of 256 bytes, the alignment
 * differs from layer to layer. To keep the number of forms small, p4d states one of two alignments: 256
 * bytes, or the one that cuBLASLt's widest access needs.
 */
static p4d_gemm_form of_few_alignments(p4d_gemm_form f)
{
	uint32_t *const alignment[] = {&f.a_alignment, &f.b_alignment, &f.add_alignment, &f.to_alignment};
	bool whole = true;

	for (int i = 0; i < 4; i++)
		whole = whole && *alignment[i] == MOST_ALIGNMENT;
	for (int i = 0; i < 4; i++)
		if (!whole && *alignment[i] > WIDEST_ACCESS)
			*alignment[i] = WIDEST_ACCESS;
	return f;
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

static cublasStatus_t describe_scales(const p4d_gemm_shape *s)
{
	const cublasStatus_t status = cublasLtMatmulDescSetAttribute(
	    s->operation, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &s->form.a_scales, sizeof(s->form.a_scales));

	return status != CUBLAS_STATUS_SUCCESS
		   ? status
		   : cublasLtMatmulDescSetAttribute(s->operation, CUBLASLT_MATMUL_DESC_B_SCALE_MODE,
						    &s->form.b_scales, sizeof(s->form.b_scales));
}
#else
/* cuBLASLt supports block scales since CUDA 12.9. */
static int32_t mode_of_scales(const p4d_fp8_operand *operand)
{
	return (int32_t)operand->shape.block;
}

static cublasStatus_t describe_scales(const p4d_gemm_shape *s)
{
	return s->form.a_scales || s->form.b_scales ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}
#endif

/* Describes a matmul. Operands are swapped, so w is the left one. */
static p4d_gemm_form form_of(const p4d_gemm_call *p)
{
	const int32_t type = p->type == P4D_DT_BF16 ? CUDA_R_16BF : CUDA_R_32F;
	p4d_gemm_form f = {.a_type = type,
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

/*
 * Describes an FP8 matmul. Both operands have their codes in rows along the depth, because all GPUs with FP8
 * support that. b is the left operand.
 */
static p4d_gemm_form form_of_fp8(const p4d_gemm_fp8_call *p)
{
	const p4d_gemm_form f = {
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

static cublasStatus_t describe(p4d_gemm_shape *s)
{
	const p4d_gemm_form *f = &s->form;
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

/* Sets the addresses of scales in the description. They do not affect the choice of an algorithm. */
static cublasStatus_t set_scales(const p4d_gemm_shape *s, const void *a, const void *b)
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

/*
 * Returns an empty entry of the table: a new one or, if the table is full, the entry of the shape that was
 * not used for the longest time.
 */
static p4d_gemm_shape *room_for_shape(p4d_gemm *p)
{
	p4d_gemm_shape *oldest = p->shapes;

	if (p->count < P4D_GEMM_SHAPES)
		return &p->shapes[p->count++];
	for (unsigned i = 1; i < p->count; i++)
		if (p->shapes[i].used < oldest->used)
			oldest = &p->shapes[i];
	drop(oldest);
	return oldest;
}

/*
 * Finds the entry of a shape, or makes it. A model has a few tens of shapes, so a linear search is enough.
 * Scales: only for FP8.
 */
static cublasStatus_t find(p4d_gemm *p, const p4d_gemm_form *f, const void *a_scales, const void *b_scales,
			   p4d_gemm_shape **found)
{
	p->products++;
	for (unsigned i = 0; i < p->count; i++)
		if (!memcmp(&p->shapes[i].form, f, sizeof(*f))) {
			*found = &p->shapes[i];
			(*found)->used = p->products;
			return set_scales(*found, a_scales, b_scales);
		}
	p4d_gemm_shape *s = room_for_shape(p);
	s->form = *f;
	s->used = p->products;
	cublasStatus_t status = describe(s);
	if (status == CUBLAS_STATUS_SUCCESS)
		status = set_scales(s, a_scales, b_scales);
	if (status == CUBLAS_STATUS_SUCCESS)
		status = p4d_gemm__propose(p, s);
	if (status != CUBLAS_STATUS_SUCCESS) {
		drop(s);
		*s = p->shapes[p->count - 1];
		p->shapes[--p->count] = (p4d_gemm_shape){.algorithms = 0};
		return status;
	}
	*found = s;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t p4d_gemm__queue(const p4d_gemm *p, cudaStream_t stream, const p4d_gemm_shape *s,
			       unsigned number, const p4d_gemm_operands *x)
{
	const p4d_gemm_algorithm *algorithm = &s->algorithm[number];
	const float beta = x->add ? 1 : 0;

	return cublasLtMatmul(p->library, s->operation, &x->scale, x->a, s->a, x->b, s->b, &beta,
			      x->add ? x->add : x->to, s->to, x->to, s->to, &algorithm->how, p->workspace,
			      algorithm->workspace, stream);
}

static int fail_product(const p4d_gemm_form *f, cublasStatus_t status, p4d_error *err)
{
	return p4d_fail(err, P4D_E_DEVICE,
			"cuBLASLt %zu: no matmul of %" PRIu64 " x %" PRIu64 " and %" PRIu64 " x %" PRIu64
			" %s numbers: %s",
			cublasLtGetVersion(), f->n, f->k, f->k, f->m,
			f->scaled                  ? "FP8"
			: f->a_type == CUDA_R_16BF ? "bf16"
						   : "fp32",
			cublasLtGetStatusString(status));
}

static p4d_gemm_form whole_form(const p4d_gemm *p, p4d_gemm_form f)
{
	f.target = p->target;
	return of_few_alignments(f);
}

/* Handles a matmul of depth 0, which the library refuses: the result is 0, or the added matrix. */
static cudaError_t without_depth(cudaStream_t stream, const p4d_gemm_form *f, const p4d_gemm_operands *x)
{
	const size_t element = f->to == CUDA_R_32F ? 4 : 2, row = f->m * element, apart = f->ldc * element;

	if (x->add == x->to)
		return cudaSuccess;
	return x->add ? cudaMemcpy2DAsync(x->to, apart, x->add, apart, row, f->n, cudaMemcpyDefault, stream)
		      : cudaMemset2DAsync(x->to, apart, 0, row, f->n, stream);
}

/* Queues a matmul. Scales: only for FP8. */
static int multiply(p4d_gemm *p, cudaStream_t stream, const p4d_gemm_form *f, const p4d_gemm_operands *x,
		    const void *a_scales, const void *b_scales, p4d_error *err)
{
	p4d_gemm_shape *s = NULL;

	if (f->m == 0 || f->n == 0)
		return 0;
	if (f->k == 0) {
		const cudaError_t done = without_depth(stream, f, x);
		return done == cudaSuccess ? 0
					   : p4d_fail(err, P4D_E_DEVICE, "a product of no depth: %s",
						      cudaGetErrorString(done));
	}
	cublasStatus_t status = find(p, f, a_scales, b_scales, &s);
	if (status == CUBLAS_STATUS_SUCCESS) {
		const cudaError_t timed = p4d_gemm__time(p, stream, s, x);
		if (timed != cudaSuccess)
			return p4d_fail(err, P4D_E_DEVICE, "cannot time matrix products: %s",
					cudaGetErrorString(timed));
		status = p4d_gemm__queue(p, stream, s, s->chosen, x);
	}
	return status == CUBLAS_STATUS_SUCCESS ? 0 : fail_product(f, status, err);
}

int p4d_gemm_multiply(p4d_gemm *p, cudaStream_t stream, const p4d_gemm_call *product, p4d_error *err)
{
	const p4d_gemm_form f = whole_form(p, form_of(product));
	const p4d_gemm_operands x = {product->to, product->add, product->w, product->x, product->scale};

	return multiply(p, stream, &f, &x, NULL, NULL, err);
}

int p4d_gemm_multiply_fp8(p4d_gemm *p, cudaStream_t stream, const p4d_gemm_fp8_call *product, p4d_error *err)
{
	const p4d_gemm_form f = whole_form(p, form_of_fp8(product));
	const p4d_gemm_operands x = {product->to, product->add, product->b->codes, product->a->codes, 1};

	return multiply(p, stream, &f, &x, product->b->scales, product->a->scales, err);
}
