/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients of attention without atomics. One kernel loops over the queries for a tile of keys and computes
 * gradients of keys and values; another loops over the keys for a tile of queries. Both recompute the
 * probabilities from the scores and the saved log-sum-exp. That takes seven matmuls, while a single kernel
 * would need five. But all sums stay in registers, so no atomics are needed.
 */
#include "device/cuda/attention_tiles.h"

template <int T, int D> struct backward_space {
	tile<T, D> queries, keys, values, outputs;
	tile<T, T> probabilities, gradients;
	places<T> query, key;
	float lse[T], row_sums[T];
};

/* Operands, and the destination of the gradients. to: their type. add: adds to them, otherwise sets them. */
template <typename E> struct operands {
	const E *q, *k, *v, *d_o;
	const float *lse, *row_sums;
	void *dq, *dk, *dv;
	p4d_dtype to;
	bool add, wide;
	p4d_attention_shape s;
};

__device__ static inline void put(void *to, uint64_t at, float x, p4d_dtype type, bool add)
{
	if (type == P4D_DT_BF16)
		p4d_round((p4d_bf16 *)to + at, x);
	else
		((float *)to)[at] = add ? ((float *)to)[at] + x : x;
}

/* Writes sums (T, D) to rows of a head, beginning with row `at`; rows are `stride` elements apart. */
template <int T, int D>
__device__ static void put_rows(void *to, uint64_t at, uint64_t stride,
				const float (&sums)[T / SIDE][D / SIDE], uint64_t rows, unsigned d,
				p4d_dtype type, bool add)
{
	for (int i = 0; i < T / SIDE; i++) {
		const uint64_t row = own_row() + i * SIDE;
		for (int j = 0; row < rows && j < D / SIDE; j++)
			if (column_at(j) < d)
				put(to, at + row * stride + column_at(j), sums[i][j], type, add);
	}
}

/* Loads a tile of a head's queries, and the lse and row sums of these queries. */
template <typename E, int T, int D>
__device__ static void take_queries(backward_space<T, D> *w, const operands<E> &x, uint64_t batch,
				    uint64_t head, uint64_t first, uint64_t rows)
{
	const p4d_attention_shape &s = x.s;
	const unsigned d = (unsigned)s.head_dim;
	const uint64_t token = batch * s.queries + first, line = head * s.batch * s.queries + token;

	take(&w->queries, x.q + token * s.query_stride + head * d, s.query_stride, rows, d, x.wide);
	take(&w->outputs, x.d_o + (token * s.heads + head) * d, s.heads * d, rows, d, x.wide);
	for (unsigned i = threadIdx.x; i < T; i += SIDE * SIDE) {
		/* a query that sees no key has only scores of -inf; an lse of 0 makes its probabilities 0 */
		w->lse[i] = i < rows && x.lse[line + i] != -INFINITY ? x.lse[line + i] : 0;
		w->row_sums[i] = i < rows ? x.row_sums[line + i] : 0;
	}
}

template <typename E, int T, int D>
__device__ static void take_keys(backward_space<T, D> *w, const operands<E> &x, uint64_t batch,
				 uint64_t kv_head, uint64_t first, uint64_t rows)
{
	const p4d_attention_shape &s = x.s;
	const unsigned d = (unsigned)s.head_dim;
	const uint64_t at = (batch * s.keys + first) * s.key_stride + kv_head * d;

	take(&w->keys, x.k + at, s.key_stride, rows, d, x.wide);
	take(&w->values, x.v + at, s.key_stride, rows, d, x.wide);
}

template <int T>
__device__ static void take_query_places(places<T> *to, const p4d_attention_shape &s, uint64_t batch,
					 uint64_t first, uint64_t rows)
{
	const bool documents = s.query_document && s.key_document;

	take_places(to, s.query_position + first,
		    documents ? s.query_document + batch * s.queries + first : nullptr, rows, true);
}

template <int T>
__device__ static void take_key_places(places<T> *to, const p4d_attention_shape &s, uint64_t batch,
				       uint64_t first, uint64_t rows)
{
	const bool documents = s.query_document && s.key_document;

	take_places(to, s.key_position + first, documents ? s.key_document + batch * s.keys + first : nullptr,
		    rows, false);
}

/* Computes the probabilities of a tile, and the gradients of its scores. */
template <bool LIMITED, int T, int D>
__device__ static void make_gradients(backward_space<T, D> *w, const p4d_attention_shape &s)
{
	float scores[T / SIDE][T / SIDE], gradients[T / SIDE][T / SIDE];
	const unsigned y = own_row(), x = own_column();
	const int32_t reach = reach_of<LIMITED>(s);
	const float cap = cap_of<LIMITED>(s);

	multiply(scores, w->queries, w->keys);
	multiply(gradients, w->outputs, w->values);
	for (int i = 0; i < T / SIDE; i++)
		for (int j = 0; j < T / SIDE; j++) {
			const unsigned row = y + i * SIDE, column = x + j * SIDE;
			const bool seen = sees(w->query, row, w->key, column, reach);
			const float score = capped(scores[i][j] * s.scale, cap);
			const float p = seen ? expf(score - w->lse[row]) : 0;
			w->probabilities.at[row][column] = p;
			w->gradients.at[row][column] =
			    p * (gradients[i][j] - w->row_sums[row]) * s.scale * cap_slope(score, cap);
		}
}

