/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FP8 matmuls. Operands are quantized tile by tile. A matmul converts them to fp64, block by block. Its sums
 * are exact unless the scales of blocks differ by more than 2^10. It rounds each result once, after the full
 * sum.
 */
#include <cblas.h>

#include "device/cpu/cpu_math.h"
#include "device/cpu/cpu_operations.h"
#include "device/cpu/cpu_threads.h"
#include "device/fp8_codes.h"

enum { TILE = 128, BLOCK = 256 };
_Static_assert(TILE % 128 == 0, "whole blocks of any recipe");
_Static_assert(P4D_CPU_PRODUCT_BYTES >= 3 * BLOCK * BLOCK * sizeof(double), "scratch holds three blocks");

static uint64_t at_most(uint64_t left, uint64_t most)
{
	return left < most ? left : most;
}

/* The matrix that is quantized: x, or computed from it. */
typedef struct fp8_source fp8_source;
struct fp8_source {
	/* Computes elements column .. column+count-1 of a row. */
	void (*row)(float *to, const fp8_source *from, uint64_t row, uint64_t column, uint64_t count);
	const ELEMENT *x;    /* the matrix itself, or gate and up (n, 2 * f) */
	const ELEMENT *dact; /* for the gradient of SwiGLU: the gradient of its result */
	uint64_t columns;    /* of the matrix, or of SwiGLU's result: f */
};

P4D_CLONES static void stored_row(float *to, const fp8_source *from, uint64_t row, uint64_t column,
				  uint64_t count)
{
	const ELEMENT *x = from->x + row * from->columns + column;

#pragma omp simd
	for (uint64_t j = 0; j < count; j++)
		to[j] = (float)p4d_load(x[j]);
}

/* The value that an element would have if it were stored in ELEMENT. */
P4D_INLINE float rounded(REAL x)
{
	return (float)p4d_load(p4d_store(x));
}

P4D_CLONES static void swiglu_row(float *to, const fp8_source *from, uint64_t row, uint64_t column,
				  uint64_t count)
{
	const ELEMENT *gate = from->x + row * 2 * from->columns + column, *up = gate + from->columns;

#pragma omp simd
	for (uint64_t j = 0; j < count; j++) {
		const REAL g = p4d_load(gate[j]);
		to[j] = rounded(g / (1 + EXP(-g)) * p4d_load(up[j]));
	}
}

/* Gradients of some gates, or of some ups. The formulas are those of cpu_swiglu.c. */
P4D_CLONES static void half_row(float *to, const ELEMENT *gate, const ELEMENT *up, const ELEMENT *dact,
				uint64_t count, bool ups)
{
#pragma omp simd
	for (uint64_t j = 0; j < count; j++) {
		const REAL g = p4d_load(gate[j]), u = p4d_load(up[j]), d = p4d_load(dact[j]);
		const REAL s = 1 / (1 + EXP(-g));
		to[j] = rounded(ups ? d * g * s : d * u * s * (1 + g * (1 - s)));
	}
}

static void gradient_row(float *to, const fp8_source *from, uint64_t row, uint64_t column, uint64_t count)
{
	const uint64_t f = from->columns;
	const ELEMENT *gate = from->x + row * 2 * f, *up = gate + f, *dact = from->dact + row * f;
	const uint64_t gates = column < f ? at_most(f - column, count) : 0, first = column + gates - f;

	half_row(to, gate + column, up + column, dact + column, gates, false);
	half_row(to + gates, gate + first, up + first, dact + first, count - gates, true);
}

/* A range of rows and depth of an operand, stored row by row. */
typedef struct tile {
	uint64_t row, first, rows, depth;
	float x[TILE][TILE];
} tile;

static void load_tile(tile *t, const fp8_source *from, bool transposed)
{
	float row[TILE];

	if (transposed) {
		for (uint64_t j = 0; j < t->depth; j++) {
			from->row(row, from, t->first + j, t->row, t->rows);
			for (uint64_t i = 0; i < t->rows; i++)
				t->x[i][j] = row[i];
		}
		return;
	}
	for (uint64_t i = 0; i < t->rows; i++)
		from->row(t->x[i], from, t->row + i, t->first, t->depth);
}

