/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuDNN's fused attention in plain C. Like cuDNN it overwrites its workspace, so that tests notice other data
 * there.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/cudnn_workspace.h"
#include "base/vector.h"
#include "device/cuda/sdpa.h"

struct p4d_sdpa {
	int sm;
	void *lent;
	uint64_t lent_bytes;
};

int p4d_sdpa_open(p4d_sdpa **fused, int sm, cudaStream_t stream, p4d_error *err)
{
	(void)stream;
	*fused = calloc(1, sizeof(**fused));
	if (!*fused)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for attention");
	(*fused)->sm = sm;
	return 0;
}

void p4d_sdpa_close(p4d_sdpa *f)
{
	free(f);
}

const char *p4d_sdpa_name(const p4d_sdpa *f)
{
	(void)f;
	return "plain C";
}

void p4d_sdpa_lend(p4d_sdpa *f, void *workspace, uint64_t bytes)
{
	if (!f)
		return;
	f->lent = workspace;
	f->lent_bytes = bytes;
}

bool p4d_sdpa_takes(p4d_sdpa *f, const p4d_sdpa_shape *shape, const char **why)
{
	(void)shape;
	if (p4d_shim_gpu.attention <= f->lent_bytes)
		return true;
	*why = "it needs more workspace";
	return false;
}

/* One head of one token. */
typedef struct row {
	uint64_t sequence, head, token;
} row;

/* The index of a row in a tensor. A document begins at its offset for the unit of this tensor. */
static uint64_t place(const p4d_sdpa_shape *s, const p4d_sdpa_call *c, p4d_sdpa_unit unit,
		      p4d_sdpa_stride stride, row r)
{
	const uint64_t begin =
	    s->documents ? (uint64_t)c->offsets[unit][r.sequence] : r.sequence * stride.sequence;

	return begin + r.token * stride.token + r.head * s->head_dim;
}

/* Number of tokens in a sequence, or in a document. */
static uint64_t tokens_of(const p4d_sdpa_shape *s, const p4d_sdpa_call *c, uint64_t sequence, uint64_t whole)
{
	return s->documents ? (uint64_t)c->lengths[sequence] : whole;
}

/* The key of token `token` that belongs to the query's head. */
static row key_of(const p4d_sdpa_shape *s, row query, uint64_t token)
{
	return (row){query.sequence, query.head / (s->heads / s->kv_heads), token};
}

static uint64_t seen_keys(const p4d_sdpa_shape *s, row query)
{
	return s->causal ? query.token + 1 + s->keys - s->queries : s->keys;
}

/* The first key that a query sees. */
static uint64_t first_key(const p4d_sdpa_shape *s, row query)
{
	const uint64_t seen = seen_keys(s, query);

	return s->window && s->window < seen ? seen - s->window : 0;
}

static uint64_t lse_place(const p4d_sdpa_shape *s, const p4d_sdpa_call *c, row query)
{
	const uint64_t begin = s->documents ? (uint64_t)c->offsets[P4D_UNIT_SUMS][query.sequence]
					    : query.sequence * s->lse_sequence;

	return begin + query.head * s->lse_head + query.token * s->lse_token;
}

static double dot(const uint16_t *x, const uint16_t *y, uint64_t count)
{
	double sum = 0;

	for (uint64_t i = 0; i < count; i++)
		sum += (double)p4d_from_bf16(x[i]) * (double)p4d_from_bf16(y[i]);
	return sum;
}

static uint64_t number_of(const p4d_sdpa_shape *s, row query)
{
	return (query.sequence * s->heads + query.head) * s->queries + query.token;
}

static void forward(const p4d_sdpa_shape *s, const p4d_sdpa_call *c, row query)
{
	const uint64_t d = s->head_dim, seen = seen_keys(s, query),
		       at = place(s, c, P4D_UNIT_QUERY, s->o, query);
	const uint16_t *q = (const uint16_t *)c->q + place(s, c, P4D_UNIT_QKV, s->q, query);
	double *score = calloc(seen, sizeof(*score)), *sum = calloc(d, sizeof(*sum));
	double most = -INFINITY, total = 0;

	if (!score || !sum)
		abort();
	for (uint64_t j = first_key(s, query); j < seen; j++) {
		score[j] =
		    (double)c->scale *
		    dot(q, (const uint16_t *)c->k + place(s, c, P4D_UNIT_QKV, s->kv, key_of(s, query, j)), d);
		most = fmax(most, score[j]);
	}
	for (uint64_t j = first_key(s, query); j < seen; j++) {
		const uint16_t *v =
		    (const uint16_t *)c->v + place(s, c, P4D_UNIT_QKV, s->kv, key_of(s, query, j));
		const double share = exp(score[j] - most);
		total += share;
		for (uint64_t i = 0; i < d; i++)
			sum[i] += share * (double)p4d_from_bf16(v[i]);
	}
	for (uint64_t i = 0; i < d; i++)
		((uint16_t *)c->o)[at + i] = p4d_to_bf16((float)(sum[i] / total));
	c->lse[lse_place(s, c, query)] = (float)(most + log(total));
	free(score);
	free(sum);
}

/* Gradients dk and dv of all heads in fp32, which are rounded at the end. */
typedef struct sums {
	double *dk, *dv;
} sums;

