/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the qkv projection and attention: qkv bias, qk-norm and RoPE. `lanes` neighbouring threads (a power
 * of two) process one head of a token; each thread has groups of W adjacent pairs (i, i + d/2). Every element
 * is rounded once.
 */
#include "device/cuda/elements.h"
#include "device/cuda/kernels.h"
#include "device/cuda/reduce.h"

/* A thread's elements in the two halves of a head, as fp32. */
template <int W> struct pairs {
	float a[W], b[W];
};

template <typename E, int W>
__device__ static inline pairs<W> pairs_at(const E *head, unsigned half, unsigned i)
{
	const p4d_run<E, W> a = p4d_load<W>(head + i), b = p4d_load<W>(head + half + i);
	pairs<W> x;

	for (int k = 0; k < W; k++) {
		x.a[k] = p4d_value(a.x[k]);
		x.b[k] = p4d_value(b.x[k]);
	}
	return x;
}

/* Rounds x to the type E, stores it, and keeps the rounded values in *x. */
template <typename E, int W>
__device__ static inline void put_pairs(E *head, unsigned half, unsigned i, pairs<W> *x)
{
	p4d_run<E, W> a, b;

	for (int k = 0; k < W; k++) {
		p4d_round(&a.x[k], x->a[k]);
		p4d_round(&b.x[k], x->b[k]);
		x->a[k] = p4d_value(a.x[k]);
		x->b[k] = p4d_value(b.x[k]);
	}
	p4d_store(head + i, a);
	p4d_store(head + half + i, b);
}

template <int W>
__device__ static inline void rotate(pairs<W> *x, const float *cosine, const float *sine, float direction)
{
	const p4d_run<float, W> c = p4d_load<W>(cosine), s = p4d_load<W>(sine);

	for (int k = 0; k < W; k++) {
		const float a = x->a[k], b = x->b[k], turn = s.x[k] * direction;
		x->a[k] = a * c.x[k] - b * turn;
		x->b[k] = b * c.x[k] + a * turn;
	}
}

/* The head that this thread works on. */
typedef struct place {
	uint64_t token;
	unsigned head, lane;
	bool exists, rotated;
} place;

__device__ static inline place place_of(const p4d_heads &h, unsigned lanes, unsigned heads)
{
	const uint64_t unit = ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) / lanes;
	place p = {unit / heads, (unsigned)(unit % heads), threadIdx.x % lanes, false, false};

	p.exists = p.token < h.n;
	p.rotated = p.exists && p.head < h.heads + h.kv_heads;
	return p;
}

/* The index of a head among the queries or among the keys. */
__device__ static inline unsigned among(const p4d_heads &h, unsigned head)
{
	return head < h.heads ? head : head - (unsigned)h.heads;
}

template <typename E> __device__ static inline const E *norm_weight(const p4d_heads &h, unsigned head)
{
	const E *weight = (const E *)(head < h.heads ? h.query_weight : h.key_weight);

	return h.wide ? weight + (size_t)among(h, head) * h.head_dim : weight;
}

/* With norms over all heads: 1 / rms, from the sum of squares. */
__device__ static inline float wide_scale(const p4d_heads &h, const float *sums, uint64_t token,
					  unsigned head)
{
	const bool key = head >= h.heads;

	return 1 / sqrtf(sums[P4D_WIDE_NORMS * token + key] / (float)(key ? h.key_width : h.query_width) +
			 h.epsilon);
}

