/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cost/cost.h"
#include "plan/shared_sizes.h"
#include "request/framework.h"
#include "request/layers.h"

/* Shared by the files of the cost model. Numbers are doubles throughout: seconds, bytes, elements, FLOPs. */

/*
 * Sustained rates of a GPU in the precision of a layout. Most are inverse (seconds per unit), so that
 * formulas multiply.
 */
typedef struct p4d_cost_rates {
	double peak;      /* FLOP/s, dense */
	double gemm;      /* seconds per FLOP of a large matrix product */
	double product;   /* seconds per FLOP of a linear layer's matrix product */
	double operand;   /* bytes of an element of a linear layer's operands */
	bool fp8_by_rows; /* FP8 matmuls need both operands in rows: all GPUs except Blackwell */
	double attention_forward, attention_backward; /* seconds per FLOP, fused, long sequences */
	double hbm;                                   /* seconds per byte of a kernel that only moves data */
	double link, net; /* seconds per byte of one GPU in one direction: within the node, to other
			   * nodes */
	double excess; /* if the job spans several oversubscribed leaf switches: seconds per byte between leaf
			  switches, divided by `net`; 0 counts as 1 */
	double host_update; /* p4d-train: seconds to update an element whose states are on the host; 0:
			     * there are none */
	double lift; /* seconds per byte of parameters or activations copied between host and GPU; 0: none
		      * are copied */
	double lost; /* FLOPs per unit of depth that a matmul loses to tile quantization */
	double last_forward, last_backward; /* queries in the last blocks of attention, on all
					     * multiprocessors */
	double element;                     /* bytes of an activation */
	double multiprocessors;
} p4d_cost_rates;

p4d_cost_rates p4d_cost__rates_of(const p4d_layout *layout, const p4d_gpu *gpu);

/* Fraction of the peak that FlashAttention 2 reaches: that of gpus.json, except on Hopper. */
double p4d_cost__flash2_efficiency(const p4d_gpu *gpu, bool backward);

/* FLOPs per unit of depth that a matmul loses because its last tiles do not fill the GPU. */
double p4d_cost__lost_flops(const p4d_gpu *gpu);

/* Fraction of the operands' memory time that a matmul's arithmetic does not hide. */
#define P4D_EXPOSED_MEMORY 0.5

/* Gap between two kernels on the device. */
#define P4D_LAUNCH_SECONDS 4e-6

/* Fraction of the line rate of a network interface that NCCL reaches between nodes. */
#define P4D_NET_EFFICIENCY 0.9

/*
 * Seconds of `batch` matmuls (rows x depth) * (depth x columns). output_bytes: bytes written per element of
 * the result, and bytes read if the matmul accumulates.
 */
double p4d_cost__gemm_seconds(const p4d_cost_rates *r, double batch, double rows, double columns,
			      double depth, double output_bytes);

/*
 * Seconds of Transformer Engine's grouped matmuls: `groups` matmuls, one per expert of a rank, with `rows`
 * tokens each. They run one after the other on a few streams.
 */
double p4d_cost__grouped_seconds(const p4d_cost_rates *r, double groups, double rows, double columns,
				 double depth, double output_bytes);

/* Bytes of an element of a linear layer's operand in FP8, or in 4 bits with a scale per 16 elements. */
double p4d_cost__cast_bytes(const p4d_layout *layout);

/* Seconds of a linear layer's matmul; in FP8 if that is the precision. */
double p4d_cost__product_seconds(const p4d_cost_rates *r, double rows, double columns, double depth,
				 double output_bytes);

/*
 * Seconds of a matmul that needs `arithmetic` seconds if it never waits for memory, and `memory` seconds if
 * it never computes. Part of the shorter time is hidden behind the longer one: the result is the 1.5-norm of
 * both, as in SimuMax's table for B200.
 */
double p4d_cost__together(double arithmetic, double memory);

/* Seconds of a kernel that moves this many bytes to and from device memory. */
double p4d_cost__memory_seconds(const p4d_cost_rates *r, double bytes);

/* With recompute=full: the share of layers that are recomputed. */
double p4d_cost__recomputed_share(const p4d_layout *l);

/*
 * A communicator: its ranks, how many of them are in one node, or in one NVLink domain of several nodes, and
 * how many have the same leaf switches (0: all). step: latency of one step of the ring between nodes, in
 * seconds; 0: the usual latency.
 */
typedef struct p4d_cost_ring {
	double ranks, in_node;
	double in_leaf, step;
} p4d_cost_ring;

