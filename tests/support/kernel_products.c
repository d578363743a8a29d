/* SPDX-License-Identifier: Apache-2.0 */
/* Matmuls of a device, forward and backward, with and without accumulation. */
#include "support/support.h"
#include "support/kernel_cases.h"

/* Matmuls of one shape. With the shim, both sides are the cpu device's matmuls. */
static void products_of(kernel_run *run, uint64_t n, uint64_t out, uint64_t in)
{
	p4d_device *const device = run->device;
	void *x = run_elements(run, n * in), *w = run_elements(run, out * in),
	     *y = run_elements(run, n * out);
	float *dw = run_reals(run, out * in);

	for (int accumulate = 0; accumulate < 2; accumulate++) {
		device->linear_weight(device, run->type, dw, y, x, n, out, in, !accumulate);
		record_result(run, "linear_weight", P4D_DT_FP32, dw, out * in);
		device->linear(device, run->type, y, accumulate ? y : NULL, x, w, n, out, in);
		record_result(run, "linear", run->type, y, n * out);
		y = run_elements(run, n * out);
		device->linear_input(device, run->type, x, y, w, n, out, in, accumulate);
		record_result(run, "linear_input", run->type, x, n * in);
		x = run_elements(run, n * in);
	}
	device->linear(device, run->type, y, run_elements(run, n * out), x, w, n, out, in);
	record_result(run, "linear, residual", run->type, y, n * out);
	void *wide = run_elements(run, n * 2 * out);
	for (int accumulate = 0; accumulate < 2; accumulate++) {
		device->columns_weight(device, run->type, dw, wide, 2 * out, x, n, out, in, 0.5f, accumulate);
		record_result(run, "columns_weight", P4D_DT_FP32, dw, out * in);
	}
	device->columns_input(device, run->type, x, wide, 2 * out, w, n, out, in, 0.5f);
	record_result(run, "columns_input", run->type, x, n * in);
	x = run_elements(run, n * in);
	for (int accumulate = 0; accumulate < 2; accumulate++) {
		wide = run_elements(run, n * 2 * out);
		device->columns(device, run->type, wide, 2 * out, x, w, n, out, in, 0.5f, accumulate);
		record_result(run, "columns", run->type, wide, n * 2 * out);
	}
}

void kernel_products(kernel_run *run)
{
	products_of(run, 64, 128, 256);
	products_of(run, 100, 72, 1000);
	products_of(run, 7, 33, 18);
	products_of(run, 256, 512, 64);
	products_of(run, 24, 40, 0); /* with depth 0, the result is 0, or the matrix to which it is added */
	products_of(run, 0, 40, 24);
}
