/* SPDX-License-Identifier: Apache-2.0 */
/* Splits an attention call into blocks that fused attention supports. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "device/cuda/cuda_internal.h"
#include "device/cuda/kernels.h"
#include "plan/cudnn_workspace.h" /* the one in this folder is for kernels */

enum { ALIGNMENT = 16, BF16 = 2 };

typedef struct block {
	const p4d_attention_shape *whole;
	p4d_attention_block at;
	p4d_attention_call call;
	p4d_attention_workspaces work;
	p4d_sdpa_shape shape;
} block;

/* Number of elements of a token in all query heads; key_width: in all key heads. */
static uint64_t query_width(const p4d_attention_shape *s)
{
	return s->heads * s->head_dim;
}

static uint64_t key_width(const p4d_attention_shape *s)
{
	return s->kv_heads * s->head_dim;
}

static p4d_sdpa_stride strides(uint64_t token, uint64_t tokens)
{
	return (p4d_sdpa_stride){token, token * tokens};
}

static block block_of(const p4d_cuda *c, const p4d_attention_shape *s, unsigned number,
		      p4d_attention_pass pass)
{
	const p4d_attention_block at = s->block[number];
	const bool backward = pass != P4D_ATTENTION_FORWARD, staged = pass == P4D_ATTENTION_ADD;
	block b = {.whole = s,
		   .at = at,
		   .call = {.batch = s->batch,
			    .heads = s->heads,
			    .kv_heads = s->kv_heads,
			    .queries = at.queries,
			    .keys = at.keys,
			    .head_dim = s->head_dim,
			    .backward = backward,
			    .staged = staged},
		   .shape = {.batch = s->batch,
			     .queries = at.queries,
			     .keys = at.keys,
			     .heads = s->heads,
			     .kv_heads = s->kv_heads,
			     .head_dim = s->head_dim,
			     .causal = at.causal,
			     .window = s->window,
			     .backward = backward,
			     .q = strides(s->query_stride, s->queries),
			     .kv = strides(s->key_stride, s->keys),
			     .o = strides(query_width(s), s->queries),
			     .lse_head = s->batch * s->queries,
			     .lse_sequence = s->queries,
			     .lse_token = 1}};

	b.work = p4d_attention_workspace_of(c->sm, &b.call);
	if (backward) {
		b.shape.dq = staged ? strides(query_width(s), at.queries) : b.shape.q;
		b.shape.dkv = staged ? strides(key_width(s), at.keys) : b.shape.kv;
	}
	return b;
}

/* A group of packed documents. lse is (tokens, heads), which is how cuDNN lays it out for documents. */
static block documents_of(const p4d_cuda *c, const p4d_attention_shape *s, p4d_attention_pass pass)
{
	block b = block_of(c, s, 0, pass);

	b.call.documents = b.shape.batch = s->packed.most;
	b.shape.documents = 1;
	b.shape.lse_head = 1;
	b.shape.lse_token = s->heads;
	b.shape.lse_sequence = s->heads * s->queries;
	b.work = p4d_attention_workspace_of(c->sm, &b.call);
	return b;
}

/* Whether all addresses and strides fit cuDNN's accesses of 16 bytes. */
static bool aligned(const p4d_attention_shape *s, const p4d_sdpa_call *call)
{
	const uintptr_t all = (uintptr_t)call->q | (uintptr_t)call->k | (uintptr_t)call->v |
			      (uintptr_t)call->o | (uintptr_t)call->lse | (uintptr_t)call->d_o |
			      (uintptr_t)call->dq | (uintptr_t)call->dk | (uintptr_t)call->dv |
			      (uintptr_t)call->workspace;

	return (all | s->query_stride * BF16 | s->key_stride * BF16) % ALIGNMENT == 0;
}

static const char *why_no_block(const p4d_cuda *c, const p4d_attention_shape *s, const block *b)
{
	const char *why = NULL;

	if (!b->work.fused)
		return "no fused attention for this head size";
	if (b->whole->window && !b->at.causal)
		return "a sliding window is masked in parts of sequences";
	if (b->at.queries < 2 || b->at.keys < 2)
		return "a block has only one token";
	if (b->work.bytes > s->workspace_bytes)
		return "the plan is for another GPU: its workspace is too small";
	p4d_sdpa_takes(c->fused, &b->shape, &why);
	return why;
}

/*
 * Says why packed documents cannot use fused attention; NULL: they can. With documents, fused attention lays
 * lse out in its own way. So forward and backward pass must decide alike, and this uses only what both passes
 * know.
 */
