/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cost/cost.h"
#include "plan/shared_sizes.h"
#include "request/framework.h"
#include "request/layers.h"

/* Shared by the files of the cost model. Numbers are doubles throughout: seconds, bytes, elements, FLOPs. */

/* Sustained rates of a GPU with the precision of a layout. Most are inverse, so that formulas multiply. */
typedef struct p4d_cost_rates {
	double peak;             /* FLOP/s, dense */
	double gemm;             /* seconds per FLOP of a large matrix product */
	double product, operand; /* like gemm, for linear layers; bytes of an element of their operands */
	bool fp8_by_rows;        /* FP8 matmuls take both operands by rows: all GPUs except Blackwell */
	double attention_forward, attention_backward; /* of fused attention, long sequences */
	double hbm;                                   /* seconds per byte of a kernel that only moves data */
	double link, net;   /* seconds per byte of one GPU in one direction: in the node, to other nodes */
	double host_update; /* p4d-train: seconds to update an element whose states are on the host; 0: no
			       such elements */
	double lift; /* seconds per byte of parameters or activations between host and GPU; 0: none move */
	double lost; /* FLOPs per unit of depth that a matmul loses to tile quantization */
	double last_forward, last_backward; /* queries of attention's last blocks, on all multiprocessors */
	double element;                     /* bytes of an activation */
	double multiprocessors;
} p4d_cost_rates;

p4d_cost_rates p4d_cost__rates_of(const p4d_layout *layout, const p4d_gpu *gpu);

/* FLOPs per unit of depth that a product loses because its last tiles do not fill the GPU. */
double p4d_cost__lost_flops(const p4d_gpu *gpu);

/* Fraction of the operands' memory time that a product's arithmetic does not hide. */
#define P4D_EXPOSED_MEMORY 0.5

/* Gap between two kernels on the device. */
#define P4D_LAUNCH_SECONDS 4e-6

/* Fraction of a network interface's line rate that NCCL gets across nodes. */
#define P4D_NET_EFFICIENCY 0.9

/*
 * A rows x columns = (rows x depth) * (depth x columns) product, `batch` times; output_bytes: written and,
 * where it accumulates, read per element of the result.
 */
double p4d_cost__gemm_seconds(const p4d_cost_rates *r, double batch, double rows, double columns,
			      double depth, double output_bytes);

/*
 * Grouped matmuls of Transformer Engine: `groups` of them, one per expert of a rank, with `rows` tokens each,
 * one after the other on a few streams.
 */
double p4d_cost__grouped_seconds(const p4d_cost_rates *r, double groups, double rows, double columns,
				 double depth, double output_bytes);

/* Bytes of an element that linear layers take in FP8, or in 4 bits with a scale for 16. */
double p4d_cost__cast_bytes(const p4d_layout *layout);

/* A matmul of a linear layer; in FP8 if that is the precision. */
double p4d_cost__product_seconds(const p4d_cost_rates *r, double rows, double columns, double depth,
				 double output_bytes);

/* Seconds of a product that takes `arithmetic` without waiting for memory, and `memory` without computing.
 * The longer one hides more of the other: the 1.5-norm, as in SimuMax's table for B200. */
double p4d_cost__together(double arithmetic, double memory);

/* A kernel that moves this many bytes to and from device memory. */
double p4d_cost__memory_seconds(const p4d_cost_rates *r, double bytes);

/* With recompute=full: the share of layers that are recomputed. */
double p4d_cost__recomputed_share(const p4d_layout *l);

/* A communicator: its ranks, and how many of them are in one node, or in one NVLink domain of several nodes.
 */
typedef struct p4d_cost_ring {
	double ranks, in_node;
} p4d_cost_ring;

/* Ranks of the layout at a distance of `stride`. Order: tp fastest, then cp, dp, pp. */
p4d_cost_ring p4d_cost__ring_of(const p4d_layout *layout, uint64_t ranks, uint64_t stride);

/* A sum of a few numbers over all ranks, in a tree. 0 for one rank. */
double p4d_cost__small_sum_seconds(p4d_cost_ring ring);

/* What passes lose to collectives of so many seconds that run next to them. */
double p4d_cost__beside_seconds(const p4d_layout *layout, const p4d_cost_rates *r, double seconds);

/* All-gather to, or reduce-scatter of, `bytes` on every rank. 0 for one rank. */
double p4d_cost__gather_seconds(const p4d_cost_rates *r, p4d_cost_ring ring, double bytes);

/* All-to-all with `bytes` on every rank, each of which keeps its own share. */
double p4d_cost__exchange_seconds(const p4d_cost_rates *r, p4d_cost_ring ring, double bytes);

