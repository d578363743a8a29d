/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Kernels of optimizers, for test_cuda_kernels: moments in 8 bits, and Muon. */
#include "device/byte_codes.h"
#include "support/kernel_cases.h"
#include "support/numbers.h"

/* Squares numbers in place. Second moments must not be negative. */
static inline void kernel_square(kernel_run *run, float *x, uint64_t count)
{
	float *host = malloc((count ? count : 1) * sizeof(*host));

	assert_non_null(host);
	fetch(run->device, host, x, count * sizeof(*host));
	for (uint64_t i = 0; i < count; i++)
		host[i] *= host[i];
	put(run->device, x, host, count * sizeof(*host));
	free(host);
}

/* Records codes as numbers, so that neighbouring codes differ little. */
static inline void kernel_record_codes(kernel_run *run, const uint8_t *codes, uint64_t count)
{
	float *const numbers = run_memory(run, count * sizeof(*numbers)), *const here =
									      malloc(count * sizeof(*here));
	uint8_t *const fetched = malloc(count);

	assert_true(here && fetched);
	fetch(run->device, fetched, codes, count);
	for (uint64_t i = 0; i < count; i++)
		here[i] = i < count / 2 ? p4d_nf4_of_eight_bits(fetched[i]) : p4d_byte_sizes[fetched[i]];
	put(run->device, numbers, here, count * sizeof(*here));
	record_result(run, "adam_bytes, codes", P4D_DT_FP32, numbers, count);
	free(here);
	free(fetched);
}

/* AdamW with 8-bit moments on a part of a tensor. All bytes are valid codes. Another rank has a part of
 * the last block. */
static inline void kernel_bytes(kernel_run *run, uint64_t count)
{
	enum { BEFORE = 77, CODES = 4 };
	p4d_device *const device = run->device;
	const p4d_adam adam = {0.01f, 0.9f, 0.95f, 1e-5f, 0.1f, 0.5f, 0.25f, 0.5f};
	const uint64_t blocks = (BEFORE + count + P4D_BYTE_BLOCK - 1) / P4D_BYTE_BLOCK;
	void *const x = run_elements(run, count);
	float *const master = run_reals(run, count), *const gradient = run_reals(run, count),
		     *const scales = run_reals(run, 2 * blocks),
		     *const agreed = run_memory(run, 4 * sizeof(float));
	uint8_t *const codes = (uint8_t *)run_reals(run, 2 * (count / CODES + 1));
	p4d_byte_moments m = {.first = codes,
			      .second = codes + count,
			      .first_scale = scales,
			      .second_scale = scales + blocks,
			      .count = count,
			      .before = BEFORE};

	kernel_square(run, scales, 2 * blocks);
	device->adam_byte_scales(device, agreed, &m, blocks - 1, gradient, &adam);
	device->adam_byte_scales(device, agreed + 2, &m, 0, gradient, &adam);
	record_result(run, "adam_byte_scales", P4D_DT_FP32, agreed, 4);
	if (blocks > 1) {
		const float larger[] = {3, 5};
		put(device, agreed, larger, sizeof(larger));
		m.end = agreed;
	}
	device->adam_bytes(device, run->type, x, run->type == P4D_DT_BF16 ? master : NULL, &m, gradient,
			   &adam);
	record_result(run, "adam_bytes", run->type, x, count);
	record_result(run, "adam_bytes, master", P4D_DT_FP32, master, count);
	record_result(run, "adam_bytes, scales", P4D_DT_FP32, scales, 2 * blocks);
	kernel_record_codes(run, codes, 2 * count);
}

/* Muon's operations on arrays and on a square matrix. */
static inline void kernel_muon(kernel_run *run, uint64_t count)
{
	enum { SIDE = 37 };
	p4d_device *const device = run->device;
	const p4d_muon step = {0.01f, 0.02f, 0.1f, 0.95f, 0.25f};
	void *const x = run_elements(run, count), *const parameter = run_elements(run, count);
	void *const square = run_elements(run, SIDE * SIDE), *const gram = run_elements(run, SIDE * SIDE);
	float *const momentum = run_reals(run, count), *const gradient = run_reals(run, count),
		     *const master = run_reals(run, count);
	double *const squares = run_memory(run, sizeof(*squares));

	device->muon_average(device, momentum, gradient, count, &step);
	record_result(run, "muon_average, momentum", P4D_DT_FP32, momentum, count);
	record_result(run, "muon_average", P4D_DT_FP32, gradient, count);
	device->zero(device, squares, sizeof(*squares));
	device->sum_squares(device, squares, gradient, count);
	device->muon_begin(device, run->type, x, gradient, squares, count);
	record_result(run, "muon_begin", run->type, x, count);
	device->muon_polynomial(device, run->type, square, gram, SIDE);
	record_result(run, "muon_polynomial", run->type, square, SIDE * SIDE);
	device->muon_step(device, run->type, parameter, run->type == P4D_DT_BF16 ? master : NULL, x, count,
			  &step);
	record_result(run, "muon_step", run->type, parameter, count);
	record_result(run, "muon_step, master", P4D_DT_FP32, master, count);
}