/* Ranks of the layout at a distance of `stride`. Order: tp fastest, then cp, dp, pp. */
p4d_cost_ring p4d_cost__ring_of(const p4d_layout *layout, uint64_t ranks, uint64_t stride);

/*
 * Seconds per byte between leaf switches, divided by seconds per byte below one leaf switch. 1: the job is
 * below one switch, or the switches are not oversubscribed.
 */
double p4d_cost__leaf_excess(const p4d_layout *layout);

/* Seconds to sum a few numbers over all ranks, in a tree. 0 for one rank. */
double p4d_cost__small_sum_seconds(p4d_cost_ring ring);

/* Time by which collectives of `seconds` slow down the passes that they overlap with. */
double p4d_cost__beside_seconds(const p4d_layout *layout, const p4d_cost_rates *r, double seconds);

/* Seconds of an all-gather to `bytes` on every rank, or a reduce-scatter from as many. 0 for one rank. */
double p4d_cost__gather_seconds(const p4d_cost_rates *r, p4d_cost_ring ring, double bytes);

/* Seconds of an all-to-all with `bytes` on every rank. Each rank keeps its own share. */
double p4d_cost__exchange_seconds(const p4d_cost_rates *r, p4d_cost_ring ring, double bytes);

/* Seconds of a transfer from one rank to another. */
double p4d_cost__transfer_seconds(const p4d_cost_rates *r, bool in_node, double bytes);

/* Seconds of concurrent transfers from each rank of a ring to the next. */
double p4d_cost__neighbour_seconds(const p4d_cost_rates *r, p4d_cost_ring ring, double bytes);

/* Sizes of one micro-batch on a rank, in elements. */
typedef struct p4d_cost_sizes {
	double n;        /* tokens */
	double residual; /* the residual stream: n * hidden, sharded by tp with sequence parallelism */
	double h, A, G,
	    f; /* hidden divided by the Y of a tp-grid; columns of queries, keys and feed-forward divided by
		  tp. With latent attention A and G are the mean of the widths of a key and a value */
	double up;     /* columns of gate and up */
	double scores; /* attention scores, if attention is unfused */
} p4d_cost_sizes;

p4d_cost_sizes p4d_cost__sizes_of(const p4d_layout *layout);

p4d_cost_ring p4d_cost__tensor_ring(const p4d_layout *layout);

/*
 * One of the two collectives between a sharded and a full residual stream: all-gather or reduce-scatter. An
 * all-reduce is both.
 */
double p4d_cost__boundary_seconds(const p4d_layout *layout, const p4d_cost_rates *r, const p4d_cost_sizes *z);

/* Components of a pass, in seconds. host: time that the GPU waits for the host to launch kernels. */
typedef struct p4d_cost_share {
	double gemm, attention, memory_bound, tensor_comm, context_comm, host;
} p4d_cost_share;

/* Whether only adapters are trained, and the framework computes no gradients of frozen weights. If p4d
 * does not know whether a framework skips them, steps with adapters count as full training. */
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

/* Seconds of the passes of a part of the model, for one micro-batch on one rank. */
typedef struct p4d_cost_part {
	p4d_cost_share forward, backward_input, backward_weight; /* as in p4d_cost_passes_of_chunk */
	p4d_cost_share recompute;                                /* included in backward_input */
	double alone; /* additional seconds of a forward or backward pass without a pass of another
		       * micro-batch next to it (expert_overlap) */
} p4d_cost_part;

/*
 * Adds the time of casting a layer's operands to FP8 to its passes (cost_fp8.c): for attention and, if the
 * layer has no experts, for the feed-forward part.
 */
void p4d_cost__casts(const p4d_layout *layout, const p4d_cost_rates *r, const p4d_cost_sizes *z, bool experts,
		     p4d_cost_share *forward, p4d_cost_share *backward);
/* Whether SwiGLU's result and its gradient are computed by kernels of their own, and not by those that
 * quantize them (p4d-train). */
typedef struct p4d_cost_fp8_stored {
	bool activation, gradient;
} p4d_cost_fp8_stored;
p4d_cost_fp8_stored p4d_cost__fp8_stored(const p4d_layout *layout);
/* Seconds of a kernel of p4d-train that quantizes to FP8, and reads and writes this many bytes. */
double p4d_cost__quantize_seconds(const p4d_cost_rates *r, double bytes);
/* p4d-train: seconds to quantize a layer's matrices once per step; 0: passes quantize them. */
double p4d_cost__weight_casts(const p4d_layout *layout, const p4d_cost_rates *r);
/* cost_fp8.c: how many times longer weight gradients take because both operands have a scale per row and
 * block; 1 without such scales. */