/* A transfer from one rank to another. */
double p4d_cost__transfer_seconds(const p4d_cost_rates *r, bool in_node, double bytes);

/* Transfers from each rank of a ring to the next, all at the same time. */
double p4d_cost__neighbour_seconds(const p4d_cost_rates *r, p4d_cost_ring ring, double bytes);

/* Sizes of a rank for one micro-batch, in elements. */
typedef struct p4d_cost_sizes {
	double n;          /* tokens */
	double residual;   /* the residual stream: n * hidden, sharded by tp with sequence parallelism */
	double h, A, G, f; /* hidden over the Y of a tp-grid; queries, keys, feed-forward over tp. With latent
			      attention A and G are the mean of a key's and a value's */
	double up;         /* columns of gate and up */
	double scores;     /* of unfused attention */
} p4d_cost_sizes;

p4d_cost_sizes p4d_cost__sizes_of(const p4d_layout *layout);

p4d_cost_ring p4d_cost__tensor_ring(const p4d_layout *layout);

/*
 * One of the two collectives between a sharded and a whole residual stream: all-gather or reduce-scatter. An
 * all-reduce is both.
 */
double p4d_cost__boundary_seconds(const p4d_layout *layout, const p4d_cost_rates *r, const p4d_cost_sizes *z);

/* Components of a pass. Seconds. host: the GPU waits until kernels are launched. */
typedef struct p4d_cost_share {
	double gemm, attention, memory_bound, tensor_comm, context_comm, host;
} p4d_cost_share;

/* Whether only adapters are trained, and no gradients of frozen weights are computed. For other frameworks
 * the time of steps with adapters is not known, so they count as full training. */
static inline bool p4d_cost__freezes(const p4d_layout *l)
{
	return p4d_framework_of(l->framework)->cost.freezes_weights && l->finetune != P4D_TUNE_FULL;
}

static inline double p4d_cost_share_seconds(const p4d_cost_share *s)
{
	return s->gemm + s->attention + s->memory_bound + s->tensor_comm + s->context_comm + s->host;
}

static inline void p4d_cost_share_add(p4d_cost_share *to, const p4d_cost_share *from, double times)
{
	to->gemm += times * from->gemm;
	to->attention += times * from->attention;
	to->memory_bound += times * from->memory_bound;
	to->tensor_comm += times * from->tensor_comm;
	to->context_comm += times * from->context_comm;
	to->host += times * from->host;
}

/* The passes of a part of the model for one micro-batch on one rank. */
typedef struct p4d_cost_part {
	p4d_cost_share forward, backward_input, backward_weight; /* as in p4d_cost_passes_of_chunk */
	p4d_cost_share recompute;                                /* included in backward_input */
} p4d_cost_part;

/*
 * Adds the time of casting a layer's operands to FP8 to its passes (cost_fp8.c): in attention and, if the
 * layer has no experts, in the feed-forward part.
 */
void p4d_cost__casts(const p4d_layout *layout, const p4d_cost_rates *r, const p4d_cost_sizes *z, bool experts,
		     p4d_cost_share *forward, p4d_cost_share *backward);
/* cost_nf4.c: frozen matrices in 4 bits are expanded before each matmul. */
void p4d_cost__expands(const p4d_layout *layout, const p4d_cost_rates *r, const p4d_cost_sizes *z,
		       p4d_cost_part *part);

/*
 * Tensor parallelism of a dense layer with tp-comm-overlap in two halves of the tokens (cost_overlap.c). Adds
 * the exposed time of collectives, and the time that matmuls lose. qkv, gate_up: the passes in which the
 * gradients of these weights are computed.
 */
void p4d_cost__halves(const p4d_layout *layout, const p4d_cost_rates *r, const p4d_cost_sizes *z,
		      p4d_cost_share *qkv, p4d_cost_share *gate_up, p4d_cost_part *y);

/* expert-overlap: hides the exchange of tokens, which takes `exchanged` seconds of each pass
 * (cost_overlap.c). */
void p4d_cost__overlap_exchange(const p4d_cost_rates *r, double exchanged, p4d_cost_part *y);

/*
 * cost_grid.c. Adds the costs of Y and Z of a tp-grid to the passes of a dense layer, which has all other
 * costs. Seconds of a sum over Y with `bytes` on every rank. Seconds, once per step, of the sum of the
 * tables' gradients over Z.
 */
void p4d_cost__grid(const p4d_layout *layout, const p4d_cost_rates *r, const p4d_cost_sizes *z,
		    p4d_cost_part *y);
double p4d_cost__features_seconds(const p4d_layout *layout, const p4d_cost_rates *r, double bytes);
double p4d_cost__tables_seconds(const p4d_layout *layout, const p4d_cost_rates *r, double elements);

