/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses among the algorithms that cuBLASLt proposes for a matmul: the first one in its own order; or, if
 * matmuls are timed, the fastest one.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/hash.h"
#include "device/cuda/gemm_internal.h"

/*
 * Number of timed runs of each algorithm. The shortest time counts, because the GPU's clock has risen by
 * then.
 */
enum { ROUNDS = 4 };
/*
 * An algorithm replaces the library's first choice only if it takes less than this share of its time. A
 * smaller gain is noise, and another algorithm rounds differently.
 */
static const float worth_it = 0.99f;

cublasStatus_t p4d_gemm__propose(const p4d_gemm *p, p4d_gemm_shape *s)
{
	const struct {
		cublasLtMatmulPreferenceAttributes_t name;
		uint32_t value;
	} wishes[] = {
	    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, s->form.a_alignment},
	    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, s->form.b_alignment},
	    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, s->form.add_alignment},
	    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, s->form.to_alignment},
	    /* partial results of split-k are added in fp32, even if the output is bf16 */
	    {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, s->form.to == CUDA_R_32F
							     ? CUBLASLT_REDUCTION_SCHEME_MASK
							     : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE},
	};
	cublasLtMatmulPreference_t preference;
	cublasLtMatmulHeuristicResult_t found[P4D_GEMM_ALGORITHMS];
	int number = 0;
	cublasStatus_t status = cublasLtMatmulPreferenceCreate(&preference);

	if (status != CUBLAS_STATUS_SUCCESS)
		return status;
	status = cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
						      &p->workspace_bytes, sizeof(p->workspace_bytes));
	for (size_t i = 0; i < sizeof(wishes) / sizeof(*wishes) && status == CUBLAS_STATUS_SUCCESS; i++)
		status = cublasLtMatmulPreferenceSetAttribute(preference, wishes[i].name, &wishes[i].value,
							      sizeof(uint32_t));
	if (status == CUBLAS_STATUS_SUCCESS)
		status = cublasLtMatmulAlgoGetHeuristic(p->library, s->operation, s->a, s->b, s->to, s->to,
							preference, P4D_GEMM_ALGORITHMS, found, &number);
	cublasLtMatmulPreferenceDestroy(preference);
	if (status != CUBLAS_STATUS_SUCCESS)
		return status;
	for (int i = 0; i < number; i++)
		if (found[i].state == CUBLAS_STATUS_SUCCESS)
			s->algorithm[s->algorithms++] =
			    (p4d_gemm_algorithm){found[i].algo, found[i].workspaceSize};
	return s->algorithms ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

static cudaError_t open_timing(p4d_gemm *p)
{
	cudaError_t status = cudaSuccess;

	if (!p->begin)
		status = cudaEventCreateWithFlags(&p->begin, cudaEventDefault);
	if (status == cudaSuccess && !p->until)
		status = cudaEventCreateWithFlags(&p->until, cudaEventDefault);
	return status;
}

void p4d_gemm__close_timing(p4d_gemm *p)
{
	if (p->begin)
		cudaEventDestroy(p->begin);
	if (p->until)
		cudaEventDestroy(p->until);
}

/* Times one run. An algorithm that the library cannot run counts as infinitely slow. */
static cudaError_t time_once(p4d_gemm *p, cudaStream_t stream, p4d_gemm_shape *s, unsigned i,
			     const p4d_gemm_operands *operands, float *milliseconds)
{
	cudaError_t status = cudaEventRecord(p->begin, stream);

	*milliseconds = INFINITY;
	if (status != cudaSuccess)
		return status;
	if (p4d_gemm__queue(p, stream, s, i, operands) != CUBLAS_STATUS_SUCCESS)
		return cudaSuccess;
	status = cudaEventRecord(p->until, stream);
	if (status == cudaSuccess)
		status = cudaEventSynchronize(p->until);
	return status == cudaSuccess ? cudaEventElapsedTime(milliseconds, p->begin, p->until) : status;
}

static void choose_fastest(p4d_gemm_shape *s)
{
	unsigned best = 0;

	for (unsigned i = 1; i < s->algorithms; i++)
		if (s->milliseconds[i] < s->milliseconds[best])
			best = i;
	s->chosen = s->milliseconds[best] < worth_it * s->milliseconds[0] ? best : 0;
}

/* Times the algorithms in several rounds. The first round also loads code, so it does not count. */
cudaError_t p4d_gemm__time(p4d_gemm *p, cudaStream_t stream, p4d_gemm_shape *s,
			   const p4d_gemm_operands *operands)
{
	float once;

	if (!p->times || s->timed)
		return cudaSuccess;
	cudaError_t status = open_timing(p);
	for (unsigned i = 0; i < s->algorithms; i++)
		s->milliseconds[i] = INFINITY;
	for (int round = 0; round < ROUNDS; round++)
		for (unsigned i = 0; i < s->algorithms && status == cudaSuccess; i++) {
			status = time_once(p, stream, s, i, operands, &once);
			if (round > 0)
				s->milliseconds[i] = fminf(s->milliseconds[i], once);
		}
	if (status != cudaSuccess)
		return status;
	s->timed = true;
	choose_fastest(s);
	return cudaSuccess;
}

/*
 * A hash of everything that the library's proposals depend on, except the GPU, because a job has only one
 * kind of GPU.
 */
static uint64_t hash_of(const p4d_gemm *p, const p4d_gemm_form *f)
{
	uint64_t hash = p4d_hash_bytes((const char *)f, sizeof(*f));

	hash = p4d_hash_step(hash, cublasLtGetVersion());
	return p4d_hash_step(hash, p->workspace_bytes);
}

static const char *type_name(const p4d_gemm_form *f)
{
	return f->scaled ? "fp8" : f->a_type == CUDA_R_16BF ? "bf16" : "fp32";
}

bool p4d_gemm_timed(const p4d_gemm *p, unsigned number, p4d_timed_product *t)
{
	const p4d_gemm_shape *s = p->shapes, *const end = p->shapes + p->count;

	while (s < end && (!s->timed || number-- > 0))
		s++;
	if (s == end)
		return false;
	*t = (p4d_timed_product){.choice = {hash_of(p, &s->form), s->chosen, s->algorithms},
				 .gain = s->milliseconds[0] / s->milliseconds[s->chosen]};
	snprintf(t->text, sizeof(t->text), "%" PRIu64 "x%" PRIu64 "x%" PRIu64 " %c%c %s", s->form.m,
		 s->form.n, s->form.k, s->form.a_transposed ? 't' : 'n', s->form.b_transposed ? 't' : 'n',
		 type_name(&s->form));
	return true;
}

void p4d_gemm_choose(p4d_gemm *p, const p4d_product_choice *choice)
{
	for (p4d_gemm_shape *s = p->shapes; s < p->shapes + p->count; s++)
		if (hash_of(p, &s->form) == choice->shape && s->algorithms == choice->proposed &&
		    choice->algorithm < s->algorithms)
			s->chosen = choice->algorithm;
}
