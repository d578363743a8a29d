/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <math.h>

#include "device/cuda/elements.h"
#include "device/cuda/kernels.h"
#include "device/cuda/reduce.h"

/*
 * Code that attention and its backward pass share: tiles in shared memory, and their matmuls. A tile has T
 * rows of a head, in fp32, and D columns (the head size, rounded up; columns beyond the head are zero). A
 * block has SIDE * SIDE threads. Thread (y, x) computes rows y, y + SIDE, .. of a tile. In a tile of scores
 * it computes columns x, x + SIDE, .. In a tile with D columns it computes columns 4x .. 4x+3, 4 (x + SIDE),
 * ..
 */
constexpr int SIDE = 16, TILE_PAD = 4;

template <int T, int D> struct tile {
	float at[T][D + TILE_PAD]; /* padded: neighbouring rows are in different banks */
};

/* Positions of the tokens of a tile. */
template <int T> struct places {
	int32_t position[T], document[T];
};

struct quad {
	float x, y, z, w;
};

__device__ static inline quad quad_at(const float *from)
{
	const p4d_run<float, 4> run = p4d_load<4>(from);

	return {run.x[0], run.x[1], run.x[2], run.x[3]};
}

__device__ static inline unsigned own_row()
{
	return threadIdx.x / SIDE;
}

__device__ static inline unsigned own_column()
{
	return threadIdx.x % SIDE;
}

/*
 * Loads rows of a head, `stride` elements apart. wide: each group of 4 adjacent elements is aligned, so one
 * access loads it.
 */
template <typename E, int T, int D>
__device__ static void take(tile<T, D> *to, const E *from, uint64_t stride, uint64_t rows, unsigned d,
			    bool wide)
{
	for (unsigned i = threadIdx.x; i < T * (D / 4); i += SIDE * SIDE) {
		const unsigned row = i / (D / 4), column = i % (D / 4) * 4;
		p4d_run<float, 4> y = {};
		if (row < rows && wide && column < d) {
			const p4d_run<E, 4> x = p4d_load<4>(from + row * stride + column);
			for (int k = 0; k < 4; k++)
				y.x[k] = p4d_value(x.x[k]);
		} else if (row < rows) {
			for (unsigned k = 0; k < 4 && column + k < d; k++)
				y.x[k] = p4d_value(from[row * stride + column + k]);
		}
		p4d_store(&to->at[row][column], y);
	}
}

/*
 * Loads positions and documents of a tile. A tile may have fewer than T tokens: the missing queries see no
 * key, and no query sees the missing keys.
 */
template <int T>
__device__ static void take_places(places<T> *to, const int32_t *position, const int32_t *document,
				   uint64_t rows, bool queries)
{
	for (unsigned i = threadIdx.x; i < T; i += SIDE * SIDE) {
		to->position[i] = i < rows ? position[i] : queries ? INT32_MIN : INT32_MAX;
		to->document[i] = i < rows && document ? document[i] : 0;
	}
}

/* scores = a b^T, for this thread's rows and columns */
template <int T, int D>
__device__ static inline void multiply(float (&scores)[T / SIDE][T / SIDE], const tile<T, D> &a,
				       const tile<T, D> &b)
{
	const unsigned y = own_row(), x = own_column();

	for (int i = 0; i < T / SIDE; i++)
		for (int j = 0; j < T / SIDE; j++)
			scores[i][j] = 0;
	P4D_UNROLL
	for (int k = 0; k < D; k += 4) {
		quad left[T / SIDE], right[T / SIDE];
		for (int i = 0; i < T / SIDE; i++) {
			left[i] = quad_at(&a.at[y + i * SIDE][k]);
			right[i] = quad_at(&b.at[x + i * SIDE][k]);
		}
		for (int i = 0; i < T / SIDE; i++)
			for (int j = 0; j < T / SIDE; j++)
				scores[i][j] += left[i].x * right[j].x + left[i].y * right[j].y +
						left[i].z * right[j].z + left[i].w * right[j].w;
	}
}

/* sums += scores (or transposed scores) * rows (T, D) */
template <bool TRANSPOSED, int T, int D>
__device__ static inline void add_product(float (&sums)[T / SIDE][D / SIDE], const tile<T, T> &scores,
					  const tile<T, D> &rows)
{
	const unsigned y = own_row(), x = own_column();

	P4D_UNROLL
	for (int k = 0; k < T; k++) {
		float left[T / SIDE];
		for (int i = 0; i < T / SIDE; i++)
			left[i] = TRANSPOSED ? scores.at[k][y + i * SIDE] : scores.at[y + i * SIDE][k];
		for (int j = 0; j < D / SIDE; j += 4) {
			const quad right = quad_at(&rows.at[k][j * SIDE + 4 * x]);
			for (int i = 0; i < T / SIDE; i++) {
				sums[i][j] += left[i] * right.x;
				sums[i][j + 1] += left[i] * right.y;
				sums[i][j + 2] += left[i] * right.z;
				sums[i][j + 3] += left[i] * right.w;
			}
		}
	}
}