P4D_CLONES static uint32_t largest_of(const tile *t, uint64_t row, uint64_t rows, uint64_t first,
				      uint64_t depth)
{
	uint32_t most = 0;

	for (uint64_t i = row; i < row + rows; i++)
#pragma omp simd reduction(max : most)
		for (uint64_t j = first; j < first + depth; j++) {
			const uint32_t size = p4d_fp8_size(t->x[i][j]);
			most = size > most ? size : most;
		}
	return most;
}

P4D_CLONES static void encode(uint8_t *codes, uint64_t stride, const tile *t, uint64_t row, uint64_t rows,
			      uint64_t first, uint64_t depth, float inverse, p4d_fp8_format format)
{
	for (uint64_t i = row; i < row + rows; i++) {
		uint8_t *to = codes + (t->row + i) * stride + t->first;
#pragma omp simd
		for (uint64_t j = first; j < first + depth; j++)
			to[j] = p4d_fp8_encode(t->x[i][j] * inverse, format);
	}
}

static void quantize_tile(const p4d_fp8_operand *to, const tile *t, int all)
{
	const p4d_fp8_operand_shape *s = &to->shape;
	const uint64_t high = s->block ? s->block_rows : TILE, wide = s->block ? s->block : TILE;

	for (uint64_t i = 0; i < t->rows; i += high) {
		const uint64_t rows = at_most(t->rows - i, high);
		for (uint64_t j = 0; j < t->depth; j += wide) {
			const uint64_t depth = at_most(t->depth - j, wide);
			int exponent = all;
			if (s->block) {
				exponent = p4d_fp8_exponent(largest_of(t, i, rows, j, depth), s->format);
				p4d_fp8_put_scale(to->scales, s,
						  p4d_fp8_scale_at(s, t->row + i, (t->first + j) / s->block),
						  exponent);
			}
			encode(to->codes, s->depth, t, i, rows, j, depth, p4d_fp8_power(-exponent),
			       s->format);
		}
	}
}

/* Loads the tile with this number. Tiles are numbered row by row. */
static void load(tile *t, uint64_t number, const fp8_source *from, const p4d_fp8_operand_shape *s,
		 bool transposed)
{
	const uint64_t across = (s->depth + TILE - 1) / TILE;

	t->row = number / across * TILE;
	t->first = number % across * TILE;
	t->rows = at_most(s->rows - t->row, TILE);
	t->depth = at_most(s->depth - t->first, TILE);
	load_tile(t, from, transposed);
}

static void quantize_one(const p4d_fp8_operand *to, const fp8_source *from, bool transposed)
{
	const p4d_fp8_operand_shape *s = &to->shape;
	const uint64_t tiles = (s->rows + TILE - 1) / TILE * ((s->depth + TILE - 1) / TILE);
	const int team = p4d_cpu_team_of(tiles, s->rows * s->depth);
	uint32_t largest = 0;

	if (!s->block) {
#pragma omp parallel for reduction(max : largest) num_threads(team)
		for (uint64_t i = 0; i < tiles; i++) {
			tile t;
			load(&t, i, from, s, transposed);
			const uint32_t most = largest_of(&t, 0, t.rows, 0, t.depth);
			largest = most > largest ? most : largest;
		}
	}
	const int all = p4d_fp8_exponent(largest, s->format);
	if (!s->block)
		p4d_fp8_put_scale(to->scales, s, 0, all);
#pragma omp parallel for num_threads(team)
	for (uint64_t i = 0; i < tiles; i++) {
		tile t;
		load(&t, i, from, s, transposed);
		quantize_tile(to, &t, all);
	}
}

static void quantize_both(const p4d_fp8_operand *to, const p4d_fp8_operand *turned, const fp8_source *from)
{
	if (to)
		quantize_one(to, from, false);
	if (turned)
		quantize_one(turned, from, true);
}

static uint64_t columns_of(const p4d_fp8_operand *to, const p4d_fp8_operand *turned)
{
	return to ? to->shape.depth : turned->shape.rows;
}

void OP(quantize)(const p4d_fp8_operand *to, const p4d_fp8_operand *turned, const ELEMENT *x)
{
	quantize_both(to, turned, &(fp8_source){stored_row, x, NULL, columns_of(to, turned)});
}

