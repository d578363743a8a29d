/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* For vectorized loops: compilation for several instruction sets, and conversions of 16-bit floats. */
#include <math.h>
#include <stdint.h>
#include <string.h>

/*
 * Compiles a function for several instruction sets if the compiler can (configure checks); the best one is
 * chosen at run time. Functions that it calls must be inlined: P4D_INLINE.
 */
#ifdef HAVE_TARGET_CLONES
#define P4D_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define P4D_CLONES
#endif
#define P4D_INLINE static inline __attribute__((always_inline))

P4D_INLINE float p4d_float_of_bits(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

P4D_INLINE uint32_t p4d_bits_of_float(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

P4D_INLINE float p4d_from_bf16(uint16_t x)
{
	return p4d_float_of_bits((uint32_t)x << 16);
}

/* Rounds to nearest, ties to even; NaN stays NaN. */
P4D_INLINE uint16_t p4d_to_bf16(float x)
{
	const uint32_t bits = p4d_bits_of_float(x);
	const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;

	return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

P4D_INLINE float p4d_from_fp16(uint16_t x)
{
	const uint32_t exponent = x >> 10 & 31, mantissa = x & 1023, sign = (uint32_t)(x & 0x8000) << 16;
	const uint32_t special = exponent == 31 ? 255 : exponent + 112; /* difference of the exponent
									 * biases: 127 - 15 */
	const float small = (float)mantissa * 0x1p-24f;                 /* below the normal range of fp16 */

	return p4d_float_of_bits(sign |
				 (exponent ? special << 23 | mantissa << 13 : p4d_bits_of_float(small)));
}

/* Rounds to nearest, ties to even; NaN stays NaN. */
P4D_INLINE uint16_t p4d_to_fp16(float x)
{
	const uint32_t bits = p4d_bits_of_float(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;

	if (size > 0x7f800000)
		return (uint16_t)(sign | 0x7e00);
	if (size >= 0x477ff000) /* 65520: halfway between the largest fp16 number and the next power of two */
		return (uint16_t)(sign | 0x7c00);
	if (size < 0x38800000) /* 2^-14 */
		return (uint16_t)(sign | (uint32_t)lrintf(p4d_float_of_bits(size) * 0x1p24f));
	return (uint16_t)(sign | (((size + 0xfff + (size >> 13 & 1)) >> 13) - (112u << 10)));
}
