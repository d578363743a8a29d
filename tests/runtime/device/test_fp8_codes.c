/* SPDX-License-Identifier: Apache-2.0 */
/* 8-bit floating-point numbers compared with their definition: sign, exponent, fraction. Tests all codes,
 * all bf16 numbers, and the middles between codes. Also tests the scales of blocks that are quantized. */
#include "support/support.h"

#include <math.h>

#include "device/device.h"
#include "device/fp8_codes.h"

/* OCP 8-bit Floating Point: E4M3 has no infinity and one NaN of each sign; E5M2 is a short fp16. */
static double value_of(unsigned code, p4d_fp8_format format)
{
	const int fraction = format == P4D_E4M3 ? 3 : 2, bias = format == P4D_E4M3 ? 7 : 15;
	const int exponent = (int)(code & 0x7f) >> fraction;
	const double part = (double)(code & ((1u << fraction) - 1)) / (1 << fraction);
	const double size = exponent ? ldexp(1 + part, exponent - bias) : ldexp(part, 1 - bias);

	return code & 0x80 ? -size : size;
}

static unsigned most_of(p4d_fp8_format format)
{
	return format == P4D_E4M3 ? 0x7e : 0x7b;
}

static void codes_are_their_numbers(void **state)
{
	(void)state;
	for (p4d_fp8_format f = P4D_E4M3; f <= P4D_E5M2; f++) {
		assert_true(value_of(most_of(f), f) == (f == P4D_E4M3 ? 448 : 57344));
		for (unsigned code = 0; code < 256; code++) {
			if ((code & 0x7f) > most_of(f))
				continue;
			const double value = value_of(code, f);
			assert_true((double)p4d_fp8_decode((uint8_t)code, f) == value);
			assert_int_equal(p4d_fp8_encode((float)value, f), code);
		}
		assert_true(isnan(p4d_fp8_decode(0x7f, f)));
		assert_int_equal(p4d_fp8_encode(NAN, f), 0x7f);
		assert_int_equal(p4d_fp8_encode(-NAN, f), 0x7f);
		assert_int_equal(p4d_fp8_encode(INFINITY, f), 0x7f);
		assert_int_equal(p4d_fp8_encode(-INFINITY, f), 0x7f);
		assert_int_equal(p4d_fp8_encode(1e30f, f), most_of(f));
		assert_int_equal(p4d_fp8_encode(-1e30f, f), most_of(f) | 0x80);
	}
}

/* The nearest code. If two codes are equally near, it is the even one. */
static unsigned nearest(double x, p4d_fp8_format f)
{
	unsigned best = 0;

	for (unsigned code = 1; code <= most_of(f); code++) {
		const double off = fabs(x - value_of(code, f)) - fabs(x - value_of(best, f));
		if (off < 0 || (off == 0 && code % 2 == 0))
			best = code;
	}
	return best;
}

static void the_nearest_is_taken(void **state)
{
	(void)state;
	for (p4d_fp8_format f = P4D_E4M3; f <= P4D_E5M2; f++) {
		for (uint32_t bits = 0x3000; bits < 0x4800; bits += 3) { /* bf16 from 2^-31 to 2^17 */
			const float x = p4d_fp8__float(bits << 16);
			assert_int_equal(p4d_fp8_encode(x, f), nearest((double)x, f));
			assert_int_equal(p4d_fp8_encode(-x, f), nearest((double)x, f) | 0x80);
		}
		for (unsigned code = 0; code < most_of(f); code++) {
			const float middle = (float)((value_of(code, f) + value_of(code + 1, f)) / 2);
			assert_int_equal(p4d_fp8_encode(middle, f), code % 2 ? code + 1 : code);
			assert_int_equal(p4d_fp8_encode(nextafterf(middle, 0), f), code);
			assert_int_equal(p4d_fp8_encode(nextafterf(middle, 1e9f), f), code + 1);
		}
	}
}

/* The scale of a block is the smallest power of two with which the block's largest number fits. */
static void scales_fit(void **state)
{
	(void)state;
	for (p4d_fp8_format f = P4D_E4M3; f <= P4D_E5M2; f++) {
		const double most = value_of(most_of(f), f);
		for (int e = -110; e < 120; e++)
			for (int part = 0; part < 32; part++) {
				const double x = ldexp(1 + part / 32.0, e);
				const int is = p4d_fp8_exponent(p4d_fp8_size((float)-x), f);
				assert_true(x / ldexp(1, is) <= most &&
					    (is == -126 || x / ldexp(1, is - 1) > most));
				assert_true((double)p4d_fp8_power(is) == ldexp(1, is));
			}
		assert_int_equal(p4d_fp8_exponent(0, f), 0);
		assert_int_equal(p4d_fp8_exponent(p4d_fp8_size(INFINITY), f), 0);
	}
}

