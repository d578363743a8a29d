/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Kernels of the device under test against the cpu device. A set of cases is a function that makes operands,
 * calls operations and records their results. It runs on both devices with the same numbers, and the two
 * records are compared: fp32 within a share of the largest number of a result, bf16 within that and one
 * rounding. A failure ends the test with the name of the result. Include after support.h.
 */
#include "support/device_under_test.h"

typedef struct kernel_result {
	const char *name;
	uint64_t count;
	float *x;
	bool rounded; /* it was bf16 */
} kernel_result;

enum { KERNEL_OPERANDS = 1024, KERNEL_RESULTS = 256 };

/* Cases on a device. They read the first three members; the others are kernel_cases.c's. */
typedef struct kernel_run {
	p4d_device *device;
	p4d_dtype type; /* of elements */
	uint64_t off;   /* elements from an aligned address to the start of operands */

	uint64_t random;
	unsigned operands, results;
	void *operand[KERNEL_OPERANDS];
	kernel_result result[KERNEL_RESULTS];
} kernel_run;

typedef void kernel_cases(kernel_run *run);

/*
 * Memory of a run on its device, for operands and results: bytes of zeros, fp32 numbers, elements of its
 * type, by `off` from an aligned address. The numbers are the next of the run: exact in bf16, in [-1, 1).
 */
void *run_memory(kernel_run *run, uint64_t bytes);
float *run_reals(kernel_run *run, uint64_t count);
void *run_elements(kernel_run *run, uint64_t count);
uint64_t element_bytes(p4d_dtype type);

/* Waits for queued operations, and keeps a copy of a result. The name is not copied. */
void record_result(kernel_run *run, const char *name, p4d_dtype type, const void *x, uint64_t count);
void record_number(kernel_run *run, const char *name, const double *x);

/* An empty run, for a test that compares nothing. run_end gives memory and results back. */
kernel_run *run_begin(p4d_device *device, p4d_dtype type, uint64_t off);
void run_end(kernel_run *run);

/* Starts a run and calls the cases; only the recorded results are of use. */
kernel_run *run_cases(kernel_cases *cases, p4d_device *device, p4d_dtype type, uint64_t off);

/* limit: a share of the largest number of a result */
void compare_runs(const kernel_run *got, const kernel_run *expected, double limit);

/*
 * The cases in fp32 and bf16, with aligned and unaligned operands, on both devices; and once more on the
 * device under test, whose results may not depend on the order of threads. With P4D_TEST_FEW: aligned fp32
 * and unaligned bf16.
 */
void check_kernels(kernel_cases *cases, double limit);

/* For main: P4D_TEST_ONLY in the environment leaves only tests whose names match it. */
void select_tests(void);
