/* SPDX-License-Identifier: Apache-2.0 */
/* FP8 on the cuda device. Codes and scales of operands have the same bits as on the cpu device. Results of
 * matmuls differ only because fp32 sums have another order. */
#include "support/support.h"

#include "support/kernel_cases.h"
#include "support/numbers.h"

/* Allocates an operand. Its scales are filled with bytes that no scale has. */
static p4d_fp8_operand operand_of(kernel_run *run, const p4d_fp8_operand_shape *s)
{
	const uint64_t bytes = p4d_fp8_scales_bytes(s);
	const p4d_fp8_operand to = {*s, run_memory(run, s->rows * s->depth), run_memory(run, bytes)};
	char *host = malloc(bytes);

	assert_non_null(host);
	memset(host, 0xff, bytes);
	put(run->device, to.scales, host, bytes);
	free(host);
	return to;
}

/* Copies an operand to the host's memory, which the caller frees. */
static p4d_fp8_operand fetched(p4d_device *device, const p4d_fp8_operand *x)
{
	const uint64_t codes = x->shape.rows * x->shape.depth, scales = p4d_fp8_scales_bytes(&x->shape);
	const p4d_fp8_operand to = {x->shape, malloc(codes), malloc(scales)};

	assert_true(to.codes && to.scales);
	fetch(device, to.codes, x->codes, codes);
	fetch(device, to.scales, x->scales, scales);
	return to;
}

/* Compares two operands in the host's memory. Unused places in tiles of exponents are 0. */
static void same_operand(const p4d_fp8_operand *got, const p4d_fp8_operand *expected)
{
	const p4d_fp8_operand_shape *s = &got->shape;
	const uint64_t bytes = p4d_fp8_scales_bytes(s), rows = s->block ? s->block_rows : s->rows;
	char *rest = malloc(bytes);

	assert_non_null(rest);
	for (uint64_t i = 0; i < s->rows * s->depth; i++)
		if (got->codes[i] != expected->codes[i])
			fail_msg("code (%d, %d) is %02x, not %02x", (int)(i / s->depth), (int)(i % s->depth),
				 got->codes[i], expected->codes[i]);
	memcpy(rest, got->scales, bytes);
	for (uint64_t row = 0; row < s->rows; row += rows)
		for (uint64_t block = 0; block < p4d_fp8_blocks(s); block++) {
			const uint64_t at = p4d_fp8_scale_at(s, row, block) * s->scale_bytes;
			assert_memory_equal((char *)got->scales + at, (char *)expected->scales + at,
					    s->scale_bytes);
			memset(rest + at, 0, s->scale_bytes);
		}
	for (uint64_t i = 0; i < bytes && s->scale_bytes == 1; i++)
		assert_int_equal(rest[i], 0);
	free(rest);
}

/* Fills x with numbers of all sizes. One row and one block are zeros, and two numbers are not finite. */
static void some_numbers(float *x, uint64_t rows, uint64_t columns)
{
	uint64_t random = 1;

	for (uint64_t i = 0; i < rows * columns; i++) {
		const uint64_t row = i / columns, column = i % columns;
		const bool zero = row == 5 || (row < 64 && column / 32 == 2);
		const int size = (int)(row * 7 + column / 16 * 11) % 40 - 20;
		x[i] = zero ? 0 : ldexpf((float)number(&random), size);
	}
	if (rows * columns > 5000)
		x[4000] = -INFINITY, x[rows * columns - 1] = NAN;
}

/* Copies `numbers` to the run's memory, in the run's type. */
static void *some_operand(kernel_run *run, const float *numbers, uint64_t count)
{
	float *from = run_memory(run, count * sizeof(*from));
	void *x = run_memory(run, count * element_bytes(run->type));

	put(run->device, from, numbers, count * sizeof(*from));
	run->device->cast(run->device, run->type, x, P4D_DT_FP32, from, count);
	finish(run->device);
	return x;
}

static void operands_of(kernel_run *run, kernel_run *right, int recipe, p4d_fp8_role role, uint64_t rows,
			uint64_t columns)
{
	const p4d_fp8_operand_shape shapes[] = {p4d_fp8_shape_of(recipe, role, rows, columns),
						p4d_fp8_shape_of(recipe, role, columns, rows)};
	const p4d_fp8_operand expected[] = {operand_of(right, &shapes[0]), operand_of(right, &shapes[1])};
	float *numbers = malloc(rows * columns * sizeof(*numbers));

	assert_non_null(numbers);
	some_numbers(numbers, rows, columns);
	right->device->quantize(right->device, right->type, &expected[0], &expected[1],
				some_operand(right, numbers, rows * columns));
	const void *x = some_operand(run, numbers, rows * columns);
	free(numbers);
	for (int way = 1; way < 4; way++) {
		const p4d_fp8_operand got[] = {operand_of(run, &shapes[0]), operand_of(run, &shapes[1])};
		run->device->quantize(run->device, run->type, way & 1 ? &got[0] : NULL,
				      way & 2 ? &got[1] : NULL, x);
		for (int i = 0; i < 2; i++) {
			if (!(way >> i & 1))
				continue;
			const p4d_fp8_operand here = fetched(run->device, &got[i]);
			same_operand(&here, &expected[i]);
			free(here.codes);
			free(here.scales);
		}
	}
}

