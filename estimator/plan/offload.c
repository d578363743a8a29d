/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/offload.h"

#include "plan/optimizer.h"
#include "plan/parameters.h"
#include "plan/shared_sizes.h"

enum {
	LARGEST = 1 << 24, /* 64 MiB of gradients: large enough that a transfer takes much longer than its
			    * latency */
	LEAST = 128,
	CUTS = 16 /* number of parts of a small shard, so that transfers and updates overlap */
};

uint64_t p4d_offload_subgroup(uint64_t shard)
{
	const uint64_t even = (shard / CUTS + LEAST) & ~(uint64_t)(LEAST - 1);

	return even < LARGEST ? even : LARGEST;
}

static bool has_buffer(const p4d_layout *l, p4d_state state)
{
	return state != P4D_STATE_MASTER || p4d_dtype_of(l) != P4D_DT_FP32;
}

unsigned p4d_offload_state_offset(const p4d_layout *l, unsigned state)
{
	unsigned bytes = 0;

	for (p4d_state i = 0; i < state; i++)
		bytes += has_buffer(l, i) ? p4d_state_bytes(l, i) : 0;
	return bytes;
}

static unsigned state_bytes(const p4d_layout *l)
{
	return p4d_offload_state_offset(l, p4d_optimizer_of(l)->states);
}

unsigned p4d_offload_staged_states(const p4d_layout *l)
{
	return l->offload & P4D_OFFLOAD_OPTIMIZER ? state_bytes(l) : 0;
}

static unsigned parameter_bytes(const p4d_layout *l)
{
	return p4d_dtype_of(l) == P4D_DT_FP32 ? 4 : 2;
}

unsigned p4d_offload_staged_bytes(const p4d_layout *l)
{
	return p4d_offload_staged_states(l) + (p4d_streams_parameters(l) ? parameter_bytes(l) : 0);
}

bool p4d_offload_reads_parameters(const p4d_layout *l)
{
	return p4d_dtype_of(l) == P4D_DT_FP32 || l->half_moments;
}

uint64_t p4d_offload_resident(const p4d_layout *l, uint32_t stage)
{
	const uint64_t asked = l->resident_layers ? l->resident_layers : P4D_WINDOW_LAYERS;

	return asked < l->stage_layers[stage] ? asked : l->stage_layers[stage];
}

/*
 * Fraction of layers that a pass copies. The first pass copies all layers. In each later pass, the window
 * still holds the layers from the end of the previous pass; it evicts the layer that is needed last.
 */
double p4d_offload_misses(const p4d_layout *l)
{
	const double layers = l->stage_layers[0], resident = (double)p4d_offload_resident(l, 0);
	const double passes = 2 * (double)(l->global_batch / l->micro_batch / l->dp);

	return 1 - (1 - 1 / passes) * resident / layers;
}

/*
 * Bytes per element that are copied in each direction: if the host updates the element, and if the device
 * does.
 */
typedef struct sides {
	double up, down;
} sides;

static sides bytes_of(const p4d_layout *l, bool on_device)
{
	const double parameter = parameter_bytes(l), states = p4d_offload_staged_states(l);
	const double read = p4d_offload_reads_parameters(l) ? parameter : 0;
	const bool away = p4d_streams_parameters(l);

	if (on_device)
		return (sides){states + (away ? read : 0), states + (away ? parameter : 0)};
	return away ? (sides){0, 4} : (sides){parameter, 4 + read};
}

p4d_offload_split p4d_offload_split_of(const p4d_layout *l, const p4d_gpu *gpu)
{
	const double link = gpu ? gpu->host_link_bytes_per_s * P4D_HOST_LINK_EFFICIENCY : 0;
	const sides there = bytes_of(l, true), here = bytes_of(l, false);
	/* if only parameters are offloaded, the device updates all states */
	const uint32_t least = l->offload & P4D_OFFLOAD_OPTIMIZER ? 0 : P4D_OFFLOAD_PARTS;
	p4d_offload_split best = {least ? least : P4D_OFFLOAD_PARTS / 2, 0};

	for (uint32_t i = least; link > 0 && i <= P4D_OFFLOAD_PARTS; i++) {
		const double device = (double)i / P4D_OFFLOAD_PARTS, host = 1 - device;
		const double up = (device * there.up + host * here.up) / link,
			     down = (device * there.down + host * here.down) / link;
		const double seconds = P4D_MOST(P4D_MOST(up, down), host / P4D_HOST_UPDATES_PER_S);
		if (i == least || seconds < best.seconds)
			best = (p4d_offload_split){i, seconds};
	}
	return best;
}

/* Seconds of a layer's forward pass: its matmuls, and causal attention at the rate of matmuls. */
static double forward_seconds(const p4d_layout *l, const p4d_gpu *gpu)
{
	const double peak = p4d_dtype_of(l) == P4D_DT_FP32 ? gpu->peak_fp32_flops
			    : gpu->peak_bf16_flops > 0     ? gpu->peak_bf16_flops
							   : gpu->peak_fp16_flops;
	const p4d_rank_sizes z = p4d_rank_sizes_of(l);

	if (!(peak > 0 && gpu->gemm_efficiency > 0))
		return 0;
	const uint64_t keys =
	    l->sliding_window && l->sliding_window < l->seq_len ? l->sliding_window : l->seq_len;
	const double attention = (double)keys * (double)z.q;
	return 2 * (double)z.n * ((double)p4d_layer_matrices(&z) + attention) / peak / gpu->gemm_efficiency;
}

uint32_t p4d_offload_swapped(const p4d_layout *l, const p4d_gpu *gpu, uint32_t layers, uint64_t bytes)
{
	const double link = gpu ? gpu->host_link_bytes_per_s * P4D_HOST_LINK_EFFICIENCY : 0;
	const double forward = gpu ? forward_seconds(l, gpu) : 0;

	if (!(link > 0 && forward > 0))
		return layers - layers / 2;
	const double hidden = forward * link / (double)bytes;
	return hidden < 1 ? (uint32_t)(hidden * layers) : layers;
}
