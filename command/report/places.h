/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-c/json.h>

#include "search/placement.h"
#include "site/site.h"

/* The kinds of nodes that p4d.conf and the cluster have, and a model's placements on these nodes. */
typedef struct p4d_places {
	p4d_node_kind *kind;
	size_t kinds;
	p4d_placement *found; /* fastest first */
	size_t count;
} p4d_places;

/* What p4d_places_find searches for. */
typedef struct p4d_places_wanted {
	const char *partitions;        /* "all", or names separated by commas */
	const p4d_request *request;    /* with its model, its framework, and the user's options */
	const p4d_search_space *space; /* the values that do not depend on the partition */
	uint64_t nodes, gpus_per_node; /* 0: the partition's numbers */
	uint64_t host_bytes;           /* host memory of a node; 0: the partition's */
} p4d_places_wanted;

/* Finds the kinds of nodes, but no placements. The caller frees them with p4d_places_free. Errors: USAGE,
 * NO_MEMORY. */
int p4d_places_open(p4d_places *places, const p4d_site *site, const p4d_places_wanted *wanted,
		    p4d_error *err);

/*
 * Finds the kinds of nodes and the placements. The caller frees them with p4d_places_free, which accepts a
 * zeroed struct. Errors: USAGE, NO_MEMORY, NO_LAYOUT.
 */
int p4d_places_find(p4d_places *places, const p4d_site *site, const p4d_places_wanted *wanted,
		    p4d_error *err);
void p4d_places_free(p4d_places *places);

/*
 * Prints a table of the placements that no other placement beats in both time and GPU-hours, and of the
 * cheapest placement in each other partition; at most `top` rows, with sbatch's options. tokens: length of
 * the training.
 */
int p4d_places_print(const p4d_places *places, double tokens, uint32_t top, p4d_error *err);

/* All placements, as a list. */
struct json_object *p4d_places_json(const p4d_places *places, double tokens);
