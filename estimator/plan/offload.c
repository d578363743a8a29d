/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/offload.h"

#include "plan/optimizer.h"

enum {
	LARGEST = 1 << 24, /* 64 MiB of gradients: a transfer is long beside its latency */
	LEAST = 128,
	CUTS = 16 /* of a small shard, so that transfers and updates overlap */
};

uint64_t p4d_offload_subgroup(uint64_t shard)
{
	const uint64_t even = (shard / CUTS + LEAST) & ~(uint64_t)(LEAST - 1);

	return even < LARGEST ? even : LARGEST;
}

static bool has_buffer(const p4d_layout *l, p4d_state state)
{
	return state != P4D_STATE_MASTER || l->precision != P4D_FP32;
}

unsigned p4d_offload_state_offset(const p4d_layout *l, unsigned state)
{
	unsigned bytes = 0;

	for (p4d_state i = 0; i < state; i++)
		bytes += has_buffer(l, i) ? p4d_state_bytes(l, i) : 0;
	return bytes;
}

unsigned p4d_offload_state_bytes(const p4d_layout *l)
{
	return p4d_offload_state_offset(l, p4d_optimizer_of(l)->states);
}

bool p4d_offload_lowers_parameters(const p4d_layout *l)
{
	return l->precision == P4D_FP32 || l->half_moments;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

p4d_offload_split p4d_offload_split_of(const p4d_layout *l, const p4d_gpu *gpu)
{
	const double link = gpu ? gpu->host_link_bytes_per_s * P4D_HOST_LINK_EFFICIENCY : 0;
	const double states = p4d_offload_state_bytes(l), parameter = l->precision == P4D_FP32 ? 4 : 2;
	const double gradient = 4 + (p4d_offload_lowers_parameters(l) ? parameter : 0);
	p4d_offload_split best = {P4D_OFFLOAD_PARTS / 2, 0};

	for (uint32_t i = 0; link > 0 && i <= P4D_OFFLOAD_PARTS; i++) {
		const double device = (double)i / P4D_OFFLOAD_PARTS, host = 1 - device;
		const double up = (device * states + host * parameter) / link,
			     down = (device * states + host * gradient) / link;
		const double seconds = larger(larger(up, down), host / P4D_HOST_UPDATES_PER_S);
		if (i == 0 || seconds < best.seconds)
			best = (p4d_offload_split){i, seconds};
	}
	return best;
}