static void backward(const p4d_sdpa_shape *s, const p4d_sdpa_call *c, row query, sums to)
{
	const uint64_t d = s->head_dim, seen = seen_keys(s, query);
	const uint64_t n = s->documents ? lse_place(s, c, query) : number_of(s, query);
	const uint16_t *q = (const uint16_t *)c->q + place(s, c, P4D_UNIT_QKV, s->q, query);
	const uint16_t *d_o = (const uint16_t *)c->d_o + place(s, c, P4D_UNIT_QUERY, s->o, query);
	float *dq = c->query_gradient +
		    (s->documents ? place(s, c, P4D_UNIT_QKV, s->dq, query) : number_of(s, query) * d);

	c->row_sums[n] =
	    (float)dot(d_o, (const uint16_t *)c->o + place(s, c, P4D_UNIT_QUERY, s->o, query), d);
	memset(dq, 0, d * sizeof(*dq));
	for (uint64_t j = first_key(s, query); j < seen; j++) {
		const row key = key_of(s, query, j);
		const uint64_t at = place(s, c, P4D_UNIT_QKV, s->kv, key);
		const uint64_t own = ((key.sequence * s->keys + j) * s->kv_heads + key.head) * d;
		const uint16_t *k = (const uint16_t *)c->k + at, *v = (const uint16_t *)c->v + at;
		const double share =
		    exp((double)c->scale * dot(q, k, d) - (double)c->lse[lse_place(s, c, query)]);
		const double slope = (double)c->scale * share * (dot(d_o, v, d) - (double)c->row_sums[n]);
		for (uint64_t i = 0; i < d; i++) {
			dq[i] += (float)(slope * (double)p4d_from_bf16(k[i]));
			to.dk[own + i] += slope * (double)p4d_from_bf16(q[i]);
			to.dv[own + i] += share * (double)p4d_from_bf16(d_o[i]);
		}
	}
	for (uint64_t i = 0; i < d; i++)
		((uint16_t *)c->dq)[place(s, c, P4D_UNIT_QKV, s->dq, query) + i] = p4d_to_bf16(dq[i]);
}

static void round_keys(const p4d_sdpa_shape *s, const p4d_sdpa_call *c, sums from)
{
	const uint64_t d = s->head_dim;
	uint64_t next = 0;

	for (uint64_t b = 0; b < s->batch; b++)
		for (uint64_t j = 0; j < s->keys; j++)
			for (uint64_t h = 0; h < s->kv_heads; h++)
				for (uint64_t i = 0; i < d; i++, next++) {
					if (j >= tokens_of(s, c, b, s->keys))
						continue;
					const uint64_t at =
					    place(s, c, P4D_UNIT_QKV, s->dkv, (row){b, h, j}) + i;
					((uint16_t *)c->dk)[at] = p4d_to_bf16((float)from.dk[next]);
					((uint16_t *)c->dv)[at] = p4d_to_bf16((float)from.dv[next]);
				}
}

/* Overwrites the memory in which cuDNN stores dK and dV of all query heads, for documents. */
static void spoil_heads(const p4d_sdpa_shape *s, const p4d_sdpa_call *c)
{
	const uint64_t group = s->heads / s->kv_heads, bytes = s->heads * s->head_dim * sizeof(uint16_t);

	for (uint64_t b = 0; b < s->batch; b++)
		for (uint64_t i = 0; i < (uint64_t)c->lengths[b]; i++) {
			const uint64_t begin = (uint64_t)c->offsets[P4D_UNIT_QKV][b],
				       at = group * (begin + i * s->dkv.token);
			memset((uint16_t *)c->dk_heads + at, 0xff, bytes);
			memset((uint16_t *)c->dv_heads + at, 0xff, bytes);
		}
}

int p4d_sdpa_run(p4d_sdpa *f, const p4d_sdpa_shape *s, const p4d_sdpa_call *c, p4d_error *err)
{
	const p4d_attention_bytes need =
	    p4d_attention_workspace(f->sm, s->batch, s->heads, s->kv_heads, s->queries, s->keys, s->head_dim);
	const uint64_t bytes = s->documents  ? p4d_attention_documents_workspace(s->batch, s->backward)
			       : s->backward ? need.backward_workspace
					     : need.forward_workspace;
	const uint64_t gradients = s->batch * s->keys * s->kv_heads * s->head_dim;
	p4d_shim_gpu.launches++;
	if (p4d_shim_gpu.dry)
		return 0;
	sums to = {calloc(2 * gradients, sizeof(*to.dk)), NULL};

	if (!to.dk)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for gradients");
	p4d_shim_enter();
	to.dv = to.dk + gradients;
	if (bytes)
		memset(c->workspace, 0xff, bytes);
	if (s->documents && s->backward && s->heads > s->kv_heads)
		spoil_heads(s, c);
	if (p4d_shim_gpu.attention)
		memset(f->lent, 0xff, p4d_shim_gpu.attention);
	for (uint64_t b = 0; b < s->batch; b++)
		for (uint64_t h = 0; h < s->heads; h++)
			for (uint64_t i = 0; i < tokens_of(s, c, b, s->queries); i++) {
				if (s->backward)
					backward(s, c, (row){b, h, i}, to);
				else
					forward(s, c, (row){b, h, i});
			}
	if (s->backward)
		round_keys(s, c, to);
	p4d_shim_leave();
	free(to.dk);
	return 0;
}
