/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/sum.h"

#include <string.h>

#include "base/vector.h"

enum { TILE = 1024 }; /* number of elements whose sum stays in the L1 cache */

size_t p4d_sum__width(p4d_dtype type)
{
	switch (type) {
	case P4D_DT_BF16:
	case P4D_DT_FP16:
		return 2;
	case P4D_DT_FP32:
		return 4;
	case P4D_DT_FP64:
		return 8;
	default:
		return 0;
	}
}

P4D_CLONES static void load_16(float *sum, const uint16_t *from, uint64_t count, p4d_dtype type)
{
	if (type == P4D_DT_BF16)
#pragma omp simd
		for (uint64_t i = 0; i < count; i++)
			sum[i] = p4d_from_bf16(from[i]);
	else
#pragma omp simd
		for (uint64_t i = 0; i < count; i++)
			sum[i] = p4d_from_fp16(from[i]);
}

P4D_CLONES static void add_16(float *sum, const uint16_t *from, uint64_t count, p4d_dtype type)
{
	if (type == P4D_DT_BF16)
#pragma omp simd
		for (uint64_t i = 0; i < count; i++)
			sum[i] += p4d_from_bf16(from[i]);
	else
#pragma omp simd
		for (uint64_t i = 0; i < count; i++)
			sum[i] += p4d_from_fp16(from[i]);
}

P4D_CLONES static void store_16(uint16_t *to, const float *sum, uint64_t count, p4d_dtype type)
{
	if (type == P4D_DT_BF16)
#pragma omp simd
		for (uint64_t i = 0; i < count; i++)
			to[i] = p4d_to_bf16(sum[i]);
	else
#pragma omp simd
		for (uint64_t i = 0; i < count; i++)
			to[i] = p4d_to_fp16(sum[i]);
}

P4D_CLONES static void add_float(float *to, const float *a, const float *b, uint64_t count)
{
#pragma omp simd
	for (uint64_t i = 0; i < count; i++)
		to[i] = a[i] + b[i];
}

P4D_CLONES static void add_double(double *to, const double *a, const double *b, uint64_t count)
{
#pragma omp simd
	for (uint64_t i = 0; i < count; i++)
		to[i] = a[i] + b[i];
}

P4D_CLONES static void max_float(float *to, const float *a, const float *b, uint64_t count)
{
#pragma omp simd
	for (uint64_t i = 0; i < count; i++)
		to[i] = b[i] > a[i] || b[i] != b[i] ? b[i] : a[i];
}

P4D_CLONES static void max_double(double *to, const double *a, const double *b, uint64_t count)
{
#pragma omp simd
	for (uint64_t i = 0; i < count; i++)
		to[i] = b[i] > a[i] || b[i] != b[i] ? b[i] : a[i];
}

void p4d_sum__load(void *sum, const void *from, uint64_t count, p4d_dtype type)
{
	size_t width = p4d_sum__width(type);

	if (width == 2)
		load_16(sum, from, count, type);
	else
		memcpy(sum, from, count * width);
}

/* to = the reduction of a and b, which are FP32 or FP64; `to` may be a or b */
static void combine(void *to, const void *a, const void *b, uint64_t count, p4d_dtype type, p4d_reduction how)
{
	if (type == P4D_DT_FP32 && how == P4D_SUM)
		add_float(to, a, b, count);
	else if (type == P4D_DT_FP32)
		max_float(to, a, b, count);
	else if (how == P4D_SUM)
		add_double(to, a, b, count);
	else
		max_double(to, a, b, count);
}

void p4d_sum__add(void *sum, const void *from, uint64_t count, p4d_dtype type, p4d_reduction how)
{
	if (p4d_sum__width(type) == 2)
		add_16(sum, from, count, type);
	else
		combine(sum, sum, from, count, type, how);
}

void p4d_sum__store(void *to, const void *sum, uint64_t count, p4d_dtype type)
{
	size_t width = p4d_sum__width(type);

	if (width == 2)
		store_16(to, sum, count, type);
	else
		memcpy(to, sum, count * width);
}

void p4d_sum__combine(void *to, const void *const *from, uint32_t operands, uint64_t count, p4d_dtype type,
		      p4d_reduction how)
{
	const size_t width = p4d_sum__width(type);
	double sum[TILE];

	for (uint64_t at = 0; at < count; at += TILE) {
		const uint64_t n = count - at < TILE ? count - at : TILE, offset = at * width;
		uint8_t *result = (uint8_t *)to + offset;
		const void *before = (const uint8_t *)from[0] + offset;
		if (width == 2 || operands == 1) {
			p4d_sum__load(sum, before, n, type);
			for (uint32_t t = 1; t < operands; t++)
				p4d_sum__add(sum, (const uint8_t *)from[t] + offset, n, type, how);
			p4d_sum__store(result, sum, n, type);
			continue;
		}
		/*
		 * The first step adds two operands and the last step writes to `result`, which saves two
		 * copies.
		 */
		for (uint32_t t = 1; t < operands; t++) {
			void *next = t + 1 < operands ? (void *)sum : result;
			combine(next, before, (const uint8_t *)from[t] + offset, n, type, how);
			before = next;
		}
	}
}
