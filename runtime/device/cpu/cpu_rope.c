/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bias of q, k and v, norms of queries and keys, and RoPE: what is between the qkv matmul and attention.
 * Every element is rounded once.
 */
#include "device/cpu/cpu_math.h"
#include "device/cpu/cpu_operations.h"
#include "device/cpu/cpu_threads.h"

/* One head of one token. Pointers point to its first element; bias, weight: NULL: none. */
typedef struct head {
	const ELEMENT *bias, *weight;
	const float *cosine, *sine; /* d/2 elements each */
	uint64_t half;              /* d/2 */
	REAL plus;                  /* number that is added to the norm's weights */
} head;

static head head_of(const p4d_heads *h, uint64_t token, uint64_t index)
{
	const bool query = index < h->heads;
	const ELEMENT *bias = h->bias, *weight = query ? h->query_weight : h->key_weight;
	const float *rope = h->rope + token % h->length * h->head_dim;

	return (head){
	    .bias = bias ? bias + index * h->head_dim : NULL,
	    .weight =
		weight ? weight + (h->wide ? (query ? index : index - h->heads) * h->head_dim : 0) : NULL,
	    .cosine = rope,
	    .sine = rope + h->head_dim / 2,
	    .half = h->head_dim / 2,
	    .plus = (REAL)h->plus,
	};
}

/*
 * Returns 1 / rms of all queries, or of all keys, of a token. sums: sums of their squares. index: a head of
 * the token, which says whether queries or keys are meant.
 */
static REAL wide_scale(const p4d_heads *h, const REAL *sums, uint64_t token, uint64_t index)
{
	const bool key = index >= h->heads;
	const uint64_t width = key ? h->key_width : h->query_width;

	return 1 / SQRT(sums[P4D_WIDE_NORMS * token + key] / (REAL)width + (REAL)h->epsilon);
}

P4D_CLONES static REAL product_of(const ELEMENT *a, const ELEMENT *b, uint64_t count)
{
	REAL sum = 0;

#pragma omp simd reduction(+ : sum)
	for (uint64_t i = 0; i < count; i++)
		sum += p4d_load(a[i]) * p4d_load(b[i]);
	return sum;
}

void OP(head_sums)(REAL *sums, const ELEMENT *a, const ELEMENT *b, const p4d_heads *h)
{
	const uint64_t q = h->heads * h->head_dim, kv = h->kv_heads * h->head_dim, columns = q + 2 * kv;

#pragma omp parallel for num_threads(p4d_cpu_team(h->n *columns))
	for (uint64_t token = 0; token < h->n; token++) {
		const ELEMENT *left = a + token * columns, *right = b + token * columns;
		sums[P4D_WIDE_NORMS * token] = product_of(left, right, q);
		sums[P4D_WIDE_NORMS * token + 1] = product_of(left + q, right + q, kv);
	}
}

P4D_INLINE REAL or_else(const ELEMENT *values, uint64_t i, REAL otherwise)
{
	return values ? p4d_load(values[i]) : otherwise;
}

/* 1 / rms of a head, including its bias. */
P4D_CLONES static REAL inverse_rms(const ELEMENT *x, const head *h, float epsilon)
{
	const uint64_t d = 2 * h->half;
	REAL squares = 0;

#pragma omp simd reduction(+ : squares)
	for (uint64_t i = 0; i < d; i++) {
		const REAL value = p4d_load(x[i]) + or_else(h->bias, i, 0);
		squares += value * value;
	}
	return 1 / SQRT(squares / (REAL)d + (REAL)epsilon);
}

P4D_INLINE void rotate_with(ELEMENT *x, const head *h, const ELEMENT *bias, const ELEMENT *weight, REAL scale,
			    REAL plus)
{
	ELEMENT *upper = x + h->half;

#pragma omp simd
	for (uint64_t i = 0; i < h->half; i++) {
		const uint64_t j = i + h->half;
		const REAL c = h->cosine[i], s = h->sine[i];
		const REAL a =
		    (p4d_load(x[i]) + or_else(bias, i, 0)) * scale * (or_else(weight, i, 1) + plus);
		const REAL b =
		    (p4d_load(upper[i]) + or_else(bias, j, 0)) * scale * (or_else(weight, j, 1) + plus);
		x[i] = p4d_store(a * c - b * s);
		upper[i] = p4d_store(b * c + a * s);
	}
}

P4D_CLONES static void rotate(ELEMENT *x, const head *h, REAL scale)
{
	if (!h->bias && !h->weight) /* the usual case has a loop without branches */
		rotate_with(x, h, NULL, NULL, 1, 0);
	else
		rotate_with(x, h, h->bias, h->weight, scale, h->weight ? h->plus : 0);
}

