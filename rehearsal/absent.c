/* SPDX-License-Identifier: Apache-2.0 */
/* What the stand-ins do not play says its name and fails. Weak, so that a stand-in's own definition counts.
 */
#include "abi.h"
#include "report.h"

/* "not supported", as each library says it */
#define RUNTIME(name) ABSENT(name, 801)
#define DRIVER(name) ABSENT(name, 801)
#define BLAS(name) ABSENT(name, 15)
#define DNN(name) ABSENT(name, 3000)
#define COMM(name) ABSENT(name, 5)
#define SPARSE(name) ABSENT(name, 10)
#define SOLVER(name) ABSENT(name, 9)
#define FFT(name) ABSENT(name, 16)

/* The callers pass arguments that nobody looks at. A long: what returns a pointer returns no address of
 * anything. */
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
