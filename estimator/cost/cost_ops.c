/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single operations: the rates that a GPU sustains, and the time of a kernel. The models deliberately have
 * few constants, fitted to published tables of single matmuls rather than on training runs: SimuMax's for
 * A100 (median deviation 2 %) and B200 (6 %; small matmuls run faster there before the power limit is
 * reached).
 */

#include <math.h>

#include "cost/cost_internal.h"
#include "plan/cudnn_workspace.h"
#include "plan/offload.h"
#include "plan/packed_documents.h"
#include "plan/parameters.h"
#include "request/fp8.h"

/* Output tile of a multiprocessor, in elements: 128 x 256. */
#define TILE_ELEMENTS 32768.0

/*
 * Rounds of tiles that a matmul loses because its last tiles do not fill the GPU. With fixed tiles, the mean
 * would be half a round. Libraries choose tile sizes and split the depth, so the loss is about a tenth.
 */
#define LOST_ROUND 0.1

/*
 * Grouped matmuls lose this share of the rounds of tiles, from SimuMax's table for B200 (108 matmuls of 128
 * to 9832 tokens each; median error 6.6 %). A quarter of the last tiles of a matmul overlaps with the next
 * matmul, which runs on another stream. But the host does not launch them faster.
 */
#define GROUPED_LOST 0.75
#define GROUPED_LAUNCH_SECONDS 9e-6

/* Relative standard deviation of the clock among GPUs of one type, under load. */
#define CLOCK_DEVIATION 0.01

double p4d_cost_peak_flops(const p4d_layout *l, const p4d_gpu *gpu)
{
	switch (l->precision) {
	case P4D_FP32:
		return gpu->peak_fp32_flops;
	case P4D_FP8:
		return l->fp8_recipe == P4D_FP8_NVFP4 ? gpu->peak_fp4_flops : gpu->peak_fp8_flops;
	case P4D_FP16:
		return gpu->peak_fp16_flops > 0 ? gpu->peak_fp16_flops : gpu->peak_bf16_flops;
	default:
		return gpu->peak_bf16_flops;
	}
}

/* Efficiency of matmuls in FP8 or FP4. */
static double product_efficiency(const p4d_layout *l, const p4d_gpu *gpu)
{
	return l->fp8_recipe == P4D_FP8_NVFP4 ? gpu->gemm_fp4_efficiency : gpu->gemm_fp8_efficiency;
}

/* The gpus.json key of the peak rate that p4d_cost_peak_flops uses. */
static const char *peak_key(const p4d_layout *l)
{
	static const char *const keys[] = {[P4D_BF16] = "peak_bf16_tflops",
					   [P4D_FP16] = "peak_fp16_tflops",
					   [P4D_FP32] = "peak_fp32_tflops",
					   [P4D_FP8] = "peak_fp8_tflops"};
	const bool fp4 = l->precision == P4D_FP8 && l->fp8_recipe == P4D_FP8_NVFP4;

	return fp4 ? "peak_fp4_tflops" : keys[l->precision];
}

/* Bytes per second of a GPU to other nodes: its share of the interfaces of its node. */
static double net_rate(const p4d_layout *l, const p4d_gpu *gpu)
{
	const p4d_network *n = &l->network;
	const double nic = n->nic_bytes_per_s > 0 ? n->nic_bytes_per_s : gpu->net_bytes_per_s,
		     gpus = n->gpus > l->gpus_per_node ? (double)n->gpus : (double)l->gpus_per_node;

	return n->nics ? nic * n->nics / gpus : nic;
}