/* One block per token computes the sum over its queries, then over its keys. */
template <typename E, int W> __global__ void sum_heads(float *sums, const E *a, const E *b, p4d_heads h)
{
	const unsigned d = (unsigned)h.head_dim, q = (unsigned)h.heads * d, kv = (unsigned)h.kv_heads * d;
	const size_t row = (size_t)blockIdx.x * (q + 2 * kv);

	for (unsigned key = 0; key < P4D_WIDE_NORMS; key++) {
		float sum = 0;
		for (unsigned j = threadIdx.x * W; j < (key ? kv : q); j += blockDim.x * W) {
			const size_t at = row + (key ? q : 0) + j;
			const p4d_run<E, W> left = p4d_load<W>(a + at), right = p4d_load<W>(b + at);
			for (int k = 0; k < W; k++)
				sum += p4d_value(left.x[k]) * p4d_value(right.x[k]);
		}
		sum = p4d_block_sum(sum);
		if (threadIdx.x == 0)
			sums[P4D_WIDE_NORMS * (size_t)blockIdx.x + key] = sum;
	}
}

/* heads: how many heads of each token to process: queries and keys and, if there is a bias, values. */
template <typename E, int W>
__global__ void turn_heads(E *qkv, float *rstd, p4d_heads h, unsigned lanes, unsigned heads, float direction)
{
	const unsigned d = (unsigned)h.head_dim, half = d / 2;
	const place p = place_of(h, lanes, heads);
	E *at = qkv + (p.token * (h.heads + 2 * h.kv_heads) + p.head) * d;
	const E *bias = h.bias ? (const E *)h.bias + p.head * d : nullptr;
	const float *rope = h.rope + p.token % h.length * d;
	float scale = 1;

	if (rstd && h.wide) {
		if (p.rotated)
			scale = wide_scale(h, rstd, p.token, p.head);
	} else if (rstd) {
		float squares = 0;
		for (unsigned i = p.lane * W; p.rotated && i < half; i += lanes * W) {
			const pairs<W> x = pairs_at<E, W>(at, half, i);
			const pairs<W> more = bias ? pairs_at<E, W>(bias, half, i) : pairs<W>{};
			for (int k = 0; k < W; k++) {
				const float a = x.a[k] + more.a[k], b = x.b[k] + more.b[k];
				squares += a * a + b * b;
			}
		}
		scale = 1 / sqrtf(p4d_group_sum(squares, lanes) / (float)d + h.epsilon);
		if (p.rotated && p.lane == 0)
			rstd[p.token * (h.heads + h.kv_heads) + p.head] = scale;
	}
	for (unsigned i = p.lane * W; p.exists && i < half; i += lanes * W) {
		pairs<W> x = pairs_at<E, W>(at, half, i);
		if (bias) {
			const pairs<W> more = pairs_at<E, W>(bias, half, i);
			for (int k = 0; k < W; k++) {
				x.a[k] += more.a[k];
				x.b[k] += more.b[k];
			}
		}
		if (rstd && p.rotated) {
			const pairs<W> w = pairs_at<E, W>(norm_weight<E>(h, p.head), half, i);
			for (int k = 0; k < W; k++) {
				x.a[k] *= scale * (w.a[k] + h.plus);
				x.b[k] *= scale * (w.b[k] + h.plus);
			}
		}
		if (p.rotated)
			rotate<W>(&x, rope + i, rope + half + i, direction);
		put_pairs<E, W>(at, half, i, &x);
	}
}

/*
 * Backward through rotation and norm, with sums over tokens: block (r, head) processes every gridDim.x-th
 * token. The norm's result y is z * weight with z = x * rstd. It is not stored but recovered by rotating back
 * the result of `heads`. With g the gradient of y: dx = rstd * (g * weight - z * mean(g * y)), dweight += g *
 * z. Each group of lanes sums in its own row of shared memory; then the rows are added in order.
 *
 * weights (R, a+k heads, d), biases (R, columns): partial sums; NULL: not wanted.
 */
