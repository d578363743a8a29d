/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Stochastic rounding to bf16 without a generator. A hash of the step and of the number's place in the whole
 * model decides whether a number is rounded up, so that the result does not depend on the rank that holds it.
 * A number x between two bf16 neighbours a < b becomes b with probability (x - a) / (b - a). So small changes
 * are kept on average.
 */
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define P4D_ROUNDING static inline __host__ __device__
#else
#include "base/vector.h"
#define P4D_ROUNDING P4D_INLINE
#endif

/*
 * The place of an array in a tensor: element i is number first + i of a slice, row by row. The slice's rows
 * of `columns` elements are `stride` elements apart in the tensor, and the first of them is at `origin`.
 */
typedef struct p4d_rounding {
	uint64_t key; /* key of the tensor and the step */
	uint64_t first, columns, stride, origin;
} p4d_rounding;

/* The index of element i in the tensor. */
P4D_ROUNDING uint64_t p4d_rounding_index(const p4d_rounding *r, uint64_t i)
{
	const uint64_t at = r->first + i;

	return r->origin + (r->columns == r->stride ? at : at / r->columns * r->stride + at % r->columns);
}

/* Number of elements, beginning with element i, whose indices in the tensor are consecutive. */
P4D_ROUNDING uint64_t p4d_rounding_run(const p4d_rounding *r, uint64_t i)
{
	return r->columns == r->stride ? UINT64_MAX : r->columns - (r->first + i) % r->columns;
}

/* 32 pseudorandom bits: lowbias32 of the index and the key. */
P4D_ROUNDING uint32_t p4d_rounding_bits(uint64_t key, uint64_t index)
{
	uint32_t x = (uint32_t)index ^ (uint32_t)(index >> 32) * 0x9e3779b1u ^ (uint32_t)key;

	x = (x ^ x >> 16) * 0x7feb352du;
	x = (x ^ x >> 15) * 0x846ca68bu ^ (uint32_t)(key >> 32);
	x = (x ^ x >> 16) * 0x7feb352du;
	return x ^ x >> 15;
}

/*
 * Rounds x, which must be finite. up: 16 random bits, which decide whether x is rounded up. A number that
 * bf16 can represent stays unchanged.
 */
P4D_ROUNDING uint16_t p4d_round_to_bf16(float x, uint32_t up)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return (uint16_t)((bits + up) >> 16);
}
