/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuSPARSE as PyTorch calls it: descriptors, products of a sparse matrix, triangular solvers, and sorting of
 * indices. It does not implement products of two sparse matrices, because only a computation on the GPU finds
 * how many elements the result has.
 */
#include <stdint.h>
#include <stdlib.h>

#include "abi.h"
#include "report.h"

/* cusparseStatus_t */
enum { SPARSE_OK = 0, SPARSE_NO_MEMORY = 2, SPARSE_STATUSES = 12 };

ENTRY const char *cusparseGetErrorString(int status)
{
	static const char *const texts[SPARSE_STATUSES] = {"success",
							   "not initialized",
							   "out of memory",
							   "invalid value",
							   "wrong GPU",
							   "mapping error",
							   "execution failed",
							   "internal error",
							   "unknown type",
							   "zero pivot",
							   "not supported by p4d rehearse",
							   "no resources"};

	return status >= 0 && status < SPARSE_STATUSES ? texts[status] : "unknown status";
}

/* Makes an object without contents. PyTorch only passes its pointer on. */
static int make(void **object)
{
	*object = calloc(1, 16);
	return *object ? SPARSE_OK : SPARSE_NO_MEMORY;
}

static int destroy(void *object)
{
	free(object);
	return SPARSE_OK;
}

#define OBJECT(create_, destroy_) \
	ENTRY int create_(void **object) \
	{ \
		return make(object); \
	} \
	ENTRY int destroy_(void *object) \
	{ \
		return destroy(object); \
	}
OBJECT(cusparseCreate, cusparseDestroy)
OBJECT(cusparseCreateMatDescr, cusparseDestroyMatDescr)
OBJECT(cusparseCreateCsr, cusparseDestroySpMat)
OBJECT(cusparseCreateDnMat, cusparseDestroyDnMat)
OBJECT(cusparseCreateDnVec, cusparseDestroyDnVec)
OBJECT(cusparseSpSV_createDescr, cusparseSpSV_destroyDescr)
OBJECT(cusparseSpSM_createDescr, cusparseSpSM_destroyDescr)

ENTRY int cusparseCreateCoo(void **object)
{
	return make(object);
}

#define SETTING(name) \
	ENTRY int name(void) \
	{ \
		return SPARSE_OK; \
	}
SETTING(cusparseSetStream)
SETTING(cusparseSetPointerMode)
SETTING(cusparseSetMatDiagType)
SETTING(cusparseSetMatFillMode)
SETTING(cusparseSetMatIndexBase)
SETTING(cusparseSetMatType)
SETTING(cusparseCsrSetPointers)
SETTING(cusparseCsrSetStridedBatch)
SETTING(cusparseDnMatSetStridedBatch)
SETTING(cusparseSpMatSetAttribute)

/* Returns no workspace, because cuSPARSE's documents do not say how large workspaces are. */
static int workspace(size_t *bytes)
{
	p4d_report_doubt("workspaces of cuSPARSE are not known, so p4d does not count them");
	*bytes = 0;
	return SPARSE_OK;
}

static int launch(void)
{
	p4d_report_add(P4D_REPORT_LAUNCHES, 1);
	return SPARSE_OK;
}

#define KERNEL(name) \
	ENTRY int name(void) \
	{ \
		return launch(); \
	}
KERNEL(cusparseSpMV)
KERNEL(cusparseSpMM)
KERNEL(cusparseSDDMM)
KERNEL(cusparseSDDMM_preprocess)
KERNEL(cusparseSpSV_analysis)
KERNEL(cusparseSpSV_solve)
KERNEL(cusparseSpSM_analysis)
KERNEL(cusparseSpSM_solve)
KERNEL(cusparseXcoo2csr)
KERNEL(cusparseXcoosortByRow)
KERNEL(cusparseXcsrsort)
KERNEL(cusparseCreateIdentityPermutation)

/* The arguments of these functions before the size: handle, operations, numbers, matrices, types, methods. */
#define OPERANDS const void *h, int op
#define MATRICES const void *alpha, const void *a, const void *x

ENTRY int cusparseSpMV_bufferSize(OPERANDS, MATRICES, const void *beta, const void *y, int type, int method,
				  size_t *bytes)
{
	(void)h, (void)op, (void)alpha, (void)a, (void)x, (void)beta, (void)y, (void)type, (void)method;
	return workspace(bytes);
}

ENTRY int cusparseSpSV_bufferSize(OPERANDS, MATRICES, const void *y, int type, int method,
				  const void *description, size_t *bytes)
{
	(void)h, (void)op, (void)alpha, (void)a, (void)x, (void)y, (void)type, (void)method;
	(void)description;
	return workspace(bytes);
}

ENTRY int cusparseSpSM_bufferSize(OPERANDS, int other, MATRICES, const void *y, int type, int method,
				  const void *description, size_t *bytes)
{
	(void)h, (void)op, (void)other, (void)alpha, (void)a, (void)x, (void)y, (void)type, (void)method;
	(void)description;
	return workspace(bytes);
}

#define PRODUCT_WITH_MATRIX(name) \
	ENTRY int name(OPERANDS, int other, MATRICES, const void *beta, const void *y, int type, int method, \
		       size_t *bytes) \
	{ \
		(void)h, (void)op, (void)other, (void)alpha, (void)a, (void)x, (void)beta, (void)y, \
		    (void)type, (void)method; \
		return workspace(bytes); \
	}
PRODUCT_WITH_MATRIX(cusparseSpMM_bufferSize)
PRODUCT_WITH_MATRIX(cusparseSDDMM_bufferSize)

#define SORT(name) \
	ENTRY int name(const void *h, int rows, int columns, int elements, const void *first, \
		       const void *second, size_t *bytes) \
	{ \
		(void)h, (void)rows, (void)columns, (void)elements, (void)first, (void)second; \
		return workspace(bytes); \
	}
SORT(cusparseXcoosort_bufferSizeExt)
SORT(cusparseXcsrsort_bufferSizeExt)
