/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The element type that the operations are compiled for. No guard: a file that uses several types includes
 * cpu_operations.h once for each. P4D_CPU_TYPE is 32 (fp32), 16 (bf16 storage, fp32 arithmetic) or 64 (fp64,
 * for tests).
 *
 * ELEMENT: storage type of activations and parameters. REAL: type of arithmetic, gradients of parameters and
 * statistics; device.h calls it fp32. OP(name): the name of an operation.
 */
#include <stdint.h>

#undef ELEMENT
#undef REAL
#undef OP
#if P4D_CPU_TYPE == 32
#define ELEMENT float
#define REAL float
#define OP(name) p4d_cpu_##name##_fp32
#elif P4D_CPU_TYPE == 16
#define ELEMENT uint16_t
#define REAL float
#define OP(name) p4d_cpu_##name##_bf16
#elif P4D_CPU_TYPE == 64
#define ELEMENT double
#define REAL double
#define OP(name) p4d_cpu_##name##_fp64
#else
#error "P4D_CPU_TYPE is 16, 32 or 64"
#endif
