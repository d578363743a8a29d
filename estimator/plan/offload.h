/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "gpu/gpu.h"
#include "request/framework.h"
#include "request/layout.h"

/*
 * What p4d-train keeps on the host with --offload.
 *
 * Parameters: all of them, or this rank's shards. During the passes, layers are copied to the device one
 * after the other, into a window (runtime/model/window.h; Superpipeline).
 *
 * Activations: what a layer keeps for its backward pass, except its input. A layer is either swapped or
 * recomputed. A swapped layer's activations are copied to the host during the passes that follow, and copied
 * back during the backward pass of the layer after it. A recomputed layer's activations are dropped, and
 * computed from the input again. p4d-train swaps as many layers as it can copy to the host during a forward
 * pass, spread evenly (KARMA, arXiv 2008.11421). The device has room for the activations of P4D_SWAP_PLACES
 * layers.
 *
 * Optimizer states: this rank's shard, in subgroups. For some subgroups, gradients are copied to the host,
 * the update runs there, and parameters are copied back, unless they stay on the host. For the others, states
 * are copied to the device, updated there and copied back. Both kinds of updates and both directions of
 * transfers run at the same time (Deep Optimizer States, arXiv 2410.21316). If only parameters are on the
 * host, all updates run on the device. Subgroups pass through P4D_OFFLOAD_SLOTS slots on either side: one
 * arrives, one is updated, one leaves.
 */
enum { P4D_OFFLOAD_SLOTS = 3, P4D_OFFLOAD_PARTS = 64, P4D_SWAP_PLACES = 3 };

/* Fraction of a host link's line rate that large copies of pinned memory get. An assumption. */
#define P4D_HOST_LINK_EFFICIENCY 0.8

/*
 * AdamW on the host, in elements per second and rank. Each element moves 28 to 30 bytes of host memory; a
 * socket of 2023 with four GPUs has 300 GB/s. An assumption, on which only p4d_offload_split_of depends.
 */
#define P4D_HOST_UPDATES_PER_S 2.0e9

/*
 * Whether activations leave the device. False with --eval-only, which keeps the activations of only one
 * layer.
 */
static inline bool p4d_swaps_activations(const p4d_layout *layout)
{
	return p4d_framework_of(layout->framework)->plans_transfers &&
	       layout->offload & P4D_OFFLOAD_ACTIVATIONS && !layout->evaluates;
}

/*
 * The number of a chunk's layers that are swapped, if each layer has `bytes` bytes. If the rate of the link
 * or of the forward pass is unknown, half of the layers, rounded up.
 */
uint32_t p4d_offload_swapped(const p4d_layout *layout, const p4d_gpu *gpu, uint32_t layers, uint64_t bytes);

/* Number of swapped layers before a layer. */
static inline uint32_t p4d_offload_swapped_before(uint32_t swapped, uint32_t layers, uint32_t layer)
{
	return (uint32_t)((uint64_t)layer * swapped / layers);
}

/* Whether a layer is swapped. */
static inline bool p4d_offload_is_swapped(uint32_t swapped, uint32_t layers, uint32_t layer)
{
	return p4d_offload_swapped_before(swapped, layers, layer + 1) >
	       p4d_offload_swapped_before(swapped, layers, layer);
}

/* Elements of a subgroup of a rank's shard. A subgroup is a multiple of the arena's alignment in any type. */
uint64_t p4d_offload_subgroup(uint64_t shard);

/* Offset of a state in a slot, per element: the bytes per element of all earlier states. */
unsigned p4d_offload_state_offset(const p4d_layout *layout, unsigned state);

/*
 * Bytes per element in a slot of the device: states and parameters that otherwise stay on the host.
 * Parameters follow the states.
 */
unsigned p4d_offload_staged_bytes(const p4d_layout *layout);
/* The part of these bytes that is states. */
unsigned p4d_offload_staged_states(const p4d_layout *layout);

/*
 * Whether an update needs the old parameters: because they are their own master weights, or because the
 * update leaves some of them unchanged.
 */
bool p4d_offload_reads_parameters(const p4d_layout *layout);

/* Number of layers in the window of a stage. */
uint64_t p4d_offload_resident(const p4d_layout *layout, uint32_t stage);
/*
 * The fraction of a pass's layers that must be copied to the device. It is exact if one chunk alternates
 * between forward and backward passes, which p4d assumes.
 */
double p4d_offload_misses(const p4d_layout *layout);

/*
 * share: how many of P4D_OFFLOAD_PARTS subgroups are updated on the device. It minimizes the time of the
 * slowest of three: the host, and each direction of the link. Half of the subgroups if the rate of the link
 * is unknown. seconds: update time per element of the shard; 0: unknown.
 */
typedef struct p4d_offload_split {
	uint32_t share;
	double seconds;
} p4d_offload_split;
p4d_offload_split p4d_offload_split_of(const p4d_layout *layout, const p4d_gpu *gpu);

/* Whether subgroup i of a split is updated on the device. Such subgroups are spread evenly. */
static inline bool p4d_offload_on_device(uint32_t share, uint64_t i)
{
	return (i + 1) * share / P4D_OFFLOAD_PARTS > i * share / P4D_OFFLOAD_PARTS;
}
