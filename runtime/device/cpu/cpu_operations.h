/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of device.h for one element type; contracts are there. No guard: see cpu_types.h. What
 * device.h calls fp32 is REAL. None keeps any state.
 */
#include <stdbool.h>

#include "device/cpu/cpu_types.h"
#include "device/device.h"

/* scratch: P4D_CPU_PRODUCT_BYTES; used by bf16 only, NULL otherwise */
void OP(linear)(void *scratch, ELEMENT *y, const ELEMENT *x, const ELEMENT *w, uint64_t n, uint64_t out,
		uint64_t in, bool accumulate);
void OP(linear_input)(void *scratch, ELEMENT *dx, const ELEMENT *dy, const ELEMENT *w, uint64_t n,
		      uint64_t out, uint64_t in, bool accumulate);
void OP(linear_weight)(void *scratch, REAL *dw, const ELEMENT *dy, const ELEMENT *x, uint64_t n, uint64_t out,
		       uint64_t in);
void OP(linear_logits)(void *scratch, REAL *logits, const ELEMENT *x, const ELEMENT *w, uint64_t n,
		       uint64_t out, uint64_t in);

void OP(norm)(ELEMENT *y, REAL *rstd, const ELEMENT *x, const ELEMENT *weight, uint64_t n, uint64_t h,
	      float epsilon);
void OP(norm_backward)(ELEMENT *dx, REAL *dweight, const ELEMENT *dy, const ELEMENT *x, const ELEMENT *weight,
		       const REAL *rstd, uint64_t n, uint64_t h);
void OP(add)(ELEMENT *y, const ELEMENT *a, const ELEMENT *b, uint64_t count);

void OP(heads)(ELEMENT *qkv, REAL *rstd, const p4d_heads *heads);
void OP(heads_backward)(ELEMENT *dqkv, const ELEMENT *qkv, const REAL *rstd, const p4d_heads *heads,
			REAL *dbias, REAL *dquery_weight, REAL *dkey_weight);

void OP(attention)(ELEMENT *o, REAL *lse, const ELEMENT *q, const ELEMENT *k, const ELEMENT *v,
		   const p4d_attention_shape *shape, void *workspace);
void OP(attention_merge)(REAL *total, REAL *total_lse, const ELEMENT *o, const REAL *lse, uint64_t n,
			 uint64_t heads, uint64_t head_dim, bool first);
void OP(attention_row_sums)(REAL *row_sums, const ELEMENT *d_o, const ELEMENT *o, uint64_t n, uint64_t heads,
			    uint64_t head_dim);
void OP(attention_backward)(REAL *dq, REAL *dk, REAL *dv, const ELEMENT *d_o, const REAL *lse,
			    const REAL *row_sums, const ELEMENT *q, const ELEMENT *k, const ELEMENT *v,
			    const p4d_attention_shape *shape, void *workspace);

void OP(swiglu)(ELEMENT *product, const ELEMENT *gate_up, uint64_t n, uint64_t f);
void OP(swiglu_backward)(ELEMENT *gate_up, const ELEMENT *dproduct, uint64_t n, uint64_t f);

void OP(embed)(ELEMENT *out, const ELEMENT *table, const int32_t *tokens, uint64_t n, uint64_t h,
	       uint64_t first, uint64_t rows);
void OP(embed_backward)(REAL *dtable, const ELEMENT *dy, const int32_t *tokens, uint64_t n, uint64_t h,
			uint64_t first, uint64_t rows);

void OP(logits_gradient)(ELEMENT *dlogits, const REAL *logits, const REAL *maximum, const REAL *sum,
			 const int32_t *labels, uint64_t n, uint64_t vocab, uint64_t first, float scale,
			 float z_loss);
void OP(adam)(ELEMENT *parameter, REAL *master, REAL *first, REAL *second, const REAL *gradient,
	      uint64_t count, const p4d_adam *adam);
void OP(accumulate)(REAL *y, const ELEMENT *x, uint64_t count);

/* Of REAL only: bf16 uses those of fp32. */
#if P4D_CPU_TYPE != 16
void OP(statistics)(REAL *maximum, REAL *sum, REAL *target, const REAL *logits, const int32_t *labels,
		    uint64_t n, uint64_t vocab, uint64_t first);
void OP(rescale)(REAL *sum, const REAL *old_maximum, const REAL *new_maximum, uint64_t n);
void OP(losses)(double *loss, const REAL *maximum, const REAL *sum, const REAL *target, const int32_t *labels,
		uint64_t n, float z_loss);
double OP(sum_squares)(const REAL *x, uint64_t count);
uint64_t OP(count_nonfinite)(const REAL *x, uint64_t count);
#endif
