/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of the device table except memory and attention. Each queues its kernels. */
#include "device/cuda/cuda_internal.h"
#include "device/cuda/kernels.h"

#define QUEUE(operation, ...) \
	do { \
		p4d_kernel_##operation(p4d_cuda_of(device)->stream, __VA_ARGS__); \
		p4d_cuda_queued(p4d_cuda_of(device), #operation); \
	} while (0)

#define TYPED(name, parameters, arguments) \
	static void queue_##name(p4d_device *device, p4d_dtype type, P4D_LIST parameters) \
	{ \
		QUEUE(name, type, P4D_LIST arguments); \
	}
#define SUMMED(name, parameters, arguments) \
	static void queue_##name(p4d_device *device, p4d_dtype type, P4D_LIST parameters) \
	{ \
		QUEUE(name, p4d_cuda_of(device)->sums, type, P4D_LIST arguments); \
	}
#define PLAIN(name, parameters, arguments) \
	static void queue_##name(p4d_device *device, P4D_LIST parameters) \
	{ \
		QUEUE(name, P4D_LIST arguments); \
	}
#include "device/operations.def"

static void leave(p4d_device *device, unsigned multiprocessors)
{
	p4d_cuda *c = p4d_cuda_of(device);
	const int left = c->multiprocessors - (int)multiprocessors;

	p4d_gemm_target(c->products, multiprocessors && left > 0 ? left : 0);
}

static void time_products(p4d_device *device, bool on)
{
	p4d_gemm_time(p4d_cuda_of(device)->products, on);
}

static bool timed_product(p4d_device *device, unsigned number, p4d_timed_product *product)
{
	return p4d_gemm_timed(p4d_cuda_of(device)->products, number, product);
}

static void choose_product(p4d_device *device, const p4d_product_choice *choice)
{
	p4d_gemm_choose(p4d_cuda_of(device)->products, choice);
}

static void multiply(p4d_device *device, const p4d_gemm_call *product)
{
	p4d_cuda *c = p4d_cuda_of(device);
	p4d_error err = {.code = P4D_OK};

	if (p4d_gemm_multiply(c->products, c->stream, product, &err) < 0 && c->failure.code == P4D_OK)
		c->failure = err;
	p4d_cuda_queued(c, "a matrix product");
}

static void product(p4d_device *device, p4d_dtype type, void *y, const void *add, const p4d_fp8_operand *a,
		    const p4d_fp8_operand *b)
{
	p4d_cuda *c = p4d_cuda_of(device);
	p4d_error err = {.code = P4D_OK};

	if (p4d_gemm_multiply_fp8(c->products, c->stream, &(p4d_gemm_fp8_call){type, y, add, a, b}, &err) <
		0 &&
	    c->failure.code == P4D_OK)
		c->failure = err;
	p4d_cuda_queued(c, "a matrix product");
}

static void linear(p4d_device *device, p4d_dtype type, void *y, const void *add, const void *x, const void *w,
		   uint64_t n, uint64_t out, uint64_t in)
{
	multiply(device, &(p4d_gemm_call){P4D_PRODUCT_LINEAR, type, add, n, out, in, y, x, w, out, 1});
}

static void linear_input(p4d_device *device, p4d_dtype type, void *dx, const void *dy, const void *w,
			 uint64_t n, uint64_t out, uint64_t in, bool accumulate)
{
	multiply(device, &(p4d_gemm_call){P4D_PRODUCT_INPUT, type, accumulate ? dx : NULL, n, out, in, dx, dy,
					  w, out, 1});
}

static void linear_weight(p4d_device *device, p4d_dtype type, float *dw, const void *dy, const void *x,
			  uint64_t n, uint64_t out, uint64_t in, bool accumulate)
{
	multiply(device, &(p4d_gemm_call){P4D_PRODUCT_WEIGHT, type, accumulate ? dw : NULL, n, out, in, dw,
					  dy, x, out, 1});
}

static void columns(p4d_device *device, p4d_dtype type, void *y, uint64_t stride, const void *x,
		    const void *w, uint64_t n, uint64_t out, uint64_t in, float scale, bool accumulate)
{
	multiply(device, &(p4d_gemm_call){P4D_PRODUCT_LINEAR, type, accumulate ? y : NULL, n, out, in, y, x,
					  w, stride, scale});
}

static void columns_input(p4d_device *device, p4d_dtype type, void *dx, const void *dy, uint64_t stride,
			  const void *w, uint64_t n, uint64_t out, uint64_t in, float scale)
{
	multiply(device,
		 &(p4d_gemm_call){P4D_PRODUCT_INPUT, type, NULL, n, out, in, dx, dy, w, stride, scale});
}

static void columns_weight(p4d_device *device, p4d_dtype type, float *dw, const void *dy, uint64_t stride,
			   const void *x, uint64_t n, uint64_t out, uint64_t in, float scale, bool accumulate)
{
	multiply(device, &(p4d_gemm_call){P4D_PRODUCT_WEIGHT, type, accumulate ? dw : NULL, n, out, in, dw,
					  dy, x, stride, scale});
}

static void sum_squares(p4d_device *device, double *sum, const float *x, uint64_t count)
{
	QUEUE(sum_squares, p4d_cuda_of(device)->sums, sum, x, count);
}

static void count_nonfinite(p4d_device *device, uint64_t *number, const float *x, uint64_t count)
{
	QUEUE(count_nonfinite, p4d_cuda_of(device)->sums, number, x, count);
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
	device->leave = leave;
	device->time_products = time_products;
	device->timed_product = timed_product;
	device->choose_product = choose_product;
	device->linear = linear;
	device->linear_input = linear_input;
	device->linear_weight = linear_weight;
	device->columns = columns;
	device->columns_input = columns_input;
	device->columns_weight = columns_weight;
	device->product = product;
	device->sum_squares = sum_squares;
	device->count_nonfinite = count_nonfinite;
	device->cast = cast;
	device->accumulate = accumulate;
#define TYPED(name, parameters, arguments) device->name = queue_##name;
#define PLAIN TYPED
#include "device/operations.def"
}