static const char *why_no_documents(const p4d_cuda *c, const p4d_attention_shape *s,
				    const p4d_sdpa_call *call)
{
	const p4d_sdpa_call both = {.q = call->q, .k = call->k, .v = call->v, .o = call->o, .lse = call->lse};
	const p4d_attention_block *at = s->block;
	const block forward = documents_of(c, s, P4D_ATTENTION_FORWARD),
		    backward = documents_of(c, s, P4D_ATTENTION_SET);
	const char *why = NULL;

	if (!p4d_attention_takes_documents(c->sm, s->keys, s->head_dim))
		return "documents are masked: not fused on this GPU with this head size and length";
	if (s->blocks != 1 || !at->causal || at->queries != s->queries || at->keys != s->keys ||
	    s->keys != s->queries || s->key_stride != s->query_stride ||
	    s->query_stride != query_width(s) + 2 * key_width(s))
		return "documents are masked in parts of sequences";
	if (s->packed.most == 0)
		return "documents are masked, and their mean length is not planned: --document-len";
	if (!aligned(s, &both))
		return "operands are not aligned";
	if (p4d_sdpa_takes(c->fused, &forward.shape, &why))
		p4d_sdpa_takes(c->fused, &backward.shape, &why);
	return why;
}

/*
 * Decides which code computes a call. NULL: fused attention; else the reason why p4d's own kernels compute
 * it.
 */
static const char *why_not(const p4d_cuda *c, p4d_dtype type, p4d_attention_pass pass,
			   const p4d_attention_shape *s, const p4d_sdpa_call *call)
{
	const char *why = NULL;

	if (type != P4D_DT_BF16)
		return "fused attention supports only bf16";
	if (s->cap > 0)
		return "scores have a soft cap";
	if (s->query_document)
		return s->window ? "documents and a sliding window are masked" : why_no_documents(c, s, call);
	if (s->blocks == 0 && s->window)
		return "a sliding window is masked in parts of sequences";
	if (s->blocks == 0 || (pass != P4D_ATTENTION_FORWARD && !s->output))
		return "the visible keys are unknown";
	if (pass == P4D_ATTENTION_SET && (s->block[0].queries < s->queries || s->block[0].keys < s->keys))
		return "not all gradients would be written";
	if (!aligned(s, call))
		return "operands are not aligned";
	for (unsigned i = 0; i < s->blocks && !why; i++) {
		const block b = block_of(c, s, i, pass);
		why = why_no_block(c, s, &b);
	}
	return why;
}

static char *past(const void *from, uint64_t elements)
{
	return (char *)from + elements * BF16;
}

/*
 * gradient (batch, all tokens, rows of `stride`), from token `first` of each sequence on, += staged (batch,
 * tokens, width)
 */
static void add_staged(p4d_cuda *c, const block *b, float *gradient, uint64_t stride, uint64_t all,
		       uint64_t first, const void *staged, uint64_t width, uint64_t tokens)
{
	for (uint64_t i = 0; i < b->whole->batch; i++)
		p4d_kernel_accumulate_rows(c->stream, gradient + (i * all + first) * stride, stride,
					   P4D_DT_BF16, past(staged, i * tokens * width), width, tokens);
}

static void *part(const p4d_sdpa_call *call, uint64_t at)
{
	return (char *)call->workspace + at;
}

static void run(p4d_cuda *c, const block *b, p4d_attention_pass pass, const p4d_sdpa_call *whole)
{
	const p4d_attention_shape *s = b->whole;
	const p4d_attention_workspaces *w = &b->work;
	p4d_sdpa_call call = *whole;
	p4d_error err = {.code = P4D_OK};

	call.scale = s->scale;
	call.q = past(whole->q, b->at.first_query * s->query_stride);
	call.o = past(whole->o, b->at.first_query * query_width(s));
	call.lse = whole->lse + b->at.first_query;
	if (pass != P4D_ATTENTION_FORWARD) {
		call.d_o = past(whole->d_o, b->at.first_query * query_width(s));
		call.query_gradient = part(whole, w->query_gradient);
		call.row_sums = part(whole, w->row_sums);
	}
	if (pass == P4D_ATTENTION_ADD) {
		call.dq = part(whole, w->dq);
		call.dk = part(whole, w->dk);
		call.dv = part(whole, w->dv);
	}
	if (p4d_sdpa_run(c->fused, &b->shape, &call, &err) < 0 && c->failure.code == P4D_OK)
		c->failure = err;
	if (pass != P4D_ATTENTION_ADD)
		return;
	add_staged(c, b, whole->dq, s->query_stride, s->queries, b->at.first_query, call.dq, query_width(s),
		   b->at.queries);
	add_staged(c, b, whole->dk, s->key_stride, s->keys, 0, call.dk, key_width(s), b->at.keys);
	add_staged(c, b, whole->dv, s->key_stride, s->keys, 0, call.dv, key_width(s), b->at.keys);
}

