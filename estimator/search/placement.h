/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "search/search.h"

/*
 * Where a model could train: on all kinds of nodes of a site, with several numbers of nodes. For each, the
 * search gives time and cost of the training (arXiv 2407.13143).
 */

enum { P4D_PLACEMENT_NODES = 128 }; /* number of nodes of a kind if it is unknown */

/* Nodes of one kind that a job can have. */
typedef struct p4d_node_kind {
	const char *partition; /* borrowed */
	p4d_capacity capacity; /* with its GPU */
	uint64_t gpus_per_node;
	uint64_t most_nodes; /* limit of a job; 0: unknown */
	double safe, limit;  /* fractions of the capacity, from the partition's policy */
	p4d_network network; /* between the nodes */
} p4d_node_kind;

typedef struct p4d_placement {
	const p4d_node_kind *kind;
	uint64_t nodes;
	p4d_candidate best; /* the layout that p4d would choose for a submission */
	double tokens_per_second;
	double gpu_seconds_per_token;
	bool dominated; /* another placement takes no more time and no more GPU-hours */
} p4d_placement;

/*
 * The best layout on 1, 2, 4, ... and all nodes of each kind (nodes > 0: only on that many), fastest first.
 * request: as for a search, without the options that depend on the GPU. space: values that are the same for
 * all kinds of nodes. Kinds whose GPU the cost model does not cover are left out. Returns the number of
 * placements found, at most room.
 */
size_t p4d_placement_search(const p4d_request *request, const p4d_search_space *space,
			    const p4d_node_kind *kind, size_t kinds, uint64_t nodes, p4d_placement *found,
			    size_t room);

/*
 * Among the placements that are cheaper and no slower than a job with this speed: the one with the fewest
 * GPU-hours; NULL: there is none.
 */
const p4d_placement *p4d_placement_instead(const p4d_placement *found, size_t count, double tokens_per_second,
					   uint64_t gpus);
