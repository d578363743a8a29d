/* SPDX-License-Identifier: Apache-2.0 */
/* cuFFT, cuSOLVER and cuSPARSE, called as PyTorch does. The test checks workspace sizes, statuses and
 * texts. */
#include <stddef.h>
#include <stdint.h>

#include "support/support.h"

/* Declarations from headers that this test does not include. */
int cufftCreate(int *plan);
int cufftDestroy(int plan);
int cufftSetAutoAllocation(int plan, int on);
int cufftSetStream(int plan, void *stream);
int cufftSetWorkArea(int plan, void *area);
int cufftXtMakePlanMany(int plan, int rank, const long long *n, const long long *embedded_in,
			long long stride_in, long long distance_in, int type_in,
			const long long *embedded_out, long long stride_out, long long distance_out,
			int type_out, long long batch, size_t *area, int type);
int cufftXtExec(int plan, void *in, void *out, int direction);
int cusolverDnCreate(void **handle);
int cusolverDnDestroy(void *handle);
int cusolverDnSgesvdj_bufferSize(void *handle, int job, int is_small, int m, int n, const void *a, int lda,
				 const void *s, const void *u, int ldu, const void *v, int ldv, int *size,
				 void *settings);
int cusolverDnSgesvdj(void *handle, int job, int is_small, int m, int n, void *a, int lda, void *s, void *u,
		      int ldu, void *v, int ldv, void *work, int size, int *status, void *settings);
int cusolverDnZpotrfBatched(void *handle, int triangle, int n, void **a, int lda, int *status, int batch);
int cusolverDnDgesvdjBatched_bufferSize(void *handle, int job, int m, int n, const void *a, int lda,
					const void *s, const void *u, int ldu, const void *v, int ldv,
					int *size, void *settings, int batch);
int cusolverDnXgeqrf_bufferSize(void *handle, void *settings, int64_t m, int64_t n, int type_a, const void *a,
				int64_t lda, int type_tau, const void *tau, int type, size_t *on_device,
				size_t *on_host);
int cusolverDnXsyevBatched_bufferSize(void *handle, void *settings, int job, int triangle, int64_t n,
				      int type_a, const void *a, int64_t lda, int type_w, const void *w,
				      int type, size_t *on_device, size_t *on_host, int64_t batch);
int cusolverDnXsyevBatched(void *handle, void *settings, int job, int triangle, int64_t n, int type_a,
			   void *a, int64_t lda, int type_w, void *w, int type, void *on_device,
			   size_t device_bytes, void *on_host, size_t host_bytes, int *status, int64_t batch);
int cusolverDnXgeev(void);
int cusparseCreate(void **handle);
int cusparseDestroy(void *handle);
int cusparseCreateCsr(void **matrix, int64_t rows, int64_t columns, int64_t elements, void *offsets,
		      void *indices, void *values, int of_offsets, int of_indices, int base, int type);
int cusparseDestroySpMat(void *matrix);
int cusparseSpMM_bufferSize(void *handle, int op, int other, const void *alpha, void *a, void *b,
			    const void *beta, void *c, int type, int method, size_t *bytes);
int cusparseSpMM(void *handle, int op, int other, const void *alpha, void *a, void *b, const void *beta,
		 void *c, int type, int method, void *workspace);
int cusparseSpGEMM_createDescr(void **description);
const char *cusparseGetErrorString(int status);
uint64_t p4d_report_count_of(int count);

enum { C_32F = 4, C_64F = 5, R_8I = 3, LAUNCHES = 0, MISSING = 7 };

static size_t area_of(int rank, const long long *n, long long batch, int type)
{
	size_t area = 1;
	int plan;

	assert_int_equal(cufftCreate(&plan), 0);
	assert_int_equal(cufftSetAutoAllocation(plan, 0), 0);
	assert_int_equal(
	    cufftXtMakePlanMany(plan, rank, n, NULL, 1, 1, type, NULL, 1, 1, type, batch, &area, type), 0);
	assert_int_equal(cufftSetStream(plan, NULL), 0);
	assert_int_equal(cufftSetWorkArea(plan, NULL), 0);
	assert_int_equal(cufftXtExec(plan, NULL, NULL, -1), 0);
	assert_int_equal(cufftDestroy(plan), 0);
	return area;
}

