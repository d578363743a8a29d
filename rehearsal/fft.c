/* SPDX-License-Identifier: Apache-2.0 */
/* cuFFT as PyTorch calls it: plans, and the work area of each plan. */
#include <stdlib.h>

#include "abi.h"
#include "report.h"

/* cufftResult */
enum { FFT_OK = 0, FFT_INVALID_PLAN = 1, FFT_NO_MEMORY = 2, FFT_INVALID_VALUE = 4 };

/* A cufftHandle is a number: an index into this table of plans. */
enum { PLANS = 4096 };
static unsigned char taken[PLANS];

static int is_plan(int plan)
{
	return plan > 0 && plan < PLANS && __atomic_load_n(&taken[plan], __ATOMIC_ACQUIRE);
}

ENTRY int cufftCreate(int *plan)
{
	for (int i = 1; i < PLANS; i++) {
		unsigned char is_free = 0;

		if (__atomic_compare_exchange_n(&taken[i], &is_free, 1, 0, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED)) {
			*plan = i;
			return FFT_OK;
		}
	}
	return FFT_NO_MEMORY;
}

ENTRY int cufftDestroy(int plan)
{
	if (!is_plan(plan))
		return FFT_INVALID_PLAN;
	__atomic_store_n(&taken[plan], 0, __ATOMIC_RELEASE);
	return FFT_OK;
}

/* PyTorch turns this off and allocates the work area itself, so that it is counted. */
ENTRY int cufftSetAutoAllocation(int plan, int on)
{
	if (!is_plan(plan))
		return FFT_INVALID_PLAN;
	if (on)
		p4d_report_doubt("work areas that cuFFT allocates itself are not counted");
	return FFT_OK;
}

ENTRY int cufftSetStream(int plan)
{
	return is_plan(plan) ? FFT_OK : FFT_INVALID_PLAN;
}

ENTRY int cufftSetWorkArea(int plan)
{
	return is_plan(plan) ? FFT_OK : FFT_INVALID_PLAN;
}

/*
 * Returns the bytes of a complex number in the precision of a cudaDataType; 0: cuFFT does not support the
 * type.
 */
static size_t complex_bytes(int type)
{
	switch (type) {
	case 0: /* CUDA_R_32F */
	case 4: /* CUDA_C_32F */
		return 8;
	case 1: /* CUDA_R_64F */
	case 5: /* CUDA_C_64F */
		return 16;
	case 2:  /* CUDA_R_16F */
	case 6:  /* CUDA_C_16F */
	case 14: /* CUDA_R_16BF */
	case 15: /* CUDA_C_16BF */
		return 4;
	default:
		return 0;
	}
}

/*
 * The longest transform that one kernel does in its shared memory; and the largest prime factor for which
 * cuFFT does not need another algorithm.
 */
enum { IN_ONE_KERNEL = 4096, LARGEST_PRIME = 127 };

static int has_small_factors(long long n)
{
	for (int factor = 2; factor <= LARGEST_PRIME; factor++)
		while (n % factor == 0)
			n /= factor;
	return n == 1;
}

/*
 * Computes a plan's work area. According to cuFFT's guide, it has 1 to 8 times as many elements as are
 * transformed, and fewer for some plans. p4d assumes the following: if one kernel transforms a row in shared
 * memory, there is no work area; if several kernels are needed, the area has a copy of all elements.
 */
static int plan_of(int rank, const long long *n, size_t element, long long batch, size_t *area)
{
	uint64_t bytes = element;

	*area = 0;
	if (rank < 1 || rank > 3 || batch < 0 || !element)
		return FFT_INVALID_VALUE;
	for (int i = 0; i < rank; i++)
		if (n[i] < 1 || __builtin_mul_overflow(bytes, (uint64_t)n[i], &bytes))
			return FFT_INVALID_VALUE;
	if (__builtin_mul_overflow(bytes, (uint64_t)batch, &bytes) || bytes > SIZE_MAX / 2)
		return FFT_INVALID_VALUE;
	if (rank > 1 || n[0] > IN_ONE_KERNEL || !has_small_factors(n[0])) {
		*area = bytes;
		p4d_report_doubt("p4d assumes that a work area of cuFFT is as large as the transformed data");
	}
	return FFT_OK;
}

ENTRY int cufftXtMakePlanMany(int plan, int rank, const long long *n, const long long *embedded_in,
			      long long stride_in, long long distance_in, int type_in,
			      const long long *embedded_out, long long stride_out, long long distance_out,
			      int type_out, long long batch, size_t *area, int type)
{
	(void)embedded_in, (void)stride_in, (void)distance_in, (void)type_in, (void)embedded_out,
	    (void)stride_out, (void)distance_out, (void)type_out;
	return is_plan(plan) ? plan_of(rank, n, complex_bytes(type), batch, area) : FFT_INVALID_PLAN;
}

ENTRY int cufftXtExec(int plan)
{
	if (!is_plan(plan))
		return FFT_INVALID_PLAN;
	p4d_report_add(P4D_REPORT_LAUNCHES, 1);
	return FFT_OK;
}
