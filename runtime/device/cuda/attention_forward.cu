/* SPDX-License-Identifier: Apache-2.0 */
/*
 * p4d's own attention, in fp32 arithmetic. It is used if fused attention is not available or does not support
 * the call. A block loops over the keys for a tile of queries with the online softmax (Milakov and Gimelshein
 * 2018; tiled as in FlashAttention, Dao et al. 2022). The order of sums is fixed.
 */
#include "device/cuda/attention_tiles.h"

template <int T, int D> struct forward_space {
	tile<T, D> queries, keys_or_values;
	tile<T, T> probabilities;
	places<T> query, key;
};

template <typename E, int D, int T, bool LIMITED>
__global__ void __launch_bounds__(SIDE *SIDE)
    attend(E *o, float *lse, const E *q, const E *k, const E *v, p4d_attention_shape s, bool wide)
{
	typedef forward_space<T, D> forward_tiles;
	P4D_SHARED(forward_tiles, w);
	const unsigned d = (unsigned)s.head_dim, y = own_row(), x = own_column();
	const uint64_t tiles = tiles_of(s.queries, T), heads = s.batch * s.heads;
	/* the last queries see the most keys, so their blocks begin first */
	const uint64_t first = (tiles - 1 - blockIdx.x / heads) * T;
	const uint64_t batch = blockIdx.x % heads / s.heads, head = blockIdx.x % s.heads;
	const uint64_t rows = s.queries - first < T ? s.queries - first : T,
		       token = batch * s.queries + first;
	const bool documents = s.query_document && s.key_document;
	const int32_t *key_document = documents ? s.key_document + batch * s.keys : nullptr;
	const uint64_t column = head / (s.heads / s.kv_heads) * d;
	const int32_t reach = reach_of<LIMITED>(s);
	float output[T / SIDE][D / SIDE] = {}, most[T / SIDE], sum[T / SIDE] = {};

	for (int i = 0; i < T / SIDE; i++)
		most[i] = -INFINITY;
	take(&w->queries, q + token * s.query_stride + head * d, s.query_stride, rows, d, wide);
	take_places(&w->query, s.query_position + first, documents ? s.query_document + token : nullptr, rows,
		    true);
	for (uint64_t key = 0; key < s.keys; key += T) {
		const uint64_t keys = s.keys - key < T ? s.keys - key : T;
		const uint64_t at = (batch * s.keys + key) * s.key_stride + column;
		__syncthreads(); /* all threads have used the previous tile */
		take_places(&w->key, s.key_position + key, documents ? key_document + key : nullptr, keys,
			    false);
		__syncthreads();
		if (!any_sees(w->query, w->key, reach))
			continue;
		take(&w->keys_or_values, k + at, s.key_stride, keys, d, wide);
		__syncthreads();
		float scores[T / SIDE][T / SIDE];
		multiply(scores, w->queries, w->keys_or_values);
		for (int i = 0; i < T / SIDE; i++) {
			float highest = most[i], total = 0;
			for (int j = 0; j < T / SIDE; j++) {
				scores[i][j] = sees(w->query, y + i * SIDE, w->key, x + j * SIDE, reach)
						   ? capped(scores[i][j] * s.scale, cap_of<LIMITED>(s))
						   : -INFINITY;
				highest = fmaxf(highest, scores[i][j]);
			}
			highest = p4d_group_max(highest, SIDE);
			/*
			 * if the query has seen no key so far, any finite shift makes all its probabilities 0
			 */
			const float shift = highest == -INFINITY ? 0 : highest;
			for (int j = 0; j < T / SIDE; j++) {
				const float p = expf(scores[i][j] - shift);
				w->probabilities.at[y + i * SIDE][x + j * SIDE] = p;
				total += p;
			}
			const float shrink = expf(most[i] - shift);
			sum[i] = sum[i] * shrink + p4d_group_sum(total, SIDE);
			most[i] = highest;
			for (int j = 0; j < D / SIDE; j++)
				output[i][j] *= shrink;
		}
		__syncthreads(); /* the keys are no longer needed */
		take(&w->keys_or_values, v + at, s.key_stride, keys, d, wide);
		__syncthreads();
		add_product<false>(output, w->probabilities, w->keys_or_values);
	}
	for (int i = 0; i < T / SIDE; i++) {
		const uint64_t row = y + i * SIDE;
		const float inverse = sum[i] > 0 ? 1 / sum[i] : sum[i];
		if (row >= rows)
			continue;
		for (int j = 0; j < D / SIDE; j++)
			if (column_at(j) < d)
				p4d_round(o + ((token + row) * s.heads + head) * d + column_at(j),
					  output[i][j] * inverse);
		if (x == 0)
			lse[head * s.batch * s.queries + token + row] = most[i] + logf(sum[i]);
	}
}

template <typename E, int D, int T, bool LIMITED>
static void start_attention(cudaStream_t stream, void *o, float *lse, const void *q, const void *k,
			    const void *v, const p4d_attention_shape *s, bool wide)
{
	const uint64_t blocks = tiles_of(s->queries, T) * s->batch * s->heads;

	p4d_launch<attend<E, D, T, LIMITED>>(stream, {blocks, 1, SIDE * SIDE, sizeof(forward_space<T, D>)},
					     (E *)o, lse, (const E *)q, (const E *)k, (const E *)v, *s, wide);
}

void p4d_kernel_attention(cudaStream_t stream, p4d_dtype type, void *o, float *lse, const void *q,
			  const void *k, const void *v, const p4d_attention_shape *s)
{
	P4D_WITH_TYPE(type, E, {
		const bool wide = has_wide_heads<E>(q, s->query_stride, s->head_dim) &&
				  has_wide_heads<E>(k, s->key_stride, s->head_dim) &&
				  has_wide_heads<E>(v, s->key_stride, s->head_dim);
		P4D_WITH_HEAD(s->head_dim, 64, 32, D, T, {
			if (is_limited(s))
				start_attention<E, D, T, true>(stream, o, lse, q, k, v, s, wide);
			else
				start_attention<E, D, T, false>(stream, o, lse, q, k, v, s, wide);
		});
	});
}
