/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass of an inference engine: decoding sequences and prompts together. A pass reads weights and cached
 * keys and values once, so a pass with few sequences is bound by memory and one with many by arithmetic.
 * Rates are those of training. Unless they say otherwise, the constants here were chosen to agree with
 * TensorRT-LLM's published throughputs of release 0.17 and latencies of release 0.14
 * (tests/data/serving_measured.csv). Its later throughputs were only compared.
 */
#include <math.h>

#include "cost/cost_internal.h"
#include "plan/offload.h"

/* Rows of an output tile. For fewer rows, libraries have lower tiles, which waste less. */
#define TILE_ROWS 128.0

/* Number of kernels in a layer; and the additional kernels of a mixture of experts, of an expert that all
 * tokens share, and of latent attention (two norms, and products with both halves of the latent's matrix). */
enum { KERNELS = 10, KERNELS_OF_EXPERTS = 4, KERNELS_OF_SHARED = 4, KERNELS_OF_LATENT = 4 };

/*
 * Seconds that Python needs to launch a kernel. A pass without a CUDA graph takes at least this for each of
 * its kernels. From the gaps between tokens with SGLang 0.5.6: Qwen3 235B and DeepSeek R1 on B200.
 */
#define EAGER_SECONDS 45e-6

/*
 * Share of the 16-bit rate that grouped matmuls reach that expand their weights to 16 bits. From prompts of
 * 2,000 and 4,000 tokens with vLLM 0.11: gpt-oss 120B on A100.
 */
#define EXPANDED_RATE 0.36

/* Seconds in which the host prepares a pass. */
#define PASS_SECONDS 1e-3
/* Seconds of sampling per sequence. */
#define SAMPLE_SECONDS 1e-6

/* An engine's own all-reduce starts immediately, but its messages are too short for the link's full rate. */
#define ALL_REDUCE_SECONDS 15e-6
#define ALL_REDUCE_RATE 0.77

/*
 * Bytes that a layer's other kernels read and write, per element of the hidden states and of the feed-forward
 * activations.
 */
#define HIDDEN_MOVES 10
#define FFN_MOVES 3

/* Accesses to hidden states for sorting tokens by expert and for adding their results; at the rate of
 * cost_experts.c. */
#define EXPERT_MOVES 6
#define PERMUTED 0.67

/*
 * Share of the memory's peak rate that attention with one query reaches, because it reads keys block by
 * block.
 */
#define CACHE_RATE 0.8
/* Bytes per logit that sampling reads and writes. */
#define LOGIT_BYTES 8

/* A pass on one rank. tokens: tokens of one nano-batch. */
typedef struct pass {
	const p4d_layout *l;
	const p4d_cost_served *work;
	p4d_cost_rates r;
	double tokens;
} pass;

/* Seconds of kernels, by the resource that limits them. */
typedef struct pass_parts {
	double arithmetic, memory, network;
} pass_parts;

/* How a linear layer's weights are stored and multiplied. */
typedef struct matrices {
	double bytes, each; /* bytes per element; seconds per FLOP */
} matrices;

static matrices of_layers(const pass *p)
{
	const bool full = p->work->experts_only;

	return (matrices){.bytes = full ? p->r.element : p->work->weight_bytes,
			  .each = full ? p->r.gemm : p->r.product};
}

static matrices of_experts(const pass *p)
{
	const bool expanded = p->l->precision != P4D_FP8 && p->work->weight_bytes < p->r.element;

	return (matrices){.bytes = p->work->weight_bytes,
			  .each = p->r.product / (expanded ? EXPANDED_RATE : 1)};
}

/* Seconds of one kernel: matmuls of `rows` tokens with each of `groups` matrices of columns x depth. */
static double products(const pass *p, matrices m, double groups, double rows, double columns, double depth)
{
	const double lost = p->r.lost * fmin(1, rows / TILE_ROWS);
	const double flops = (2 * groups * rows * columns + lost) * depth;
	const double bytes = groups * (m.bytes * depth * (rows + columns) + 2 * rows * columns);

	return p4d_cost__together(flops * m.each, bytes * p->r.hbm);
}