/*
 * Seconds, once per pass of a chunk, until the ranks that share the chunk's layers have the same FP8 scales.
 * 0 unless the recipe takes scales from earlier steps.
 */
double p4d_cost__maxima_seconds(const p4d_layout *layout);

/* Seconds to cast an operand of this many elements to FP8; 0 if matmuls are not in FP8. */
double p4d_cost__cast_seconds(const p4d_layout *layout, const p4d_cost_rates *r, double elements);

/* The passes of a layer without experts, and of one with experts. */
void p4d_cost__layer(const p4d_layout *layout, const p4d_cost_rates *r, p4d_cost_part *out);
void p4d_cost__expert_layer(const p4d_layout *layout, const p4d_cost_rates *r, p4d_cost_part *out);

/* Adds router, dispatch, experts and shared experts of a layer with experts (cost_experts.c). Returns the
 * seconds of each pass in which tokens are exchanged, or the host waits for their numbers. */
double p4d_cost__experts(const p4d_layout *layout, const p4d_cost_rates *r, const p4d_cost_sizes *z,
			 p4d_cost_part *out);

void p4d_cost__embedding(const p4d_layout *layout, const p4d_cost_rates *r, p4d_cost_part *out);

/* Final norm, logits, cross-entropy and their gradients, if one stage has them all; and multi-token
 * prediction. */
void p4d_cost__head(const p4d_layout *layout, const p4d_cost_rates *r, p4d_cost_part *out);

/* Vocabulary parallelism: passes S and T, those of the embedding, and the collective between. Seconds. */
typedef struct p4d_cost_vocabulary_passes {
	double forward, backward, sync, embed_forward, embed_backward;
} p4d_cost_vocabulary_passes;

void p4d_cost__vocabulary(const p4d_layout *layout, const p4d_cost_rates *r, p4d_cost_vocabulary_passes *out);

/* Elements of the adapters of a layer, on all tensor-parallel ranks. */
double p4d_cost__adapters(const p4d_layout *layout);
/* Elements of matrices on all ranks: of a layer without experts; of a layer with experts, without the
 * experts; of one expert. With a layer pattern, the mean of such layers; the cost model uses it wherever one
 * layer represents all. */
double p4d_cost__layer_matrices(const p4d_layout *layout);
double p4d_cost__expert_layer_matrices(const p4d_layout *layout);
double p4d_cost__expert_matrices(const p4d_layout *layout);

/* Mamba-2 of a layer (cost_states.c): elements of its matrices; FLOPs of the forward scan per token; its
 * passes without the matmuls of these matrices. */
double p4d_cost__state_matrices(const p4d_layout *layout);
double p4d_cost__scan_flops(const p4d_layout *layout);
void p4d_cost__scan(const p4d_layout *layout, const p4d_cost_rates *r, const p4d_cost_sizes *z,
		    p4d_cost_part *y);

/* Layers with experts. */
double p4d_cost__expert_layers(const p4d_layout *layout);

/* Share of the causal scores of a sequence that are within the window, as the mean of the layers; 1 without a
 * window. */
double p4d_cost__scores_share(const p4d_layout *layout);

/* Columns of the queries of all heads; for latent attention, the mean of keys and values. */
double p4d_cost__query_width(const p4d_layout *layout);

/* Passes in seconds; backward is input + weight. */
typedef struct p4d_cost_passes {
	double forward, input, weight;
} p4d_cost_passes;

void p4d_cost__passes_add(p4d_cost_passes *to, const p4d_cost_passes *from, double times);

/* The passes of the costs above; for embedding and head, without vocabulary parallelism. memory may be NULL.
 */
p4d_cost_passes p4d_cost__layer_passes(const p4d_layout *layout, const p4d_cost_rates *r,
				       p4d_cost_cache *memory);
p4d_cost_passes p4d_cost__expert_layer_passes(const p4d_layout *layout, const p4d_cost_rates *r,
					      p4d_cost_cache *memory);
p4d_cost_passes p4d_cost__embedding_passes(const p4d_layout *layout, const p4d_cost_rates *r,
					   p4d_cost_cache *memory);
p4d_cost_passes p4d_cost__head_passes(const p4d_layout *layout, const p4d_cost_rates *r,
				      p4d_cost_cache *memory);

/* Seconds: `latency` plus `each` per element. */
typedef struct p4d_cost_line {
	double latency, each;
} p4d_cost_line;

/* Gathering parameters, reducing gradients, and the optimizer. */
typedef struct p4d_cost_update {
	p4d_cost_line gather, reduce, optimizer;
} p4d_cost_update;

