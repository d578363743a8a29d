/* SPDX-License-Identifier: Apache-2.0 */
/* Fused attention by cuDNN: one plan per shape, which is made when the shape is first used. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/sdpa_engine.h"
#include "plan/cudnn_workspace.h"
#include "request/layout.h"

/*
 * Maximum number of plans. A model has two to six, and with token slices four for each slice: two passes, of
 * layers with and without a window. There is no eviction, because the GPU may still run a plan.
 */
enum { SHAPES = 4 * P4D_MAX_SLICES };

typedef struct way {
	p4d_sdpa_shape shape;
	p4d_sdpa_graph graph;
	cudnnBackendDescriptor_t plan; /* NULL: cuDNN does not support the shape */
	uint64_t borrowed; /* bytes of lent memory that the plan needs; 0: the planned workspace is enough */
	p4d_error why;
} way;

struct p4d_sdpa {
	p4d_cudnn cudnn;
	cudnnHandle_t handle;
	cudaStream_t stream;
	int sm;
	void *lent;
	uint64_t lent_bytes;
	unsigned count;
	way *ways[SHAPES];
};

static int start(p4d_sdpa *f, p4d_error *err)
{
	const p4d_cudnn *cudnn = &f->cudnn;
	char why[P4D_CUDNN_WHY];
	cudnnStatus_t status = cudnn->Create(&f->handle);

	if (status == CUDNN_STATUS_SUCCESS)
		status = cudnn->SetStream(f->handle, f->stream);
	if (status == CUDNN_STATUS_SUCCESS)
		return 0;
	p4d_cudnn_why(cudnn, status, why, sizeof(why));
	return p4d_fail(err, P4D_E_DEVICE, "%s", why);
}

int p4d_sdpa_open(p4d_sdpa **fused, int sm, cudaStream_t stream, p4d_error *err)
{
	p4d_sdpa *f = calloc(1, sizeof(*f));

	if (!f)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for cuDNN");
	f->sm = sm;
	f->stream = stream;
	if (p4d_cudnn_open(&f->cudnn, err) < 0 || start(f, err) < 0) {
		p4d_sdpa_close(f);
		return -1;
	}
	*fused = f;
	return 0;
}

void p4d_sdpa_close(p4d_sdpa *f)
{
	if (!f)
		return;
	for (unsigned i = 0; i < f->count; i++) {
		p4d_sdpa_graph_close(&f->ways[i]->graph);
		free(f->ways[i]);
	}
	if (f->handle)
		f->cudnn.Destroy(f->handle);
	free(f);
}

const char *p4d_sdpa_name(const p4d_sdpa *f)
{
	return f->cudnn.text;
}

void p4d_sdpa_lend(p4d_sdpa *f, void *workspace, uint64_t bytes)
{
	if (!f)
		return;
	f->lent = workspace;
	f->lent_bytes = workspace ? bytes : 0;
}

static void make(p4d_sdpa *f, way *w)
{
	const p4d_sdpa_shape *s = &w->shape;
	const p4d_attention_bytes planned =
	    p4d_attention_workspace(f->sm, s->batch, s->heads, s->kv_heads, s->queries, s->keys, s->head_dim);
	const uint64_t own = s->documents  ? p4d_attention_documents_workspace(s->batch, s->backward)
			     : s->backward ? planned.backward_workspace
					   : planned.forward_workspace;
	const uint64_t most = own > f->lent_bytes ? own : f->lent_bytes;
	uint64_t bytes;

	if (p4d_sdpa_graph_open(&w->graph, &f->cudnn, f->handle, s, &w->why) < 0)
		return;
	const cudnnBackendDescriptor_t choice = p4d_engine_choose(&w->graph, NULL, most, &bytes, &w->why);
	if (!choice)
		return;
	w->plan = p4d_engine_build(&w->graph, NULL, f->handle, choice, &w->why);
	w->borrowed = bytes > own ? bytes : 0;
}

static way *find(p4d_sdpa *f, const p4d_sdpa_shape *shape)
{
	for (unsigned i = 0; i < f->count; i++)
		if (!memcmp(&f->ways[i]->shape, shape, sizeof(*shape)))
			return f->ways[i];
	way *w = f->count < SHAPES ? calloc(1, sizeof(*w)) : NULL;
	if (!w)
		return NULL;
	w->shape = *shape;
	f->ways[f->count++] = w;
	make(f, w);
	return w;
}

bool p4d_sdpa_takes(p4d_sdpa *f, const p4d_sdpa_shape *shape, const char **why)
{
	const way *w = find(f, shape);

	if (w && w->plan)
		return true;
	*why = w ? w->why.text : "too many shapes of attention";
	return false;
}