template <typename E, int D, int T, bool LIMITED>
__global__ void __launch_bounds__(SIDE *SIDE) attend_back_to_keys(operands<E> x)
{
	typedef backward_space<T, D> backward_tiles;
	P4D_SHARED(backward_tiles, w);
	const p4d_attention_shape &s = x.s;
	const unsigned d = (unsigned)s.head_dim;
	const uint64_t lines = s.batch * s.kv_heads, first = blockIdx.x / lines * T;
	const uint64_t batch = blockIdx.x % lines / s.kv_heads, kv_head = blockIdx.x % s.kv_heads;
	const uint64_t group = s.heads / s.kv_heads, rows = s.keys - first < T ? s.keys - first : T;
	const uint64_t at = (batch * s.keys + first) * s.key_stride + kv_head * d;
	float dk[T / SIDE][D / SIDE] = {}, dv[T / SIDE][D / SIDE] = {};

	take_keys(w, x, batch, kv_head, first, rows);
	take_key_places(&w->key, s, batch, first, rows);
	for (uint64_t query = 0; query < s.queries; query += T) {
		const uint64_t queries = s.queries - query < T ? s.queries - query : T;
		__syncthreads(); /* all threads have used the previous tile */
		take_query_places(&w->query, s, batch, query, queries);
		__syncthreads();
		if (!any_sees(w->query, w->key, reach_of<LIMITED>(s)))
			continue;
		for (uint64_t head = kv_head * group; head < (kv_head + 1) * group; head++) {
			take_queries(w, x, batch, head, query, queries);
			__syncthreads();
			make_gradients<LIMITED>(w, s);
			__syncthreads();
			add_product<true>(dv, w->probabilities, w->outputs);
			add_product<true>(dk, w->gradients, w->queries);
			__syncthreads();
		}
	}
	put_rows<T, D>(x.dk, at, s.key_stride, dk, rows, d, x.to, x.add);
	put_rows<T, D>(x.dv, at, s.key_stride, dv, rows, d, x.to, x.add);
}

template <typename E, int D, int T, bool LIMITED>
__global__ void __launch_bounds__(SIDE *SIDE) attend_back_to_queries(operands<E> x)
{
	typedef backward_space<T, D> backward_tiles;
	P4D_SHARED(backward_tiles, w);
	const p4d_attention_shape &s = x.s;
	const unsigned d = (unsigned)s.head_dim;
	const uint64_t lines = s.batch * s.heads, tiles = tiles_of(s.queries, T);
	/* the last queries see the most keys, so their blocks begin first */
	const uint64_t first = (tiles - 1 - blockIdx.x / lines) * T;
	const uint64_t batch = blockIdx.x % lines / s.heads, head = blockIdx.x % s.heads;
	const uint64_t rows = s.queries - first < T ? s.queries - first : T;
	float dq[T / SIDE][D / SIDE] = {};

	take_queries(w, x, batch, head, first, rows);
	take_query_places(&w->query, s, batch, first, rows);
	for (uint64_t key = 0; key < s.keys; key += T) {
		const uint64_t keys = s.keys - key < T ? s.keys - key : T;
		__syncthreads(); /* all threads have used the previous tile */
		take_key_places(&w->key, s, batch, key, keys);
		__syncthreads();
		if (!any_sees(w->query, w->key, reach_of<LIMITED>(s)))
			continue;
		take_keys(w, x, batch, head / (s.heads / s.kv_heads), key, keys);
		__syncthreads();
		make_gradients<LIMITED>(w, s);
		__syncthreads();
		add_product<false>(dq, w->gradients, w->keys);
	}
	put_rows<T, D>(x.dq, (batch * s.queries + first) * s.query_stride + head * d, s.query_stride, dq,
		       rows, d, x.to, x.add);
}

template <typename E, int D, int T, bool LIMITED>
static void start_gradients(cudaStream_t stream, const operands<E> &x)
{
	const size_t shared = sizeof(backward_space<T, D>);
	const p4d_attention_shape &s = x.s;

	p4d_launch<attend_back_to_keys<E, D, T, LIMITED>>(
	    stream, {tiles_of(s.keys, T) * s.batch * s.kv_heads, 1, SIDE * SIDE, shared}, x);
	p4d_launch<attend_back_to_queries<E, D, T, LIMITED>>(
	    stream, {tiles_of(s.queries, T) * s.batch * s.heads, 1, SIDE * SIDE, shared}, x);
}

void p4d_kernel_attention_backward(cudaStream_t stream, p4d_dtype type, p4d_dtype to, bool add, void *dq,
				   void *dk, void *dv, const void *d_o, const float *lse,
				   const float *row_sums, const void *q, const void *k, const void *v,
				   const p4d_attention_shape *s)
{
	P4D_WITH_TYPE(type, E, {
		const bool wide = has_wide_heads<E>(q, s->query_stride, s->head_dim) &&
				  has_wide_heads<E>(k, s->key_stride, s->head_dim) &&
				  has_wide_heads<E>(v, s->key_stride, s->head_dim) &&
				  has_wide_heads<E>(d_o, s->heads * s->head_dim, s->head_dim);
		const operands<E> x = {
		    (const E *)q, (const E *)k, (const E *)v, (const E *)d_o, lse, row_sums, dq, dk,
		    dv,           to,           add,          wide,           *s};
		P4D_WITH_HEAD(s->head_dim, 32, 16, D, T, {
			if (is_limited(s))
				start_gradients<E, D, T, true>(stream, x);
			else
				start_gradients<E, D, T, false>(stream, x);
		});
	});
}
