/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of device.h for one element type; device.h has their contracts. No include guard, because a
 * file includes this once for each type (cpu_types.h). REAL is the type that device.h calls fp32. No
 * operation keeps state.
 */
#include <stdbool.h>

#include "device/cpu/cpu_types.h"
#include "device/device.h"

#define E ELEMENT
#define R REAL
#define TYPED(name, parameters, arguments) void OP(name)(P4D_LIST parameters);
#if P4D_CPU_TYPE == 16
#define PLAIN(name, parameters, arguments) /* bf16 uses the operations of fp32 */
#else
#define PLAIN(name, parameters, arguments) TYPED(name, parameters, arguments)
#endif
#include "device/operations.def"

/* scratch: P4D_CPU_PRODUCT_BYTES; only bf16 uses it, other types pass NULL */
void OP(linear)(void *scratch, ELEMENT *y, const ELEMENT *add, const ELEMENT *x, const ELEMENT *w, uint64_t n,
		uint64_t out, uint64_t in);
void OP(linear_input)(void *scratch, ELEMENT *dx, const ELEMENT *dy, const ELEMENT *w, uint64_t n,
		      uint64_t out, uint64_t in, bool accumulate);
void OP(linear_weight)(void *scratch, REAL *dw, const ELEMENT *dy, const ELEMENT *x, uint64_t n, uint64_t out,
		       uint64_t in, bool accumulate);
void OP(columns)(void *scratch, ELEMENT *y, uint64_t stride, const ELEMENT *x, const ELEMENT *w, uint64_t n,
		 uint64_t out, uint64_t in, float scale, bool accumulate);
void OP(columns_input)(void *scratch, ELEMENT *dx, const ELEMENT *dy, uint64_t stride, const ELEMENT *w,
		       uint64_t n, uint64_t out, uint64_t in, float scale);
void OP(columns_weight)(void *scratch, REAL *dw, const ELEMENT *dy, uint64_t stride, const ELEMENT *x,
			uint64_t n, uint64_t out, uint64_t in, float scale, bool accumulate);
/* A matmul with operands in FP8. scratch as above. Not defined for double. */
void OP(product)(void *scratch, ELEMENT *y, const ELEMENT *add, const p4d_fp8_operand *a,
		 const p4d_fp8_operand *b);

void OP(attention)(ELEMENT *o, REAL *lse, const ELEMENT *q, const ELEMENT *k, const ELEMENT *v,
		   const p4d_attention_shape *shape, void *workspace);
void OP(attention_backward)(REAL *dq, REAL *dk, REAL *dv, const ELEMENT *d_o, const REAL *lse,
			    const REAL *row_sums, const ELEMENT *q, const ELEMENT *k, const ELEMENT *v,
			    const p4d_attention_shape *shape, void *workspace);

void OP(accumulate)(REAL *y, const ELEMENT *x, uint64_t count);

/* Only for REAL: bf16 uses the operations of fp32. */
#if P4D_CPU_TYPE != 16
double OP(sum_squares)(const REAL *x, uint64_t count);
uint64_t OP(count_nonfinite)(const REAL *x, uint64_t count);
#endif
