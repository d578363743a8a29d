/* SPDX-License-Identifier: Apache-2.0 */
#include "doubles/counted_device.h"

#include <string.h>

#include "config.h"
#include "cost/cost_internal.h"
#include "device/device_cuda.h"
#include "doubles/cuda/cuda_runtime_api.h"
#include "plan/plan.h"

static p4d_device cuda; /* the shim's device, whose launches are counted */
static p4d_cost_rates rates;
static double documents_share; /* the share of a whole sequence's attention scores that packed documents
				* need */
static counted_step counts;
static uint64_t queued; /* number of queued kernels before the operation */

static void begin(void)
{
	queued = p4d_shim_gpu.launches;
}

/* arithmetic: seconds of a matmul or of attention. With 0, a kernel takes as long as its bytes need. */
static void end(const char *name, double bytes, double arithmetic)
{
	const uint64_t launches = p4d_shim_gpu.launches - queued;
	counted_operation *o = counts.operation;

	while (o->name && strcmp(o->name, name))
		o++;
	o->name = name;
	if (o - counts.operation == counts.operations)
		counts.operations++;
	/* the cost model's formula for the same kernels */
	if (!strncmp(name, "quantize", strlen("quantize")))
		arithmetic = p4d_cost__quantize_seconds(&rates, bytes);
	const double seconds = arithmetic > 0 ? arithmetic + (double)(launches - 1) * P4D_LAUNCH_SECONDS
					      : (double)launches * P4D_LAUNCH_SECONDS + bytes * rates.hbm;
	o->calls++;
	o->launches += launches;
	o->bytes += bytes;
	o->seconds += seconds;
	counts.launches += launches;
	counts.bytes += bytes;
	counts.seconds += seconds;
}

/* Bytes that each operation of operations.def moves, computed from its parameters. e: bytes of an element.
 * Statistics per head and labels are left out, because they are below a thousandth of the bytes. */
#define BYTES_norm e *(2 * n * h + h) + 4 * n
#define BYTES_norm_backward e *(4 * n * h + h) + 4 * n + (dweight ? 8 * h : 0)
#define BYTES_unit_norm BYTES_norm
#define BYTES_unit_norm_backward BYTES_norm_backward
#define BYTES_layer_norm e *(2 * n * h + 2 * h) + 8 * n
#define BYTES_layer_norm_backward \
	e *(4 * n * h + h) + 8 * n + (dweight || dbias ? e * 2 * n * h + 8 * n + 16 * h : 0)
#define BYTES_row_dots e *((a == b ? 1 : 2) * n * h + (weight ? h : 0)) + 4 * n
#define BYTES_split_norm e *(2 * n * h + h) + 8 * n
#define BYTES_split_norm_backward e *(4 * n * h + h) + 8 * n + (dweight ? 8 * h : 0)
#define OPERAND ((double)(to ? to->shape.rows * to->shape.depth : turned->shape.rows * turned->shape.depth))
#define BYTES_quantize \
	OPERAND *(e * ((to ? to : turned)->shape.block ? 1 : 2) + (to != NULL) + (turned != NULL))
#define BYTES_quantize_swiglu \
	OPERAND *(2 * e * ((to ? to : turned)->shape.block ? 1 : 2) + (to != NULL) + (turned != NULL))
/* The operand is the gradient of gates and ups, (n, 2f): for two of its elements, the kernel reads a gate, an
 * up, and one element of the result's gradient. */
#define BYTES_quantize_swiglu_backward \
	OPERAND *(1.5 * e * ((to ? to : turned)->shape.block ? 1 : 2) + (to != NULL) + (turned != NULL))
#define BYTES_add 3 * e *count
#define ROTATED (shape->n * (shape->heads + shape->kv_heads) * shape->head_dim)
#define BYTES_heads e * 2 * ROTATED
#define BYTES_heads_backward e *(shape->query_weight ? 3 : 2) * ROTATED
#define BYTES_add_scaled (a ? 3 : 2) * e *count
#define BYTES_dequantize \
	(e + 0.5 + 1.0 / P4D_NF4_BLOCK) * (double)from->shape.rows *(double)from->shape.columns
