/* SPDX-License-Identifier: Apache-2.0 */
/* cuBLASLt on the host: the cpu device computes all matmuls, whatever the algorithm. An algorithm only
 * changes the simulated time. It refuses the same calls as the library. */
#include <cublasLt.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"

struct cublasLtContext {
	p4d_device cpu;
	_Alignas(P4D_ARENA_ALIGNMENT) char workspace[P4D_CPU_PRODUCT_BYTES];
};

struct cublasLtDesc {
	int32_t transposed[2], modes[2], target;
	void *scales[2];
};

struct cublasLtLayout {
	cudaDataType_t type;
	uint64_t rows, columns, ld;
};

struct cublasLtPreference {
	size_t workspace;
};

size_t cublasLtGetVersion(void)
{
	return CUBLAS_VERSION;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
	return status == CUBLAS_STATUS_SUCCESS ? "success" : "an error";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
	struct cublasLtContext *c = aligned_alloc(P4D_ARENA_ALIGNMENT, sizeof(*c));

	if (!c || p4d_device_cpu_open(&c->cpu, NULL) < 0) {
		free(c);
		return CUBLAS_STATUS_ALLOC_FAILED;
	}
	c->cpu.set_workspace(&c->cpu, c->workspace, sizeof(c->workspace), NULL, 0);
	*handle = c;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t c)
{
	c->cpu.close(&c->cpu);
	free(c);
	return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t made(const void *memory)
{
	return memory ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
					cudaDataType_t scale)
{
	if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F)
		return CUBLAS_STATUS_NOT_SUPPORTED;
	return made(*desc = calloc(1, sizeof(**desc)));
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
	free(desc);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t name,
					      const void *value, size_t bytes)
{
	void *const place[] = {
	    [CUBLASLT_MATMUL_DESC_TRANSA] = &d->transposed[0],
	    [CUBLASLT_MATMUL_DESC_TRANSB] = &d->transposed[1],
	    [CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET] = &d->target,
	    [CUBLASLT_MATMUL_DESC_A_SCALE_POINTER] = &d->scales[0],
	    [CUBLASLT_MATMUL_DESC_B_SCALE_POINTER] = &d->scales[1],
	    [CUBLASLT_MATMUL_DESC_A_SCALE_MODE] = &d->modes[0],
	    [CUBLASLT_MATMUL_DESC_B_SCALE_MODE] = &d->modes[1],
	};
	const bool pointer =
	    name == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER || name == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER;

	if (bytes != (pointer ? sizeof(void *) : sizeof(int32_t)))
		return CUBLAS_STATUS_INVALID_VALUE;
	memcpy(place[name], value, bytes);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType_t type, uint64_t rows,
					  uint64_t columns, int64_t ld)
{
	struct cublasLtLayout *l = malloc(sizeof(*l));

	if (!l)
		return CUBLAS_STATUS_ALLOC_FAILED;
	*l = (struct cublasLtLayout){type, rows, columns, (uint64_t)ld};
	*layout = l;
	return l->ld >= rows ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
	free(layout);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
	return made(*preference = calloc(1, sizeof(**preference)));
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
	free(preference);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
						    cublasLtMatmulPreferenceAttributes_t name,
						    const void *value, size_t bytes)
{
	const bool workspace = name == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;

	if (bytes != (workspace ? sizeof(size_t) : sizeof(uint32_t)))
		return CUBLAS_STATUS_INVALID_VALUE;
	if (workspace)
		memcpy(&preference->workspace, value, bytes);
	return CUBLAS_STATUS_SUCCESS;
}

static bool is_fp8(const struct cublasLtLayout *x)
{
	return x->type == CUDA_R_8F_E4M3 || x->type == CUDA_R_8F_E5M2;
}

/*
 * Whether a matmul in FP8 is supported: both operands are contiguous along the depth, rows have a multiple of
 * 16 bytes, and at most one side has square blocks.
 */
static bool takes(const struct cublasLtDesc *d, const struct cublasLtLayout *a,
		  const struct cublasLtLayout *b)
{
	if (!is_fp8(a))
		return !is_fp8(b) && a->type == b->type;
	return is_fp8(b) && d->transposed[0] && !d->transposed[1] && a->ld % 16 == 0 && b->ld % 16 == 0 &&
	       (d->modes[0] != CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F || d->modes[1] != d->modes[0]);
}

/* The workspace of an algorithm; later algorithms need one. */
static size_t workspace_of(unsigned algorithm)
{
	return (size_t)algorithm * 1024;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
					      cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
					      cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
					      cublasLtMatmulPreference_t preference, int asked,
					      cublasLtMatmulHeuristicResult_t *found, int *number)
{
	(void)handle;
	*number = 0;
	if (!takes(desc, a, b) || c->type != d->type)
		return CUBLAS_STATUS_NOT_SUPPORTED;
	for (unsigned i = 0; i < P4D_SHIM_ALGORITHMS && (int)i < asked; i++)
		if (workspace_of(i) <= preference->workspace)
			found[(*number)++] = (cublasLtMatmulHeuristicResult_t){
			    {{i, workspace_of(i)}}, workspace_of(i), CUBLAS_STATUS_SUCCESS};
	return CUBLAS_STATUS_SUCCESS;
}