double p4d_cost__weight_gradient_slowness(const p4d_layout *layout);
/* cost_nf4.c: adds the time of expanding frozen 4-bit matrices before each matmul. */
void p4d_cost__expands(const p4d_layout *layout, const p4d_cost_rates *r, const p4d_cost_sizes *z,
		       p4d_cost_part *part);

/*
 * tp-comm-overlap of a dense layer in two halves of the tokens (cost_overlap.c). Adds the exposed time of
 * collectives, and the time that matmuls lose. qkv, gate_up: the passes that compute the gradients of these
 * weights.
 */
void p4d_cost__halves(const p4d_layout *layout, const p4d_cost_rates *r, const p4d_cost_sizes *z,
		      p4d_cost_share *qkv, p4d_cost_share *gate_up, p4d_cost_part *y);

/* Whether passes of two micro-batches run next to each other (expert-overlap). */
static inline bool p4d_cost__pairs(const p4d_layout *l)
{
	return l->megatron.expert_overlap && !p4d_schedule_kinds[l->schedule]->in_phases;
}

/* expert-overlap: hides the all-to-all of tokens, which takes `exchanged` seconds of each pass
 * (cost_overlap.c). */
void p4d_cost__overlap_exchange(const p4d_cost_rates *r, double exchanged, p4d_cost_part *y);

/*
 * Adds the costs of Y and Z of a tp-grid to the passes of a dense layer, which already contain all other
 * costs (cost_grid.c).
 */
void p4d_cost__grid(const p4d_layout *layout, const p4d_cost_rates *r, const p4d_cost_sizes *z,
		    p4d_cost_part *y);
/* Seconds of a sum over Y with `bytes` on every rank. */
double p4d_cost__features_seconds(const p4d_layout *layout, const p4d_cost_rates *r, double bytes);
/* Seconds, once per step, of the sum of the tables' gradients over Z. */
double p4d_cost__tables_seconds(const p4d_layout *layout, const p4d_cost_rates *r, double elements);

/*
 * Seconds, once per pass of a chunk, to agree on FP8 scales among the ranks that share the chunk's layers. 0
 * unless the recipe takes scales from earlier steps.
 */
double p4d_cost__maxima_seconds(const p4d_layout *layout);

/* Seconds to cast an operand of this many elements to FP8; 0 if matmuls are not in FP8. */
double p4d_cost__cast_seconds(const p4d_layout *layout, const p4d_cost_rates *r, double elements);

/* Adds the seconds of a layer's attention, without its products, for a micro-batch on a rank. */
void p4d_cost__attention(const p4d_layout *layout, const p4d_cost_rates *r, const p4d_cost_sizes *sizes,
			 p4d_cost_share *forward, p4d_cost_share *backward);

/* The passes of a layer without experts, and of one with experts. */
void p4d_cost__layer(const p4d_layout *layout, const p4d_cost_rates *r, p4d_cost_part *out);
void p4d_cost__expert_layer(const p4d_layout *layout, const p4d_cost_rates *r, p4d_cost_part *out);

/* Adds router, dispatch, experts and shared experts of a layer with experts (cost_experts.c). Returns, for
 * each pass, the seconds in which tokens are exchanged or the host waits for their numbers. */
double p4d_cost__experts(const p4d_layout *layout, const p4d_cost_rates *r, const p4d_cost_sizes *z,
			 p4d_cost_part *out);

/* Adds a part, this many times. */
void p4d_cost__add_part(p4d_cost_part *to, const p4d_cost_part *from, double times);

void p4d_cost__embedding(const p4d_layout *layout, const p4d_cost_rates *r, p4d_cost_part *out);

/*
 * Final norm, logits, cross-entropy and their gradients, if one stage has all of these. Also multi-token
 * prediction.
 */
void p4d_cost__head(const p4d_layout *layout, const p4d_cost_rates *r, p4d_cost_part *out);

/*
 * Vocabulary parallelism: seconds of passes S and T, of the passes of the embedding, and of the collective
 * between S and T.
 */
typedef struct p4d_cost_vocabulary_passes {
	double forward, backward, sync, embed_forward, embed_backward;
} p4d_cost_vocabulary_passes;

void p4d_cost__vocabulary(const p4d_layout *layout, const p4d_cost_rates *r, p4d_cost_vocabulary_passes *out);

/* Elements of the adapters of a layer, on all tensor-parallel ranks. */
double p4d_cost__adapters(const p4d_layout *layout);
/*
 * Elements of the matrices of a layer without experts, on all ranks. With a layer pattern: the mean over such
 * layers. The cost model uses the mean if one layer represents all.
 */
