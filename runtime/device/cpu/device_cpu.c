/* SPDX-License-Identifier: Apache-2.0 */
/* The cpu backend's table: host memory, and the operations for each type. */
#include <cblas.h>
#include <stdlib.h>
#include <sys/mman.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#define P4D_CPU_TYPE 16
#include "device/cpu/cpu_operations.h"
#undef P4D_CPU_TYPE
#define P4D_CPU_TYPE 32
#include "device/cpu/cpu_operations.h"
#include "device/cpu/cpu_math.h"
#include "device/cpu/cpu_threads.h"
#include "base/host_memory.h"

#define BY_TYPE(type, operation, ...) \
	((type) == P4D_DT_BF16 ? p4d_cpu_##operation##_bf16(__VA_ARGS__) \
			       : p4d_cpu_##operation##_fp32(__VA_ARGS__))

enum { HUGE_PAGE_BYTES = 2 << 20 };

static int take(uint64_t bytes, void **arena, p4d_error *err)
{
	const size_t alignment = bytes < HUGE_PAGE_BYTES ? P4D_ARENA_ALIGNMENT : HUGE_PAGE_BYTES;
	void *memory;

	if (bytes > PTRDIFF_MAX - alignment || posix_memalign(&memory, alignment, bytes ? bytes : 1) != 0)
		return p4d_fail(err, P4D_E_NO_MEMORY, "the host cannot provide %.1f GiB for the arena",
				(double)bytes / (1 << 30));
	if (alignment == HUGE_PAGE_BYTES)
		(void)madvise(memory, bytes, MADV_HUGEPAGE); /* huge pages are faster, where available */
	*arena = memory;
	return 0;
}

static int cpu_allocate(p4d_device *device, uint64_t bytes, void **arena, p4d_error *err)
{
	if (take(bytes, arena, err) < 0)
		return -1;
	device->allocated_bytes += bytes;
	return 0;
}

static int cpu_host_allocate(p4d_device *device, uint64_t bytes, void **arena, p4d_error *err)
{
	if (take(bytes, arena, err) < 0)
		return -1;
	device->host_allocated_bytes += bytes;
	return 0;
}

static void cpu_release(p4d_device *device, void *arena)
{
	(void)device;
	free(arena);
}

static void cpu_usage(p4d_device *device, uint64_t *used, uint64_t *total)
{
	(void)device;
	*used = p4d_host_memory_peak();
	*total = 0;
}

static void cpu_zero(p4d_device *device, void *to, uint64_t bytes)
{
	(void)device;
	memset(to, 0, bytes);
}

static void cpu_copy(p4d_device *device, void *to, const void *from, uint64_t bytes)
{
	(void)device;
	memcpy(to, from, bytes);
}

static void cpu_move(p4d_device *device, void *stream, void *to, const void *from, uint64_t bytes)
{
	(void)device, (void)stream;
	memcpy(to, from, bytes);
}

static void cpu_copy_rows(p4d_device *device, void *to, uint64_t to_stride, const void *from,
			  uint64_t from_stride, uint64_t row_bytes, uint64_t rows)
{
	(void)device;
	for (uint64_t i = 0; i < rows; i++)
		memcpy((char *)to + i * to_stride, (const char *)from + i * from_stride, row_bytes);
}

static int cpu_nothing(p4d_device *device, p4d_error *err)
{
	(void)device, (void)err;
	return 0;
}

static int cpu_open_none(p4d_device *device, void **stream_or_event, p4d_error *err)
{
	(void)device, (void)err;
	*stream_or_event = NULL;
	return 0;
}

static void cpu_stream_nothing(p4d_device *device, void *one, void *other)
{
	(void)device, (void)one, (void)other;
}

static int cpu_event_reached(p4d_device *device, void *event, p4d_error *err)
{
	(void)device, (void)event, (void)err;
	return 1;
}

static void cpu_close(p4d_device *device)
{
	p4d_cpu_rooms_close();
	memset(device, 0, sizeof(*device));
}

static void cpu_lend(p4d_device *device, void *workspace, uint64_t workspace_bytes, void *sums,
		     uint64_t sums_bytes)
{
	(void)workspace_bytes, (void)sums, (void)sums_bytes;
	device->state = workspace;
}

static void cpu_fill(p4d_device *device, void *to, uint32_t word, uint64_t words)
{
	uint32_t *at = to;

	(void)device;
	for (uint64_t i = 0; i < words; i++)
		at[i] = word;
}

P4D_CLONES static uint64_t count_words(const uint32_t *from, uint32_t word, uint64_t words)
{
	uint64_t number = 0;

	for (uint64_t i = 0; i < words; i++)
		number += from[i] == word;
	return number;
}

static int cpu_count(p4d_device *device, uint64_t *number, const void *from, uint32_t word, uint64_t words)
{
	(void)device;
	*number = count_words(from, word, words);
	return 0;
}

#define TYPED(name, parameters, arguments) \
	static void cpu_##name(p4d_device *device, p4d_dtype type, P4D_LIST parameters) \
	{ \
		(void)device; \
		BY_TYPE(type, name, P4D_LIST arguments); \
	}
#define PLAIN(name, parameters, arguments) \
	static void cpu_##name(p4d_device *device, P4D_LIST parameters) \
	{ \
		(void)device; \
		p4d_cpu_##name##_fp32 arguments; \
	}
#include "device/operations.def"

static void cpu_linear(p4d_device *device, p4d_dtype type, void *y, const void *add, const void *x,
		       const void *w, uint64_t n, uint64_t out, uint64_t in)
{
	BY_TYPE(type, linear, device->state, y, add, x, w, n, out, in);
}

static void cpu_linear_input(p4d_device *device, p4d_dtype type, void *dx, const void *dy, const void *w,
			     uint64_t n, uint64_t out, uint64_t in, bool accumulate)
{
	BY_TYPE(type, linear_input, device->state, dx, dy, w, n, out, in, accumulate);
}

static void cpu_linear_weight(p4d_device *device, p4d_dtype type, float *dw, const void *dy, const void *x,
			      uint64_t n, uint64_t out, uint64_t in, bool accumulate)
{
	BY_TYPE(type, linear_weight, device->state, dw, dy, x, n, out, in, accumulate);
}

static void cpu_columns(p4d_device *device, p4d_dtype type, void *y, uint64_t stride, const void *x,
			const void *w, uint64_t n, uint64_t out, uint64_t in, float scale, bool accumulate)
{
	BY_TYPE(type, columns, device->state, y, stride, x, w, n, out, in, scale, accumulate);
}

static void cpu_columns_input(p4d_device *device, p4d_dtype type, void *dx, const void *dy, uint64_t stride,
			      const void *w, uint64_t n, uint64_t out, uint64_t in, float scale)
{
	BY_TYPE(type, columns_input, device->state, dx, dy, stride, w, n, out, in, scale);
}

static void cpu_columns_weight(p4d_device *device, p4d_dtype type, float *dw, const void *dy, uint64_t stride,
			       const void *x, uint64_t n, uint64_t out, uint64_t in, float scale,
			       bool accumulate)
{
	BY_TYPE(type, columns_weight, device->state, dw, dy, stride, x, n, out, in, scale, accumulate);
}

static void cpu_product(p4d_device *device, p4d_dtype type, void *y, const void *add,
			const p4d_fp8_operand *a, const p4d_fp8_operand *b)
{
	BY_TYPE(type, product, device->state, y, add, a, b);
}

static void cpu_attention(p4d_device *device, p4d_dtype type, void *o, float *lse, const void *q,
			  const void *k, const void *v, const p4d_attention_shape *shape, void *workspace)
{
	(void)device;
	BY_TYPE(type, attention, o, lse, q, k, v, shape, workspace);
}

static void cpu_attention_backward(p4d_device *device, p4d_dtype type, float *dq, float *dk, float *dv,
				   const void *d_o, const float *lse, float *row_sums, const void *q,
				   const void *k, const void *v, const p4d_attention_shape *shape,
				   void *workspace)
{
	if (shape->output)
		cpu_attention_row_sums(device, type, row_sums, d_o, shape->output,
				       shape->batch * shape->queries, shape->heads, shape->head_dim);
	BY_TYPE(type, attention_backward, dq, dk, dv, d_o, lse, row_sums, q, k, v, shape, workspace);
}

P4D_CLONES static void to_bf16(uint16_t *y, const float *x, uint64_t count)
{
#pragma omp parallel for simd num_threads(p4d_cpu_team(count))
	for (uint64_t i = 0; i < count; i++)
		y[i] = p4d_to_bf16(x[i]);
}

P4D_CLONES static void from_bf16(float *y, const uint16_t *x, uint64_t count)
{
#pragma omp parallel for simd num_threads(p4d_cpu_team(count))
	for (uint64_t i = 0; i < count; i++)
		y[i] = p4d_from_bf16(x[i]);
}

static void cpu_cast(p4d_device *device, p4d_dtype to, void *y, p4d_dtype from, const void *x, uint64_t count)
{
	(void)device;
	if (to == from)
		memmove(y, x, count * (to == P4D_DT_BF16 ? sizeof(uint16_t) : sizeof(float)));
	else if (to == P4D_DT_BF16)
		to_bf16(y, x, count);
	else
		from_bf16(y, x, count);
}

/*
 * Rounds the fp32 sums of attention's gradients to the type of dqkv. If that is fp32, the sums are already
 * the gradient.
 */
static void cpu_attention_gradient(p4d_device *device, p4d_dtype type, void *dqkv, float *sums,
				   const void *d_o, const float *lse, float *row_sums, const void *qkv,
				   const p4d_attention_shape *s, void *workspace)
{
	const uint64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim, columns = q + 2 * kv;
	const uint64_t e = type == P4D_DT_BF16 ? sizeof(uint16_t) : sizeof(float);
	const uint64_t count = s->batch * s->queries * columns;
	const char *at = qkv;
	float *to = type == P4D_DT_BF16 ? sums : dqkv;

	memset(to, 0, count * sizeof(*to));
	cpu_attention_backward(device, type, to, to + q, to + q + kv, d_o, lse, row_sums, at, at + q * e,
			       at + (q + kv) * e, s, workspace);
	if (type == P4D_DT_BF16)
		cpu_cast(device, type, dqkv, P4D_DT_FP32, to, count);
}

static void cpu_sum_squares(p4d_device *device, double *sum, const float *x, uint64_t count)
{
	(void)device;
	*sum += p4d_cpu_sum_squares_fp32(x, count);
}

static void cpu_count_nonfinite(p4d_device *device, uint64_t *number, const float *x, uint64_t count)
{
	(void)device;
	*number += p4d_cpu_count_nonfinite_fp32(x, count);
}

static void cpu_accumulate(p4d_device *device, float *y, p4d_dtype type, const void *x, uint64_t count)
{
	(void)device;
	BY_TYPE(type, accumulate, y, x, count);
}

/*
 * Makes the processor treat denormal numbers as 0, because arithmetic on a denormal number takes a hundred
 * times as long.
 */
static void flush_denormals(void)
{
#ifdef __SSE__
	const unsigned flush_to_zero = 1u << 15, denormals_are_zero = 1u << 6;

	_mm_setcsr(_mm_getcsr() | flush_to_zero | denormals_are_zero);
#endif
}

void p4d_device_cpu_threads(uint32_t threads)
{
#ifdef _OPENMP
	openblas_set_num_threads(1);
	p4d_cpu_threads = (int)threads;
#else
	openblas_set_num_threads((int)threads);
#endif
}

int p4d_device_cpu_open(p4d_device *device, p4d_error *err)
{
	(void)err;
	p4d_device_cpu_threads(1);
	flush_denormals();
	*device = (p4d_device){
	    .name = "cpu",
	    .allocate = cpu_allocate,
	    .release = cpu_release,
	    .host_allocate = cpu_host_allocate,
	    .host_release = cpu_release,
	    .usage = cpu_usage,
	    .zero = cpu_zero,
	    .copy = cpu_copy,
	    .copy_rows = cpu_copy_rows,
	    .upload = cpu_copy,
	    .download = cpu_copy,
	    .move = cpu_move,
	    .sync = cpu_nothing,
	    .close = cpu_close,
	    .stream_open = cpu_open_none,
	    .stream_wait = cpu_stream_nothing,
	    .event_open = cpu_open_none,
	    .event_record = cpu_stream_nothing,
	    .event_wait = cpu_stream_nothing,
	    .event_reached = cpu_event_reached,
	    .attach = cpu_nothing,
	    .set_workspace = cpu_lend,
	    .fill = cpu_fill,
	    .count = cpu_count,
	    .linear = cpu_linear,
	    .linear_input = cpu_linear_input,
	    .linear_weight = cpu_linear_weight,
	    .columns = cpu_columns,
	    .columns_input = cpu_columns_input,
	    .columns_weight = cpu_columns_weight,
	    .product = cpu_product,
	    .attention = cpu_attention,
	    .attention_backward = cpu_attention_backward,
	    .attention_gradient = cpu_attention_gradient,
	    .sum_squares = cpu_sum_squares,
	    .count_nonfinite = cpu_count_nonfinite,
	    .cast = cpu_cast,
	    .accumulate = cpu_accumulate,
#define TYPED(name, parameters, arguments) .name = cpu_##name,
#define PLAIN TYPED
#include "device/operations.def"
	};
	return 0;
}
