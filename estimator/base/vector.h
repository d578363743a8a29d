/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* For vectorized loops: versions for several instruction sets, and 16-bit floats. */
#include <stdint.h>
#include <string.h>

/*
 * Compiled for several instruction sets where the compiler can (configure checks); the best is chosen at run
 * time. Functions called from it must be inlined: P4D_INLINE.
 */
#ifdef HAVE_TARGET_CLONES
#define P4D_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define P4D_CLONES
#endif
#define P4D_INLINE static inline __attribute__((always_inline))

P4D_INLINE float p4d_from_bf16(uint16_t x)
{
	const uint32_t bits = (uint32_t)x << 16;
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Nearest, ties to even; NaN stays NaN. */
P4D_INLINE uint16_t p4d_to_bf16(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
	return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

static inline float p4d_from_fp16(uint16_t x)
{
	const uint32_t sign = (uint32_t)(x & 0x8000) << 16, exponent = x >> 10 & 31;
	uint32_t bits = sign | (uint32_t)(x & 0x3ff) << 13;
	float value;

	if (exponent == 0) { /* 2^-24 is one unit of a subnormal half */
		value = (float)(x & 0x3ff) * 0x1p-24f;
		return sign ? -value : value;
	}
	bits |= exponent == 31 ? 0x7f800000u : (exponent + 112) << 23;
	memcpy(&value, &bits, sizeof(value));
	return value;
}