void OP(quantize_swiglu)(const p4d_fp8_operand *to, const p4d_fp8_operand *turned, const ELEMENT *gate_up)
{
	quantize_both(to, turned, &(fp8_source){swiglu_row, gate_up, NULL, columns_of(to, turned)});
}

void OP(quantize_swiglu_backward)(const p4d_fp8_operand *to, const p4d_fp8_operand *turned,
				  const ELEMENT *gate_up, const ELEMENT *dact)
{
	quantize_both(to, turned, &(fp8_source){gradient_row, gate_up, dact, columns_of(to, turned) / 2});
}

#if P4D_CPU_TYPE != 64

/* Converts rows of an operand to fp64; a row of the result has BLOCK numbers. */
P4D_CLONES static void decode(double *to, const p4d_fp8_operand *from, uint64_t row, uint64_t first,
			      uint64_t rows, uint64_t depth)
{
	const p4d_fp8_operand_shape *s = &from->shape;
	const uint64_t wide = s->block ? s->block : BLOCK;

	for (uint64_t i = 0; i < rows; i++)
		for (uint64_t j = 0; j < depth; j += wide) {
			const uint8_t *codes = from->codes + (row + i) * s->depth + first + j;
			const uint64_t end = at_most(depth - j, wide);
			const uint64_t at = p4d_fp8_scale_at(s, row + i, s->block ? (first + j) / wide : 0);
			const float scale = p4d_fp8_scale_of(from->scales, s, at);
#pragma omp simd
			for (uint64_t k = 0; k < end; k++)
				to[i * BLOCK + j + k] = p4d_fp8_decode(codes[k], s->format) * scale;
		}
}

P4D_CLONES static void store(ELEMENT *to, const ELEMENT *add, uint64_t stride, const double *sum,
			     uint64_t rows, uint64_t columns)
{
	for (uint64_t i = 0; i < rows; i++) {
		if (add) {
#pragma omp simd
			for (uint64_t j = 0; j < columns; j++)
				to[i * stride + j] =
				    p4d_store((REAL)(p4d_load(add[i * stride + j]) + sum[i * BLOCK + j]));
		} else {
#pragma omp simd
			for (uint64_t j = 0; j < columns; j++)
				to[i * stride + j] = p4d_store((REAL)sum[i * BLOCK + j]);
		}
	}
}

/* Computes a block of the result. */
static void part_of_product(double *block_a, ELEMENT *y, const ELEMENT *add, const p4d_fp8_operand *a,
			    const p4d_fp8_operand *b, uint64_t i, uint64_t j)
{
	const uint64_t n = b->shape.rows, depth = a->shape.depth;
	const uint64_t ni = at_most(a->shape.rows - i, BLOCK), nj = at_most(n - j, BLOCK);
	double *const block_b = block_a + BLOCK * BLOCK, *const sums = block_b + BLOCK * BLOCK;

	for (uint64_t l = 0; l < depth; l += BLOCK) {
		const uint64_t nl = at_most(depth - l, BLOCK);
		decode(block_a, a, i, l, ni, nl);
		decode(block_b, b, j, l, nj, nl);
		cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)ni, (blasint)nj, (blasint)nl, 1,
			    block_a, BLOCK, block_b, BLOCK, l > 0 ? 1 : 0, sums, BLOCK);
	}
	store(y + i * n + j, add ? add + i * n + j : NULL, n, sums, ni, nj);
}

/* Computes a matmul. Since its sums are exact, the result may be divided among threads in any way. */
void OP(product)(void *scratch, ELEMENT *y, const ELEMENT *add, const p4d_fp8_operand *a,
		 const p4d_fp8_operand *b)
{
	const uint64_t m = a->shape.rows, n = b->shape.rows, across = (n + BLOCK - 1) / BLOCK;
	const uint64_t blocks = (m + BLOCK - 1) / BLOCK * across;
	const p4d_cpu_rooms rooms = p4d_cpu_rooms_for(scratch, 3 * BLOCK * BLOCK * sizeof(double),
						      p4d_cpu_team_of(blocks, m * n * a->shape.depth));

#pragma omp parallel for num_threads(rooms.team)
	for (uint64_t k = 0; k < blocks; k++)
		part_of_product(p4d_cpu_room(&rooms), y, add, a, b, k / across * BLOCK, k % across * BLOCK);
}

#endif