template <typename E, int W>
__global__ void turn_back(E *dqkv, const E *qkv, const float *rstd, p4d_heads h, unsigned lanes,
			  float *weights, float *biases)
{
	P4D_SHARED(float, shared);
	const unsigned d = (unsigned)h.head_dim, half = d / 2, head = blockIdx.y;
	const unsigned groups = blockDim.x / lanes, group = threadIdx.x / lanes, lane = threadIdx.x % lanes;
	const unsigned rotated = (unsigned)(h.heads + h.kv_heads), all = rotated + (unsigned)h.kv_heads;
	const bool turns = head < rotated, norms = turns && rstd;
	const E *weight = norm_weight<E>(h, head);
	float *of_weights = shared + group * d, *of_biases = of_weights + groups * d;

	for (unsigned i = lane; i < d; i += lanes)
		of_weights[i] = of_biases[i] = 0;
	__syncthreads();
	for (uint64_t first = blockIdx.x; first < h.n; first += (uint64_t)gridDim.x * groups) {
		const uint64_t token = first + (uint64_t)gridDim.x * group;
		const bool exists = token < h.n;
		const size_t at = ((size_t)token * all + head) * d;
		const float *rope = h.rope + token % h.length * d;
		float mean = 0;
		if (norms && h.wide) {
			const bool key = head >= h.heads;
			mean = exists ? h.dots[P4D_WIDE_NORMS * token + key] /
					    (float)(key ? h.key_width : h.query_width)
				      : 0;
		} else if (norms) { /* a rotation does not change scalar products */
			for (unsigned i = lane * W; exists && i < half; i += lanes * W) {
				const pairs<W> g = pairs_at<E, W>(dqkv + at, half, i),
					       y = pairs_at<E, W>(qkv + at, half, i);
				for (int k = 0; k < W; k++)
					mean += g.a[k] * y.a[k] + g.b[k] * y.b[k];
			}
			mean = p4d_group_sum(mean, lanes) / (float)d;
		}
		const float scale = !norms || !exists ? 1
				    : h.wide          ? wide_scale(h, rstd, token, head)
						      : rstd[token * rotated + head];
		for (unsigned i = lane * W; exists && i < half; i += lanes * W) {
			pairs<W> g = pairs_at<E, W>(dqkv + at, half, i);
			if (turns)
				rotate<W>(&g, rope + i, rope + half + i, -1);
			if (norms) {
				const pairs<W> w = pairs_at<E, W>(weight, half, i);
				pairs<W> y = pairs_at<E, W>(qkv + at, half, i);
				rotate<W>(&y, rope + i, rope + half + i, -1);
				for (int k = 0; k < W; k++) {
					const float wa = w.a[k] + h.plus, wb = w.b[k] + h.plus;
					const float za = wa == 0 ? 0 : y.a[k] / wa,
						    zb = wb == 0 ? 0 : y.b[k] / wb;
					of_weights[i + k] += g.a[k] * za;
					of_weights[half + i + k] += g.b[k] * zb;
					g.a[k] = scale * (g.a[k] * wa - za * mean);
					g.b[k] = scale * (g.b[k] * wb - zb * mean);
				}
			}
			if (turns)
				put_pairs<E, W>(dqkv + at, half, i, &g);
			for (int k = 0; biases && k < W; k++) {
				of_biases[i + k] += g.a[k];
				of_biases[half + i + k] += g.b[k];
			}
		}
	}
	__syncthreads();
	for (unsigned i = threadIdx.x; i < d; i += blockDim.x) {
		float of_weight = 0, of_bias = 0;
		for (unsigned k = 0; k < groups; k++) {
			of_weight += shared[k * d + i];
			of_bias += shared[(groups + k) * d + i];
		}
		if (weights && turns) /* the weights of queries come before the weights of keys */
			weights[head < h.heads ? ((size_t)blockIdx.x * h.heads + head) * d + i
					       : ((size_t)gridDim.x * h.heads + blockIdx.x * h.kv_heads +
						  head - h.heads) *
							 d +
						     i] = of_weight;
		if (biases)
			biases[((size_t)blockIdx.x * all + head) * d + i] = of_bias;
	}
}

template <typename E> static bool is_wide(const void *qkv, const void *other, const p4d_heads *h)
{
	return p4d_is_wide<E>(h->head_dim / 2, qkv, other, h->bias, h->query_weight, h->key_weight, h->rope);
}