float p4d_shim_milliseconds(uint64_t m, uint64_t n, uint64_t k, unsigned algorithm)
{
	const uint64_t mixed = (m * 31 + n * 17 + k * 13 + algorithm * 7 + p4d_shim_gpu.seed) * 2654435761u;

	return 1 + (float)(mixed >> 8 & 0xff) / 256;
}

/* A matmul in the form of the cpu device: w and x are the left and the right operand. */
typedef struct product {
	p4d_device *cpu;
	p4d_dtype type;
	const struct cublasLtLayout *left, *right, *result;
	void *to;
	const void *add, *w, *x;
	float scale;
} product;

static void linear(const product *p)
{
	const uint64_t n = p->result->columns, out = p->result->rows, in = p->left->rows;

	if (p->result->ld == out && p->scale == 1)
		p->cpu->linear(p->cpu, p->type, p->to, p->add, p->x, p->w, n, out, in);
	else
		p->cpu->columns(p->cpu, p->type, p->to, p->result->ld, p->x, p->w, n, out, in, p->scale,
				p->add != NULL);
}

static void input(const product *p)
{
	const uint64_t n = p->result->columns, in = p->result->rows, out = p->left->columns;

	if (p->right->ld == out && p->scale == 1)
		p->cpu->linear_input(p->cpu, p->type, p->to, p->x, p->w, n, out, in, p->add != NULL);
	else
		p->cpu->columns_input(p->cpu, p->type, p->to, p->x, p->right->ld, p->w, n, out, in, p->scale);
}

static void weight(const product *p)
{
	const uint64_t in = p->result->rows, out = p->result->columns, n = p->left->columns;

	if (p->right->ld == out && p->scale == 1)
		p->cpu->linear_weight(p->cpu, p->type, p->to, p->x, p->w, n, out, in, p->add != NULL);
	else
		p->cpu->columns_weight(p->cpu, p->type, p->to, p->x, p->right->ld, p->w, n, out, in, p->scale,
				       p->add != NULL);
}

static p4d_fp8_operand operand_of(const struct cublasLtDesc *d, int side, const struct cublasLtLayout *x,
				  const void *codes)
{
	const int32_t mode = d->modes[side];
	const int recipe = mode == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F    ? P4D_FP8_CURRENT
			   : mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0 ? P4D_FP8_MXFP8
									      : P4D_FP8_BLOCKWISE;
	const p4d_fp8_role role =
	    mode == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F ? P4D_FP8_WEIGHT : P4D_FP8_INPUT;
	p4d_fp8_operand y = {p4d_fp8_shape_of(recipe, role, x->columns, x->rows), (uint8_t *)codes,
			     d->scales[side]};

	y.shape.format = x->type == CUDA_R_8F_E4M3 ? P4D_E4M3 : P4D_E5M2;
	return y;
}

static void compute(const struct cublasLtDesc *d, const product *p)
{
	if (is_fp8(p->left)) {
		const p4d_fp8_operand b = operand_of(d, 0, p->left, p->w),
				      a = operand_of(d, 1, p->right, p->x);
		p->cpu->product(p->cpu, p->result->type == CUDA_R_32F ? P4D_DT_FP32 : P4D_DT_BF16, p->to,
				p->add, &a, &b);
	} else if (d->transposed[0]) {
		linear(p);
	} else if (d->transposed[1]) {
		weight(p);
	} else {
		input(p);
	}
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
			      const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
			      cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
			      cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
			      const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspace_bytes,
			      cudaStream_t stream)
{
	const unsigned number = (unsigned)algorithm->data[0];
	const product p = {&handle->cpu,
			   a_layout->type == CUDA_R_16BF ? P4D_DT_BF16 : P4D_DT_FP32,
			   a_layout,
			   b_layout,
			   d_layout,
			   d,
			   *(const float *)beta != 0 ? c : NULL,
			   a,
			   b,
			   *(const float *)alpha};

	(void)stream;
	if (c_layout != d_layout || number >= P4D_SHIM_ALGORITHMS || number == P4D_SHIM_NOT_RUN ||
	    workspace_bytes < algorithm->data[1] || (algorithm->data[1] && !workspace))
		return CUBLAS_STATUS_NOT_SUPPORTED;
	p4d_shim_gpu.launches++;
	p4d_shim_gpu.target = desc->target;
	p4d_shim_gpu.algorithm = (int)number;
	p4d_shim_gpu.milliseconds +=
	    (double)p4d_shim_milliseconds(d_layout->rows, d_layout->columns,
					  desc->transposed[0] ? a_layout->rows : a_layout->columns, number);
	p4d_shim_enter();
	if (!p4d_shim_gpu.dry)
		compute(desc, &p);
	p4d_shim_leave();
	return CUBLAS_STATUS_SUCCESS;
}