double p4d_cost__layer_matrices(const p4d_layout *layout);
/* The same for a layer with experts, not counting the experts. */
double p4d_cost__expert_layer_matrices(const p4d_layout *layout);
/* Elements of the matrices of one expert. */
double p4d_cost__expert_matrices(const p4d_layout *layout);

/* Mamba-2 in a layer (cost_states.c): elements of its matrices. */
double p4d_cost__state_matrices(const p4d_layout *layout);
/* FLOPs per token of the forward scan. */
double p4d_cost__scan_flops(const p4d_layout *layout);
/* Adds the passes of Mamba-2 without the matmuls of its matrices. */
void p4d_cost__scan(const p4d_layout *layout, const p4d_cost_rates *r, const p4d_cost_sizes *z,
		    p4d_cost_part *y);

/* Layers with a memory (cost_memory.c): elements of a layer's matrices. */
double p4d_cost__memory_matrices(const p4d_layout *layout);
/* Adds the passes of a layer's memory. */
void p4d_cost__memory(const p4d_layout *layout, const p4d_cost_rates *r, const p4d_cost_sizes *z,
		      p4d_cost_part *y);
/* Columns of the table of values on this rank. */
double p4d_cost__columns(const p4d_layout *layout);
/* Bytes of the values that a layer reads for this many tokens. */
double p4d_cost__lookup_bytes(const p4d_layout *layout, double tokens);
/* Seconds of the table's update. */
double p4d_cost__values_update(const p4d_layout *layout, const p4d_cost_rates *r);

/* Number of layers with experts. */
double p4d_cost__expert_layers(const p4d_layout *layout);

/* Share of a sequence's causal scores that are inside the window, averaged over the layers; 1 without a
 * window. */
double p4d_cost__scores_share(const p4d_layout *layout);
/*
 * Scores that fused attention computes with documents, divided by the scores of the documents. It is above 1
 * because kernels compute whole tiles; 1 without documents.
 */
double p4d_cost__tile_excess(const p4d_layout *layout);

/* Query columns of all heads; for latent attention, the mean of keys and values. */
double p4d_cost__query_width(const p4d_layout *layout);

/* Passes in seconds; backward is the sum of input and weight. */
typedef struct p4d_cost_passes {
	double forward, input, weight;
	double alone; /* as in p4d_cost_part */
} p4d_cost_passes;

void p4d_cost__passes_add(p4d_cost_passes *to, const p4d_cost_passes *from, double times);

/*
 * Passes of the distinct parts of a model, built from the costs above. Those of embedding and head are
 * without vocabulary parallelism. memory may be NULL.
 */
p4d_cost_passes p4d_cost__layer_passes(const p4d_layout *layout, const p4d_cost_rates *r,
				       p4d_cost_cache *memory);
p4d_cost_passes p4d_cost__expert_layer_passes(const p4d_layout *layout, const p4d_cost_rates *r,
					      p4d_cost_cache *memory);
p4d_cost_passes p4d_cost__embedding_passes(const p4d_layout *layout, const p4d_cost_rates *r,
					   p4d_cost_cache *memory);
p4d_cost_passes p4d_cost__head_passes(const p4d_layout *layout, const p4d_cost_rates *r,
				      p4d_cost_cache *memory);

/* Seconds as a linear function: `latency` plus `each` per element. */
typedef struct p4d_cost_line {
	double latency, each;
} p4d_cost_line;

/* Costs of gathering parameters, reducing gradients, and the optimizer. */
typedef struct p4d_cost_update {
	p4d_cost_line gather, reduce, optimizer;
} p4d_cost_update;

/* Costs that occur once per step, from the numbers of elements of a stage's parameters. */
typedef struct p4d_cost_once {
	double layer_elements, table_elements; /* elements of one layer and of one vocabulary table, on
						* one rank */
	/* elements of a layer with experts, not counting the experts; elements of the experts of this rank */
	double expert_layer_elements, expert_elements;
	p4d_cost_update all, experts; /* experts: over the ranks that hold the same experts */
	double tied;   /* seconds to sum the gradients of tables: of a tied table between both ends of a
			* pipeline; and over the Z of a tp-grid */
	double values; /* seconds to update the values of memory layers */
	double muon;   /* seconds to orthogonalize the matrices of a layer */
	double casts;  /* seconds to quantize the matrices of a layer to FP8, if that happens once per step */
} p4d_cost_once;