/*
 * Runs a plan. It makes a new variant pack for each call, because cuDNN cannot change the addresses in a
 * variant pack.
 */
static cudnnStatus_t execute(p4d_sdpa *f, const way *w, void *const *addresses, void *workspace)
{
	const p4d_cudnn *cudnn = &f->cudnn;
	int64_t numbers[P4D_GRAPH_TENSORS], count = 0;
	void *given[P4D_GRAPH_TENSORS];
	cudnnBackendDescriptor_t pack = NULL;
	cudnnStatus_t status = cudnn->BackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);

	for (int64_t i = 1; i < P4D_GRAPH_TENSORS; i++)
		if (w->graph.given >> i & 1) {
			numbers[count] = i;
			given[count++] = addresses[i];
		}
	if (status == CUDNN_STATUS_SUCCESS)
		status = cudnn->BackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
						    CUDNN_TYPE_INT64, count, numbers);
	if (status == CUDNN_STATUS_SUCCESS)
		status = cudnn->BackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
						    CUDNN_TYPE_VOID_PTR, count, given);
	if (status == CUDNN_STATUS_SUCCESS)
		status = cudnn->BackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
						    CUDNN_TYPE_VOID_PTR, 1, &workspace);
	if (status == CUDNN_STATUS_SUCCESS)
		status = cudnn->BackendFinalize(pack);
	if (status == CUDNN_STATUS_SUCCESS)
		status = cudnn->BackendExecute(f->handle, w->plan, pack);
	if (pack)
		cudnn->BackendDestroyDescriptor(pack);
	return status;
}

int p4d_sdpa_run(p4d_sdpa *f, const p4d_sdpa_shape *shape, const p4d_sdpa_call *call, p4d_error *err)
{
	const way *w = find(f, shape);
	float scale = call->scale, masked = -__builtin_inff(), one = 1;
	int32_t queries = (int32_t)shape->queries, keys = (int32_t)shape->keys,
		window = (int32_t)shape->window;
	void *const addresses[P4D_GRAPH_TENSORS] = {
	    [P4D_GRAPH_Q] = (void *)call->q,
	    [P4D_GRAPH_K] = (void *)call->k,
	    [P4D_GRAPH_V] = (void *)call->v,
	    [P4D_GRAPH_O] = call->o,
	    [P4D_GRAPH_LSE] = call->lse,
	    [P4D_GRAPH_SCALE] = &scale,
	    [P4D_GRAPH_MASKED] = &masked,
	    [P4D_GRAPH_QUERIES] = &queries,
	    [P4D_GRAPH_KEYS] = &keys,
	    [P4D_GRAPH_WINDOW] = &window,
	    [P4D_GRAPH_DO] = (void *)call->d_o,
	    [P4D_GRAPH_DQ] = call->dq,
	    [P4D_GRAPH_DK] = call->dk,
	    [P4D_GRAPH_DV] = call->dv,
	    [P4D_GRAPH_ROW_SUMS] = call->row_sums,
	    [P4D_GRAPH_QUERY_GRADIENT] = call->query_gradient,
	    [P4D_GRAPH_ONE] = &one,
	    [P4D_GRAPH_DK_HEADS] = call->dk_heads,
	    [P4D_GRAPH_DV_HEADS] = call->dv_heads,
	    [P4D_GRAPH_LENGTHS] = (void *)call->lengths,
	    [P4D_GRAPH_KEY_LENGTHS] = (void *)call->lengths,
	    [P4D_GRAPH_OFFSETS + P4D_UNIT_QKV] = (void *)call->offsets[P4D_UNIT_QKV],
	    [P4D_GRAPH_OFFSETS + P4D_UNIT_QUERY] = (void *)call->offsets[P4D_UNIT_QUERY],
	    [P4D_GRAPH_OFFSETS + P4D_UNIT_SUMS] = (void *)call->offsets[P4D_UNIT_SUMS],
	};
	char why[P4D_CUDNN_WHY] = "it was never prepared";

	if (w && w->borrowed > f->lent_bytes)
		return p4d_fail(err, P4D_E_DEVICE, "attention: its workspace was taken back");
	cudnnStatus_t status = w && w->plan
				   ? execute(f, w, addresses, w->borrowed ? f->lent : call->workspace)
				   : CUDNN_STATUS_BAD_PARAM;
	if (status == CUDNN_STATUS_SUCCESS)
		return 0;
	if (w && w->plan)
		p4d_cudnn_why(&f->cudnn, status, why, sizeof(why));
	return p4d_fail(err, P4D_E_DEVICE, "attention: %s", why);
}