static void a_plan_of_several_kernels_has_a_work_area(void **state)
{
	const long long row[] = {64}, prime[] = {4099}, square[] = {3072, 3072};

	(void)state;
	assert_int_equal(area_of(1, row, 1000, C_32F), 0);
	assert_int_equal(area_of(1, prime, 2, C_32F), 2 * 4099 * 8);
	assert_int_equal(area_of(2, square, 1, C_64F), 3072ull * 3072 * 16);
}

static void a_plan_that_cannot_be_is_an_error(void **state)
{
	const long long none[] = {0}, many[] = {1ll << 40, 1ll << 40};
	size_t area;
	int plan, other;

	(void)state;
	assert_int_equal(cufftCreate(&plan), 0);
	assert_int_equal(cufftCreate(&other), 0);
	assert_int_not_equal(plan, other);
	assert_int_equal(
	    cufftXtMakePlanMany(plan, 1, none, NULL, 1, 1, C_32F, NULL, 1, 1, C_32F, 1, &area, C_32F), 4);
	assert_int_equal(
	    cufftXtMakePlanMany(plan, 2, many, NULL, 1, 1, C_32F, NULL, 1, 1, C_32F, 1, &area, C_32F), 4);
	assert_int_equal(
	    cufftXtMakePlanMany(plan, 1, many, NULL, 1, 1, R_8I, NULL, 1, 1, R_8I, 1, &area, R_8I), 4);
	assert_int_equal(cufftDestroy(plan), 0);
	assert_int_equal(cufftDestroy(plan), 1);
	assert_int_equal(cufftXtExec(plan, NULL, NULL, 1), 1);
	assert_int_equal(cufftDestroy(other), 0);
}

/* The sizes are those that cuSOLVER 12.0 returns. */
static void singular_values_have_cusolvers_workspace(void **state)
{
	int size, status = 5;
	void *handle;

	(void)state;
	assert_int_equal(cusolverDnCreate(&handle), 0);
	assert_int_equal(cusolverDnSgesvdj_bufferSize(handle, 1, 1, 3072, 1024, NULL, 3072, NULL, NULL, 3072,
						      NULL, 1024, &size, NULL),
			 0);
	assert_in_range(size, 4194304, 4194304 + 31);
	assert_int_equal(cusolverDnSgesvdj_bufferSize(handle, 1, 1, 3072, 3072, NULL, 3072, NULL, NULL, 3072,
						      NULL, 3072, &size, NULL),
			 0);
	assert_in_range(size, 19112032 * 0.95, 19112032 * 1.05);
	assert_int_equal(cusolverDnSgesvdj(handle, 1, 1, 3072, 1024, NULL, 3072, NULL, NULL, 3072, NULL, 1024,
					   NULL, size, &status, NULL),
			 0);
	assert_int_equal(status, 0);
	assert_int_equal(cusolverDnDgesvdjBatched_bufferSize(handle, 1, 1 << 15, 1 << 15, NULL, 1, NULL, NULL,
							     1, NULL, 1, &size, NULL, 8),
			 3); /* more elements than an int can count */
	assert_int_equal(cusolverDnDestroy(handle), 0);
}

static void each_matrix_of_a_batch_has_a_status(void **state)
{
	int status[3] = {7, 7, 7};

	(void)state;
	assert_int_equal(cusolverDnZpotrfBatched(NULL, 0, 4, NULL, 4, status, 2), 0);
	assert_int_equal(status[0], 0);
	assert_int_equal(status[1], 0);
	assert_int_equal(status[2], 7);
}

static void a_size_in_bytes_is_of_the_types_elements(void **state)
{
	size_t single, complex, on_host = 1;

	(void)state;
	assert_int_equal(
	    cusolverDnXgeqrf_bufferSize(NULL, NULL, 64, 32, 0, NULL, 64, 0, NULL, 0, &single, &on_host), 0);
	assert_int_equal(on_host, 0);
	assert_int_equal(
	    cusolverDnXgeqrf_bufferSize(NULL, NULL, 64, 32, 5, NULL, 64, 5, NULL, 5, &complex, &on_host), 0);
	assert_int_equal(complex, 4 * single);
}

