/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces cuSOLVER's dense solvers, as far as PyTorch calls them. It returns the sizes of workspaces, and
 * reports success in each status.
 */
#include <stdlib.h>
#include <string.h>

#include "abi.h"
#include "report.h"

/* cusolverStatus_t */
enum { SOLVER_OK = 0, SOLVER_NO_MEMORY = 2, SOLVER_INVALID = 3 };

/* Number of columns that a blocked factorization processes at a time. */
enum { BLOCK = 128 };

typedef struct solver_handle {
	void *stream;
} solver_handle;

ENTRY int cusolverDnCreate(solver_handle **h)
{
	*h = calloc(1, sizeof(**h));
	return *h ? SOLVER_OK : SOLVER_NO_MEMORY;
}

ENTRY int cusolverDnDestroy(solver_handle *h)
{
	free(h);
	return SOLVER_OK;
}

ENTRY int cusolverDnSetStream(solver_handle *h, void *stream)
{
	h->stream = stream;
	return SOLVER_OK;
}

/* Settings of a method. The stand-in ignores them. */
#define SETTINGS(create, destroy) \
	ENTRY int create(void **settings) \
	{ \
		*settings = calloc(1, 16); \
		return *settings ? SOLVER_OK : SOLVER_NO_MEMORY; \
	} \
	ENTRY int destroy(void *settings) \
	{ \
		free(settings); \
		return SOLVER_OK; \
	}
SETTINGS(cusolverDnCreateParams, cusolverDnDestroyParams)
SETTINGS(cusolverDnCreateGesvdjInfo, cusolverDnDestroyGesvdjInfo)
SETTINGS(cusolverDnCreateSyevjInfo, cusolverDnDestroySyevjInfo)

#define SETTING(name) \
	ENTRY int name(void) \
	{ \
		return SOLVER_OK; \
	}
SETTING(cusolverDnXgesvdjSetMaxSweeps)
SETTING(cusolverDnXgesvdjSetSortEig)
SETTING(cusolverDnXgesvdjSetTolerance)

/* Stores the number of elements of a workspace for `batch` matrices. */
static int elements(uint64_t count, int batch, int *out)
{
	if (__builtin_mul_overflow(count, (uint64_t)(batch > 0 ? batch : 0), &count) || count > INT32_MAX)
		return SOLVER_INVALID;
	p4d_report_doubt("p4d assumes the sizes of cuSOLVER's workspaces, except that of singular values by "
			 "Jacobi's method");
	*out = (int)count;
	return SOLVER_OK;
}

static uint64_t smaller(int m, int n)
{
	return (uint64_t)(m < n ? m : n);
}

/* Workspace of a Jacobi method. Measured with cuSOLVER 12: exact for m > n, within 5 % for m = n. */
static uint64_t jacobi(int m, int n)
{
	const uint64_t k = smaller(m, n);

	return (uint64_t)m * (uint64_t)n + k * k + 31;
}

static uint64_t decomposition(int m, int n)
{
	const uint64_t k = smaller(m, n);

	return (uint64_t)m * (uint64_t)n + 2 * k * k + k + 63;
}

static uint64_t eigenvalues(int n)
{
	return 2 * (uint64_t)n * (uint64_t)n + 6 * (uint64_t)n + 1;
}

/* Writes success to COUNT statuses in device memory. */
static int done(int *status, int count)
{
	p4d_report_add(P4D_REPORT_LAUNCHES, 1);
	if (status && count > 0)
		memset(status, 0, (size_t)count * sizeof(*status));
	return SOLVER_OK;
}

#define H const void *h
#define A const void *a, int lda
#define WORK const void *work, int size