/* What happens once per step, from the elements of a stage's parameters. */
typedef struct p4d_cost_once {
	double layer_elements, table_elements; /* of one layer and one vocabulary table, on one rank */
	/* elements of a layer with experts, without these; and of the rank's experts */
	double expert_layer_elements, expert_elements;
	p4d_cost_update all, experts; /* the latter over the ranks that hold the same ones */
	double tied; /* seconds to sum gradients of tables: of a tied one between both ends of a pipeline; and
			over the Z of a tp-grid */
} p4d_cost_once;

/*
 * A cache for one request, number of GPUs and kind of GPU. Passes of parts of the model are indexed by their
 * key, see cost_parts.c; for events that occur once per step, it keeps only the last result. Zero before the
 * first use; owns nothing.
 */
enum { P4D_COST_CACHE_BITS = 8, P4D_COST_CACHE_PLACES = 1 << P4D_COST_CACHE_BITS };
struct p4d_cost_cache {
	bool rated;
	p4d_cost_rates rates;
	uint64_t once_key; /* 0: empty */
	p4d_cost_once once;
	struct {
		uint64_t key, more; /* 0: empty */
		p4d_cost_passes passes;
	} place[P4D_COST_CACHE_PLACES];
};

p4d_cost_rates p4d_cost__recall_rates(const p4d_layout *layout, const p4d_gpu *gpu, p4d_cost_cache *memory);

/* A layout's distinct parts, each computed once; everything else is sums of these. */
typedef struct p4d_cost_terms {
	p4d_cost_rates rates;
	p4d_cost_passes layer, embedding, head; /* the last two are 0 with vocabulary parallelism */
	p4d_cost_passes expert_layer;           /* 0 where no layer has experts */
	double layer_data, expert_layer_data,
	    table_data;     /* exposed communication of replicas, and host transfers */
	double layer_again; /* part of a layer's input pass: recomputation if activations are swapped */
	double maxima;      /* of each pass of a chunk: FP8 maxima, see p4d_cost__maxima_seconds */
	p4d_cost_vocabulary_passes vocabulary; /* 0 without */
	double send, recv;                     /* as in p4d_durations */
	p4d_cost_once once;
} p4d_cost_terms;

/* cost_gathers.c */
/* Whether each pass gathers the parameters it uses, or brings them from the host; PyTorch's pipelines keep
 * them gathered. */
bool p4d_cost__gathers_for_passes(const p4d_layout *layout);
/* Whether each backward pass reduces its gradients, instead of the last one. */
bool p4d_cost__reduces_for_passes(const p4d_layout *layout);
/* p4d-train's copies of a model add their gradients once a step, others' after every pass. */
bool p4d_cost__adds_copies_once(const p4d_layout *layout);
/* Bytes of a gradient's element when it is reduced. */
double p4d_cost__gradient_bytes(const p4d_layout *layout);
/* Adds the exposed time of gathers and reductions to the layers. */
void p4d_cost__add_gathers(const p4d_layout *layout, p4d_cost_terms *terms);

/* cost_swap.c: adds the exposed time of swapped activations, and the time of recomputation, to the layers. */
void p4d_cost__add_swaps(const p4d_layout *layout, const p4d_gpu *gpu, p4d_cost_terms *terms);

/*
 * cost_dropped.c: the share of a stage's layers whose activations are swapped, and the bytes of one such
 * layer; all chunks have the same number of them. False: activations stay on the device.
 * p4d_cost__dropped_share: the share of layers whose activations are dropped instead.
 */
typedef struct p4d_cost_swaps {
	double share, bytes;
} p4d_cost_swaps;
bool p4d_cost__swaps(const p4d_layout *layout, const p4d_gpu *gpu, p4d_cost_swaps *swaps);
double p4d_cost__dropped_share(const p4d_layout *layout, const p4d_gpu *gpu);

/* The terms of a micro-batch, which are the sum over its slices; and the terms of the first slice. */
void p4d_cost__whole_terms(const p4d_layout *layout, const p4d_gpu *gpu, p4d_cost_cache *memory,
			   p4d_cost_terms *whole, p4d_cost_terms *first);

/* The passes of `layers` layers, `with_experts` of which have experts. */
p4d_cost_passes p4d_cost__layers_passes(const p4d_cost_terms *terms, double layers, double with_experts);

p4d_cost_passes p4d_cost__chunk_passes(const p4d_layout *layout, const p4d_cost_terms *terms, uint32_t stage,
				       uint32_t chunk);

/* Once per step and stage: the exposed time. Seconds. */
typedef struct p4d_cost_step_ends {
	double gather, reduce, optimizer;
} p4d_cost_step_ends;

p4d_cost_step_ends p4d_cost__step_ends_of(const p4d_layout *layout, const p4d_cost_terms *terms,
					  uint32_t stage);
