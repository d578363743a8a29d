/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines the functions that the stand-ins do not implement. They report their name and fail. They are weak,
 * so a stand-in's own definition replaces them.
 */
#include "abi.h"
#include "report.h"

/* the code for "not supported" in each library */
#define RUNTIME(name) ABSENT(name, 801)
#define DRIVER(name) ABSENT(name, 801)
#define BLAS(name) ABSENT(name, 15)
#define DNN(name) ABSENT(name, 3000)
#define COMM(name) ABSENT(name, 5)
#define SPARSE(name) ABSENT(name, 10)
#define SOLVER(name) ABSENT(name, 9)
#define FFT(name) ABSENT(name, 16)

/*
 * Callers pass arguments, which are ignored. The result has the type long. If the caller expects a pointer,
 * the value is not a valid address.
 */
#define ABSENT(name, result) \
	ENTRY __attribute__((weak)) long name(void) \
	{ \
		p4d_report_missing(#name); \
		return result; \
	}
#include "absent.def"

#define PRODUCT(name) \
	ENTRY __attribute__((weak)) int name(void) \
	{ \
		p4d_report_add(P4D_REPORT_PRODUCTS, 1); \
		return 0; \
	}
#include "products.def"