/* Singular values. */
#define SINGULAR(t) \
	ENTRY int cusolverDn##t##gesvd_bufferSize(H, int m, int n, int *size) \
	{ \
		(void)h; \
		return elements(decomposition(m, n), 1, size); \
	} \
	ENTRY int cusolverDn##t##gesvd(H, signed char job_u, signed char job_v, int m, int n, A, \
				       const void *s, const void *u, int ldu, const void *v, int ldv, WORK, \
				       const void *real_work, int *status) \
	{ \
		(void)h, (void)job_u, (void)job_v, (void)m, (void)n, (void)a, (void)lda, (void)s, (void)u, \
		    (void)ldu, (void)v, (void)ldv, (void)work, (void)size, (void)real_work; \
		return done(status, 1); \
	} \
	ENTRY int cusolverDn##t##gesvdj_bufferSize(H, int job, int is_small, int m, int n, A, const void *s, \
						   const void *u, int ldu, const void *v, int ldv, \
						   int *size) \
	{ \
		(void)h, (void)job, (void)is_small, (void)a, (void)lda, (void)s, (void)u, (void)ldu, \
		    (void)v, (void)ldv; \
		return elements(jacobi(m, n), 1, size); \
	} \
	ENTRY int cusolverDn##t##gesvdj(H, int job, int is_small, int m, int n, A, const void *s, \
					const void *u, int ldu, const void *v, int ldv, WORK, int *status) \
	{ \
		(void)h, (void)job, (void)is_small, (void)m, (void)n, (void)a, (void)lda, (void)s, (void)u, \
		    (void)ldu, (void)v, (void)ldv, (void)work, (void)size; \
		return done(status, 1); \
	} \
	ENTRY int cusolverDn##t##gesvdjBatched_bufferSize(H, int job, int m, int n, A, const void *s, \
							  const void *u, int ldu, const void *v, int ldv, \
							  int *size, const void *settings, int batch) \
	{ \
		(void)h, (void)job, (void)a, (void)lda, (void)s, (void)u, (void)ldu, (void)v, (void)ldv, \
		    (void)settings; \
		return elements(jacobi(m, n), batch, size); \
	} \
	ENTRY int cusolverDn##t##gesvdjBatched(H, int job, int m, int n, A, const void *s, const void *u, \
					       int ldu, const void *v, int ldv, WORK, int *status, \
					       const void *settings, int batch) \
	{ \
		(void)h, (void)job, (void)m, (void)n, (void)a, (void)lda, (void)s, (void)u, (void)ldu, \
		    (void)v, (void)ldv, (void)work, (void)size, (void)settings; \
		return done(status, batch); \
	} \
	ENTRY int cusolverDn##t##gesvdaStridedBatched_bufferSize( \
	    H, int job, int rank, int m, int n, A, long long step_a, const void *s, long long step_s, \
	    const void *u, int ldu, long long step_u, const void *v, int ldv, long long step_v, int *size, \
	    int batch) \
	{ \
		(void)h, (void)job, (void)rank, (void)a, (void)lda, (void)step_a, (void)s, (void)step_s, \
		    (void)u, (void)ldu, (void)step_u, (void)v, (void)ldv, (void)step_v; \
		return elements(jacobi(m, n), batch, size); \
	} \
	ENTRY int cusolverDn##t##gesvdaStridedBatched( \
	    H, int job, int rank, int m, int n, A, long long step_a, const void *s, long long step_s, \
	    const void *u, int ldu, long long step_u, const void *v, int ldv, long long step_v, WORK, \
	    int *status, double *residuals, int batch) \
	{ \
		(void)h, (void)job, (void)rank, (void)m, (void)n, (void)a, (void)lda, (void)step_a, (void)s, \
		    (void)step_s, (void)u, (void)ldu, (void)step_u, (void)v, (void)ldv, (void)step_v, \
		    (void)work, (void)size; \
		for (int i = 0; residuals && i < batch; i++) \
			residuals[i] = 0; \
		return done(status, batch); \
	}
SINGULAR(S)
SINGULAR(D)
SINGULAR(C)
SINGULAR(Z)

