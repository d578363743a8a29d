/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"
#include "support/kernel_cases.h"

#include "support/numbers.h"

uint64_t element_bytes(p4d_dtype type)
{
	return type == P4D_DT_BF16 ? 2 : 4;
}

void *run_memory(kernel_run *run, uint64_t bytes)
{
	assert_true(run->operands < KERNEL_OPERANDS);
	return run->operand[run->operands++] = make_memory(run->device, bytes);
}

/* The run's next `count` numbers, in the host's memory. */
static float *next_numbers(kernel_run *run, uint64_t count)
{
	float *from = malloc((count ? count : 1) * sizeof(*from));

	assert_non_null(from);
	for (uint64_t i = 0; i < count; i++)
		from[i] = (float)number(&run->random);
	return from;
}

float *run_reals(kernel_run *run, uint64_t count)
{
	float *x = (float *)run_memory(run, (count + run->off) * sizeof(*x)) + run->off;
	float *from = next_numbers(run, count);

	put(run->device, x, from, count * sizeof(*x));
	free(from);
	return x;
}

void *run_elements(kernel_run *run, uint64_t count)
{
	const uint64_t bytes = element_bytes(run->type);
	char *x = (char *)run_memory(run, (count + run->off) * bytes) + run->off * bytes;
	float *host = next_numbers(run, count), *from = make_memory(run->device, count * sizeof(*from));

	put(run->device, from, host, count * sizeof(*from));
	run->device->cast(run->device, run->type, x, P4D_DT_FP32, from, count);
	finish(run->device);
	drop_memory(run->device, from);
	free(host);
	return x;
}

static float *next_result(kernel_run *run, const char *name, p4d_dtype type, uint64_t count)
{
	assert_true(run->results < KERNEL_RESULTS);
	kernel_result *r = &run->result[run->results++];

	*r = (kernel_result){name, count, malloc((count ? count : 1) * sizeof(float)), type == P4D_DT_BF16};
	assert_non_null(r->x);
	return r->x;
}

void record_result(kernel_run *run, const char *name, p4d_dtype type, const void *x, uint64_t count)
{
	float *to = next_result(run, name, type, count),
	      *wide = make_memory(run->device, count * sizeof(*wide));

	run->device->cast(run->device, P4D_DT_FP32, wide, type, x, count);
	fetch(run->device, to, wide, count * sizeof(*to));
	drop_memory(run->device, wide);
}

void record_number(kernel_run *run, const char *name, const double *x)
{
	double number;

	fetch(run->device, &number, x, sizeof(number));
	*next_result(run, name, P4D_DT_FP32, 1) = (float)number;
}

kernel_run *run_begin(p4d_device *device, p4d_dtype type, uint64_t off)
{
	kernel_run *run = calloc(1, sizeof(*run));

	assert_non_null(run);
	run->device = device;
	run->type = type;
	run->off = off;
	run->random = 1;
	return run;
}

static void drop_operands(kernel_run *run)
{
	while (run->operands > 0)
		drop_memory(run->device, run->operand[--run->operands]);
}

void run_end(kernel_run *run)
{
	drop_operands(run);
	while (run->results > 0)
		free(run->result[--run->results].x);
	free(run);
}

kernel_run *run_cases(kernel_cases *cases, p4d_device *device, p4d_dtype type, uint64_t off)
{
	kernel_run *run = run_begin(device, type, off);

	cases(run);
	finish(device);
	drop_operands(run);
	return run;
}

void compare_runs(const kernel_run *got, const kernel_run *expected, double limit)
{
	assert_int_equal(got->results, expected->results);
	for (unsigned i = 0; i < got->results; i++) {
		const kernel_result *g = &got->result[i], *e = &expected->result[i];
		double largest = 0;
		assert_int_equal(g->count, e->count);
		for (uint64_t k = 0; k < e->count; k++)
			largest = fmax(largest, fabs((double)e->x[k]));
		for (uint64_t k = 0; k < e->count; k++) {
			const double off_by = fabs((double)g->x[k] - (double)e->x[k]);
			const double rounding = e->rounded ? fabs((double)e->x[k]) / 128 : 0;
			if (!(off_by <= limit * largest + rounding))
				fail_msg(
				    "%s (%s, off %d), element %llu of %llu: %.9g, not %.9g (largest %.3g)",
				    e->name, e->rounded ? "rounded" : "fp32", (int)got->off,
				    (unsigned long long)k, (unsigned long long)e->count, (double)g->x[k],
				    (double)e->x[k], largest);
		}
	}
}

/* A second run must give the same bits, except on a GPU. */
static void same_bits(const kernel_run *a, const kernel_run *b)
{
	assert_int_equal(a->results, b->results);
	for (unsigned i = 0; i < a->results; i++)
		if (memcmp(a->result[i].x, b->result[i].x, a->result[i].count * sizeof(float)) != 0)
			fail_msg("%s depends on the order of threads", a->result[i].name);
}

/* Another order of threads changes the result if a thread or block reads what another one has not yet
 * written. */
static void run_again(kernel_cases *cases, const kernel_run *first)
{
#ifdef P4D_TEST_CUDA
	p4d_shim_set_order(P4D_SHIM_BACKWARD);
#endif
	kernel_run *again = run_cases(cases, first->device, first->type, first->off);
#ifdef P4D_TEST_CUDA
	p4d_shim_set_order(P4D_SHIM_FORWARD);
#endif
	same_bits(first, again);
	run_end(again);
}

void check_kernels(kernel_cases *cases, double limit)
{
	static const p4d_dtype types[] = {P4D_DT_FP32, P4D_DT_BF16};
	p4d_device cpu, tested;

	assert_int_equal(p4d_device_cpu_open(&cpu, NULL), 0);
	void *workspace = make_memory(&cpu, P4D_CPU_PRODUCT_BYTES);
	cpu.set_workspace(&cpu, workspace, P4D_CPU_PRODUCT_BYTES, NULL, 0);
	assert_int_equal(open_device_under_test(&tested, NULL), 0);
	for (size_t way = 0; way < 4; way += test_stride(1, 3)) {
		const p4d_dtype type = types[way / 2];
		const uint64_t off = way % 2;
		kernel_run *expected = run_cases(cases, &cpu, type, off);
		kernel_run *got = run_cases(cases, &tested, type, off);
		compare_runs(got, expected, limit);
		if (off == 0)
			run_again(cases, got);
		run_end(expected);
		run_end(got);
	}
	drop_memory(&cpu, workspace);
	cpu.close(&cpu);
	tested.close(&tested);
}

void select_tests(void)
{
	if (getenv("P4D_TEST_ONLY"))
		cmocka_set_test_filter(getenv("P4D_TEST_ONLY"));
}