/* The column of this thread's j-th sum. */
__device__ static inline unsigned column_at(int j)
{
	return (unsigned)(j / 4 * 4 * SIDE + j % 4) + 4 * own_column();
}

/*
 * LIMITED: the call has a window or a soft cap. Without LIMITED the kernel needs fewer registers. reach: the
 * largest distance by which a key may precede a query that sees it.
 */
template <bool LIMITED> __device__ static inline int32_t reach_of(const p4d_attention_shape &s)
{
	return LIMITED && s.window && s.window < INT32_MAX ? (int32_t)s.window - 1 : INT32_MAX;
}

template <bool LIMITED> __device__ static inline float cap_of(const p4d_attention_shape &s)
{
	return LIMITED ? s.cap : 0;
}

static inline bool is_limited(const p4d_attention_shape *s)
{
	return s->window || s->cap > 0;
}

/* Whether the key's position is not after the query's, and at most `reach` before it. */
__device__ static inline bool reaches(int32_t query, int32_t key, int32_t reach)
{
	return key <= query && (reach == INT32_MAX || (int64_t)query - key <= reach);
}

/* Whether a query may see a key. */
template <int T>
__device__ static inline bool sees(const places<T> &queries, unsigned query, const places<T> &keys,
				   unsigned key, int32_t reach)
{
	return reaches(queries.position[query], keys.position[key], reach) &&
	       keys.document[key] == queries.document[query];
}

/*
 * capped applies the soft cap, if there is one, to a score. cap_slope is the factor that turns a capped
 * score's gradient into the score's gradient.
 */
__device__ static inline float capped(float score, float cap)
{
	return cap > 0 ? cap * tanhf(score / cap) : score;
}

__device__ static inline float cap_slope(float score, float cap)
{
	return cap > 0 ? 1 - score / cap * (score / cap) : 1;
}

/*
 * Whether any query of a tile may see a key of another tile; all threads get the result, after a barrier. It
 * compares only ranges of positions and documents. So with several documents or a window it may return true
 * although no query sees a key.
 */
template <int T>
__device__ static inline bool any_sees(const places<T> &queries, const places<T> &keys, int32_t reach)
{
	int32_t first = INT32_MAX, last = INT32_MIN, low = INT32_MAX, high = INT32_MIN;
	bool seen = false;

	for (int i = 0; i < T; i++) {
		if (queries.position[i] == INT32_MIN)
			continue;
		first = queries.position[i] < first ? queries.position[i] : first;
		last = queries.position[i] > last ? queries.position[i] : last;
		low = queries.document[i] < low ? queries.document[i] : low;
		high = queries.document[i] > high ? queries.document[i] : high;
	}
	for (unsigned i = threadIdx.x; i < T; i += SIDE * SIDE)
		seen = seen || (keys.position[i] <= last &&
				(reach == INT32_MAX || (int64_t)first - keys.position[i] <= reach) &&
				keys.document[i] >= low && keys.document[i] <= high);
	return __syncthreads_or(seen) != 0;
}

/*
 * Runs the statement with constants D and T. D is the number of columns of tiles for this head size, and T
 * the number of rows: rows_128 if D is at most 128, else rows_256.
 */
#define P4D_WITH_HEAD(head_dim, rows_128, rows_256, D, T, ...) \
	do { \
		if ((head_dim) <= 64) { \
			constexpr int D = 64, T = rows_128; \
			__VA_ARGS__; \
		} else if ((head_dim) <= 128) { \
			constexpr int D = 128, T = rows_128; \
			__VA_ARGS__; \
		} else { \
			constexpr int D = 256, T = rows_256; \
			__VA_ARGS__; \
		} \
	} while (0)

__host__ __device__ static inline uint64_t tiles_of(uint64_t rows, uint64_t tile)
{
	return (rows + tile - 1) / tile;
}

/* Whether each group of 4 adjacent elements is aligned in all heads of a matrix. */
template <typename E> static bool has_wide_heads(const void *matrix, uint64_t stride, uint64_t head_dim)
{
	return reinterpret_cast<uintptr_t>(matrix) % (4 * sizeof(E)) == 0 && stride % 4 == 0 &&
	       head_dim % 4 == 0;
}