/*
 * Factorizations: QR and related methods, LU, Cholesky. For some of them, PyTorch calls the functions whose
 * names begin with X.
 */
#define FACTORS(t, orgqr, ormqr, syevd) \
	ENTRY int cusolverDn##t##geqrf_bufferSize(H, int m, int n, A, int *size) \
	{ \
		(void)h, (void)m, (void)a, (void)lda; \
		return elements((uint64_t)n * BLOCK, 1, size); \
	} \
	ENTRY int cusolverDn##t##geqrf(H, int m, int n, A, const void *tau, WORK, int *status) \
	{ \
		(void)h, (void)m, (void)n, (void)a, (void)lda, (void)tau, (void)work, (void)size; \
		return done(status, 1); \
	} \
	ENTRY int cusolverDn##t##orgqr##_bufferSize(H, int m, int n, int k, A, const void *tau, int *size) \
	{ \
		(void)h, (void)m, (void)k, (void)a, (void)lda, (void)tau; \
		return elements((uint64_t)n * BLOCK, 1, size); \
	} \
	ENTRY int cusolverDn##t##orgqr(H, int m, int n, int k, A, const void *tau, WORK, int *status) \
	{ \
		(void)h, (void)m, (void)n, (void)k, (void)a, (void)lda, (void)tau, (void)work, (void)size; \
		return done(status, 1); \
	} \
	ENTRY int cusolverDn##t##ormqr##_bufferSize(H, int side, int operation, int m, int n, int k, A, \
						    const void *tau, const void *c, int ldc, int *size) \
	{ \
		(void)h, (void)operation, (void)k, (void)a, (void)lda, (void)tau, (void)c, (void)ldc; \
		return elements((uint64_t)(side ? m : n) * BLOCK, 1, size); \
	} \
	ENTRY int cusolverDn##t##ormqr(H, int side, int operation, int m, int n, int k, A, const void *tau, \
				       const void *c, int ldc, WORK, int *status) \
	{ \
		(void)h, (void)side, (void)operation, (void)m, (void)n, (void)k, (void)a, (void)lda, \
		    (void)tau, (void)c, (void)ldc, (void)work, (void)size; \
		return done(status, 1); \
	} \
	ENTRY int cusolverDn##t##getrf_bufferSize(H, int m, int n, A, int *size) \
	{ \
		(void)h, (void)m, (void)a, (void)lda; \
		return elements((uint64_t)n * BLOCK, 1, size); \
	} \
	ENTRY int cusolverDn##t##getrf(H, int m, int n, A, const void *work, const void *pivots, \
				       int *status) \
	{ \
		(void)h, (void)m, (void)n, (void)a, (void)lda, (void)work, (void)pivots; \
		return done(status, 1); \
	} \
	ENTRY int cusolverDn##t##getrs(H, int operation, int n, int columns, A, const void *pivots, \
				       const void *b, int ldb, int *status) \
	{ \
		(void)h, (void)operation, (void)n, (void)columns, (void)a, (void)lda, (void)pivots, (void)b, \
		    (void)ldb; \
		return done(status, 1); \
	} \
	ENTRY int cusolverDn##t##potrf_bufferSize(H, int triangle, int n, A, int *size) \
	{ \
		(void)h, (void)triangle, (void)a, (void)lda; \
		return elements((uint64_t)n * BLOCK, 1, size); \
	} \
	ENTRY int cusolverDn##t##potrf(H, int triangle, int n, A, WORK, int *status) \
	{ \
		(void)h, (void)triangle, (void)n, (void)a, (void)lda, (void)work, (void)size; \
		return done(status, 1); \
	} \
	ENTRY int cusolverDn##t##potrfBatched(H, int triangle, int n, A, int *status, int batch) \
	{ \
		(void)h, (void)triangle, (void)n, (void)a, (void)lda; \
		return done(status, batch); \
	} \
	ENTRY int cusolverDn##t##potrs(H, int triangle, int n, int columns, A, const void *b, int ldb, \
				       int *status) \
	{ \
		(void)h, (void)triangle, (void)n, (void)columns, (void)a, (void)lda, (void)b, (void)ldb; \
		return done(status, 1); \
	} \
	ENTRY int cusolverDn##t##potrsBatched(H, int triangle, int n, int columns, A, const void *b, \
					      int ldb, int *status) \
	{ \
		(void)h, (void)triangle, (void)n, (void)columns, (void)a, (void)lda, (void)b, (void)ldb; \
		return done(status, 1); /* one for all matrices */ \
	} \
	ENTRY int cusolverDn##t##syevd##_bufferSize(H, int job, int triangle, int n, A, const void *w, \
						    int *size) \
	{ \
		(void)h, (void)job, (void)triangle, (void)a, (void)lda, (void)w; \
		return elements(eigenvalues(n), 1, size); \
	} \
	ENTRY int cusolverDn##t##syevd(H, int job, int triangle, int n, A, const void *w, WORK, int *status) \
	{ \
		(void)h, (void)job, (void)triangle, (void)n, (void)a, (void)lda, (void)w, (void)work, \
		    (void)size; \
		return done(status, 1); \
	}