/* cost_muon.c. 0: the optimizer is another one, or the framework's way to do it is not modelled. */
double p4d_cost__muon_seconds(const p4d_layout *layout, const p4d_cost_rates *rates);

/*
 * A cache for one request, number of GPUs and kind of GPU. Passes of parts of the model are found by a key
 * (cost_parts.c). Of the events that occur once per step, the cache has only the last result. Zero the cache
 * before the first use. It owns no memory.
 */
enum { P4D_COST_CACHE_BITS = 8, P4D_COST_CACHE_PLACES = 1 << P4D_COST_CACHE_BITS };
struct p4d_cost_cache {
	bool rated;
	p4d_cost_rates rates;
	uint64_t once_key; /* 0: the entry is empty */
	p4d_cost_once once;
	struct {
		uint64_t key, more; /* 0: the entry is empty */
		p4d_cost_passes passes;
	} place[P4D_COST_CACHE_PLACES];
};

p4d_cost_rates p4d_cost__recall_rates(const p4d_layout *layout, const p4d_gpu *gpu, p4d_cost_cache *memory);

/* The distinct parts of a layout, each computed once. The passes of all chunks are sums of these parts. */
typedef struct p4d_cost_terms {
	p4d_cost_rates rates;
	p4d_cost_passes layer, embedding, head; /* head and loss are 0 with vocabulary parallelism */
	p4d_cost_passes expert_layer;           /* 0 if no layer has experts */
	double layer_data, expert_layer_data,
	    table_data;     /* exposed communication of replicas, and exposed host transfers */
	double layer_again; /* part of a layer's input pass that recomputes, if activations are swapped */
	double maxima;      /* in each pass of a chunk: agreement on FP8 maxima, see
			     * p4d_cost__maxima_seconds */
	p4d_cost_vocabulary_passes vocabulary; /* 0 without */
	double send, recv;                     /* as in p4d_durations */
	p4d_cost_once once;
} p4d_cost_terms;

/* cost_gathers.c */
/* Whether each pass gathers the parameters that it uses, or copies them from the host. PyTorch's pipelines
 * keep them gathered. */
bool p4d_cost__gathers_for_passes(const p4d_layout *layout);
/* Whether each backward pass reduces its gradients; otherwise only the last one does. */
bool p4d_cost__reduces_for_passes(const p4d_layout *layout);
/*
 * True for p4d-train: replicas sum gradients once per step. In other frameworks they sum them after every
 * pass.
 */
bool p4d_cost__adds_copies_once(const p4d_layout *layout);
/* Bytes of an element of a gradient while it is reduced. */
double p4d_cost__gradient_bytes(const p4d_layout *layout);
/* Adds the exposed time of gathers and reductions to the layers. */
void p4d_cost__add_gathers(const p4d_layout *layout, p4d_cost_terms *terms);

/* cost_swap.c: adds the exposed time of swapped activations and the time of recomputation to the layers. */
void p4d_cost__add_swaps(const p4d_layout *layout, const p4d_gpu *gpu, p4d_cost_terms *terms);

/*
 * cost_dropped.c: the share of a stage's layers whose activations are swapped, and the bytes of one such
 * layer; all chunks have the same number of such layers. False: activations stay on the device.
 * p4d_cost__dropped_share: the share of layers whose activations are dropped instead.
 */
typedef struct p4d_cost_swaps {
	double share, bytes;
} p4d_cost_swaps;
bool p4d_cost__swaps(const p4d_layout *layout, const p4d_gpu *gpu, p4d_cost_swaps *swaps);
double p4d_cost__dropped_share(const p4d_layout *layout, const p4d_gpu *gpu);

/* Costs of a micro-batch, summed over its slices; and costs of the first slice. */
void p4d_cost__whole_terms(const p4d_layout *layout, const p4d_gpu *gpu, p4d_cost_cache *memory,
			   p4d_cost_terms *whole, p4d_cost_terms *first);

/* The passes of `layers` layers, of which `with_experts` have experts. */
p4d_cost_passes p4d_cost__layers_passes(const p4d_cost_terms *terms, double layers, double with_experts);

p4d_cost_passes p4d_cost__chunk_passes(const p4d_layout *layout, const p4d_cost_terms *terms, uint32_t stage,
				       uint32_t chunk);

/* Exposed time once per step and stage. Seconds. */
typedef struct p4d_cost_step_ends {
	double gather, reduce, optimizer;
} p4d_cost_step_ends;

p4d_cost_step_ends p4d_cost__step_ends_of(const p4d_layout *layout, const p4d_cost_terms *terms,
					  uint32_t stage);