static void eigenvalues_of_many_matrices_have_a_space_and_a_status_each(void **state)
{
	int status[3] = {7, 7, 7};
	size_t one, two, on_host = 1;

	(void)state;
	assert_int_equal(cusolverDnXsyevBatched_bufferSize(NULL, NULL, 1, 0, 64, 0, NULL, 64, 0, NULL, 0,
							   &one, &on_host, 1),
			 0);
	assert_int_equal(on_host, 0);
	assert_int_equal(cusolverDnXsyevBatched_bufferSize(NULL, NULL, 1, 0, 64, 0, NULL, 64, 0, NULL, 0,
							   &two, &on_host, 2),
			 0);
	assert_int_equal(two, 2 * one);
	assert_int_equal(cusolverDnXsyevBatched_bufferSize(NULL, NULL, 1, 0, 1 << 20, 0, NULL, 1 << 20, 0,
							   NULL, 0, &two, &on_host, INT64_MAX),
			 3);
	assert_int_equal(cusolverDnXsyevBatched(NULL, NULL, 1, 0, 64, 0, NULL, 64, 0, NULL, 0, NULL, one,
						NULL, 0, status, 2),
			 0);
	assert_int_equal(status[0], 0);
	assert_int_equal(status[1], 0);
	assert_int_equal(status[2], 7);
}

static void a_sparse_product_is_a_kernel(void **state)
{
	const uint64_t before = p4d_report_count_of(LAUNCHES);
	void *handle, *matrix;
	size_t bytes = 1;

	(void)state;
	assert_int_equal(cusparseCreate(&handle), 0);
	assert_int_equal(cusparseCreateCsr(&matrix, 8, 8, 8, NULL, NULL, NULL, 1, 1, 0, 0), 0);
	assert_int_equal(cusparseSpMM_bufferSize(handle, 0, 0, NULL, matrix, NULL, NULL, NULL, 0, 0, &bytes),
			 0);
	assert_int_equal(bytes, 0);
	assert_int_equal(cusparseSpMM(handle, 0, 0, NULL, matrix, NULL, NULL, NULL, 0, 0, NULL), 0);
	assert_int_equal(p4d_report_count_of(LAUNCHES), before + 1);
	assert_int_equal(cusparseDestroySpMat(matrix), 0);
	assert_int_equal(cusparseDestroy(handle), 0);
}

/* PyTorch prints the text of an error. The stand-in once returned a number instead of the text's address. */
static void an_error_of_cusparse_has_a_text(void **state)
{
	const uint64_t before = p4d_report_count_of(MISSING);
	void *description;
	const int status = cusparseSpGEMM_createDescr(&description);

	(void)state;
	assert_int_equal(p4d_report_count_of(MISSING), before + 1);
	assert_string_equal(cusparseGetErrorString(status), "not supported by p4d rehearse");
	assert_string_equal(cusparseGetErrorString(-1), "unknown status");
	assert_string_equal(cusparseGetErrorString(12), "unknown status");
	assert_int_equal(p4d_report_count_of(MISSING), before + 1);
}

static void what_is_not_played_is_counted(void **state)
{
	const uint64_t before = p4d_report_count_of(MISSING);

	(void)state;
	assert_int_equal(cusolverDnXgeev(), 9);
	assert_int_equal(p4d_report_count_of(MISSING), before + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_plan_of_several_kernels_has_a_work_area),
	    cmocka_unit_test(a_plan_that_cannot_be_is_an_error),
	    cmocka_unit_test(singular_values_have_cusolvers_workspace),
	    cmocka_unit_test(each_matrix_of_a_batch_has_a_status),
	    cmocka_unit_test(a_size_in_bytes_is_of_the_types_elements),
	    cmocka_unit_test(eigenvalues_of_many_matrices_have_a_space_and_a_status_each),
	    cmocka_unit_test(a_sparse_product_is_a_kernel),
	    cmocka_unit_test(an_error_of_cusparse_has_a_text),
	    cmocka_unit_test(what_is_not_played_is_counted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