#define BYTES_drop 2 * e *n *h
#define BYTES_head_sums 2 * e *(double)(shape->n * (shape->heads + shape->kv_heads) * shape->head_dim)
#define BYTES_add_bias 2 * e *n *h
#define BYTES_bias_backward e *n *h
#define BYTES_scale 2 * e *count
#define BYTES_attention_merge n *heads *((double)head_dim * (e + (first ? 4 : 8)) + 12)
#define BYTES_attention_row_sums n *heads *((double)head_dim * 2 * e + 4)
#define BYTES_swiglu 3 * e *n *f
#define BYTES_swiglu_backward (act ? 6 : 5) * e *n *f
#define BYTES_geglu BYTES_swiglu
#define BYTES_geglu_backward BYTES_swiglu_backward
#define BYTES_gelu 2 * e *n *f
#define BYTES_gelu_backward (act ? 4 : 3) * e *n *f
#define BYTES_embed 2 * e *n *h
#define BYTES_embed_backward (e + 8) * n *h
#define BYTES_softmax_sums e *n *vocab
#define BYTES_rescale 16 * n
#define BYTES_logits_gradient 2 * e *n *vocab
#define BYTES_cross_entropy 2 * e *n *vocab
#define BYTES_soft_cap 2 * e *n *columns
#define BYTES_capped_gradient BYTES_logits_gradient
#define BYTES_pair_sums 20 * sequences *n
#define BYTES_pair_factors 8 * sequences *n
#define BYTES_scale_rows 2 * e *n *columns
#define BYTES_losses 16 * n
#define BYTES_adam count *(28 + (master ? e : 0))
#define BYTES_adam_bytes (16.0 + 16.0 / P4D_BYTE_BLOCK + (master ? e : 0)) * (double)moments->count
#define BYTES_adam_byte_scales (6.0 * P4D_BYTE_BLOCK + 16)
#define BYTES_muon_average 16 * count
#define BYTES_muon_begin (4 + e) * count
#define BYTES_muon_polynomial 3 * e *side *side
#define BYTES_muon_step (8 + e + (master ? e : 0)) * count
#define BYTES_adam_half count *(20 + (master ? e : 0))

