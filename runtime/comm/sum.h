/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/comm.h"

/*
 * The arithmetic of collectives. A sum accumulates its operands in order in fp32 (fp64 for FP64) and is
 * rounded to nearest, ties to even, when it is stored. A maximum of values that include a NaN is NaN.
 */
#define P4D_SUM_BYTES(bytes) (2 * (bytes)) /* room for a sum of this many bytes of any type */

size_t p4d_sum__width(p4d_dtype type); /* bytes of an element; 0: cannot be summed */
void p4d_sum__load(void *sum, const void *from, uint64_t count, p4d_dtype type);
void p4d_sum__add(void *sum, const void *from, uint64_t count, p4d_dtype type, p4d_reduction how);
void p4d_sum__store(void *to, const void *sum, uint64_t count, p4d_dtype type);
/* to (count) = the combination of from[0..operands-1] in this order; `to` may be one of these arrays */
void p4d_sum__combine(void *to, const void *const *from, uint32_t operands, uint64_t count, p4d_dtype type,
		      p4d_reduction how);