/* Each scale has a place of its own inside the memory for scales. */
static void places_of_scales_differ(void **state)
{
	enum { ROWS = 300, DEPTH = 700 };
	static const int recipes[] = {P4D_FP8_BLOCKWISE, P4D_FP8_MXFP8, P4D_FP8_CURRENT};
	static uint8_t taken[1 << 20];

	(void)state;
	for (int i = 0; i < 3; i++)
		for (p4d_fp8_role role = P4D_FP8_INPUT; role < P4D_FP8_ROLES; role++) {
			const p4d_fp8_operand_shape s = p4d_fp8_shape_of(recipes[i], role, ROWS, DEPTH);
			const uint64_t rows = s.block ? s.block_rows : ROWS;
			memset(taken, 0, sizeof(taken));
			for (uint64_t row = 0; row < ROWS; row += rows)
				for (uint64_t block = 0; block < p4d_fp8_blocks(&s); block++) {
					const uint64_t at = p4d_fp8_scale_at(&s, row, block);
					assert_true((at + 1) * s.scale_bytes <= p4d_fp8_scales_bytes(&s));
					assert_int_equal(taken[at]++, 0);
					assert_int_equal(p4d_fp8_scale_at(&s, row + (rows - 1) % ROWS, block),
							 at);
				}
		}
}

/* Checks where exponents are in tiles, with the inverse of the formulas in cuBLASLt's documentation. */
static void check_exponents(uint64_t rows, uint64_t depth)
{
	const p4d_fp8_operand_shape s = p4d_fp8_shape_of(P4D_FP8_MXFP8, P4D_FP8_WEIGHT, rows, depth);
	const uint64_t tiles = (depth + 127) / 128, bytes = p4d_fp8_scales_bytes(&s);

	assert_int_equal(bytes, (rows + 127) / 128 * tiles * 512);
	for (uint64_t at = 0; at < bytes; at++) {
		const uint64_t tile = at / 512, offset = at % 512;
		const uint64_t outer = tile / tiles * 128 + offset % 16 / 4 * 32 + offset / 16;
		const uint64_t inner = tile % tiles * 4 + offset % 4;
		if (outer < rows && inner < depth / 32)
			assert_int_equal(p4d_fp8_scale_at(&s, outer, inner), at);
	}
}

/* Checks where fp32 scales are, by walking through memory. They are M-major, or K-major with a column
 * stride that is a multiple of 4. */
static void check_floats(uint64_t rows, uint64_t depth)
{
	const p4d_fp8_operand_shape by_row = p4d_fp8_shape_of(P4D_FP8_BLOCKWISE, P4D_FP8_INPUT, rows, depth),
				    square = p4d_fp8_shape_of(P4D_FP8_BLOCKWISE, P4D_FP8_WEIGHT, rows, depth);
	const uint64_t blocks = (depth + 127) / 128;
	uint64_t at = 0;

	for (uint64_t l = 0; l < blocks; l++)
		for (uint64_t m = 0; m < rows; m++)
			assert_int_equal(p4d_fp8_scale_at(&by_row, m, l), at++);
	assert_int_equal(p4d_fp8_scales_bytes(&by_row), 4 * at);
	at = 0;
	for (uint64_t m = 0; m < (rows + 127) / 128; m++)
		for (uint64_t l = 0; l < (blocks + 3) / 4 * 4; l++, at++)
			if (l < blocks)
				assert_int_equal(p4d_fp8_scale_at(&square, 128 * m, l), at);
	assert_int_equal(p4d_fp8_scales_bytes(&square), 4 * at);
}

static void places_are_those_of_the_library(void **state)
{
	static const uint64_t sizes[][2] = {{128, 128}, {256, 640}, {96, 160}, {416, 1184}};

	(void)state;
	for (int i = 0; i < 4; i++) {
		check_exponents(sizes[i][0], sizes[i][1]);
		check_floats(sizes[i][0], sizes[i][1]);
	}
}