#define TYPED(name, parameters, arguments) \
	static void counted_##name(p4d_device *device, p4d_dtype type, P4D_LIST parameters) \
	{ \
		const double e = type == P4D_DT_BF16 ? 2 : 4; \
		(void)device; \
		begin(); \
		cuda.name(&cuda, type, P4D_LIST arguments); \
		end(#name, BYTES_##name, 0 * e); \
	}
#define PLAIN(name, parameters, arguments) \
	static void counted_##name(p4d_device *device, P4D_LIST parameters) \
	{ \
		(void)device; \
		begin(); \
		cuda.name(&cuda, P4D_LIST arguments); \
		end(#name, BYTES_##name, 0); \
	}
#include "device/operations.def"

static double width(p4d_dtype type)
{
	return type == P4D_DT_BF16 ? 2 : 4;
}

static void counted_zero(p4d_device *device, void *to, uint64_t bytes)
{
	(void)device;
	begin();
	cuda.zero(&cuda, to, bytes);
	end("zero", (double)bytes, 0);
}

static void counted_copy(p4d_device *device, void *to, const void *from, uint64_t bytes)
{
	(void)device;
	begin();
	cuda.copy(&cuda, to, from, bytes);
	end("copy", 2 * (double)bytes, 0);
}

static void counted_copy_rows(p4d_device *device, void *to, uint64_t to_stride, const void *from,
			      uint64_t from_stride, uint64_t row_bytes, uint64_t rows)
{
	(void)device;
	begin();
	cuda.copy_rows(&cuda, to, to_stride, from, from_stride, row_bytes, rows);
	end("copy_rows", 2 * (double)row_bytes * (double)rows, 0);
}

static void counted_upload(p4d_device *device, void *to, const void *from, uint64_t bytes)
{
	(void)device;
	begin();
	cuda.upload(&cuda, to, from, bytes);
	end("upload", (double)bytes, 0);
}

static void counted_download(p4d_device *device, void *to, const void *from, uint64_t bytes)
{
	(void)device;
	begin();
	cuda.download(&cuda, to, from, bytes);
	end("download", (double)bytes, 0);
}

/* Counts a matmul whose result has (rows, columns) elements of `out` bytes and is read `reads` times. The
 * operands have e bytes per element. */
static void end_product(const char *name, double e, uint64_t rows, uint64_t columns, uint64_t depth,
			double out, double reads)
{
	const double m = (double)rows, n = (double)columns, k = (double)depth;

	end(name, e * k * (m + n) + out * (1 + reads) * m * n,
	    p4d_cost__gemm_seconds(&rates, 1, m, n, k, out * (1 + reads)));
}

static void counted_linear(p4d_device *device, p4d_dtype type, void *y, const void *add, const void *x,
			   const void *w, uint64_t n, uint64_t out, uint64_t in)
{
	(void)device;
	begin();
	cuda.linear(&cuda, type, y, add, x, w, n, out, in);
	end_product("linear", width(type), n, out, in, width(type), add != NULL);
}

static void counted_linear_input(p4d_device *device, p4d_dtype type, void *dx, const void *dy, const void *w,
				 uint64_t n, uint64_t out, uint64_t in, bool accumulate)
{
	(void)device;
	begin();
	cuda.linear_input(&cuda, type, dx, dy, w, n, out, in, accumulate);
	end_product("linear_input", width(type), n, in, out, width(type), accumulate);
}

static void counted_linear_weight(p4d_device *device, p4d_dtype type, float *dw, const void *dy,
				  const void *x, uint64_t n, uint64_t out, uint64_t in, bool accumulate)
{
	(void)device;
	begin();
	cuda.linear_weight(&cuda, type, dw, dy, x, n, out, in, accumulate);
	end_product("linear_weight", width(type), out, in, n, 4, accumulate);
}

static void counted_columns(p4d_device *device, p4d_dtype type, void *y, uint64_t stride, const void *x,
			    const void *w, uint64_t n, uint64_t out, uint64_t in, float scale,
			    bool accumulate)
{
	(void)device;
	begin();
	cuda.columns(&cuda, type, y, stride, x, w, n, out, in, scale, accumulate);
	end_product("columns", width(type), n, out, in, width(type), accumulate);
}

static void counted_columns_input(p4d_device *device, p4d_dtype type, void *dx, const void *dy,
				  uint64_t stride, const void *w, uint64_t n, uint64_t out, uint64_t in,
				  float scale)
{
	(void)device;
	begin();
	cuda.columns_input(&cuda, type, dx, dy, stride, w, n, out, in, scale);
	end_product("columns_input", width(type), n, in, out, width(type), 0);
}

static void counted_columns_weight(p4d_device *device, p4d_dtype type, float *dw, const void *dy,
				   uint64_t stride, const void *x, uint64_t n, uint64_t out, uint64_t in,
				   float scale, bool accumulate)
{
	(void)device;
	begin();
	cuda.columns_weight(&cuda, type, dw, dy, stride, x, n, out, in, scale, accumulate);
	end_product("columns_weight", width(type), out, in, n, 4, accumulate);
}

static void counted_product(p4d_device *device, p4d_dtype type, void *y, const void *add,
			    const p4d_fp8_operand *a, const p4d_fp8_operand *b)
{
	const double m = (double)a->shape.rows, n = (double)b->shape.rows, k = (double)a->shape.depth;
	const double out = width(type) * (add ? 2 : 1);

	(void)device;
	begin();
	cuda.product(&cuda, type, y, add, a, b);
	end("product", k * (m + n) + out * m * n, p4d_cost__product_seconds(&rates, m, n, k, out));
}

/* Seconds of causal attention, by the formula of p4d's cost model: half of the scores, or the documents'
 * share of them, and the last blocks. */
static double attention_seconds(const p4d_attention_shape *s, bool backward)
{
	const double keys = (double)s->keys * documents_share, d = (double)s->head_dim;
	const double scores = 2 * (double)(s->batch * s->queries * s->heads) * keys * d;
	const double last = 4 * (backward ? rates.last_backward : rates.last_forward) * keys * d;

	return P4D_LAUNCH_SECONDS +
	       (scores + last) * (backward ? 2.5 * rates.attention_backward : rates.attention_forward);
}

/* Bytes of q, k, v and o. */
static double attention_bytes(const p4d_attention_shape *s, double e)
{
	const double queries = (double)(s->batch * s->queries * s->heads * s->head_dim);

	return e * (2 * queries + 2 * (double)(s->batch * s->keys * s->kv_heads * s->head_dim)) +
	       4 * queries / (double)s->head_dim;
}

static void counted_attention(p4d_device *device, p4d_dtype type, void *o, float *lse, const void *q,
			      const void *k, const void *v, const p4d_attention_shape *shape, void *workspace)
{
	(void)device;
	begin();
	cuda.attention(&cuda, type, o, lse, q, k, v, shape, workspace);
	end("attention", attention_bytes(shape, width(type)), attention_seconds(shape, false));
}

/* Counts the bytes of q, k, v, o and of their four gradients. */
static void counted_attention_gradient(p4d_device *device, p4d_dtype type, void *dqkv, float *sums,
				       const void *d_o, const float *lse, float *row_sums, const void *qkv,
				       const p4d_attention_shape *shape, void *workspace)
{
	(void)device;
	begin();
	cuda.attention_gradient(&cuda, type, dqkv, sums, d_o, lse, row_sums, qkv, shape, workspace);
	end("attention_gradient", 2 * attention_bytes(shape, width(type)), attention_seconds(shape, true));
}

/* Counts q, k, v, o and the gradient of o, and the fp32 gradients, which are read and written. */
static void counted_attention_backward(p4d_device *device, p4d_dtype type, float *dq, float *dk, float *dv,
				       const void *d_o, const float *lse, float *row_sums, const void *q,
				       const void *k, const void *v, const p4d_attention_shape *shape,
				       void *workspace)
{
	const p4d_attention_shape *s = shape;
	const double queries = (double)(s->batch * s->queries * s->heads * s->head_dim),
		     keys = (double)(s->batch * s->keys * s->kv_heads * s->head_dim);

	(void)device;
	begin();
	cuda.attention_backward(&cuda, type, dq, dk, dv, d_o, lse, row_sums, q, k, v, shape, workspace);
	end("attention_backward",
	    attention_bytes(s, width(type)) + width(type) * queries + 8 * (queries + 2 * keys),
	    attention_seconds(s, true));
}

static void counted_cast(p4d_device *device, p4d_dtype to, void *y, p4d_dtype from, const void *x,
			 uint64_t count)
{
	(void)device;
	begin();
	cuda.cast(&cuda, to, y, from, x, count);
	end("cast", (width(to) + width(from)) * (double)count, 0);
}

static void counted_accumulate(p4d_device *device, float *y, p4d_dtype type, const void *x, uint64_t count)
{
	(void)device;
	begin();
	cuda.accumulate(&cuda, y, type, x, count);
	end("accumulate", (8 + width(type)) * (double)count, 0);
}

static void counted_sum_squares(p4d_device *device, double *sum, const float *x, uint64_t count)
{
	(void)device;
	begin();
	cuda.sum_squares(&cuda, sum, x, count);
	end("sum_squares", 4 * (double)count, 0);
}

static int counted_allocate(p4d_device *device, uint64_t bytes, void **arena, p4d_error *err)
{
	const int status = cuda.allocate(&cuda, bytes, arena, err);

	device->allocated_bytes = cuda.allocated_bytes;
	return status;
}

static void counted_close(p4d_device *device)
{
	cuda.close(&cuda);
	memset(device, 0, sizeof(*device));
	p4d_shim_gpu.dry = 0;
}

/* Operations without a counted version are the shim's own. Their state is in the copied table. */
int counted_device_open(p4d_device *device, const p4d_layout *layout, const p4d_gpu *gpu, p4d_error *err)
{
	const p4d_cuda_request request = {PACKAGE_VERSION, sizeof(*device), 0};

	p4d_shim_gpu.dry = 1;
	if (p4d_device_cuda_open(&cuda, &request, err) < 0)
		return -1;
	memset(&counts, 0, sizeof(counts));
	rates = p4d_cost__rates_of(layout, gpu);
	documents_share = p4d_cost__scores_share(layout) * p4d_cost__tile_excess(layout);
	*device = cuda;
	device->allocate = counted_allocate;
	device->close = counted_close;
	device->zero = counted_zero;
	device->copy = counted_copy;
	device->copy_rows = counted_copy_rows;
	device->upload = counted_upload;
	device->download = counted_download;
	device->linear = counted_linear;
	device->linear_input = counted_linear_input;
	device->linear_weight = counted_linear_weight;
	device->columns = counted_columns;
	device->columns_input = counted_columns_input;
	device->columns_weight = counted_columns_weight;
	device->product = counted_product;
	device->attention = counted_attention;
	device->attention_gradient = counted_attention_gradient;
	device->attention_backward = counted_attention_backward;
	device->cast = counted_cast;
	device->accumulate = counted_accumulate;
	device->sum_squares = counted_sum_squares;
#define TYPED(name, parameters, arguments) device->name = counted_##name;
#define PLAIN TYPED
#include "device/operations.def"
	return 0;
}

counted_step counted_device_take(void)
{
	const counted_step taken = counts;

	memset(&counts, 0, sizeof(counts));
	return taken;
}