/* A matrix as an operand and as a transposed operand, in the run's memory. */
typedef struct both {
	p4d_fp8_operand to[2];
} both;

static both both_of(kernel_run *run, int recipe, p4d_fp8_role role, uint64_t rows, uint64_t columns)
{
	const p4d_fp8_operand_shape as_is = p4d_fp8_shape_of(recipe, role, rows, columns),
				    turned = p4d_fp8_shape_of(recipe, role, columns, rows);

	return (both){{operand_of(run, &as_is), operand_of(run, &turned)}};
}

/* Compares the operands of one device whose bit in `way` is set. */
static void same_operands(kernel_run *run, const both *got, const both *expected, int way)
{
	for (int i = 0; i < 2; i++) {
		if (!(way >> i & 1))
			continue;
		const p4d_fp8_operand here = fetched(run->device, &got->to[i]),
				      there = fetched(run->device, &expected->to[i]);
		assert_memory_equal(here.codes, there.codes, here.shape.rows * here.shape.depth);
		assert_memory_equal(here.scales, there.scales, p4d_fp8_scales_bytes(&here.shape));
		free(here.codes);
		free(here.scales);
		free(there.codes);
		free(there.scales);
	}
}

/* SwiGLU and its gradient that are quantized while they are computed equal those that are stored first and
 * then quantized. */
static void swiglu_of(kernel_run *run, int recipe, uint64_t n, uint64_t f)
{
	p4d_device *d = run->device;
	float *numbers = malloc(2 * n * f * sizeof(*numbers));

	assert_non_null(numbers);
	some_numbers(numbers, n, 2 * f);
	void *const gate_up = some_operand(run, numbers, 2 * n * f);
	some_numbers(numbers, n, f);
	void *const dact = some_operand(run, numbers, n * f), *const act = run_elements(run, n * f);
	free(numbers);
	const both product = both_of(run, recipe, P4D_FP8_INPUT, n, f),
		   gradient = both_of(run, recipe, P4D_FP8_GRADIENT, n, 2 * f);
	both got[2][4];
	for (int way = 1; way < 4; way++) {
		got[0][way] = both_of(run, recipe, P4D_FP8_INPUT, n, f);
		got[1][way] = both_of(run, recipe, P4D_FP8_GRADIENT, n, 2 * f);
		p4d_fp8_operand *to = got[0][way].to, *dto = got[1][way].to;
		d->quantize_swiglu(d, run->type, way & 1 ? &to[0] : NULL, way & 2 ? &to[1] : NULL, gate_up);
		d->quantize_swiglu_backward(d, run->type, way & 1 ? &dto[0] : NULL, way & 2 ? &dto[1] : NULL,
					    gate_up, dact);
	}
	d->swiglu(d, run->type, act, gate_up, n, f);
	d->quantize(d, run->type, &product.to[0], &product.to[1], act);
	d->swiglu_backward(d, run->type, gate_up, NULL, dact, n, f);
	d->quantize(d, run->type, &gradient.to[0], &gradient.to[1], gate_up);
	for (int way = 1; way < 4; way++) {
		same_operands(run, &got[0][way], &product, way);
		same_operands(run, &got[1][way], &gradient, way);
	}
}

static const int fp8_recipes[] = {P4D_FP8_BLOCKWISE, P4D_FP8_MXFP8, P4D_FP8_CURRENT};

static void all_operands(p4d_device *cuda, p4d_device *cpu, p4d_dtype type)
{
	static const uint64_t sizes[][2] = {{16, 16}, {128, 128}, {256, 384}, {48, 144}, {288, 160}};

	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 5; k++)
			for (p4d_fp8_role role = P4D_FP8_INPUT; role < P4D_FP8_ROLES; role++) {
				kernel_run *run = run_begin(cuda, type, 0), *right = run_begin(cpu, type, 0);
				operands_of(run, right, fp8_recipes[i], role, sizes[k][0], sizes[k][1]);
				run_end(run);
				run_end(right);
			}
}

