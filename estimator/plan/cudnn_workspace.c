/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/cudnn_workspace.h"

#include <stddef.h>

#include "base/wide.h"

#define ALIGNMENT 128 /* alignment of each buffer in a workspace */

/* Backward kernels by architecture; newer architectures without kernels of their own use Ampere's. */
typedef enum kernel { AMPERE, HOPPER, BLACKWELL } kernel;

typedef struct shape {
	uint64_t batch, heads, kv_heads, queries, keys, head_dim;
} shape;

static const struct architecture {
	int sm;
	kernel kernel;
} architectures[] = {
    {80, AMPERE},     {86, AMPERE},     {89, AMPERE},  {90, HOPPER},
    {100, BLACKWELL}, {103, BLACKWELL}, {120, AMPERE}, {121, AMPERE},
};

static uint64_t add(uint64_t a, uint64_t b)
{
	return __builtin_add_overflow(a, b, &a) ? UINT64_MAX : a;
}

static uint64_t multiply(uint64_t a, uint64_t b)
{
	return __builtin_mul_overflow(a, b, &a) ? UINT64_MAX : a;
}

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return value % unit == 0 ? value : add(value, unit - value % unit);
}

static uint64_t product(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e)
{
	return multiply(multiply(multiply(a, b), multiply(c, d)), e);
}

static bool takes_head_dim(kernel k, uint64_t head_dim)
{
	return head_dim > 0 && head_dim % 8 == 0 && head_dim <= (k == HOPPER ? 256 : 128);
}

/* dK and dV for all query heads, before grouped-query attention sums them over a group. */
static uint64_t ungrouped_gradients(const shape *s)
{
	if (s->heads == s->kv_heads)
		return 0;
	return multiply(2, round_up(product(s->batch, s->heads, s->keys, s->head_dim, 2), ALIGNMENT));
}

static uint64_t backward_workspace(kernel k, const shape *s)
{
	uint64_t ungrouped = ungrouped_gradients(s);

	/* for shorter sequences, cuDNN prefers Ampere's kernel */
	if (k == BLACKWELL && s->queries > 128 && s->keys > 128)
		return ungrouped ? add(ungrouped, ALIGNMENT) : 0;
	if (k == HOPPER)
		return add(ungrouped, 2 * ALIGNMENT);
	uint64_t own = product(s->batch, s->heads, round_up(s->queries, 8), s->head_dim, 4);
	return add(add(ungrouped, own), ALIGNMENT);
}

static p4d_attention_bytes need(kernel k, const shape *s)
{
	p4d_attention_bytes bytes = {
	    .query_gradient = product(s->batch, s->heads, s->queries, s->head_dim, 4),
	    .row_sums = product(s->batch, s->heads, s->queries, 1, 4),
	    .fused = takes_head_dim(k, s->head_dim),
	};

	if (bytes.fused) {
		bytes.forward_workspace = k == HOPPER ? 2 * ALIGNMENT : 0;
		bytes.backward_workspace = backward_workspace(k, s);
	}
	return bytes;
}

p4d_attention_bytes p4d_attention_workspace(int sm, uint64_t batch, uint64_t heads, uint64_t kv_heads,
					    uint64_t queries, uint64_t keys, uint64_t head_dim)
{
	const shape s = {batch, heads, kv_heads, queries, keys, head_dim};

	for (size_t i = 0; i < sizeof(architectures) / sizeof(*architectures); i++) {
		if (architectures[i].sm == sm)
			return need(architectures[i].kernel, &s);
	}

	/* Blackwell's workspaces are never larger than Ampere's */
	p4d_attention_bytes most = need(AMPERE, &s), hopper = need(HOPPER, &s);
	most.forward_workspace = P4D_MOST(most.forward_workspace, hopper.forward_workspace);
	most.backward_workspace = P4D_MOST(most.backward_workspace, hopper.backward_workspace);
	most.fused = most.fused && hopper.fused;
	return most;
}