const char *p4d_cost_missing(const p4d_layout *l, const p4d_gpu *gpu)
{
	const bool links = l->link_domain > 1 && l->world > 1, crosses = l->world > l->link_domain;
	const bool swaps = p4d_framework_of(l->framework)->plans_transfers && l->offload,
		   fp8 = l->precision == P4D_FP8;
	const struct {
		double rate;
		bool needed;
		const char *key;
	} rates[] = {
	    {p4d_cost_peak_flops(l, gpu), true, peak_key(l)},
	    {gpu->peak_bf16_flops, fp8, "peak_bf16_tflops"},
	    {product_efficiency(l, gpu), fp8,
	     l->fp8_recipe == P4D_FP8_NVFP4 ? "gemm_fp4_efficiency" : "gemm_fp8_efficiency"},
	    {gpu->hbm_bytes_per_s, true, "hbm_tb_per_s"},
	    {gpu->link_bytes_per_s, links, "link_gb_per_s"},
	    {gpu->link_efficiency, links, "link_efficiency"},
	    {net_rate(l, gpu), crosses, "net_gb_per_s"},
	    {gpu->host_link_bytes_per_s, swaps, "host_link_gb_per_s"},
	    {gpu->multiprocessors, true, "multiprocessors"},
	    {gpu->gemm_efficiency, true, "gemm_efficiency"},
	    {gpu->attention_forward_efficiency, true, "attention_forward_efficiency"},
	    {gpu->attention_backward_efficiency, true, "attention_backward_efficiency"},
	    {gpu->hbm_efficiency, true, "hbm_efficiency"},
	};

	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
		if (rates[i].needed && !(rates[i].rate > 0))
			return rates[i].key;
	return NULL;
}

bool p4d_cost_known(const p4d_layout *l, const p4d_gpu *gpu)
{
	return gpu && p4d_on_gpu(l->device) && !p4d_cost_missing(l, gpu);
}

/*
 * Queries of the last block of attention on one multiprocessor. Derived from how measured rates grow with the
 * sequence (A100: FlashAttention 2, B200: cuDNN, both from SimuMax's tables; Hopper: cuDNN 9.19 at 2048 to
 * 32768 tokens).
 */
static double last_rows(int sm, bool backward)
{
	if (backward)
		return sm >= 100 ? 32 : sm >= 90 ? 192 : 48;
	return sm >= 100 ? 256 : sm >= 90 ? 192 : 96;
}

/*
 * How much longer fused attention takes per score for heads below 128, the size that the rates are for. Its
 * matmuls shrink with the head, but its exponential does not (16 per clock and multiprocessor). The
 * exponential takes as long as matmuls at the peak rate over a fixed number of additional columns.
 * FlashAttention 3 reaches about three quarters of the rate with heads of 64. Larger heads gain nothing,
 * because their tiles are smaller.
 */
static double head_factor(int sm, double head_dim)
{
	const double exponential = sm >= 103 ? 64 : sm >= 100 ? 128 : sm >= 90 ? 64 : sm == 80 ? 32 : 16;

	return head_dim < 128 ? (1 + exponential / head_dim) / (1 + exponential / 128) : 1;
}

/*
 * FlashAttention 2 uses Ampere's instructions, with which Hopper reaches a third of its peak: forward 35 %
 * (Shah et al., arXiv 2407.08608), and 335 TFLOP/s of 989 with the backward pass (Dao, arXiv 2307.08691).
 */
#define FLASH2_FORWARD 0.35
#define FLASH2_BACKWARD 0.335

/*
 * FlashAttention in Triton: FlashAttention 2 is 1.3 to 1.5 times as fast forward, and twice as fast backward
 * (Dao, section 4.1).
 */
#define TRITON_FORWARD 1.4
#define TRITON_BACKWARD 2

static double cudnn_efficiency(const p4d_gpu *gpu, bool backward)
{
	return backward ? gpu->attention_backward_efficiency : gpu->attention_forward_efficiency;
}

double p4d_cost__flash2_efficiency(const p4d_gpu *gpu, bool backward)
{
	const double own = cudnn_efficiency(gpu, backward),
		     flash2 = backward ? FLASH2_BACKWARD : FLASH2_FORWARD;
	const bool hopper = gpu->sm >= 90 && gpu->sm < 100;

	return hopper && flash2 < own ? flash2 : own;
}

static double attention_efficiency(const p4d_layout *l, const p4d_gpu *gpu, bool backward)
{
	const bool sdpa = p4d_framework_of(l->framework)->cost.sdpa && l->flash_attention != P4D_CUDNN;
	const bool triton = l->flash_attention == P4D_FLASH_TRITON,
		   second = l->flash_attention == P4D_FLASH2 || triton || sdpa;
	const double slower = !triton ? 1 : backward ? TRITON_BACKWARD : TRITON_FORWARD;

	return (second ? p4d_cost__flash2_efficiency : cudnn_efficiency)(gpu, backward) / slower;
}

