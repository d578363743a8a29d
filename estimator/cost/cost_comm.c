/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives and transfers. Every collective is a ring: (n-1)/n of the data passes the slowest connection,
 * in n-1 steps. Inside a node the latencies are what SimuMax measured with NCCL on 8 B200 (22 to 26 us, and
 * 5.5 to 9.2 us per step). Across nodes, a step has the latency of NCCL's own tuning model (protocol Simple).
 */
#include <math.h>

#include "cost/cost_internal.h"

static const double start_seconds = 23e-6, link_step_seconds = 8e-6, net_step_seconds = 14e-6;

/* Number of GPUs that share leaf switches. By default, each node has its own. */
static uint64_t leaf_gpus(const p4d_layout *l)
{
	const uint64_t nodes = l->network.leaf_nodes ? l->network.leaf_nodes : 1,
		       gpus = nodes * l->gpus_per_node;

	return gpus > l->link_domain ? gpus : l->link_domain;
}

double p4d_cost__leaf_excess(const p4d_layout *l)
{
	return l->network.oversubscription > 1 && l->world > leaf_gpus(l) ? l->network.oversubscription : 1;
}

p4d_cost_ring p4d_cost__ring_of(const p4d_layout *l, uint64_t ranks, uint64_t stride)
{
	uint64_t in_node = stride < l->link_domain ? l->link_domain / stride : 1;
	p4d_cost_ring ring = {(double)ranks, (double)(in_node < ranks ? in_node : ranks), 0,
			      l->network.step_seconds};

	if (p4d_cost__leaf_excess(l) > 1) {
		const uint64_t in_leaf = leaf_gpus(l) / stride;
		ring.in_leaf = in_leaf > 1 ? (double)in_leaf : 1;
	}
	return ring;
}

static double step_of(p4d_cost_ring ring)
{
	return ring.step > 0 ? ring.step : net_step_seconds;
}

/*
 * Seconds per byte that leaves a node for the farthest rank. Between leaf switches, oversubscription divides
 * an interface's bandwidth, as if all nodes sent there at the same time. If fewer nodes send, transfers may
 * be faster.
 */
static double farthest(const p4d_cost_rates *r, p4d_cost_ring ring)
{
	const bool beyond = ring.in_leaf > 0 && ring.ranks > ring.in_leaf;

	return beyond && r->excess > 1 ? r->net * r->excess : r->net;
}

/*
 * A ring leaves each node once. But each rank of a node runs a ring of its own over its own network
 * interface, so together they use as many interfaces as there are ranks.
 */
static double seconds_per_byte(const p4d_cost_rates *r, p4d_cost_ring ring)
{
	if (ring.ranks <= ring.in_node)
		return r->link;
	double net = farthest(r, ring) / ring.in_node;
	return ring.in_node > 1 && r->link > net ? r->link : net;
}

double p4d_cost__gather_seconds(const p4d_cost_rates *r, p4d_cost_ring ring, double bytes)
{
	if (ring.ranks <= 1)
		return 0;
	double steps = ring.ranks - 1, crossings = ring.ranks > ring.in_node ? ring.ranks / ring.in_node : 0;
	double latency = start_seconds + crossings * step_of(ring) +
			 (steps > crossings ? steps - crossings : 0) * link_step_seconds;

	return latency + bytes * steps / ring.ranks * seconds_per_byte(r, ring);
}

/*
 * Thread blocks of NCCL's kernels, each of which occupies a multiprocessor: two per network interface of a
 * node with eight GPUs.
 */
#define COLLECTIVE_BLOCKS 16

double p4d_cost__beside_seconds(const p4d_layout *l, const p4d_cost_rates *r, double seconds)
{
	const unsigned own = p4d_framework_of(l->framework)->cost.collective_blocks;

	return seconds * (own ? own : COLLECTIVE_BLOCKS) / r->multiprocessors;
}

/*
 * Seconds of a sum of a few bytes: up a tree and down again. A level of the tree inside a node or NVLink
 * domain takes one step of NVLink.
 */
double p4d_cost__small_sum_seconds(p4d_cost_ring ring)
{
	if (ring.ranks <= 1)
		return 0;
	return start_seconds +
	       2 * (log2(ring.in_node) * link_step_seconds + log2(ring.ranks / ring.in_node) * step_of(ring));
}

/*
 * Every rank sends to every other at the same time. Traffic inside the node overlaps with traffic that leaves
 * it, and each rank has its own network interface. Inside a node this reaches 0.89 of a ring's rate (SimuMax,
 * 8 B200: 0.60 against 0.67), after 51 to 58 us, with 2, 4 or 8 ranks.
 */
double p4d_cost__exchange_seconds(const p4d_cost_rates *r, p4d_cost_ring ring, double bytes)
{
	const double to_ring = 0.89, latency = 55e-6, outside = ring.ranks - ring.in_node;

	if (ring.ranks <= 1)
		return 0;
	const double inside = bytes * (ring.in_node - 1) / ring.ranks * r->link / to_ring;
	const double near = bytes * outside / ring.ranks * r->net;
	const double far = bytes * (ring.ranks - ring.in_leaf) / ring.ranks * farthest(r, ring);
	const double across = ring.in_leaf > 0 && far > near ? far : near;
	return latency + (outside > 0 ? step_of(ring) : 0) + (inside > across ? inside : across);
}

double p4d_cost__transfer_seconds(const p4d_cost_rates *r, bool in_node, double bytes)
{
	return start_seconds + bytes * (in_node ? r->link : r->excess > 1 ? r->net * r->excess : r->net);
}

double p4d_cost__neighbour_seconds(const p4d_cost_rates *r, p4d_cost_ring ring, double bytes)
{
	return start_seconds + bytes * seconds_per_byte(r, ring);
}

p4d_cost_ring p4d_cost__tensor_ring(const p4d_layout *l)
{
	return p4d_cost__ring_of(l, l->tp, 1);
}

double p4d_cost__boundary_seconds(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z)
{
	return p4d_cost__gather_seconds(r, p4d_cost__tensor_ring(l), r->element * z->n * z->h);
}
