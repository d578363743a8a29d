/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives and transfers. Every collective is a ring: (n-1)/n of the data through the slowest connection,
 * and n-1 steps. Inside a node the latencies are what SimuMax measured with NCCL on 8 B200 (22 to 26 us and
 * 5.5 to 9.2 us per step); across nodes, a step is that of NCCL's own tuning model (protocol Simple).
 */
#include <math.h>

#include "cost/cost_internal.h"

static const double start_seconds = 23e-6, link_step_seconds = 8e-6, net_step_seconds = 14e-6;

p4d_cost_ring p4d_cost__ring_of(const p4d_layout *l, uint64_t ranks, uint64_t stride)
{
	uint64_t in_node = stride < l->link_domain ? l->link_domain / stride : 1;

	return (p4d_cost_ring){(double)ranks, (double)(in_node < ranks ? in_node : ranks)};
}

/*
 * A ring leaves each node once, but the ranks of a node each run a ring of their own over their own network
 * interface, so that together they use as many as they are.
 */
static double seconds_per_byte(const p4d_cost_rates *r, p4d_cost_ring ring)
{
	if (ring.ranks <= ring.in_node)
		return r->link;
	double net = r->net / ring.in_node;
	return ring.in_node > 1 && r->link > net ? r->link : net;
}

double p4d_cost__gather_seconds(const p4d_cost_rates *r, p4d_cost_ring ring, double bytes)
{
	if (ring.ranks <= 1)
		return 0;
	double steps = ring.ranks - 1, crossings = ring.ranks > ring.in_node ? ring.ranks / ring.in_node : 0;
	double latency = start_seconds + crossings * net_step_seconds +
			 (steps > crossings ? steps - crossings : 0) * link_step_seconds;

	return latency + bytes * steps / ring.ranks * seconds_per_byte(r, ring);
}

/*
 * Blocks of NCCL's kernels, each of which takes a multiprocessor: two for each of the network interfaces of a
 * node of eight GPUs.
 */
#define COLLECTIVE_BLOCKS 16

double p4d_cost__beside_seconds(const p4d_layout *l, const p4d_cost_rates *r, double seconds)
{
	const unsigned own = p4d_framework_of(l->framework)->cost.collective_blocks;

	return seconds * (own ? own : COLLECTIVE_BLOCKS) / r->multiprocessors;
}

/* Up the tree and down again; a level inside a node or domain takes a step of the link. */
double p4d_cost__small_sum_seconds(p4d_cost_ring ring)
{
	if (ring.ranks <= 1)
		return 0;
	return start_seconds + 2 * (log2(ring.in_node) * link_step_seconds +
				    log2(ring.ranks / ring.in_node) * net_step_seconds);
}

/*
 * Every rank sends to every other at the same time: traffic inside the node overlaps with traffic that leaves
 * it, and each rank has its own interface. Inside a node this reaches 0.89 of a ring's rate (SimuMax, 8 B200:
 * 0.60 against 0.67), after 51 to 58 us, with 2, 4 or 8 ranks.
 */
double p4d_cost__exchange_seconds(const p4d_cost_rates *r, p4d_cost_ring ring, double bytes)
{
	const double to_ring = 0.89, latency = 55e-6, outside = ring.ranks - ring.in_node;

	if (ring.ranks <= 1)
		return 0;
	const double inside = bytes * (ring.in_node - 1) / ring.ranks * r->link / to_ring;
	const double across = bytes * outside / ring.ranks * r->net;
	return latency + (outside > 0 ? net_step_seconds : 0) + (inside > across ? inside : across);
}

double p4d_cost__transfer_seconds(const p4d_cost_rates *r, bool in_node, double bytes)
{
	return start_seconds + bytes * (in_node ? r->link : r->net);
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