/*
 * p4d-train's own kernels, which compute attention where cuDNN does not: in fp32, for head sizes that cuDNN
 * refuses, and for documents on some GPUs and with context parallelism or slices. They do not use tensor
 * cores. Their rate was never measured: a quarter of the FMA instructions that a multiprocessor with 128
 * lanes can execute at 1.7 GHz. The backward pass has 7 matmuls instead of 5.
 */
#define OWN_FLOPS_OF_MULTIPROCESSOR (0.25 * 2 * 128 * 1.7e9)
#define OWN_BACKWARD (7.0 / 5)

/* Whether cuDNN cannot apply the window of most layers. It cannot with documents, and in a ring. */
static bool has_own_window(const p4d_layout *l)
{
	const bool ring = l->cp > 1 && l->cp_comm != P4D_CP_ALL_GATHER;

	return p4d_window_of(l, 0) && (l->document_len || ring);
}

static bool has_own_kernels(const p4d_layout *l, const p4d_gpu *gpu)
{
	const p4d_attention_call call = {.batch = 1,
					 .heads = l->heads,
					 .kv_heads = l->kv_heads,
					 .queries = l->seq_len,
					 .keys = l->seq_len,
					 .head_dim = l->head_dim,
					 .backward = true};

	return p4d_framework_of(l->framework)->cost.attends_alone && !l->serves && p4d_on_gpu(l->device) &&
	       ((l->document_len && !p4d_packed_documents(l, gpu)) || l->precision == P4D_FP32 ||
		has_own_window(l) || l->architecture->attention_cap > 0 ||
		!p4d_attention_workspace_of(gpu->sm, &call).fused);
}

/*
 * In the backward pass, the rate is lower by this much if queries and keys are wider than 128, as in latent
 * attention (192, with values of 128) or with large heads, because tiles are smaller (SimuMax, B200: latent
 * attention with 16 to 128 heads). In the forward pass it is not lower.
 */
#define WIDE_BACKWARD 0.78

static bool has_wide_keys(const p4d_layout *l)
{
	return l->kv_rank || l->head_dim > 128;
}

/*
 * GPUs of one type sustain clocks that differ by a percent or two (Sinha et al., Not All GPUs Are Created
 * Equal, SC 22), and a synchronous job waits for the slowest GPU. The slowest of n GPUs is sqrt(2 ln n)
 * standard deviations below the mean.
 */
static double slowest_of(double gpus)
{
	return 1 + CLOCK_DEVIATION * sqrt(2 * log(gpus));
}

/* 1 / rate; 0 for an unknown rate, because p4d_cost_known refuses layouts that would use it. */
static double inverse(double rate)
{
	return rate > 0 ? 1 / rate : 0;
}

double p4d_cost__lost_flops(const p4d_gpu *gpu)
{
	return 2 * LOST_ROUND * TILE_ELEMENTS * gpu->multiprocessors;
}

p4d_cost_rates p4d_cost__rates_of(const p4d_layout *l, const p4d_gpu *gpu)
{
	double multiprocessors = gpu->multiprocessors;
	p4d_cost_rates r;

	r.peak = p4d_cost_peak_flops(l, gpu);
	/* attention and the head stay in bf16 */
	const bool fp8 = l->precision == P4D_FP8;
	const double peak = fp8 ? gpu->peak_bf16_flops : r.peak;
	const double slowest = slowest_of((double)l->world);
	r.gemm = slowest * inverse(peak * gpu->gemm_efficiency);
	r.product = fp8 ? slowest * inverse(r.peak * product_efficiency(l, gpu)) : r.gemm;
	r.fp8_by_rows = gpu->sm < 100;
	const double attention = slowest * head_factor(gpu->sm, (double)l->head_dim);
	r.attention_forward = attention * inverse(peak * attention_efficiency(l, gpu, false));
	r.attention_backward = attention * inverse(peak * attention_efficiency(l, gpu, true)) /
			       (has_wide_keys(l) ? WIDE_BACKWARD : 1);
	if (has_own_kernels(l, gpu)) {
		r.attention_forward = slowest * inverse(OWN_FLOPS_OF_MULTIPROCESSOR * multiprocessors);
		r.attention_backward = OWN_BACKWARD * r.attention_forward;
	}
	r.hbm = inverse(gpu->hbm_bytes_per_s * gpu->hbm_efficiency);
	r.link = inverse(gpu->link_bytes_per_s * gpu->link_efficiency);
	r.net = inverse(net_rate(l, gpu) * P4D_NET_EFFICIENCY);
	r.excess = p4d_cost__leaf_excess(l);
	const bool streams = p4d_streams_parameters(l),
		   away =
		       p4d_framework_of(l->framework)->plans_transfers && l->offload & P4D_OFFLOAD_OPTIMIZER;
	r.host_update = away || streams ? p4d_offload_split_of(l, gpu).seconds : 0;
	r.lift = streams || p4d_swaps_activations(l)
		     ? inverse(gpu->host_link_bytes_per_s * P4D_HOST_LINK_EFFICIENCY)
		     : 0;
	r.multiprocessors = multiprocessors;
	r.lost = p4d_cost__lost_flops(gpu);
	r.last_forward = last_rows(gpu->sm, false) * multiprocessors;
	r.last_backward = last_rows(gpu->sm, true) * multiprocessors;
	r.element = l->precision == P4D_FP32 ? 4 : 2;
	r.operand = fp8 ? p4d_cost__cast_bytes(l) : r.element;
	return r;
}

