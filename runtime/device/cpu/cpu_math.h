/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/vector.h"
#include "device/cpu/cpu_types.h"

/*
 * Helpers for all operations of the cpu device: loads and stores of each element type, and an exponential
 * that compilers vectorize. A translation unit has one ELEMENT type and one REAL type.
 */

/*
 * e^x of a float: e^x = 2^k e^r, |r| <= ln 2 / 2, by Taylor's series to the 7th power, whose remainder is
 * below 6e-9. Results that would be denormal are 0. If x is above 88.376, k is 128 and the result is
 * infinite, because 2^k then has the bits of infinity. The largest relative error is 1.2e-7, which a test
 * checks.
 */
P4D_INLINE float p4d_expf(float x)
{
	/*
	 * 1.5 * 2^23. Adding it to a number rounds that number to an integer, which is then in the low bits
	 * of the sum.
	 */
	const float magic = 12582912.0f, low = -87.336f, high = 88.5f;
	/* ln 2 in two parts. The first part has few bits, so its product with k is exact. */
	const float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
	const float above = low > x ? low : x, clamped = high < above ? high : above;
	const float shifted = clamped * 1.44269504f + magic;
	const float k = shifted - magic;
	const float r = (clamped - k * ln2_high) - k * ln2_low;
	uint32_t exponent;
	float power, e;

	e = 1.0f / 5040;
	e = e * r + 1.0f / 720;
	e = e * r + 1.0f / 120;
	e = e * r + 1.0f / 24;
	e = e * r + 1.0f / 6;
	e = e * r + 0.5f;
	e = e * r + 1.0f;
	e = e * r + 1.0f;
	memcpy(&exponent, &shifted, sizeof(exponent));
	exponent = (exponent + 127) << 23;
	memcpy(&power, &exponent, sizeof(power));
	return x < low ? 0.0f : e * power;
}

/*
 * tanh of a float. Below |x| = 0.625 it is the polynomial of Cephes (tanhf, Moshier). Otherwise it is
 * computed from the exponential. Its error is at most 1.5e-7, which a test checks.
 */
P4D_INLINE float p4d_tanhf(float x)
{
	const float size = x < 0 ? -x : x, square = x * x;
	float small = -5.70498872745e-3f;

	small = small * square + 2.06390887954e-2f;
	small = small * square - 5.37397155531e-2f;
	small = small * square + 1.33314422036e-1f;
	small = small * square - 3.33332819422e-1f;
	small = small * square * x + x;
	const float large = 1 - 2 / (p4d_expf(2 * size) + 1), signed_large = x < 0 ? -large : large;
	return size < 0.625f ? small : signed_large;
}

#if P4D_CPU_TYPE == 64
#define TANH tanh
#define EXP exp
#define LOG log
#define SQRT sqrt
#else
#define TANH p4d_tanhf
#define EXP p4d_expf
#define LOG logf
#define SQRT sqrtf
#endif

P4D_INLINE REAL p4d_load(ELEMENT x)
{
#if P4D_CPU_TYPE == 16
	return p4d_from_bf16(x);
#else
	return x;
#endif
}

P4D_INLINE ELEMENT p4d_store(REAL x)
{
#if P4D_CPU_TYPE == 16
	return p4d_to_bf16(x);
#else
	return x;
#endif
}
