/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "device/cuda/cudnn_library.h"
#include "device/cuda/sdpa.h"

/*
 * Attention of a block as a graph of cuDNN's backend. cuDNN uses flash attention only for graphs of exactly
 * this form. Tensors are (batch, heads, tokens, head size), with strides.
 */

/* Tensors that a call provides; the scalars are on the host. */
typedef enum p4d_sdpa_tensor {
	P4D_GRAPH_Q = 1,
	P4D_GRAPH_K,
	P4D_GRAPH_V,
	P4D_GRAPH_O,
	P4D_GRAPH_LSE,
	P4D_GRAPH_SCALE,  /* fp32 */
	P4D_GRAPH_MASKED, /* fp32, the score of a masked key; causal only */
	P4D_GRAPH_QUERIES,
	P4D_GRAPH_KEYS,   /* int32; if a causal block has more keys than queries */
	P4D_GRAPH_WINDOW, /* int32; if a causal block has a window */
	P4D_GRAPH_DO,
	P4D_GRAPH_DQ,
	P4D_GRAPH_DK,
	P4D_GRAPH_DV,
	P4D_GRAPH_ROW_SUMS,
	P4D_GRAPH_QUERY_GRADIENT,
	P4D_GRAPH_ONE, /* fp32 */
	P4D_GRAPH_DK_HEADS,
	P4D_GRAPH_DV_HEADS, /* only for documents with grouped queries */
	P4D_GRAPH_LENGTHS,
	P4D_GRAPH_KEY_LENGTHS,
	P4D_GRAPH_OFFSETS, /* int32, of documents; one tensor for each unit */
	P4D_GRAPH_LAST_OFFSETS = P4D_GRAPH_OFFSETS + P4D_UNITS - 1,
	P4D_GRAPH_TENSORS
} p4d_sdpa_tensor;

enum { P4D_GRAPH_DESCRIPTORS = 256, P4D_GRAPH_OPERATIONS = 32 };

typedef struct p4d_sdpa_graph {
	const p4d_cudnn *cudnn;
	cudnnBackendDescriptor_t made[P4D_GRAPH_DESCRIPTORS]; /* all tensors, in the order in which they
							       * were made */
	cudnnBackendDescriptor_t operation[P4D_GRAPH_OPERATIONS];
	cudnnBackendDescriptor_t whole;
	/* only with documents, else NULL */
	cudnnBackendDescriptor_t lengths, key_lengths, offsets[P4D_UNITS];
	unsigned count, operations;
	uint32_t given; /* a bit for each tensor that the graph has: 1 << p4d_sdpa_tensor */
	cudnnStatus_t status;
	char why[P4D_CUDNN_WHY];
} p4d_sdpa_graph;

/*
 * handle NULL: the graph is for a device descriptor instead of a GPU. Errors: DEVICE. Close the graph also
 * after an error.
 */
int p4d_sdpa_graph_open(p4d_sdpa_graph *graph, const p4d_cudnn *cudnn, cudnnHandle_t handle,
			const p4d_sdpa_shape *shape, p4d_error *err);
void p4d_sdpa_graph_close(p4d_sdpa_graph *graph);

/*
 * Shared by all files that make descriptors. A new descriptor lives until the graph is closed. After the
 * first failure, calls do nothing; p4d_sdpa_graph_failed returns the reason.
 */
cudnnBackendDescriptor_t p4d_sdpa_graph_make(p4d_sdpa_graph *graph, cudnnBackendDescriptorType_t type);
void p4d_sdpa_graph_set(p4d_sdpa_graph *graph, cudnnBackendDescriptor_t descriptor,
			cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
			const void *value);
void p4d_sdpa_graph_refer(p4d_sdpa_graph *graph, cudnnBackendDescriptor_t descriptor,
			  cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value);
void p4d_sdpa_graph_finish(p4d_sdpa_graph *graph, cudnnBackendDescriptor_t descriptor);
int p4d_sdpa_graph_failed(const p4d_sdpa_graph *graph, p4d_error *err); /* 0: no call has failed */
