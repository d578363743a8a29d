/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products: BLAS. Types that BLAS lacks go through scratch, block by block. */
#include <cblas.h>

#include "device/cpu/cpu_math.h"
#include "device/cpu/cpu_operations.h"

/* op(a) (m, n) is stored with `stride` elements from row to row; transposed: stored (n, m) */
typedef struct operand {
	const ELEMENT *at;
	uint64_t stride;
	bool transposed;
} operand;

static CBLAS_TRANSPOSE transposition(bool transposed)
{
	return transposed ? CblasTrans : CblasNoTrans;
}

#if P4D_CPU_TYPE == 16

enum { BLOCK = P4D_CPU_PRODUCT_BLOCK };
_Static_assert(P4D_CPU_PRODUCT_BYTES == 3 * BLOCK * BLOCK * sizeof(REAL), "scratch holds three blocks");

static uint64_t at_most_block(uint64_t left)
{
	return left < BLOCK ? left : BLOCK;
}

/* Rows and columns are those of op(x); the block keeps the order of storage and gets rows of BLOCK. */
P4D_CLONES static void convert(REAL *to, const operand *x, uint64_t row, uint64_t column, uint64_t rows,
			       uint64_t columns)
{
	const uint64_t i0 = x->transposed ? column : row, j0 = x->transposed ? row : column;
	const uint64_t ni = x->transposed ? columns : rows, nj = x->transposed ? rows : columns;

	for (uint64_t i = 0; i < ni; i++) {
		const ELEMENT *from = x->at + (i0 + i) * x->stride + j0;
#pragma omp simd
		for (uint64_t j = 0; j < nj; j++)
			to[i * BLOCK + j] = p4d_load(from[j]);
	}
}

P4D_CLONES static void store_block(ELEMENT *to, uint64_t stride, const REAL *from, uint64_t rows,
				   uint64_t columns, bool accumulate)
{
	for (uint64_t i = 0; i < rows; i++) {
		ELEMENT *row = to + i * stride;
		const REAL *sum = from + i * BLOCK;
		if (accumulate) {
#pragma omp simd
			for (uint64_t j = 0; j < columns; j++)
				row[j] = p4d_store(p4d_load(row[j]) + sum[j]);
		} else {
#pragma omp simd
			for (uint64_t j = 0; j < columns; j++)
				row[j] = p4d_store(sum[j]);
		}
	}
}

/* to: ELEMENT, rounded once, after the full sum over k; or REAL sums. */
static void product(void *scratch, void *to, bool sums, operand a, operand b, uint64_t m, uint64_t n,
		    uint64_t k, bool accumulate)
{
	REAL *const block_a = scratch, *const block_b = block_a + BLOCK * BLOCK,
		    *const block_c = block_b + BLOCK * BLOCK;

	for (uint64_t j = 0; j < n; j += BLOCK) {
		const uint64_t nj = at_most_block(n - j);
		for (uint64_t i = 0; i < m; i += BLOCK) {
			const uint64_t ni = at_most_block(m - i);
			REAL *c = sums ? (REAL *)to + i * n + j : block_c;
			const uint64_t stride = sums ? n : BLOCK;
			for (uint64_t l = 0; l < k; l += BLOCK) {
				const uint64_t nl = at_most_block(k - l);
				const bool add = l > 0 || (sums && accumulate);
				convert(block_a, &a, i, l, ni, nl);
				if (i == 0 || k > BLOCK)
					convert(block_b, &b, l, j, nl, nj);
				cblas_sgemm(CblasRowMajor, transposition(a.transposed),
					    transposition(b.transposed), (blasint)ni, (blasint)nj,
					    (blasint)nl, 1, block_a, BLOCK, block_b, BLOCK, add ? 1 : 0, c,
					    (blasint)stride);
			}
			if (!sums)
				store_block((ELEMENT *)to + i * n + j, n, c, ni, nj, accumulate);
		}
	}
}

#else

static void product(void *scratch, void *to, bool sums, operand a, operand b, uint64_t m, uint64_t n,
		    uint64_t k, bool accumulate)
{
	(void)scratch, (void)sums;
	if (m == 0 || n == 0)
		return;
#if P4D_CPU_TYPE == 64
	cblas_dgemm
#else
	cblas_sgemm
#endif
	    (CblasRowMajor, transposition(a.transposed), transposition(b.transposed), (blasint)m, (blasint)n,
	     (blasint)k, 1, a.at, (blasint)a.stride, b.at, (blasint)b.stride, accumulate ? 1 : 0, to,
	     (blasint)n);
}

#endif

void OP(linear)(void *scratch, ELEMENT *y, const ELEMENT *x, const ELEMENT *w, uint64_t n, uint64_t out,
		uint64_t in, bool accumulate)
{
	product(scratch, y, false, (operand){x, in, false}, (operand){w, in, true}, n, out, in, accumulate);
}

void OP(linear_input)(void *scratch, ELEMENT *dx, const ELEMENT *dy, const ELEMENT *w, uint64_t n,
		      uint64_t out, uint64_t in, bool accumulate)
{
	product(scratch, dx, false, (operand){dy, out, false}, (operand){w, in, false}, n, in, out,
		accumulate);
}

void OP(linear_weight)(void *scratch, REAL *dw, const ELEMENT *dy, const ELEMENT *x, uint64_t n, uint64_t out,
		       uint64_t in)
{
	product(scratch, dw, true, (operand){dy, out, true}, (operand){x, in, false}, out, in, n, true);
}

void OP(linear_logits)(void *scratch, REAL *logits, const ELEMENT *x, const ELEMENT *w, uint64_t n,
		       uint64_t out, uint64_t in)
{
	product(scratch, logits, true, (operand){x, in, false}, (operand){w, in, true}, n, out, in, false);
}