void OP(heads)(ELEMENT *qkv, REAL *rstd, const p4d_heads *h)
{
	const uint64_t rotated = h->heads + h->kv_heads, d = h->head_dim;
	const uint64_t columns = (rotated + h->kv_heads) * d;

#pragma omp parallel for num_threads(p4d_cpu_team(h->n *columns))
	for (uint64_t token = 0; token < h->n; token++) {
		ELEMENT *row = qkv + token * columns;
		for (uint64_t i = 0; i < rotated; i++) {
			head one = head_of(h, token, i);
			if (!rstd)
				one.weight = NULL;
			const REAL scale = !rstd     ? 1
					   : h->wide ? wide_scale(h, rstd, token, i)
						     : inverse_rms(row + i * d, &one, h->epsilon);
			if (rstd && !h->wide)
				rstd[token * rotated + i] = scale;
			rotate(row + i * d, &one, scale);
		}
		if (h->bias)
			OP(add)
		(row + rotated * d, row + rotated * d, (const ELEMENT *)h->bias + rotated * d,
		 h->kv_heads * d);
	}
}

/* Rotates a gradient in place by the negative angle, which gives the gradient of the values before RoPE. */
P4D_CLONES static void rotate_back(ELEMENT *gradient, const head *h)
{
	ELEMENT *upper = gradient + h->half;

#pragma omp simd
	for (uint64_t i = 0; i < h->half; i++) {
		const REAL a = p4d_load(gradient[i]), b = p4d_load(upper[i]);
		const REAL c = h->cosine[i], s = h->sine[i];
		gradient[i] = p4d_store(a * c + b * s);
		upper[i] = p4d_store(b * c - a * s);
	}
}

/*
 * Backward through rotation and norm. The norm's result y is z * weight with z = x * rstd. It is not stored
 * but recovered by rotating back the result of `heads`. With g the gradient of y: dx = rstd * (g * weight - z
 * * mean(g * y)), dweight += g * z.
 */
P4D_CLONES static void normalized_back(ELEMENT *gradient, const ELEMENT *left, const head *h, REAL rstd,
				       REAL mean, REAL *dweight)
{
	const uint64_t half = h->half;
	const ELEMENT *weight = h->weight;

#pragma omp simd
	for (uint64_t i = 0; i < half; i++) {
		const uint64_t j = i + half;
		const REAL c = h->cosine[i], s = h->sine[i];
		const REAL ga = p4d_load(gradient[i]) * c + p4d_load(gradient[j]) * s;
		const REAL gb = p4d_load(gradient[j]) * c - p4d_load(gradient[i]) * s;
		const REAL wa = p4d_load(weight[i]) + h->plus, wb = p4d_load(weight[j]) + h->plus;
		const REAL ya = p4d_load(left[i]) * c + p4d_load(left[j]) * s;
		const REAL yb = p4d_load(left[j]) * c - p4d_load(left[i]) * s;
		const REAL za = wa == 0 ? 0 : ya / wa, zb = wb == 0 ? 0 : yb / wb;
		if (dweight) {
			dweight[i] += ga * za;
			dweight[j] += gb * zb;
		}
		gradient[i] = p4d_store(rstd * (ga * wa - za * mean));
		gradient[j] = p4d_store(rstd * (gb * wb - zb * mean));
	}
}

/* Backward pass of one head of a token through RoPE and norm. left: the head in the result of `heads`. */
static void head_back(ELEMENT *gradient, const ELEMENT *left, const REAL *rstd, const p4d_heads *h,
		      uint64_t token, uint64_t index, REAL *dquery_weight, REAL *dkey_weight)
{
	const bool query = index < h->heads;
	const uint64_t d = h->head_dim, width = query ? h->query_width : h->key_width;
	const uint64_t at = h->wide ? (query ? index : index - h->heads) * d : 0;
	const head one = head_of(h, token, index);
	REAL *dweight = query ? dquery_weight : dkey_weight;

	if (!rstd) {
		rotate_back(gradient, &one);
		return;
	}
	/* a rotation does not change scalar products */
	const REAL mean = h->wide ? (REAL)h->dots[P4D_WIDE_NORMS * token + !query] / (REAL)width
				  : product_of(gradient, left, d) / (REAL)d;
	const REAL scale =
	    h->wide ? wide_scale(h, rstd, token, index) : rstd[token * (h->heads + h->kv_heads) + index];
	normalized_back(gradient, left, &one, scale, mean, dweight ? dweight + at : NULL);
}

void OP(heads_backward)(ELEMENT *dqkv, const ELEMENT *qkv, const REAL *rstd, const p4d_heads *h, REAL *dbias,
			REAL *dquery_weight, REAL *dkey_weight)
{
	const uint64_t rotated = h->heads + h->kv_heads, d = h->head_dim;
	const uint64_t columns = (rotated + h->kv_heads) * d;

	const bool sums = dbias || dquery_weight || dkey_weight;
#pragma omp parallel for num_threads(sums ? 1 : p4d_cpu_team(h->n *columns))
	for (uint64_t token = 0; token < h->n; token++) {
		ELEMENT *row = dqkv + token * columns;
		for (uint64_t i = 0; i < rotated; i++)
			head_back(row + i * d, qkv + token * columns + i * d, rstd, h, token, i,
				  dquery_weight, dkey_weight);
		if (dbias)
			OP(accumulate)(dbias, row, columns);
	}
}
