/* SPDX-License-Identifier: Apache-2.0 */
#include "model/nf4.h"

#include <stdlib.h>

#include "base/vector.h"
#include "device/nf4_codes.h"

/*
 * Writes the nearest code for each of `count` numbers, which x * factor scales to -1 .. 1. A number's code is
 * the number of midpoints between neighbouring values that are below it.
 */
P4D_INLINE void nearest_of_four_bits(uint8_t *codes, const float *x, float factor, uint64_t count)
{
	float middles[15];

	for (int k = 0; k < 15; k++)
		middles[k] = (p4d_nf4_numbers[k] + p4d_nf4_numbers[k + 1]) / 2;
#pragma omp simd
	for (uint64_t i = 0; i < count; i++) {
		const float scaled = x[i] * factor;
		uint8_t above = 0;
		for (int k = 0; k < 15; k++)
			above += scaled > middles[k];
		codes[i] = above;
	}
}

P4D_CLONES float p4d_nf4_quantize_block(uint8_t *codes, const float *x, uint64_t count)
{
	uint8_t apart[P4D_NF4_BLOCK + 1];
	float largest = 0;

	for (uint64_t i = 0; i < count; i++)
		largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
	nearest_of_four_bits(apart, x, 1 / fmaxf(largest, 1e-38f), count);
	apart[count] = 7; /* pads with the code of 0, because a byte has two codes */
	for (uint64_t i = 0; i < (count + 1) / 2; i++)
		codes[i] = (uint8_t)(apart[2 * i] << 4 | apart[2 * i + 1]);
	return largest;
}

static uint8_t nearest_of_eight_bits(float x)
{
	int low = 0, high = 255; /* numbers are in ascending order of their codes */

	while (low < high) {
		const int middle = (low + high) / 2;
		if (p4d_nf4_of_eight_bits((uint8_t)middle) < x)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return 0;
	const float above = p4d_nf4_of_eight_bits((uint8_t)low) - x,
		    below = x - p4d_nf4_of_eight_bits((uint8_t)(low - 1));
	return (uint8_t)(above < below ? low : low - 1);
}

void p4d_nf4_quantize_scales(uint8_t *codes, float *groups, float *scales, uint64_t blocks)
{
	const uint64_t count = (blocks + P4D_NF4_GROUP - 1) / P4D_NF4_GROUP;
	double sum = 0;

	for (uint64_t i = 0; i < blocks; i++)
		sum += (double)scales[i];
	const float mean = groups[count] = (float)(sum / (double)blocks);
	for (uint64_t g = 0; g < count; g++) {
		const uint64_t first = g * P4D_NF4_GROUP,
			       end = first + P4D_NF4_GROUP < blocks ? first + P4D_NF4_GROUP : blocks;
		float largest = 0;
		for (uint64_t i = first; i < end; i++)
			largest = fmaxf(largest, fabsf(scales[i] - mean));
		groups[g] = largest;
		for (uint64_t i = first; i < end; i++) {
			codes[i] =
			    largest > 0 ? nearest_of_eight_bits((scales[i] - mean) * (1 / largest)) : 0;
			scales[i] = p4d_nf4_scale(codes[i], largest, mean);
		}
	}
}

static void expand(float *x, const uint8_t *codes, float scale, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		x[i] = p4d_nf4_numbers[i % 2 ? codes[i / 2] & 15 : codes[i / 2] >> 4] * scale;
}

int p4d_nf4_round(float *x, uint64_t count, p4d_error *err)
{
	const uint64_t blocks = p4d_nf4_blocks(count), half = P4D_NF4_BLOCK / 2;
	float *scales = malloc((2 * blocks + 1) * sizeof(*scales));
	uint8_t *codes = malloc(blocks * (half + 1) + 1);
	int rc = 0;

	if (scales && codes) {
		for (uint64_t i = 0; i < blocks; i++) {
			const uint64_t left = count - i * P4D_NF4_BLOCK;
			scales[i] = p4d_nf4_quantize_block(codes + i * half, x + i * P4D_NF4_BLOCK,
							   left < P4D_NF4_BLOCK ? left : P4D_NF4_BLOCK);
		}
		p4d_nf4_quantize_scales(codes + blocks * half, scales + blocks, scales, blocks);
		for (uint64_t i = 0; i < blocks; i++) {
			const uint64_t left = count - i * P4D_NF4_BLOCK;
			expand(x + i * P4D_NF4_BLOCK, codes + i * half, scales[i],
			       left < P4D_NF4_BLOCK ? left : P4D_NF4_BLOCK);
		}
	} else {
		rc = p4d_fail(err, P4D_E_NO_MEMORY, "no memory to quantize %llu numbers",
			      (unsigned long long)count);
	}
	free(scales);
	free(codes);
	return rc;
}
