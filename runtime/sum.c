/* SPDX-License-Identifier: Apache-2.0 */
#include "sum.h"

#include <math.h>
#include <string.h>

/*
 * Loops run in blocks of constant length over restricted pointers: that is what compilers turn into vector
 * code at -O2.
 */
enum { BLOCK = 64, TILE = 1024 };
#define EACH(i, count, statement) \
	do { \
		uint64_t i##_base = 0; \
		for (; i##_base + BLOCK <= (count); i##_base += BLOCK) \
			for (int i##_k = 0; i##_k < BLOCK; i##_k++) { \
				uint64_t i = i##_base + (uint64_t)i##_k; \
				statement; \
			} \
		for (uint64_t i = i##_base; i < (count); i++) \
			statement; \
	} while (0)

static inline float from_bits(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

static inline uint32_t to_bits(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static inline float load_bf16(uint16_t x)
{
	return from_bits((uint32_t)x << 16);
}

static inline uint16_t store_bf16(float x)
{
	uint32_t bits = to_bits(x), rounded = bits + 0x7fff + (bits >> 16 & 1);

	/* rounding must not carry a NaN into infinity */
	return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded >> 16);
}

static inline float load_fp16(uint16_t x)
{
	uint32_t exponent = x >> 10 & 31, mantissa = x & 1023, sign = (uint32_t)(x & 0x8000) << 16;
	uint32_t special = exponent == 31 ? 255 : exponent + 112; /* 127 - 15 */
	float small = (float)mantissa * 0x1p-24f;                 /* below the normal range */

	return from_bits(sign | (exponent ? special << 23 | mantissa << 13 : to_bits(small)));
}

static inline uint16_t store_fp16(float x)
{
	uint32_t bits = to_bits(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;

	if (size > 0x7f800000)
		return (uint16_t)(sign | 0x7e00);
	if (size >= 0x477ff000) /* 65520: halfway from the largest number to the next */
		return (uint16_t)(sign | 0x7c00);
	if (size < 0x38800000) /* 2^-14 */
		return (uint16_t)(sign | (uint32_t)lrintf(from_bits(size) * 0x1p24f));
	return (uint16_t)(sign | (((size + 0xfff + (size >> 13 & 1)) >> 13) - (112u << 10)));
}

size_t p4d_sum_width(p4d_dtype type)
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

static void load_16(float *restrict sum, const uint16_t *restrict from, uint64_t count, p4d_dtype type)
{
	if (type == P4D_DT_BF16)
		EACH(i, count, sum[i] = load_bf16(from[i]));
	else
		EACH(i, count, sum[i] = load_fp16(from[i]));
}

static void add_16(float *restrict sum, const uint16_t *restrict from, uint64_t count, p4d_dtype type)
{
	if (type == P4D_DT_BF16)
		EACH(i, count, sum[i] += load_bf16(from[i]));
	else
		EACH(i, count, sum[i] += load_fp16(from[i]));
}

static void store_16(uint16_t *restrict to, const float *restrict sum, uint64_t count, p4d_dtype type)
{
	if (type == P4D_DT_BF16)
		EACH(i, count, to[i] = store_bf16(sum[i]));
	else
		EACH(i, count, to[i] = store_fp16(sum[i]));
}

static void add_float(float *restrict sum, const float *restrict from, uint64_t count)
{
	EACH(i, count, sum[i] += from[i]);
}

static void add_double(double *restrict sum, const double *restrict from, uint64_t count)
{
	EACH(i, count, sum[i] += from[i]);
}

static void max_float(float *restrict sum, const float *restrict from, uint64_t count)
{
	EACH(i, count, sum[i] = from[i] > sum[i] || from[i] != from[i] ? from[i] : sum[i]);
}

static void max_double(double *restrict sum, const double *restrict from, uint64_t count)
{
	EACH(i, count, sum[i] = from[i] > sum[i] || from[i] != from[i] ? from[i] : sum[i]);
}

void p4d_sum_load(void *sum, const void *from, uint64_t count, p4d_dtype type)
{
	size_t width = p4d_sum_width(type);

	if (width == 2)
		load_16(sum, from, count, type);
	else
		memcpy(sum, from, count * width);
}

void p4d_sum_add(void *sum, const void *from, uint64_t count, p4d_dtype type, p4d_reduction how)
{
	if (type == P4D_DT_FP32 && how == P4D_SUM)
		add_float(sum, from, count);
	else if (type == P4D_DT_FP32)
		max_float(sum, from, count);
	else if (type == P4D_DT_FP64 && how == P4D_SUM)
		add_double(sum, from, count);
	else if (type == P4D_DT_FP64)
		max_double(sum, from, count);
	else
		add_16(sum, from, count, type);
}

void p4d_sum_store(void *to, const void *sum, uint64_t count, p4d_dtype type)
{
	size_t width = p4d_sum_width(type);

	if (width == 2)
		store_16(to, sum, count, type);
	else
		memcpy(to, sum, count * width);
}

void p4d_sum_terms(void *to, const void *const *from, uint32_t terms, uint64_t count, p4d_dtype type,
		   p4d_reduction how)
{
	size_t width = p4d_sum_width(type);
	double sum[TILE]; /* stays in the nearest cache */

	for (uint64_t at = 0; at < count; at += TILE) {
		uint64_t n = count - at < TILE ? count - at : TILE;
		p4d_sum_load(sum, (const uint8_t *)from[0] + at * width, n, type);
		for (uint32_t t = 1; t < terms; t++)
			p4d_sum_add(sum, (const uint8_t *)from[t] + at * width, n, type, how);
		p4d_sum_store((uint8_t *)to + at * width, sum, n, type);
	}
}
