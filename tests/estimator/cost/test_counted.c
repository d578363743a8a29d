/* SPDX-License-Identifier: Apache-2.0 */
/* The time of work that a rehearsal counted. */
#include "support/cost_steps.h"

#include "cost/counted.h"

/* The mean of the best and the worst case for counted work. */
static double counted_seconds(const p4d_counted *work, const p4d_gpu *gpu)
{
	p4d_seconds s;

	assert_null(p4d_cost_counted(work, gpu, &s));
	assert_true(s.low > 0 && s.low < s.high);
	return (s.low + s.high) / 2;
}

/* Counted matmuls take as long as the same matmuls of a layout. */
static void counted_as_modelled(void **state)
{
	(void)state;
	const p4d_gpu gpu = gpu_named("h100");
	const p4d_layout l = layout_of(SMALL "framework=megatron global-batch=8", 1, 1);
	const p4d_cost_rates r = p4d_cost__rates_of(&l, &gpu);
	const double m = 8192, n = 4096, k = 2048, products = 500;
	p4d_counted w = {.flops = products * 2 * m * n * k,
			 .depth = products * k,
			 .product_bytes = products * 2 * (m * k + k * n + m * n),
			 .kernels = products,
			 .is_half = true};
	p4d_seconds s;

	assert_true(fabs(counted_seconds(&w, &gpu) / (products * p4d_cost__gemm_seconds(&r, 1, m, n, k, 2)) -
			 1) < 0.01);
	/* in tf32 the arithmetic takes twice as long, and in 8 bits half as long */
	const double half = counted_seconds(&w, &gpu);
	w.flops_tf32 = w.flops;
	const double tf32 = counted_seconds(&w, &gpu) / half;
	assert_true(tf32 > 1.75 && tf32 < 2);
	w.flops_tf32 = 0;
	w.flops_8 = w.flops;
	assert_true(counted_seconds(&w, &gpu) < 0.75 * half);
	/* an error names the rate that the GPU lacks, unless the counted work does not need it */
	p4d_gpu bare = gpu;
	bare.peak_fp8_flops = bare.net_bytes_per_s = 0;
	assert_string_equal(p4d_cost_counted(&w, &bare, &s), "peak_fp8_tflops");
	w.flops_8 = 0;
	assert_null(p4d_cost_counted(&w, &bare, &s));
	w.wires = 1;
	w.wire[0] = (p4d_counted_wire){.ranks = 16, .in_node = 8, .calls = 1, .gathered = 1e9};
	assert_string_equal(p4d_cost_counted(&w, &bare, &s), "net_gb_per_s");
	/* the best case hides all communication, the worst case hides none */
	p4d_seconds alone, beside;
	w.wires = 0;
	p4d_cost_counted(&w, &gpu, &alone);
	w.wires = 1;
	p4d_cost_counted(&w, &gpu, &beside);
	assert_true(beside.low == alone.low);
	const p4d_cost_rates links = {.link = 1 / (gpu.link_bytes_per_s * gpu.link_efficiency),
				      .net = 1 / (gpu.net_bytes_per_s * P4D_NET_EFFICIENCY)};
	const double wire = p4d_cost__gather_seconds(&links, (p4d_cost_ring){.ranks = 16, .in_node = 8}, 1e9);
	assert_true(fabs(beside.high - alone.high - wire) < 1e-9);
	/* no matmuls and no bytes: only the host's time to launch kernels */
	w = (p4d_counted){.kernels = 1e6, .is_half = true};
	assert_true(counted_seconds(&w, &gpu) > 4);
}

/* PyTorch's attention on Hopper is FlashAttention 2, unless the program asked for cuDNN's. */
static void counted_attention(void **state)
{
	const p4d_gpu hopper = gpu_named("h100"), blackwell = gpu_named("b200");
	p4d_counted w = {.attention_forward = 1e15, .attention_backward = 2.5e15, .is_half = true};
	const double second = counted_seconds(&w, &hopper), other = counted_seconds(&w, &blackwell);

	(void)state;
	w.cudnn_forward = w.attention_forward;
	w.cudnn_backward = w.attention_backward;
	const double ratio = (1 / 0.35 + 2.5 / 0.335) / (1 / hopper.attention_forward_efficiency +
							 2.5 / hopper.attention_backward_efficiency);
	assert_true(fabs(second / counted_seconds(&w, &hopper) / ratio - 1) < 1e-6);
	assert_true(fabs(other / counted_seconds(&w, &blackwell) - 1) < 1e-9);
	/* the rate is the one for layouts */
	const p4d_layout torch = layout_of(SMALL "framework=fsdp global-batch=8", 1, 1),
			 megatron = layout_of(SMALL "framework=megatron global-batch=8", 1, 1);
	const p4d_cost_rates a = p4d_cost__rates_of(&torch, &hopper),
			     b = p4d_cost__rates_of(&megatron, &hopper);
	assert_true(
	    fabs(a.attention_forward / b.attention_forward * 0.35 / hopper.attention_forward_efficiency - 1) <
	    1e-6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(counted_as_modelled),
	    cmocka_unit_test(counted_attention),
	};

	return cmocka_run_group_tests(tests, load_gpus, NULL);
}