template <typename E, int W>
static void turn(cudaStream_t stream, E *qkv, float *rstd, const p4d_heads *h, uint64_t heads,
		 float direction)
{
	const unsigned lanes = p4d_lanes_for(h->head_dim / 2 / W);
	const uint64_t blocks = (h->n * heads * lanes + P4D_THREADS - 1) / P4D_THREADS;

	p4d_launch<turn_heads<E, W>>(stream, {blocks, 1, P4D_THREADS, 0}, qkv, rstd, *h, lanes,
				     (unsigned)heads, direction);
}

void p4d_kernel_heads(cudaStream_t stream, p4d_dtype type, void *qkv, float *rstd, const p4d_heads *h)
{
	const uint64_t heads = h->heads + h->kv_heads + (h->bias ? h->kv_heads : 0);

	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(is_wide<E>(qkv, nullptr, h), E, W,
			       { turn<E, W>(stream, (E *)qkv, rstd, h, heads, 1); });
	});
}

template <typename E, int W>
static void back(cudaStream_t stream, float *sums, E *dqkv, const E *qkv, const float *rstd,
		 const p4d_heads *h, float *dbias, float *dquery_weight, float *dkey_weight)
{
	const uint64_t d = h->head_dim, rotated = h->heads + h->kv_heads, all = rotated + h->kv_heads;
	const unsigned lanes = p4d_lanes_for(d / 2 / W), groups = P4D_THREADS / lanes;
	const uint64_t rows = p4d_least(h->n, P4D_HEAD_SUMS);
	float *weights = rstd ? sums : nullptr, *biases = dbias ? sums + rows * rotated * d : nullptr;

	p4d_launch<turn_back<E, W>>(
	    stream, {rows, dbias ? all : rotated, P4D_THREADS, 2 * groups * d * sizeof(float)}, dqkv, qkv,
	    rstd, *h, lanes, weights, biases);
	if (weights && dquery_weight && h->wide) {
		p4d_reduce_columns(stream, dquery_weight, weights, rows, h->heads * d);
		p4d_reduce_columns(stream, dkey_weight, weights + rows * h->heads * d, rows, h->kv_heads * d);
	} else if (weights && dquery_weight) {
		p4d_reduce_columns(stream, dquery_weight, weights, rows * h->heads, d);
		p4d_reduce_columns(stream, dkey_weight, weights + rows * h->heads * d, rows * h->kv_heads, d);
	}
	if (biases)
		p4d_reduce_columns(stream, dbias, biases, rows, all * d);
}

void p4d_kernel_heads_backward(cudaStream_t stream, float *sums, p4d_dtype type, void *dqkv, const void *qkv,
			       const float *rstd, const p4d_heads *h, float *dbias, float *dquery_weight,
			       float *dkey_weight)
{
	/* without sums over tokens, this is the inverse rotation */
	const bool plain = !rstd && !dbias;
	p4d_heads bare = *h;

	if (plain)
		bare.bias = bare.query_weight = bare.key_weight = nullptr;
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(is_wide<E>(dqkv, plain ? nullptr : qkv, &bare), E, W, {
			if (plain)
				turn<E, W>(stream, (E *)dqkv, nullptr, &bare, h->heads + h->kv_heads, -1);
			else
				back<E, W>(stream, sums, (E *)dqkv, (const E *)qkv, rstd, h, dbias,
					   dquery_weight, dkey_weight);
		});
	});
}

void p4d_kernel_head_sums(cudaStream_t stream, p4d_dtype type, float *sums, const void *a, const void *b,
			  const p4d_heads *h)
{
	P4D_WITH_TYPE(type, E, {
		P4D_WITH_WIDTH(p4d_is_wide<E>(h->head_dim, a, b), E, W, {
			p4d_launch<sum_heads<E, W>>(stream,
						    {h->n, 1, p4d_threads_for(h->heads * h->head_dim / W), 0},
						    sums, (const E *)a, (const E *)b, *h);
		});
	});
}
