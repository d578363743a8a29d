/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <string.h>

#include "request/layout.h"

/*
 * The parts of layers. A layer has a mixer of tokens, or a feed-forward part, or a mixer followed by a
 * feed-forward part. Models with one kind of layer have no pattern; hybrid models have a letter for each
 * layer (--layer-pattern, with the letters of Megatron-LM's mamba_hybrid_layer_allocation.py). A kind is a
 * pair from the two lists below. Tables indexed by mixer or by feed-forward part have the properties.
 */
typedef enum p4d_mixer {
	P4D_MIX_ATTENTION,
	P4D_MIX_MAMBA2,    /* arXiv 2405.21060: heads with a scalar decay, in groups with the same B and C */
	P4D_MIX_MAMBA,     /* arXiv 2312.00752, with norms on the step, B and C, as in Jamba */
	P4D_MIX_DELTA_NET, /* Gated DeltaNet, arXiv 2412.06464: value heads, in groups with the same query
			    * and key */
	P4D_MIX_CONVOLUTION, /* LFM2: a gated input goes through a short convolution, and a second gate
			      * multiplies the result */
	P4D_MIX_NONE,
	P4D_MIXERS
} p4d_mixer;

typedef enum p4d_feed {
	P4D_FEED_DENSE,
	P4D_FEED_EXPERTS,
	P4D_FEED_MEMORY, /* arXiv 2412.09764: values that product keys select from a table of all such layers
			  */
	P4D_FEED_NONE,
	P4D_FEEDS
} p4d_feed;

typedef struct p4d_layer_kind {
	p4d_mixer mixer;
	p4d_feed feed;
} p4d_layer_kind;

/* How many layers of each kind there are. */
typedef struct p4d_layer_counts {
	uint64_t of[P4D_MIXERS][P4D_FEEDS];
} p4d_layer_counts;

/* The kind of layer i, counted from 0. */
p4d_layer_kind p4d_layer_at(const p4d_layout *layout, uint64_t i);

/* Counts of n layers, beginning with layer `from`. Takes constant time without a pattern, else time linear in
 * n. */
p4d_layer_counts p4d_layers_count(const p4d_layout *layout, uint64_t from, uint64_t n);

/* Number of the counted layers that have this mixer. */
uint64_t p4d_layers_with_mixer(const p4d_layer_counts *counts, p4d_mixer mixer);
/* Number of the counted layers that have this feed-forward part. */
uint64_t p4d_layers_with_feed(const p4d_layer_counts *counts, p4d_feed feed);

/* Number of layers with a memory among the first n. Takes time linear in n. */
uint64_t p4d_layers_with_memory(const p4d_layout *layout, uint64_t n);
/* Whether the model's pattern has layers with a memory. */
static inline bool p4d_layers_remember(const p4d_request *model)
{
	return p4d_is_set(model, P4D_LAYER_PATTERN) && strchr(model->layer_pattern, 'K');
}

/* "Mamba-2 layers": name of the pattern's mixer that is not attention; NULL: none. */
const char *p4d_layers_state(const char *pattern);

/* Maximum number of layers of a model with a pattern, because p4d visits each of them. */
enum { P4D_MOST_PATTERN_LAYERS = 256 };

/* Checks that a model with a pattern has the sizes that its letters need. Errors: VALUE, INCOMPLETE_MODEL. */
int p4d_layers_check(const p4d_request *model, p4d_error *err);

/* Whether --memory-parallel divides the ranks and the columns of memory layers' values. Errors: VALUE. */
int p4d_layers_check_memory(const p4d_request *request, const p4d_layout *layout, p4d_error *err);
