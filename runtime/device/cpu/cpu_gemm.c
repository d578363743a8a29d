/* SPDX-License-Identifier: Apache-2.0 */
/* Matmuls by BLAS. Types that BLAS lacks are converted block by block in scratch memory. */
#include <cblas.h>
#include <string.h>

#include "device/cpu/cpu_math.h"
#include "device/cpu/cpu_operations.h"
#include "device/cpu/cpu_threads.h"

/* Operand op(a) of shape (m, n), with `stride` elements from row to row. transposed: a is stored as (n,
 * m). */
typedef struct operand {
	const ELEMENT *at;
	uint64_t stride;
	bool transposed;
} operand;

/* Destination of the scaled result. sums: its elements are REAL, else ELEMENT. */
typedef struct result {
	void *at;
	uint64_t stride;
	REAL scale;
	bool sums, accumulate;
} result;

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

/*
 * Converts a block of an operand to REAL. row and column index op(x). The converted block has the order in
 * which x is stored, with BLOCK numbers per row.
 */
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

/*
 * Computes part of the rows of a matmul. Rows of the result are `stride` elements apart. Elements are REAL
 * or, rounded once after the full sum over k, ELEMENT.
 */
static void part_of_product(void *scratch, result to, operand a, operand b, uint64_t m, uint64_t n,
			    uint64_t k)
{
	REAL *const block_a = scratch, *const block_b = block_a + BLOCK * BLOCK,
		    *const block_c = block_b + BLOCK * BLOCK;

	for (uint64_t j = 0; j < n; j += BLOCK) {
		const uint64_t nj = at_most_block(n - j);
		for (uint64_t i = 0; i < m; i += BLOCK) {
			const uint64_t ni = at_most_block(m - i);
			REAL *c = to.sums ? (REAL *)to.at + i * to.stride + j : block_c;
			const uint64_t stride = to.sums ? to.stride : BLOCK;
			uint64_t l = 0;
			do { /* runs at least once, because a matmul of depth 0 gives 0 */
				const uint64_t nl = at_most_block(k - l);
				const bool add = l > 0 || (to.sums && to.accumulate);
				convert(block_a, &a, i, l, ni, nl);
				if (i == 0 || k > BLOCK)
					convert(block_b, &b, l, j, nl, nj);
				cblas_sgemm(CblasRowMajor, transposition(a.transposed),
					    transposition(b.transposed), (blasint)ni, (blasint)nj,
					    (blasint)nl, to.scale, block_a, BLOCK, block_b, BLOCK,
					    add ? 1 : 0, c, (blasint)stride);
				l += BLOCK;
			} while (l < k);
			if (!to.sums)
				store_block((ELEMENT *)to.at + i * to.stride + j, to.stride, c, ni, nj,
					    to.accumulate);
		}
	}
}

#else

static void part_of_product(void *scratch, result to, operand a, operand b, uint64_t m, uint64_t n,
			    uint64_t k)
{
	(void)scratch;
#if P4D_CPU_TYPE == 64
	cblas_dgemm
#else
	cblas_sgemm
#endif
	    (CblasRowMajor, transposition(a.transposed), transposition(b.transposed), (blasint)m, (blasint)n,
	     (blasint)k, to.scale, a.at, (blasint)a.stride, b.at, (blasint)b.stride, to.accumulate ? 1 : 0,
	     to.at, (blasint)to.stride);
}

#endif

/*
 * Divides the rows among threads. A part has whole blocks, or a multiple of the rows that OpenBLAS's kernels
 * process together (4 or 12), so that all rows are summed in the same way. Columns are not divided, because
 * OpenBLAS chooses the kernel of the last columns by their number. Small matmuls are not divided either,
 * because OpenBLAS has other kernels for them.
 */
static void product(void *scratch, result to, operand a, operand b, uint64_t m, uint64_t n, uint64_t k)
{
	const uint64_t unit = P4D_CPU_TYPE == 16 ? P4D_CPU_PRODUCT_BLOCK : 48;
	const uint64_t least = 1 << 23, most = m * n * k / least, blocks = (m + unit - 1) / unit;
	const uint64_t to_row = to.stride * (to.sums ? sizeof(REAL) : sizeof(ELEMENT));
	const uint64_t a_row = a.transposed ? 1 : a.stride;
	const p4d_cpu_rooms rooms =
	    p4d_cpu_rooms_for(scratch, P4D_CPU_TYPE == 16 ? P4D_CPU_PRODUCT_BYTES : 0,
			      p4d_cpu_team_of(blocks < most ? blocks : most, m * n * k));

	if (m == 0 || n == 0)
		return;
#pragma omp parallel for schedule(static, 1) num_threads(rooms.team)
	for (int i = 0; i < rooms.team; i++) {
		const uint64_t first = blocks * (uint64_t)i / (uint64_t)rooms.team * unit;
		const uint64_t end = blocks * (uint64_t)(i + 1) / (uint64_t)rooms.team * unit;
		result part = to;
		operand rows = a;
		part.at = (char *)to.at + first * to_row;
		rows.at += first * a_row;
		part_of_product(p4d_cpu_room(&rooms), part, rows, b, (end < m ? end : m) - first, n, k);
	}
}

void OP(linear)(void *scratch, ELEMENT *y, const ELEMENT *add, const ELEMENT *x, const ELEMENT *w, uint64_t n,
		uint64_t out, uint64_t in)
{
	const result to = {y, out, 1, false, add != NULL};

	if (add && add != y)
		memcpy(y, add, n * out * sizeof(*y));

	product(scratch, to, (operand){x, in, false}, (operand){w, in, true}, n, out, in);
}

void OP(linear_input)(void *scratch, ELEMENT *dx, const ELEMENT *dy, const ELEMENT *w, uint64_t n,
		      uint64_t out, uint64_t in, bool accumulate)
{
	const result to = {dx, in, 1, false, accumulate};

	product(scratch, to, (operand){dy, out, false}, (operand){w, in, false}, n, in, out);
}

void OP(linear_weight)(void *scratch, REAL *dw, const ELEMENT *dy, const ELEMENT *x, uint64_t n, uint64_t out,
		       uint64_t in, bool accumulate)
{
	const result to = {dw, in, 1, true, accumulate};

	product(scratch, to, (operand){dy, out, true}, (operand){x, in, false}, out, in, n);
}

void OP(columns)(void *scratch, ELEMENT *y, uint64_t stride, const ELEMENT *x, const ELEMENT *w, uint64_t n,
		 uint64_t out, uint64_t in, float scale, bool accumulate)
{
	const result to = {y, stride, scale, false, accumulate};

	product(scratch, to, (operand){x, in, false}, (operand){w, in, true}, n, out, in);
}

void OP(columns_input)(void *scratch, ELEMENT *dx, const ELEMENT *dy, uint64_t stride, const ELEMENT *w,
		       uint64_t n, uint64_t out, uint64_t in, float scale)
{
	const result to = {dx, in, scale, false, false};

	product(scratch, to, (operand){dy, stride, false}, (operand){w, in, false}, n, in, out);
}

void OP(columns_weight)(void *scratch, REAL *dw, const ELEMENT *dy, uint64_t stride, const ELEMENT *x,
			uint64_t n, uint64_t out, uint64_t in, float scale, bool accumulate)
{
	const result to = {dw, in, scale, true, accumulate};

	product(scratch, to, (operand){dy, stride, true}, (operand){x, in, false}, out, in, n);
}
