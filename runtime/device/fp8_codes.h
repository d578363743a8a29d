/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Codes of FP8 numbers, and the scales of their blocks. Every device computes the same bits. Scales are
 * powers of two, so that scaling rounds nothing; MXFP8 requires that, and Transformer Engine's blocks have it
 * by default.
 */
#include <stdint.h>
#include <string.h>

#include "plan/fp8_operand.h"

P4D_ANYWHERE uint32_t p4d_fp8__bits(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

P4D_ANYWHERE float p4d_fp8__float(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

/* |x| as an integer. It grows with |x|, and NaN is larger than all numbers. */
P4D_ANYWHERE uint32_t p4d_fp8_size(float x)
{
	return p4d_fp8__bits(x) & 0x7fffffff;
}

/*
 * Returns the exponent of a block's scale: the least e for which the block's largest |x| / 2^e can be
 * represented. largest: p4d_fp8_size of that x. The largest number of both formats is 1.75 * 2^top. Returns 0
 * for blocks of zeros, of denormal numbers, or with a number that is not finite.
 */
P4D_ANYWHERE int p4d_fp8_exponent(uint32_t largest, p4d_fp8_format format)
{
	const int top = format == P4D_E4M3 ? 8 : 15, exponent = (int)(largest >> 23);
	const int least = exponent - 127 - top + ((largest & 0x7fffff) > 0x600000);

	if (exponent == 0 || exponent == 255)
		return 0;
	return least < -126 ? -126 : least;
}

/* 2^exponent, for -126 to 127 */
P4D_ANYWHERE float p4d_fp8_power(int exponent)
{
	return p4d_fp8__float((uint32_t)(exponent + 127) << 23);
}

/*
 * Rounds to nearest, ties to even. Numbers beyond the largest code get that code. All numbers that are not
 * finite get one code, NaN.
 */
P4D_ANYWHERE uint8_t p4d_fp8_encode(float x, p4d_fp8_format format)
{
	const uint32_t fraction = format == P4D_E4M3 ? 3 : 2, bias = format == P4D_E4M3 ? 7 : 15;
	const uint32_t most = format == P4D_E4M3 ? 0x7e : 0x7b, shift = 23 - fraction;
	const uint32_t bits = p4d_fp8__bits(x), size = bits & 0x7fffffff;
	const uint32_t even = size + (1u << (shift - 1)) - 1 + (size >> shift & 1);
	const uint32_t normal = (even >> shift) - ((127 - bias) << fraction);
	/*
	 * For x below the normal range, where neighbouring codes have the same distance. Adding a number
	 * whose last bit is that distance rounds x to a multiple of it.
	 */
	const float unit = p4d_fp8__float((127 + 24 - bias - fraction) << 23);
	const uint32_t small = p4d_fp8__bits(p4d_fp8__float(size) + unit) - p4d_fp8__bits(unit);
	const uint32_t code = size >= (128 - bias) << 23 ? normal : small;

	return size >= 0x7f800000 ? 0x7f : (uint8_t)((bits >> 24 & 0x80) | (code > most ? most : code));
}

P4D_ANYWHERE float p4d_fp8_decode(uint8_t code, p4d_fp8_format format)
{
	const uint32_t fraction = format == P4D_E4M3 ? 3 : 2, bias = format == P4D_E4M3 ? 7 : 15;
	const uint32_t size = code & 0x7f, sign = (uint32_t)(code & 0x80) << 24;
	const uint32_t normal = (size << (23 - fraction)) + ((127 - bias) << 23);
	const float unit = p4d_fp8__float((128 - bias - fraction) << 23);
	const uint32_t small = p4d_fp8__bits((float)(int32_t)size * unit);

	return p4d_fp8__float(sign | (size == 0x7f ? 0x7fc00000 : size >> fraction ? normal : small));
}

/* Stores the scale of a block, 2^exponent, as a code or as a float. */
P4D_ANYWHERE void p4d_fp8_put_scale(void *scales, const p4d_fp8_operand_shape *s, uint64_t at, int exponent)
{
	if (s->scale_bytes == 1)
		((uint8_t *)scales)[at] = (uint8_t)(exponent + 127);
	else
		((float *)scales)[at] = p4d_fp8_power(exponent);
}

P4D_ANYWHERE float p4d_fp8_scale_of(const void *scales, const p4d_fp8_operand_shape *s, uint64_t at)
{
	return s->scale_bytes == 1 ? p4d_fp8_power(((const uint8_t *)scales)[at] - 127)
				   : ((const float *)scales)[at];
}