/* The FP8 formats that p4d-train supports on each GPU. */
static void recipes_of_gpus(void **state)
{
	static const struct {
		int sm;
		int best;
		bool trains[3];
	} cases[] = {{80, -1, {false, false, false}},
		     {89, P4D_FP8_CURRENT, {false, false, true}},
		     {90, P4D_FP8_BLOCKWISE, {true, false, true}},
		     {100, P4D_FP8_MXFP8, {false, true, true}},
		     {103, P4D_FP8_MXFP8, {false, true, true}},
		     {120, P4D_FP8_MXFP8, {false, true, true}}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_int_equal(p4d_fp8_recipe_for(cases[i].sm), cases[i].best);
		assert_int_equal(p4d_fp8_trains(P4D_FP8_BLOCKWISE, cases[i].sm), cases[i].trains[0]);
		assert_int_equal(p4d_fp8_trains(P4D_FP8_MXFP8, cases[i].sm), cases[i].trains[1]);
		assert_int_equal(p4d_fp8_trains(P4D_FP8_CURRENT, cases[i].sm), cases[i].trains[2]);
		assert_false(p4d_fp8_trains(P4D_FP8_DELAYED, cases[i].sm));
	}
}

/* The codes of a matrix and of its transpose are equal, and a matmul of codes equals that of the decoded
 * numbers. */
static void operands_multiply(void **state)
{
	enum { M = 150, N = 300, K = 260 };
	static const int recipes[] = {P4D_FP8_BLOCKWISE, P4D_FP8_MXFP8, P4D_FP8_CURRENT};
	static float x[M * K], turned[K * M], w[N * K], y[M * N];
	static uint8_t codes[3][N * K], scales[3][1 << 16];
	static _Alignas(64) char scratch[P4D_CPU_PRODUCT_BYTES];
	uint64_t random = 1;
	p4d_device cpu;

	(void)state;
	for (int i = 0; i < M * K; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		x[i] = ((float)(random >> 40) / (1 << 23) - 1) * ldexpf(1, -(i % 23));
		turned[i % K * M + i / K] = x[i];
	}
	for (int i = 0; i < N * K; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		w[i] = (float)(random >> 40) / (1 << 23) - 1;
	}
	assert_int_equal(p4d_device_cpu_open(&cpu, NULL), 0);
	cpu.set_workspace(&cpu, scratch, sizeof(scratch), NULL, 0);
	for (int i = 0; i < 3; i++) {
		p4d_fp8_operand o[3];
		for (int k = 0; k < 3; k++)
			o[k] = (p4d_fp8_operand){p4d_fp8_shape_of(recipes[i],
								  k == 2 ? P4D_FP8_WEIGHT : P4D_FP8_GRADIENT,
								  k == 2 ? N : M, K),
						 codes[k], scales[k]};
		cpu.quantize(&cpu, P4D_DT_FP32, &o[0], NULL, x);
		cpu.quantize(&cpu, P4D_DT_FP32, NULL, &o[1], turned);
		assert_memory_equal(codes[0], codes[1], M * K);
		cpu.quantize(&cpu, P4D_DT_FP32, &o[2], NULL, w);
		cpu.product(&cpu, P4D_DT_FP32, y, NULL, &o[0], &o[2]);
		for (int r = 0; r < M; r += 7)
			for (int c = 0; c < N; c += 11) {
				double sum = 0, exact = 0, size = 0;
				for (int k = 0; k < K; k++) {
					const p4d_fp8_operand *a = &o[0], *b = &o[2];
					const uint64_t of_a =
					    a->shape.block ? (uint64_t)k / a->shape.block : 0;
					const uint64_t of_b =
					    b->shape.block ? (uint64_t)k / b->shape.block : 0;
					sum += value_of(a->codes[r * K + k], a->shape.format) *
					       (double)p4d_fp8_scale_of(
						   a->scales, &a->shape,
						   p4d_fp8_scale_at(&a->shape, (uint64_t)r, of_a)) *
					       value_of(b->codes[c * K + k], b->shape.format) *
					       (double)p4d_fp8_scale_of(
						   b->scales, &b->shape,
						   p4d_fp8_scale_at(&b->shape, (uint64_t)c, of_b));
					exact += (double)x[r * K + k] * (double)w[c * K + k];
					size += fabs((double)x[r * K + k] * (double)w[c * K + k]);
				}
				assert_true(y[r * N + c] == (float)sum);
				assert_true(fabs(sum - exact) < 0.2 * size);
			}
	}
	cpu.close(&cpu);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(codes_are_their_numbers),
					   cmocka_unit_test(the_nearest_is_taken),
					   cmocka_unit_test(scales_fit),
					   cmocka_unit_test(places_of_scales_differ),
					   cmocka_unit_test(places_are_those_of_the_library),
					   cmocka_unit_test(recipes_of_gpus),
					   cmocka_unit_test(operands_multiply)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
