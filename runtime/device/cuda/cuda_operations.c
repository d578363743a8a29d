/* SPDX-License-Identifier: Apache-2.0 */
/* The table's operations but memory and attention: each queues its kernels. */
#include "device/cuda/cuda_internal.h"
#include "device/cuda/kernels.h"

#define QUEUE(operation, ...) \
	do { \
		p4d_kernel_##operation(p4d_cuda_of(device)->stream, __VA_ARGS__); \
		p4d_cuda_queued(p4d_cuda_of(device), #operation); \
	} while (0)

static void multiply(p4d_device *device, const p4d_gemm_call *product)
{
	p4d_cuda *c = p4d_cuda_of(device);
	p4d_error err = {.code = P4D_OK};

	if (p4d_gemm_multiply(c->products, c->stream, product, &err) < 0 && c->failure.code == P4D_OK)
		c->failure = err;
	p4d_cuda_queued(c, "a matrix product");
}

static void linear(p4d_device *device, p4d_dtype type, void *y, const void *x, const void *w, uint64_t n,
		   uint64_t out, uint64_t in, bool accumulate)
{
	multiply(device, &(p4d_gemm_call){P4D_PRODUCT_LINEAR, type, accumulate, n, out, in, y, x, w});
}

static void linear_input(p4d_device *device, p4d_dtype type, void *dx, const void *dy, const void *w,
			 uint64_t n, uint64_t out, uint64_t in, bool accumulate)
{
	multiply(device, &(p4d_gemm_call){P4D_PRODUCT_INPUT, type, accumulate, n, out, in, dx, dy, w});
}

static void linear_weight(p4d_device *device, p4d_dtype type, float *dw, const void *dy, const void *x,
			  uint64_t n, uint64_t out, uint64_t in)
{
	multiply(device, &(p4d_gemm_call){P4D_PRODUCT_WEIGHT, type, true, n, out, in, dw, dy, x});
}

static void linear_logits(p4d_device *device, p4d_dtype type, float *logits, const void *x, const void *w,
			  uint64_t n, uint64_t out, uint64_t in)
{
	multiply(device, &(p4d_gemm_call){P4D_PRODUCT_LOGITS, type, false, n, out, in, logits, x, w});
}

static void norm(p4d_device *device, p4d_dtype type, void *y, float *rstd, const void *x, const void *weight,
		 uint64_t n, uint64_t h, float epsilon)
{
	QUEUE(norm, type, y, rstd, x, weight, n, h, epsilon);
}

static void norm_backward(p4d_device *device, p4d_dtype type, void *dx, float *dweight, const void *dy,
			  const void *x, const void *weight, const float *rstd, uint64_t n, uint64_t h)
{
	QUEUE(norm_backward, p4d_cuda_of(device)->sums, type, dx, dweight, dy, x, weight, rstd, n, h);
}

static void add(p4d_device *device, p4d_dtype type, void *y, const void *a, const void *b, uint64_t count)
{
	QUEUE(add, type, y, a, b, count);
}

static void heads(p4d_device *device, p4d_dtype type, void *qkv, float *rstd, const p4d_heads *shape)
{
	QUEUE(heads, type, qkv, rstd, shape);
}

static void heads_backward(p4d_device *device, p4d_dtype type, void *dqkv, const void *qkv, const float *rstd,
			   const p4d_heads *shape, float *dbias, float *dquery_weight, float *dkey_weight)
{
	QUEUE(heads_backward, p4d_cuda_of(device)->sums, type, dqkv, qkv, rstd, shape, dbias, dquery_weight,
	      dkey_weight);
}

static void swiglu(p4d_device *device, p4d_dtype type, void *product, const void *gate_up, uint64_t n,
		   uint64_t f)
{
	QUEUE(swiglu, type, product, gate_up, n, f);
}

static void swiglu_backward(p4d_device *device, p4d_dtype type, void *gate_up, const void *dproduct,
			    uint64_t n, uint64_t f)
{
	QUEUE(swiglu_backward, type, gate_up, dproduct, n, f);
}

static void embed(p4d_device *device, p4d_dtype type, void *out, const void *table, const int32_t *tokens,
		  uint64_t n, uint64_t h, uint64_t first, uint64_t rows)
{
	QUEUE(embed, type, out, table, tokens, n, h, first, rows);
}

static void embed_backward(p4d_device *device, p4d_dtype type, float *dtable, const void *dy,
			   const int32_t *tokens, uint64_t n, uint64_t h, uint64_t first, uint64_t rows)
{
	QUEUE(embed_backward, type, dtable, dy, tokens, n, h, first, rows);
}

static void statistics(p4d_device *device, float *maximum, float *sum, float *target, const float *logits,
		       const int32_t *labels, uint64_t n, uint64_t vocab, uint64_t first)
{
	QUEUE(statistics, maximum, sum, target, logits, labels, n, vocab, first);
}

static void rescale(p4d_device *device, float *sum, const float *old_maximum, const float *new_maximum,
		    uint64_t n)
{
	QUEUE(rescale, sum, old_maximum, new_maximum, n);
}

static void logits_gradient(p4d_device *device, p4d_dtype type, void *dlogits, const float *logits,
			    const float *maximum, const float *sum, const int32_t *labels, uint64_t n,
			    uint64_t vocab, uint64_t first, float scale, float z_loss)
{
	QUEUE(logits_gradient, type, dlogits, logits, maximum, sum, labels, n, vocab, first, scale, z_loss);
}

static void losses(p4d_device *device, double *loss, const float *maximum, const float *sum,
		   const float *target, const int32_t *labels, uint64_t n, float z_loss)
{
	QUEUE(losses, loss, maximum, sum, target, labels, n, z_loss);
}

static void sum_squares(p4d_device *device, double *sum, const float *x, uint64_t count)
{
	QUEUE(sum_squares, p4d_cuda_of(device)->sums, sum, x, count);
}

static void count_nonfinite(p4d_device *device, uint64_t *number, const float *x, uint64_t count)
{
	QUEUE(count_nonfinite, p4d_cuda_of(device)->sums, number, x, count);
}

static void adam(p4d_device *device, p4d_dtype type, void *parameter, float *master, float *first,
		 float *second, const float *gradient, uint64_t count, const p4d_adam *step)
{
	QUEUE(adam, type, parameter, master, first, second, gradient, count, step);
}

static void cast(p4d_device *device, p4d_dtype to, void *y, p4d_dtype from, const void *x, uint64_t count)
{
	if (to == from)
		device->copy(device, y, x, count * (to == P4D_DT_BF16 ? 2 : 4));
	else
		QUEUE(cast, to, y, x, count);
}

static void accumulate(p4d_device *device, float *y, p4d_dtype type, const void *x, uint64_t count)
{
	QUEUE(accumulate, y, type, x, count);
}

void p4d_cuda_operations_table(p4d_device *device)
{
	device->linear = linear;
	device->linear_input = linear_input;
	device->linear_weight = linear_weight;
	device->linear_logits = linear_logits;
	device->norm = norm;
	device->norm_backward = norm_backward;
	device->add = add;
	device->heads = heads;
	device->heads_backward = heads_backward;
	device->swiglu = swiglu;
	device->swiglu_backward = swiglu_backward;
	device->embed = embed;
	device->embed_backward = embed_backward;
	device->statistics = statistics;
	device->rescale = rescale;
	device->logits_gradient = logits_gradient;
	device->losses = losses;
	device->sum_squares = sum_squares;
	device->count_nonfinite = count_nonfinite;
	device->adam = adam;
	device->cast = cast;
	device->accumulate = accumulate;
}