bool p4d_attention_takes_documents(int sm, uint64_t length, uint64_t head_dim)
{
	for (size_t i = 0; i < sizeof(architectures) / sizeof(*architectures); i++) {
		const kernel k = architectures[i].kernel;
		if (architectures[i].sm == sm)
			return k != AMPERE && takes_head_dim(k, head_dim) && length > 128;
	}
	return false;
}

uint64_t p4d_attention_documents_workspace(uint64_t documents, bool backward)
{
	const uint64_t least = documents > 64 ? documents : 64;

	return backward ? add(1152, multiply(448, documents)) : add(768, multiply(256, least));
}

/* Reserves this many bytes of a workspace; returns their offset. */
static uint64_t take(p4d_attention_workspaces *work, uint64_t bytes)
{
	const uint64_t at = work->bytes;

	work->bytes = add(at, round_up(bytes, ALIGNMENT));
	return at;
}

/* All strides are those of queries, keys and values, as in cuDNN's own tests of documents. */
static p4d_attention_workspaces documents_of(int sm, const p4d_attention_call *c)
{
	const uint64_t columns = add(c->heads, multiply(2, c->kv_heads)),
		       tokens = multiply(c->batch, c->queries);
	p4d_attention_workspaces work = {.fused = p4d_attention_takes_documents(sm, c->keys, c->head_dim)};

	if (!work.fused)
		return work;
	work.library = p4d_attention_documents_workspace(c->documents, c->backward);
	take(&work, work.library);
	if (!c->backward)
		return work;
	work.query_gradient = take(&work, product(tokens, columns, c->head_dim, 4, 1));
	work.row_sums = take(&work, product(tokens, c->heads, 4, 1, 1));
	if (c->heads > c->kv_heads)
		work.key_heads =
		    take(&work, product(tokens, columns, c->head_dim, 2, c->heads / c->kv_heads));
	return work;
}

p4d_attention_workspaces p4d_attention_workspace_of(int sm, const p4d_attention_call *c)
{
	const p4d_attention_bytes need =
	    p4d_attention_workspace(sm, c->batch, c->heads, c->kv_heads, c->queries, c->keys, c->head_dim);
	const uint64_t keys = product(c->batch, c->keys, c->kv_heads, c->head_dim, 2);
	p4d_attention_workspaces work = {.fused = need.fused};

	if (c->documents)
		return documents_of(sm, c);
	if (!need.fused)
		return work;
	work.library = c->backward ? need.backward_workspace : need.forward_workspace;
	take(&work, work.library);
	if (!c->backward)
		return work;
	work.query_gradient = take(&work, need.query_gradient);
	work.row_sums = take(&work, need.row_sums);
	if (!c->staged)
		return work;
	work.dq = take(&work, need.query_gradient / 2);
	work.dk = take(&work, keys);
	work.dv = take(&work, keys);
	return work;
}

uint64_t p4d_attention_workspace_most(int sm, const p4d_attention_split *s, bool backward)
{
	const uint64_t length = s->seq_len / s->cp, half = length / 2;
	const struct {
		uint64_t queries, keys;
	} calls[] = {
	    {length, length}, /* one call without cp, and the three kinds of calls in a ring */
	    {length, half},
	    {half, length},
	    {half, s->seq_len}, /* the largest call with gathered keys: queries at the end of the sequence, on
				   the first rank */
	};
	const size_t first = s->cp > 1 && s->gathered ? 3 : 0;
	const size_t end = s->cp == 1 ? 1 : s->gathered ? 4 : 3;
	uint64_t most = 0;

	for (size_t i = first; i < end; i++) {
		p4d_attention_call call = {.batch = s->batch,
					   .heads = s->heads,
					   .kv_heads = s->kv_heads,
					   .queries = calls[i].queries,
					   .keys = calls[i].keys,
					   .head_dim = s->head_dim,
					   .backward = backward,
					   .staged = s->cp > 1};
		most = P4D_MOST(most, p4d_attention_workspace_of(sm, &call).bytes);
		call.documents = s->documents;
		most = P4D_MOST(most, p4d_attention_workspace_of(sm, &call).bytes);
	}
	return most;
}