static void swiglu_on(p4d_device *device, p4d_dtype type)
{
	/* numbers of columns that end inside a tile, and that end at its border */
	static const uint64_t sizes[][2] = {{16, 16}, {128, 128}, {256, 384}, {48, 144}, {288, 160}};

	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 5; k++) {
			kernel_run *run = run_begin(device, type, 0);
			swiglu_of(run, fp8_recipes[i], sizes[k][0], sizes[k][1]);
			run_end(run);
		}
}

/* SwiGLU on the cpu device and on the device under test. */
static void swiglu_in_fp8(void **state)
{
	p4d_device cuda, cpu;

	(void)state;
	assert_int_equal(open_device_under_test(&cuda, NULL), 0);
	assert_int_equal(p4d_device_cpu_open(&cpu, NULL), 0);
	for (int wide = 0; wide < 2; wide++) {
		const p4d_dtype type = wide ? P4D_DT_FP32 : P4D_DT_BF16;
		swiglu_on(&cpu, type);
		swiglu_on(&cuda, type);
#ifdef P4D_TEST_CUDA
		p4d_shim_set_order(P4D_SHIM_BACKWARD);
		swiglu_on(&cuda, type);
		p4d_shim_set_order(P4D_SHIM_FORWARD);
#endif
	}
	cuda.close(&cuda);
	cpu.close(&cpu);
}

/* Codes and scales have the same bits as on the cpu device. */
static void operands_in_fp8(void **state)
{
	p4d_device cpu, cuda;

	(void)state;
	assert_int_equal(p4d_device_cpu_open(&cpu, NULL), 0);
	assert_int_equal(open_device_under_test(&cuda, NULL), 0);
	for (int wide = 0; wide < 2; wide++) {
		const p4d_dtype type = wide ? P4D_DT_FP32 : P4D_DT_BF16;
		all_operands(&cuda, &cpu, type);
#ifdef P4D_TEST_CUDA
		p4d_shim_set_order(P4D_SHIM_BACKWARD);
		all_operands(&cuda, &cpu, type);
		p4d_shim_set_order(P4D_SHIM_FORWARD);
#endif
	}
	cuda.close(&cuda);
	cpu.close(&cpu);
}

/* The operands of a layer's three matmuls: forward, input gradient and weight gradient. */
static void products_of_recipe(kernel_run *run, int recipe, uint64_t n, uint64_t out, uint64_t in)
{
	static const p4d_fp8_role roles[][2] = {{P4D_FP8_INPUT, P4D_FP8_WEIGHT},
						{P4D_FP8_GRADIENT, P4D_FP8_WEIGHT},
						{P4D_FP8_GRADIENT, P4D_FP8_INPUT}};
	p4d_device *const device = run->device;

	for (int i = 0; i < 3; i++) {
		const p4d_dtype type = i < 2 ? run->type : P4D_DT_FP32;
		const p4d_fp8_operand_shape shapes[] = {p4d_fp8_shape_of(recipe, roles[i][0], n, in),
							p4d_fp8_shape_of(recipe, roles[i][1], out, in)};
		const p4d_fp8_operand a = operand_of(run, &shapes[0]), b = operand_of(run, &shapes[1]);
		void *y = type == P4D_DT_FP32 ? run_reals(run, n * out) : run_elements(run, n * out);
		device->quantize(device, run->type, &a, NULL, run_elements(run, n * in));
		device->quantize(device, run->type, &b, NULL, run_elements(run, out * in));
		device->product(device, type, y, NULL, &a, &b);
		record_result(run, "product in FP8", type, y, n * out);
		y = type == P4D_DT_FP32 ? run_reals(run, n * out) : run_elements(run, n * out);
		device->product(device, type, y, y, &a, &b);
		record_result(run, "product in FP8, added", type, y, n * out);
	}
}

static int sm_under_test;

static void fp8_cases(kernel_run *run)
{
	for (int i = 0; i < 3; i++) {
		if (!p4d_fp8_trains(fp8_recipes[i], sm_under_test) || run->off)
			continue;
		products_of_recipe(run, fp8_recipes[i], 128, 256, 384);
		products_of_recipe(run, fp8_recipes[i], 512, 384, 1024);
	}
}

/* Matmuls of FP8 operands, compared with the cpu device. A GPU is tested in the formats that it supports.
 * With the shim, both sides are the cpu device. */
static void products_in_fp8(void **state)
{
	p4d_device device;

	(void)state;
	assert_int_equal(open_device_under_test(&device, NULL), 0);
	sm_under_test = device.sm;
	device.close(&device);
	assert_true(sm_under_test >= 80);
	check_kernels(fp8_cases, 1e-5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(operands_in_fp8),
	    cmocka_unit_test(swiglu_in_fp8),
	    cmocka_unit_test(products_in_fp8),
	};

	select_tests();
	return cmocka_run_group_tests_name("FP8 on the cuda device", tests, NULL, NULL);
}
