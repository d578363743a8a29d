/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of a program that p4d has no formulas for, from its kernels as counted by a rehearsal. The rates
 * are those of the formulas for layouts. The counts do not tell which work overlaps, so the result is a
 * range.
 */
#include "cost/cost_internal.h"
#include "cost/counted.h"
#include "plan/offload.h"

/* Minimum relative uncertainty of the result: twice the cost model's mean error on published steps. */
#define UNSURE 0.07

/*
 * Seconds in which the host of an eager program launches one kernel: PyTorch's dispatcher alone; and with
 * Python, modules and autograd (1.2 ms for the 90 kernels of a layer of transformers, both passes).
 */
static const double host_least = 4e-6, host_most = 14e-6;

/* Convolutions reach at least half of the rate of large matmuls. */
#define CONVOLUTION_SLOWER 2

/* tf32 runs at half of the 16-bit rate from Ampere on. Before Ampere there is no tf32. */
static double tf32_peak(const p4d_gpu *gpu)
{
	return gpu->sm >= 80 ? gpu->peak_bf16_flops / 2 : gpu->peak_fp32_flops;
}

/* Seconds per FLOP at this peak and efficiency; 0: unknown. */
static double each(double peak, double efficiency)
{
	return peak > 0 && efficiency > 0 ? 1 / (peak * efficiency) : 0;
}

/* The gpus.json key of the first rate that the work needs and the GPU lacks; NULL: none. */
static const char *missing(const p4d_counted *w, const p4d_gpu *gpu)
{
	bool links = false, crosses = false;

	for (unsigned i = 0; i < w->wires; i++) {
		links = links || w->wire[i].in_node > 1;
		crosses = crosses || w->wire[i].ranks > w->wire[i].in_node;
	}
	const struct {
		double rate;
		bool needed;
		const char *key;
	} rates[] = {
	    {gpu->peak_bf16_flops, true, "peak_bf16_tflops"},
	    {gpu->gemm_efficiency, true, "gemm_efficiency"},
	    {gpu->multiprocessors, true, "multiprocessors"},
	    {gpu->hbm_bytes_per_s * gpu->hbm_efficiency, true, "hbm_tb_per_s"},
	    {gpu->peak_fp8_flops * gpu->gemm_fp8_efficiency, w->flops_8 > 0, "peak_fp8_tflops"},
	    {gpu->peak_fp32_flops, w->flops_32 > 0, "peak_fp32_tflops"},
	    {gpu->attention_forward_efficiency, w->attention_forward > 0, "attention_forward_efficiency"},
	    {gpu->attention_backward_efficiency, w->attention_backward > 0, "attention_backward_efficiency"},
	    {gpu->link_bytes_per_s * gpu->link_efficiency, links, "link_gb_per_s"},
	    {gpu->net_bytes_per_s, crosses, "net_gb_per_s"},
	    {gpu->host_link_bytes_per_s, w->lifted > 0, "host_link_gb_per_s"},
	};

	for (size_t i = 0; i < sizeof(rates) / sizeof(*rates); i++)
		if (rates[i].needed && !(rates[i].rate > 0))
			return rates[i].key;
	return NULL;
}

/*
 * The formula for one matmul (cost_ops.c), summed over all matmuls. The FLOPs lost to tile quantization are
 * proportional to the summed depth. They take the mean time per FLOP of all matmuls.
 */
static double products(const p4d_counted *w, const p4d_gpu *gpu)
{
	const double half = w->flops - w->flops_8 - w->flops_tf32 - w->flops_32;
	const double full = each(gpu->peak_bf16_flops, gpu->gemm_efficiency);
	const double arithmetic = half * full +
				  w->flops_8 * each(gpu->peak_fp8_flops, gpu->gemm_fp8_efficiency) +
				  w->flops_tf32 * each(tf32_peak(gpu), gpu->gemm_efficiency) +
				  w->flops_32 * each(gpu->peak_fp32_flops, gpu->gemm_efficiency);
	const double lost = p4d_cost__lost_flops(gpu) * w->depth * (w->flops > 0 ? arithmetic / w->flops : 0);
	const double bytes = w->product_bytes / (gpu->hbm_bytes_per_s * gpu->hbm_efficiency);

	return arithmetic + lost + P4D_EXPOSED_MEMORY * bytes;
}

static double attention(const p4d_counted *w, const p4d_gpu *gpu)
{
	const double peak = gpu->peak_bf16_flops;

	return w->cudnn_forward * each(peak, gpu->attention_forward_efficiency) +
	       w->cudnn_backward * each(peak, gpu->attention_backward_efficiency) +
	       (w->attention_forward - w->cudnn_forward) *
		   each(peak, p4d_cost__flash2_efficiency(gpu, false)) +
	       (w->attention_backward - w->cudnn_backward) *
		   each(peak, p4d_cost__flash2_efficiency(gpu, true));
}

static double communication(const p4d_counted *w, const p4d_gpu *gpu)
{
	const p4d_cost_rates rates = {.link = each(gpu->link_bytes_per_s, gpu->link_efficiency),
				      .net = each(gpu->net_bytes_per_s, P4D_NET_EFFICIENCY)};
	double seconds = 0;

	for (unsigned i = 0; i < w->wires; i++) {
		const p4d_counted_wire *wire = &w->wire[i];
		const p4d_cost_ring ring = {.ranks = wire->ranks, .in_node = wire->in_node};
		if (wire->calls > 1) /* with several calls, each waits for the ring to start */
			seconds += (wire->calls - 1) * p4d_cost__gather_seconds(&rates, ring, 0);
		seconds += p4d_cost__gather_seconds(&rates, ring, wire->gathered);
		if (wire->exchanged > 0)
			seconds += p4d_cost__exchange_seconds(&rates, ring, wire->exchanged);
		if (wire->transferred > 0)
			seconds += p4d_cost__transfer_seconds(&rates, wire->in_node >= wire->ranks,
							      wire->transferred);
	}
	return seconds;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

const char *p4d_cost_counted(const p4d_counted *w, const p4d_gpu *gpu, p4d_seconds *out)
{
	const char *key = missing(w, gpu);

	*out = (p4d_seconds){0, 0};
	if (key)
		return key;
	const double moved = w->moved / (gpu->hbm_bytes_per_s * gpu->hbm_efficiency);
	const double gaps = w->kernels * P4D_LAUNCH_SECONDS;
	const double convolutions = w->convolutions * each(tf32_peak(gpu), gpu->gemm_efficiency);
	const double device = products(w, gpu) + attention(w, gpu) + moved + gaps;
	const double between = communication(w, gpu);
	const double lifted = w->lifted * each(gpu->host_link_bytes_per_s, P4D_HOST_LINK_EFFICIENCY);
	const double least = device + convolutions / (w->is_half ? 2 : 1);

	out->low = larger((1 - UNSURE) * larger(least, larger(between, lifted)), w->kernels * host_least);
	out->high = larger((1 + UNSURE) * (device + CONVOLUTION_SLOWER * convolutions) + between + lifted,
			   w->kernels * host_most);
	return NULL;
}
