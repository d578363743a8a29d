/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The values of nf4.h's codes: the same bits on every device. Also compiled for GPUs. */
#include <stdint.h>

#ifdef __CUDACC__
#define P4D_NF4_HERE static inline __device__
#define P4D_NF4_TABLE static __constant__ const float
#else
#define P4D_NF4_HERE static inline __attribute__((always_inline))
#define P4D_NF4_TABLE static const float
#endif

/* Values of four-bit codes, to be multiplied by the scale of a block: quantiles of a normal distribution. */
P4D_NF4_TABLE p4d_nf4_numbers[16] = {
    -1.0f,      -0.6961928f, -0.52507305f, -0.3949175f, -0.28444138f, -0.18477343f, -0.091050036f, 0.0f,
    0.0795803f, 0.1609302f,  0.2461123f,   0.33791524f, 0.44070983f,  0.562617f,    0.72295684f,   1.0f};

/*
 * Values of eight-bit codes, to be multiplied by the scale of a group. Seven decades have 1, 2, 4 .. 64
 * values each: the middles of equal parts of 0.1 to 1, as bitsandbytes rounds them. Codes above 127 stand for
 * these values and for 1, code 127 for 0. Codes below 127 stand for the negative values, beginning with the
 * largest magnitude.
 */
P4D_NF4_TABLE p4d_nf4_sizes[128] = {5.5000004e-7f,  3.2500002e-6f,  7.75e-6f,       2.1249998e-5f,
				    4.375e-5f,      6.625e-5f,      8.875e-5f,      0.00015625001f,
				    0.00026875004f, 0.00038125002f, 0.00049375003f, 0.0006062501f,
				    0.00071875006f, 0.00083125f,    0.0009437501f,  0.0012812499f,
				    0.00184375f,    0.00240625f,    0.00296875f,    0.0035312497f,
				    0.00409375f,    0.0046562497f,  0.0052187503f,  0.00578125f,
				    0.00634375f,    0.00690625f,    0.00746875f,    0.00803125f,
				    0.00859375f,    0.009156249f,   0.00971875f,    0.01140625f,
				    0.01421875f,    0.01703125f,    0.019843752f,   0.02265625f,
				    0.02546875f,    0.028281251f,   0.03109375f,    0.03390625f,
				    0.036718752f,   0.03953125f,    0.042343747f,   0.04515625f,
				    0.04796875f,    0.05078125f,    0.05359375f,    0.05640625f,
				    0.059218753f,   0.06203125f,    0.06484375f,    0.067656256f,
				    0.070468746f,   0.07328125f,    0.07609375f,    0.07890625f,
				    0.08171876f,    0.08453125f,    0.08734375f,    0.09015625f,
				    0.092968754f,   0.09578126f,    0.09859375f,    0.107031256f,
				    0.12109375f,    0.13515624f,    0.14921875f,    0.16328125f,
				    0.17734376f,    0.19140625f,    0.20546874f,    0.21953125f,
				    0.23359375f,    0.24765624f,    0.26171875f,    0.27578127f,
				    0.28984374f,    0.30390626f,    0.31796873f,    0.33203125f,
				    0.34609374f,    0.36015624f,    0.37421876f,    0.38828123f,
				    0.40234375f,    0.41640624f,    0.43046874f,    0.44453126f,
				    0.45859373f,    0.47265625f,    0.4867187f,     0.50078124f,
				    0.5148437f,     0.5289062f,     0.54296875f,    0.5570313f,
				    0.5710938f,     0.58515626f,    0.5992187f,     0.61328125f,
				    0.6273438f,     0.6414063f,     0.65546876f,    0.6695312f,
				    0.68359375f,    0.6976563f,     0.7117188f,     0.72578126f,
				    0.7398437f,     0.75390625f,    0.7679688f,     0.78203124f,
				    0.79609376f,    0.8101562f,     0.82421875f,    0.8382813f,
				    0.85234374f,    0.86640626f,    0.8804687f,     0.89453125f,
				    0.9085938f,     0.92265624f,    0.93671876f,    0.9507812f,
				    0.96484375f,    0.9789063f,     0.99296874f,    1.0f};

P4D_NF4_HERE float p4d_nf4_of_eight_bits(uint8_t code)
{
	return code > 127 ? p4d_nf4_sizes[code - 128] : code < 127 ? -p4d_nf4_sizes[126 - code] : 0;
}

/* The scale of a block. Product and sum are rounded separately, so that all devices compute the same bits. */
P4D_NF4_HERE float p4d_nf4_scale(uint8_t code, float group, float mean)
{
#ifdef __CUDA_ARCH__
	return __fadd_rn(__fmul_rn(p4d_nf4_of_eight_bits(code), group), mean);
#else
	const volatile float product = p4d_nf4_of_eight_bits(code) * group;

	return product + mean;
#endif
}
