/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Kernels of the device under test, compared with the cpu device. A set of cases is a function that makes
 * operands, calls operations and records their results. It runs on both devices with the same numbers, and
 * then the two records are compared. In fp32, results may differ by a share of the largest number of the
 * result; in bf16, by that and one rounding. A failure ends the test with the result's name. Include after
 * support.h.
 */
#include "support/device_under_test.h"

typedef struct kernel_result {
	const char *name;
	uint64_t count;
	float *x;
	bool rounded; /* whether the result was bf16 */
} kernel_result;

enum { KERNEL_OPERANDS = 1024, KERNEL_RESULTS = 256 };

/* Cases on a device. Cases read the first three members; the others belong to kernel_cases.c. */
typedef struct kernel_run {
	p4d_device *device;
	p4d_dtype type; /* type of elements */
	uint64_t off;   /* how many elements operands start after an aligned address */

	uint64_t random;
	unsigned operands, results;
	void *operand[KERNEL_OPERANDS];
	kernel_result result[KERNEL_RESULTS];
} kernel_run;

typedef void kernel_cases(kernel_run *run);

/*
 * Memory of a run on its device, for operands and results: bytes that are zero, fp32 numbers, or elements of
 * the run's type, `off` elements after an aligned address. The numbers are the run's next ones: in [-1, 1),
 * and exact in bf16.
 */
void *run_memory(kernel_run *run, uint64_t bytes);
float *run_reals(kernel_run *run, uint64_t count);
void *run_elements(kernel_run *run, uint64_t count);
uint64_t element_bytes(p4d_dtype type);

/* Waits for queued operations, and keeps a copy of a result. The name must stay valid. */
void record_result(kernel_run *run, const char *name, p4d_dtype type, const void *x, uint64_t count);
void record_number(kernel_run *run, const char *name, const double *x);

/* An empty run, for a test that compares nothing. run_end frees the run's memory and results. */
kernel_run *run_begin(p4d_device *device, p4d_dtype type, uint64_t off);
void run_end(kernel_run *run);

/* Starts a run and calls the cases; the caller needs only the recorded results. */
kernel_run *run_cases(kernel_cases *cases, p4d_device *device, p4d_dtype type, uint64_t off);

/* limit: the largest allowed difference, as a share of the largest number of a result */
void compare_runs(const kernel_run *got, const kernel_run *expected, double limit);

/*
 * Runs the cases in fp32 and bf16, with aligned and unaligned operands, on both devices. Runs them once more
 * on the device under test, whose results may not depend on the order of threads. With P4D_TEST_FEW: only
 * aligned fp32 and unaligned bf16.
 */
void check_kernels(kernel_cases *cases, double limit);

/* kernel_products.c: cases of the device's matmuls. */
void kernel_products(kernel_run *run);

/* kernel_norms.c: cases of the device's norms. */
void kernel_norms(kernel_run *run);

/* kernel_attention.c: cases of attention by the device's own kernels. */
void kernel_attention(kernel_run *run);

/* Operands of attention. They have at most MOST_TOKENS numbers. */
enum { MOST_TOKENS = 4096 };
/* Copies `count` integers of the host to the run's memory. */
int32_t *kernel_placed(kernel_run *run, const int32_t *host, uint64_t count);
/* Positions first, first + 1, ... of `count` tokens. */
int32_t *kernel_places(kernel_run *run, uint64_t count, int32_t first);
/* Document numbers of `batch` sequences of `count` tokens, in documents of `length` tokens. */
int32_t *kernel_documents(kernel_run *run, uint64_t batch, uint64_t count, uint64_t length);
/* Workspace with which the cpu device computes attention and its gradients. */
uint64_t cpu_workspace_bytes(uint64_t head_dim);
/* Records the logarithms of sums of exponentials. A query that sees no key has -inf, which cannot be
 * compared; records a number instead. */
void record_lse(kernel_run *run, const float *lse, uint64_t count);

/* For main: if the environment has P4D_TEST_ONLY, keeps only tests whose names match it. */
void select_tests(void);