static double product(const p4d_cost_rates *r, double each, double element, double batch, double rows,
		      double columns, double depth, double output_bytes)
{
	double flops = (2 * batch * rows * columns + r->lost) * depth;
	double bytes = batch * (element * depth * (rows + columns) + output_bytes * rows * columns);

	return P4D_LAUNCH_SECONDS + flops * each + P4D_EXPOSED_MEMORY * bytes * r->hbm;
}

double p4d_cost__gemm_seconds(const p4d_cost_rates *r, double batch, double rows, double columns,
			      double depth, double output_bytes)
{
	return product(r, r->gemm, r->element, batch, rows, columns, depth, output_bytes);
}

double p4d_cost__product_seconds(const p4d_cost_rates *r, double rows, double columns, double depth,
				 double output_bytes)
{
	return product(r, r->product, r->operand, 1, rows, columns, depth, output_bytes);
}

double p4d_cost__together(double a, double b)
{
	const double sum = a * sqrt(a) + b * sqrt(b);

	return cbrt(sum * sum);
}

double p4d_cost__grouped_seconds(const p4d_cost_rates *r, double groups, double rows, double columns,
				 double depth, double output_bytes)
{
	const double flops = (2 * rows * columns + GROUPED_LOST * r->lost) * depth;
	const double bytes = r->operand * depth * (rows + columns) + output_bytes * rows * columns;
	const double one = p4d_cost__together(flops * r->product, bytes * r->hbm);

	return P4D_LAUNCH_SECONDS + groups * (one > GROUPED_LAUNCH_SECONDS ? one : GROUPED_LAUNCH_SECONDS);
}

double p4d_cost__memory_seconds(const p4d_cost_rates *r, double bytes)
{
	return bytes > 0 ? P4D_LAUNCH_SECONDS + bytes * r->hbm : 0;
}

p4d_cost_sizes p4d_cost__sizes_of(const p4d_layout *l)
{
	double t = (double)l->tp, d = (double)l->head_dim, b = (double)p4d_rank_batch(l);
	p4d_cost_sizes z = {.h = (double)p4d_rank_hidden(l)};

	z.n = (double)p4d_pass_tokens(l) * b / (double)l->cp;
	z.residual = z.n * z.h / (l->sequence_parallel ? t : 1);
	z.A = p4d_cost__query_width(l) / t;
	z.G = l->kv_rank ? z.A : (double)p4d_rank_kv_heads(l) * d;
	z.f = (double)l->ffn / t;
	z.up = (l->glu ? 2 : 1) * z.f;
	z.scores = z.n * (double)l->seq_len * (double)l->heads / t;
	return z;
}

double p4d_cost__query_width(const p4d_layout *l)
{
	const double heads = (double)l->heads, head = (double)l->head_dim;

	return l->kv_rank ? heads * (head + (double)l->rope_dim + (double)l->v_dim) / 2 : heads * head;
}

double p4d_cost__cast_bytes(const p4d_layout *l)
{
	const p4d_fp8_recipe *recipe = &p4d_fp8_recipes[l->fp8_recipe];

	/* one scale for 32 or more elements: its bytes are negligible */
	return recipe->bits / 8.0 + (recipe->bits < 8 ? (double)recipe->scale_bytes / recipe->block : 0);
}
