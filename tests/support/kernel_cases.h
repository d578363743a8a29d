/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Kernels of the device under test, compared with the cpu device. A set of cases is a function that makes
 * operands, calls operations and records their results. It runs on both devices with the same numbers.
 * Then the two records are compared. In fp32, a result may differ by a share of its largest number. In
 * bf16, it may also differ by one rounding. If a result differs more, the test fails with the result's
 * name. Include after support.h.
 */
#include "support/device_under_test.h"

typedef struct kernel_result {
	const char *name;
	uint64_t count;
	float *x;
	bool rounded; /* whether the result was bf16 */
} kernel_result;

enum { KERNEL_OPERANDS = 1024, KERNEL_RESULTS = 256 };

/* One run of the cases on a device. Cases use only the first three members. */
typedef struct kernel_run {
	p4d_device *device;
	p4d_dtype type; /* type of elements */
	uint64_t off;   /* number of elements between an aligned address and an operand */

	uint64_t random;
	unsigned operands, results;
	void *operand[KERNEL_OPERANDS];
	kernel_result result[KERNEL_RESULTS];
} kernel_run;

typedef void kernel_cases(kernel_run *run);

/*
 * Memory of the run on its device, for operands and results: zero bytes, fp32 numbers, or elements of the
 * run's type. Elements begin `off` elements after an aligned address. The numbers are the next random
 * numbers of the run, in [-1, 1) and exact in bf16.
 */
void *run_memory(kernel_run *run, uint64_t bytes);
float *run_reals(kernel_run *run, uint64_t count);
void *run_elements(kernel_run *run, uint64_t count);
uint64_t element_bytes(p4d_dtype type);

/* Waits for queued operations, and copies a result into the record. name must stay valid. */
void record_result(kernel_run *run, const char *name, p4d_dtype type, const void *x, uint64_t count);
void record_number(kernel_run *run, const char *name, const double *x);

/* An empty run, for a test that compares nothing. run_end frees the run's memory and results. */
kernel_run *run_begin(p4d_device *device, p4d_dtype type, uint64_t off);
void run_end(kernel_run *run);

/* Starts a run and calls the cases. Returns the run with its record, without the memory. */
kernel_run *run_cases(kernel_cases *cases, p4d_device *device, p4d_dtype type, uint64_t off);

/* limit: the largest allowed difference, as a share of the result's largest number. */
void compare_runs(const kernel_run *got, const kernel_run *expected, double limit);

/*
 * Runs the cases on both devices, in fp32 and bf16, with aligned and unaligned operands. Then runs them on
 * the device under test in another order of threads, which must not change the results. With P4D_TEST_FEW:
 * only aligned fp32 and unaligned bf16.
 */
void check_kernels(kernel_cases *cases, double limit);

/* kernel_products.c: cases of the device's matmuls. */
void kernel_products(kernel_run *run);

/* kernel_norms.c: cases of the device's norms. */
void kernel_norms(kernel_run *run);

/* kernel_attention.c: cases of attention by the device's own kernels. */
void kernel_attention(kernel_run *run);

/* Operands of attention have at most MOST_TOKENS tokens. */
enum { MOST_TOKENS = 4096 };
/* Copies `count` integers of the host to the run's memory. */
int32_t *kernel_placed(kernel_run *run, const int32_t *host, uint64_t count);
/* Positions first, first + 1, ... of `count` tokens. */
int32_t *kernel_places(kernel_run *run, uint64_t count, int32_t first);
/* Document numbers of `batch` sequences of `count` tokens, in documents of `length` tokens. */
int32_t *kernel_documents(kernel_run *run, uint64_t batch, uint64_t count, uint64_t length);
/* Bytes of workspace that the cpu device needs for attention and its gradients. */
uint64_t cpu_workspace_bytes(uint64_t head_dim);
/* Records log-sum-exp values. A query that sees no key has -inf, which cannot be compared, so a number is
 * recorded instead. */
void record_lse(kernel_run *run, const float *lse, uint64_t count);

/* Keeps only the tests whose names match P4D_TEST_ONLY, if the variable is set. For main(). */
void select_tests(void);