/*
 * Seconds of all-reduces of hidden states over the tensor-parallel ranks: after attention, and after the
 * feed-forward part.
 */
static double reduced(const pass *p)
{
	const p4d_layout *l = p->l;
	const double bytes = p->tokens * (double)l->hidden * p->r.element;
	const p4d_cost_ring ring = p4d_cost__ring_of(l, l->tp, 1);

	if (l->tp == 1)
		return 0;
	if (ring.ranks > ring.in_node)
		return 2 * p4d_cost__gather_seconds(&p->r, ring, bytes);
	return ALL_REDUCE_SECONDS + 2 * bytes * (ring.ranks - 1) / ring.ranks * p->r.link / ALL_REDUCE_RATE;
}

/*
 * Columns of the matmuls before and after attention on one rank: their elements divided by the hidden size.
 * For latent attention, all its matrices count.
 */
static double attention(const pass *p)
{
	const p4d_layout *l = p->l;
	const double h = (double)l->hidden, t = (double)l->tp;
	const double own = (double)(l->kv_heads > l->tp ? l->kv_heads / l->tp : 1) * (double)l->head_dim;
	const double out = (double)l->heads * (double)(l->kv_rank ? l->v_dim : l->head_dim) / t;
	double in = out + 2 * own;

	if (l->kv_rank) {
		const double query = (double)l->heads / t * (double)(l->head_dim + l->rope_dim);
		const double down = (double)(l->q_rank + l->kv_rank + l->rope_dim);
		const double up =
		    (double)l->kv_rank * (double)l->heads / t * (double)(l->head_dim + l->v_dim);
		in = down + ((l->q_rank ? (double)l->q_rank : h) * query + up) / h;
	}
	return products(p, of_layers(p), 1, p->tokens, in, h) +
	       products(p, of_layers(p), 1, p->tokens, h, out);
}

/* Seconds of a feed-forward part, gated or not, of `groups` experts with `width` columns on this rank. */
static double feed_forward(const pass *p, matrices m, double groups, double rows, double width)
{
	const double h = (double)p->l->hidden, up = p->l->glu ? 2 : 1;

	return products(p, m, groups, rows, up * width, h) + products(p, m, groups, rows, h, width);
}

/*
 * Seconds of this rank's experts. They get tokens from all data-parallel engines. With few tokens, some
 * experts are not read.
 */
static pass_parts experts(const pass *p)
{
	const p4d_layout *l = p->l;
	const double all = (double)l->experts, each = (double)l->experts_per_token, h = (double)l->hidden;
	const double tokens = p->tokens * (double)l->dp, own = all / (double)l->ep;
	const double width = (double)l->expert_ffn / (l->ep > 1 ? 1 : (double)(l->tp * l->dp));
	const double read = own * (1 - pow(1 - each / all, tokens)), used = read > 1 ? read : 1;
	const double rows = tokens * each * own / all;
	pass_parts x = {.arithmetic = feed_forward(p, of_experts(p), used, rows / used, width),
			.memory = EXPERT_MOVES * p->tokens * each * h * p->r.element * p->r.hbm / PERMUTED};

	if (l->shared_ffn)
		x.arithmetic +=
		    feed_forward(p, of_layers(p), 1, p->tokens, (double)l->shared_ffn / (double)l->tp);
	if (l->dp > 1)
		x.network = 2 * p4d_cost__exchange_seconds(&p->r, p4d_cost__ring_of(l, l->dp, l->tp),
							   tokens * h * p->r.element);
	return x;
}

static double kernels(const p4d_layout *l, bool sparse)
{
	return KERNELS + (l->kv_rank ? KERNELS_OF_LATENT : 0) +
	       (sparse ? KERNELS_OF_EXPERTS + (l->shared_ffn ? KERNELS_OF_SHARED : 0) : 0);
}