/* The call's arguments for one group of documents, moved to the group's first token. */
static p4d_sdpa_call group_of(const block *b, const p4d_sdpa_call *whole, uint64_t number)
{
	const p4d_attention_shape *s = b->whole;
	const p4d_attention_workspaces *w = &b->work;
	const uint64_t first = s->packed.first[number], width = s->packed.most + P4D_DOCUMENT_PADDING;
	const uint64_t at_query = first * query_width(s), at_row = first * s->query_stride;
	p4d_sdpa_call call = *whole;

	call.scale = s->scale;
	call.lengths = s->packed.places + number * P4D_DOCUMENT_ROWS * width;
	for (uint64_t unit = 0; unit < P4D_UNITS; unit++)
		call.offsets[unit] = call.lengths + (1 + unit) * width;
	call.q = past(whole->q, at_row);
	call.k = past(whole->k, at_row);
	call.v = past(whole->v, at_row);
	call.o = past(whole->o, at_query);
	call.lse = whole->lse + first * s->heads;
	if (!b->call.backward)
		return call;
	call.d_o = past(whole->d_o, at_query);
	call.dq = past(whole->dq, at_row);
	call.dk = past(whole->dk, at_row);
	call.dv = past(whole->dv, at_row);
	call.row_sums = (float *)part(whole, w->row_sums) + first * s->heads;
	call.query_gradient = (float *)part(whole, w->query_gradient) + at_row;
	call.dk_heads = past(part(whole, w->key_heads), at_row * (s->heads / s->kv_heads));
	call.dv_heads = past(call.dk_heads, query_width(s));
	return call;
}

static void run_documents(p4d_cuda *c, const p4d_attention_shape *s, p4d_attention_pass pass,
			  const p4d_sdpa_call *whole)
{
	const block b = documents_of(c, s, pass);
	p4d_error err = {.code = P4D_OK};

	if (b.work.bytes > s->workspace_bytes)
		p4d_fail(&err, P4D_E_DEVICE, "attention: documents need %d MiB of workspace, the plan has %d",
			 (int)(b.work.bytes >> 20), (int)(s->workspace_bytes >> 20));
	else if (!aligned(s, whole))
		p4d_fail(&err, P4D_E_DEVICE, "attention: gradients of documents are not aligned");
	for (uint64_t i = 0; i < s->packed.groups && err.code == P4D_OK; i++) {
		const p4d_sdpa_call call = group_of(&b, whole, i);
		p4d_sdpa_run(c->fused, &b.shape, &call, &err);
	}
	if (err.code != P4D_OK && c->failure.code == P4D_OK)
		c->failure = err;
}

/* Sets the results of queries that are in no block, because they see no key. */
static void begin_unseen(p4d_cuda *c, const p4d_attention_shape *s, const p4d_sdpa_call *call)
{
	const uint64_t tokens = s->batch * s->queries;
	const float least = -INFINITY;
	uint64_t seeing = 0;
	uint32_t word;

	for (unsigned i = 0; i < s->blocks; i++)
		seeing += s->block[i].queries;
	if (seeing == s->queries)
		return;
	memcpy(&word, &least, sizeof(word));
	p4d_kernel_fill(c->stream, call->lse, word, s->heads * tokens);
	p4d_cuda_check(c, cudaMemsetAsync(call->o, 0, tokens * query_width(s) * BF16, c->stream),
		       "attention");
}

void p4d_cuda_own_attention(p4d_device *device, const char *why)
{
	char *text = device->attention_text;

	device->attention_slow = true;
	snprintf(text, sizeof(device->attention_text), "p4d's own kernels (%.200s)", why);
	for (; *text; text++)
		if (*text == '"' || *text == '\\' || (unsigned char)*text < ' ')
			*text = '_';
}

bool p4d_cuda_attention_fused(p4d_device *device, p4d_dtype type, p4d_attention_pass pass,
			      const p4d_attention_shape *s, const p4d_sdpa_call *call)
{
	p4d_cuda *c = p4d_cuda_of(device);

	if (!c->fused)
		return false;
	const char *why = why_not(c, type, pass, s, call);
	if (why) {
		if (!c->noted)
			p4d_cuda_own_attention(device, why);
		c->noted = true;
		return false;
	}
	if (pass == P4D_ATTENTION_FORWARD && !s->query_document)
		begin_unseen(c, s, call);
	if (s->query_document)
		run_documents(c, s, pass, call);
	for (unsigned i = 0; i < s->blocks && !s->query_document; i++) {
		const block b = block_of(c, s, i, pass);
		run(c, &b, pass, call);
	}
	p4d_cuda_queued(c, "fused attention");
	return true;
}
