/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* 128-bit arithmetic, for products of sizes that users give. */
__extension__ typedef unsigned __int128 p4d_wide;

static inline p4d_wide p4d_div_up(p4d_wide a, p4d_wide b)
{
	return (a + b - 1) / b;
}

/* n rounded up to a multiple of `multiple`. */
static inline uint64_t p4d_round_up(uint64_t n, uint64_t multiple)
{
	return (n + multiple - 1) / multiple * multiple;
}

/* more - less, or 0 if less is larger. */
static inline p4d_wide p4d_beyond(p4d_wide more, p4d_wide less)
{
	return more > less ? more - less : 0;
}

#define P4D_WIDE_PAIR(type, suffix) \
	static inline type p4d_wide_most_##suffix(type a, type b) \
	{ \
		return a > b ? a : b; \
	} \
	static inline type p4d_wide_least_##suffix(type a, type b) \
	{ \
		return a < b ? a : b; \
	}
P4D_WIDE_PAIR(uint32_t, 32)
P4D_WIDE_PAIR(uint64_t, 64)
P4D_WIDE_PAIR(p4d_wide, 128)
P4D_WIDE_PAIR(double, real)
#undef P4D_WIDE_PAIR

/* The larger and the smaller of two numbers, in the wider of their types. */
#define P4D_WIDE_OF(which, a, b) \
	_Generic((a) + (b), uint32_t \
		 : p4d_wide_##which##_32, uint64_t \
		 : p4d_wide_##which##_64, p4d_wide \
		 : p4d_wide_##which##_128, double \
		 : p4d_wide_##which##_real)(a, b)
#define P4D_MOST(a, b) P4D_WIDE_OF(most, a, b)
#define P4D_LEAST(a, b) P4D_WIDE_OF(least, a, b)