/* Seconds of a layer, without attention scores. */
static pass_parts layer(const pass *p, bool sparse)
{
	const p4d_layout *l = p->l;
	const double width = sparse ? (double)(l->expert_ffn * l->experts_per_token) : (double)l->ffn;
	const double moved =
	    HIDDEN_MOVES * (double)l->hidden + FFN_MOVES * width / (double)(l->tp * (sparse ? l->dp : 1));
	pass_parts x = sparse ? experts(p)
			      : (pass_parts){.arithmetic = feed_forward(p, of_layers(p), 1, p->tokens,
									(double)l->ffn / (double)l->tp)};

	x.arithmetic += attention(p) + kernels(l, sparse) * P4D_LAUNCH_SECONDS;
	x.memory += moved * p->tokens * p->r.element * p->r.hbm;
	x.network += 2 * reduced(p);
	return x;
}

static void add(pass_parts *to, pass_parts one, double times)
{
	to->arithmetic += times * one.arithmetic;
	to->memory += times * one.memory;
	to->network += times * one.network;
}

/* Seconds to compute the logits of one token of each sequence, and to sample. */
static double head(const pass *p)
{
	const double rows = p->work->sequences, vocab = (double)p->l->vocab / (double)p->l->tp,
		     h = (double)p->l->hidden;
	const double flops = 2 * rows * vocab * h, bytes = p->r.element * vocab * h;

	return p4d_cost__together(flops * p->r.gemm, bytes * p->r.hbm) +
	       rows * vocab * LOGIT_BYTES * p->r.hbm;
}

/*
 * Seconds of all layers. Each nano-batch reads all weights. While one nano-batch computes, another reads
 * memory or uses the network. The slowest of the three resources sets the time. The time on the other two is
 * exposed for one nano-batch only.
 */
static double layers(const pass *p, const p4d_gpu *gpu, double nano)
{
	const p4d_layout *l = p->l;
	const double stages = (double)l->pp, sparse = p4d_cost__expert_layers(l) / stages,
		     dense = (double)l->layers / stages - sparse;
	const double scores = 4 * p->work->prompt_pairs * (double)l->heads / (double)l->tp *
			      (double)l->head_dim * (double)l->layers / stages;
	pass_parts all = {.arithmetic = scores * p->r.attention_forward,
			  .memory = p->work->cached_bytes / (gpu->hbm_bytes_per_s * CACHE_RATE)};

	if (dense > 0)
		add(&all, layer(p, false), nano * dense);
	if (sparse > 0)
		add(&all, layer(p, true), nano * sparse);
	const double sum = all.arithmetic + all.memory + all.network,
		     most = fmax(all.arithmetic, fmax(all.memory, all.network)),
		     started = nano * (dense * kernels(l, false) + sparse * kernels(l, true)) * EAGER_SECONDS;
	const double seconds = nano > 1 ? most + (sum - most) / nano : sum;
	return p->work->eager ? fmax(seconds, started) : seconds;
}

/*
 * Seconds of all layers, including copies of weights that are on the host. With a window of several layers,
 * later layers are copied while one computes (TPI-LLM, arXiv 2410.00531). With a window of one layer, or if
 * kernels read from the host, nothing overlaps.
 */
static double with_host(const p4d_cost_served *work, double computes, double copies)
{
	return work->window > 1 ? fmax(computes, copies) : computes + copies;
}

double p4d_cost_serve(const p4d_layout *l, const p4d_gpu *gpu, const p4d_cost_served *work)
{
	const double nano = work->nano_batches > 1 ? work->nano_batches : 1;
	const pass p = {.l = l,
			.work = work,
			.r = p4d_cost__rates_of(l, gpu),
			.tokens = (work->sequences + work->prompt_tokens) / nano};
	const double link = gpu->host_link_bytes_per_s * P4D_HOST_LINK_EFFICIENCY;

	const double copies = link > 0 ? work->host_bytes / link : 0;

	return with_host(work, layers(&p, gpu, nano), copies) + head(&p) + PASS_SECONDS +
	       SAMPLE_SECONDS * work->sequences;
}