FACTORS(S, orgqr, ormqr, syevd)
FACTORS(D, orgqr, ormqr, syevd)
FACTORS(C, ungqr, unmqr, heevd)
FACTORS(Z, ungqr, unmqr, heevd)

/* cudaDataType: bytes of an element. */
static size_t type_bytes(int type)
{
	switch (type) {
	case 1: /* CUDA_R_64F */
	case 4: /* CUDA_C_32F */
		return 8;
	case 5: /* CUDA_C_64F */
		return 16;
	default:
		return 4;
	}
}

static int bytes(uint64_t count, int type, size_t *on_device, size_t *on_host)
{
	p4d_report_doubt("p4d assumes the sizes of cuSOLVER's workspaces, except that of singular values by "
			 "Jacobi's method");
	*on_host = 0;
	return __builtin_mul_overflow(count, type_bytes(type), on_device) ? SOLVER_INVALID : SOLVER_OK;
}

#define SPACES const void *on_device, size_t device_bytes, const void *on_host, size_t host_bytes

ENTRY int cusolverDnXgeqrf_bufferSize(H, const void *settings, int64_t m, int64_t n, int type_a,
				      const void *a, int64_t lda, int type_tau, const void *tau, int type,
				      size_t *on_device, size_t *on_host)
{
	(void)h, (void)settings, (void)m, (void)type_a, (void)a, (void)lda, (void)type_tau, (void)tau;
	return bytes((uint64_t)n * BLOCK, type, on_device, on_host);
}

ENTRY int cusolverDnXgeqrf(H, const void *settings, int64_t m, int64_t n, int type_a, const void *a,
			   int64_t lda, int type_tau, const void *tau, int type, SPACES, int *status)
{
	(void)h, (void)settings, (void)m, (void)n, (void)type_a, (void)a, (void)lda, (void)type_tau,
	    (void)tau, (void)type, (void)on_device, (void)device_bytes, (void)on_host, (void)host_bytes;
	return done(status, 1);
}

ENTRY int cusolverDnXpotrf_bufferSize(H, const void *settings, int triangle, int64_t n, int type_a,
				      const void *a, int64_t lda, int type, size_t *on_device,
				      size_t *on_host)
{
	(void)h, (void)settings, (void)triangle, (void)type_a, (void)a, (void)lda;
	return bytes((uint64_t)n * BLOCK, type, on_device, on_host);
}

ENTRY int cusolverDnXpotrf(H, const void *settings, int triangle, int64_t n, int type_a, const void *a,
			   int64_t lda, int type, SPACES, int *status)
{
	(void)h, (void)settings, (void)triangle, (void)n, (void)type_a, (void)a, (void)lda, (void)type,
	    (void)on_device, (void)device_bytes, (void)on_host, (void)host_bytes;
	return done(status, 1);
}

