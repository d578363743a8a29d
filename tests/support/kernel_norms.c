/* SPDX-License-Identifier: Apache-2.0 */
/* Norms of a device, forward and backward: RMSNorm, LayerNorm, and norms of rows that two ranks share. */
#include "support/support.h"

#include "support/kernel_cases.h"

/* RMSNorm, or RMSNorm that adds 1 to its weights (unit). */
typedef struct rms_norm {
	const char *result, *rstd, *input, *weight; /* names of the results */
	bool unit;
} rms_norm;

static const rms_norm plain = {"norm", "norm, rstd", "norm_backward", "norm_backward, weight", false};
static const rms_norm unit = {"unit_norm", "unit_norm, rstd", "unit_norm_backward",
			      "unit_norm_backward, weight", true};

static void norms(kernel_run *run, const rms_norm *of, uint64_t n, uint64_t h)
{
	p4d_device *const device = run->device;
	void *y = run_elements(run, n * h), *x = run_elements(run, n * h), *weight = run_elements(run, h),
	     *dx = run_elements(run, n * h);
	float *rstd = run_reals(run, n), *dweight = run_reals(run, h);

	(of->unit ? device->unit_norm : device->norm)(device, run->type, y, rstd, x, weight, n, h, 1e-5f);
	record_result(run, of->result, run->type, y, n * h);
	record_result(run, of->rstd, P4D_DT_FP32, rstd, n);
	/* new operands, so that results do not depend on how the device rounded earlier results */
	y = run_elements(run, n * h);
	(of->unit ? device->unit_norm_backward : device->norm_backward)(device, run->type, dx, dweight, y, x,
									weight, rstd, n, h);
	record_result(run, of->input, run->type, dx, n * h);
	record_result(run, of->weight, P4D_DT_FP32, dweight, h);
}

static void layer_norms(kernel_run *run, uint64_t n, uint64_t h)
{
	p4d_device *const device = run->device;
	void *y = run_elements(run, n * h), *x = run_elements(run, n * h), *weight = run_elements(run, h),
	     *bias = run_elements(run, h), *dx = run_elements(run, n * h);
	float *statistics = run_reals(run, 2 * n), *dweight = run_reals(run, h), *dbias = run_reals(run, h);

	device->layer_norm(device, run->type, y, statistics, x, weight, bias, n, h, 1e-5f);
	record_result(run, "layer_norm", run->type, y, n * h);
	record_result(run, "layer_norm, statistics", P4D_DT_FP32, statistics, 2 * n);
	y = run_elements(run, n * h);
	device->layer_norm_backward(device, run->type, dx, dweight, dbias, y, x, weight, statistics, n, h);
	record_result(run, "layer_norm_backward", run->type, dx, n * h);
	record_result(run, "layer_norm_backward, weight", P4D_DT_FP32, dweight, h);
	record_result(run, "layer_norm_backward, bias", P4D_DT_FP32, dbias, h);
	device->layer_norm_backward(device, run->type, dx, NULL, NULL, y, x, weight, statistics, n, h);
	record_result(run, "layer_norm_backward, frozen", run->type, dx, n * h);
}

/* Norms of rows whose first half is on another rank. */
static void split_norms(kernel_run *run, uint64_t n, uint64_t h, float plus)
{
	p4d_device *const device = run->device;
	void *y = run_elements(run, n * h), *x = run_elements(run, n * h), *weight = run_elements(run, h),
	     *dx = run_elements(run, n * h);
	float *rstd = run_reals(run, n), *dots = run_reals(run, n), *dweight = run_reals(run, h);

	device->row_dots(device, run->type, dots, y, x, weight, n, h, plus);
	record_result(run, "row_dots, weighted", P4D_DT_FP32, dots, n);
	device->row_dots(device, run->type, rstd, x, x, NULL, n, h, plus);
	record_result(run, "row_dots", P4D_DT_FP32, rstd, n);
	device->split_norm(device, run->type, y, rstd, x, weight, n, h, 2 * h, 1e-5f, plus);
	record_result(run, "split_norm", run->type, y, n * h);
	record_result(run, "split_norm, rstd", P4D_DT_FP32, rstd, n);
	y = run_elements(run, n * h);
	device->split_norm_backward(device, run->type, dx, dweight, y, x, weight, rstd, dots, n, h, 2 * h,
				    plus);
	record_result(run, "split_norm_backward", run->type, dx, n * h);
	record_result(run, "split_norm_backward, weight", P4D_DT_FP32, dweight, h);
}

void kernel_norms(kernel_run *run)
{
	split_norms(run, 1, 8, 0);
	split_norms(run, 300, 40, 1);
	split_norms(run, 5, 129, 0);
	split_norms(run, 3, 6152, 0);
	norms(run, &unit, 300, 40);
	norms(run, &unit, 3, 2056);
	norms(run, &unit, 2, 12296);
	layer_norms(run, 1, 8);
	layer_norms(run, 300, 40);
	layer_norms(run, 5, 129);
	layer_norms(run, 3, 6152);
	norms(run, &plain, 1, 8);
	norms(run, &plain, 300, 40); /* more rows than partial sums */
	norms(run, &plain, 5, 129);
	/* rows with two accesses of 16 bytes per thread, with four, and too long for registers */
	norms(run, &plain, 3, 2056);
	norms(run, &plain, 3, 6152);
	norms(run, &plain, 2, 12296);
}
