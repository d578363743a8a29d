/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "search/search.h"

/*
 * Where a model could train: all kinds of nodes of a site, in several numbers, after the question of
 * arXiv 2407.13143, which place takes how long and costs what.
 */

enum { P4D_PLACEMENT_NODES = 128 }; /* of a kind whose number of nodes is not known */

/* Nodes that a job can have. */
typedef struct p4d_node_kind {
	const char *partition; /* borrowed */
	p4d_capacity capacity; /* with its GPU */
	uint64_t gpus_per_node;
	uint64_t most_nodes; /* limit of a job; 0 unknown */
	double safe, limit;  /* of the partition's policy */
} p4d_node_kind;

typedef struct p4d_placement {
	const p4d_node_kind *kind;
	uint64_t nodes;
	p4d_candidate best; /* the layout that a submission would choose */
	double tokens_per_second;
	double gpu_seconds_per_token;
	bool dominated; /* another takes neither more time nor more GPU-hours */
} p4d_placement;

/*
 * The best layout on 1, 2, 4, ... and all nodes of each kind (nodes > 0: on that many only), fastest first.
 * request: as for a search, without what the GPU decides. space: what does not depend on the kind. Kinds
 * whose GPU the cost model does not cover are left out. Returns how many were found, at most room.
 */
size_t p4d_placement_search(const p4d_request *request, const p4d_search_space *space,
			    const p4d_node_kind *kind, size_t kinds, uint64_t nodes, p4d_placement *found,
			    size_t room);

/*
 * The placement with the fewest GPU-hours among those that are no slower than a job with this speed and
 * cheaper; NULL: none is.
 */
const p4d_placement *p4d_placement_instead(const p4d_placement *found, size_t count, double tokens_per_second,
					   uint64_t gpus);