ENTRY int cusolverDnXpotrs(H, const void *settings, int triangle, int64_t n, int64_t columns, int type_a,
			   const void *a, int64_t lda, int type_b, const void *b, int64_t ldb, int *status)
{
	(void)h, (void)settings, (void)triangle, (void)n, (void)columns, (void)type_a, (void)a, (void)lda,
	    (void)type_b, (void)b, (void)ldb;
	return done(status, 1);
}

ENTRY int cusolverDnXsyevd_bufferSize(H, const void *settings, int job, int triangle, int64_t n, int type_a,
				      const void *a, int64_t lda, int type_w, const void *w, int type,
				      size_t *on_device, size_t *on_host)
{
	(void)h, (void)settings, (void)job, (void)triangle, (void)type_a, (void)a, (void)lda, (void)type_w,
	    (void)w;
	return bytes(eigenvalues((int)n), type, on_device, on_host);
}

ENTRY int cusolverDnXsyevd(H, const void *settings, int job, int triangle, int64_t n, int type_a,
			   const void *a, int64_t lda, int type_w, const void *w, int type, SPACES,
			   int *status)
{
	(void)h, (void)settings, (void)job, (void)triangle, (void)n, (void)type_a, (void)a, (void)lda,
	    (void)type_w, (void)w, (void)type, (void)on_device, (void)device_bytes, (void)on_host,
	    (void)host_bytes;
	return done(status, 1);
}

ENTRY int cusolverDnXsyevBatched_bufferSize(H, const void *settings, int job, int triangle, int64_t n,
					    int type_a, const void *a, int64_t lda, int type_w, const void *w,
					    int type, size_t *on_device, size_t *on_host, int64_t batch)
{
	uint64_t count;

	(void)h, (void)settings, (void)job, (void)triangle, (void)type_a, (void)a, (void)lda, (void)type_w,
	    (void)w;
	if (batch < 0 || __builtin_mul_overflow(eigenvalues((int)n), (uint64_t)batch, &count))
		return SOLVER_INVALID;
	return bytes(count, type, on_device, on_host);
}

ENTRY int cusolverDnXsyevBatched(H, const void *settings, int job, int triangle, int64_t n, int type_a,
				 const void *a, int64_t lda, int type_w, const void *w, int type, SPACES,
				 int *status, int64_t batch)
{
	(void)h, (void)settings, (void)job, (void)triangle, (void)n, (void)type_a, (void)a, (void)lda,
	    (void)type_w, (void)w, (void)type, (void)on_device, (void)device_bytes, (void)on_host,
	    (void)host_bytes;
	return done(status, (int)batch);
}

/* Eigenvalues by Jacobi's method, for small matrices or for many. */
#define EIGENVALUES_OF_MANY(name) \
	ENTRY int cusolverDn##name##_bufferSize(H, int job, int triangle, int n, A, const void *w, \
						int *size, const void *settings, int batch) \
	{ \
		(void)h, (void)job, (void)triangle, (void)a, (void)lda, (void)w, (void)settings; \
		return elements(eigenvalues(n), batch, size); \
	} \
	ENTRY int cusolverDn##name(H, int job, int triangle, int n, A, const void *w, WORK, int *status, \
				   const void *settings, int batch) \
	{ \
		(void)h, (void)job, (void)triangle, (void)n, (void)a, (void)lda, (void)w, (void)work, \
		    (void)size, (void)settings; \
		return done(status, batch); \
	}
EIGENVALUES_OF_MANY(SsyevjBatched)
EIGENVALUES_OF_MANY(DsyevjBatched)
EIGENVALUES_OF_MANY(CheevjBatched)
EIGENVALUES_OF_MANY(ZheevjBatched)
