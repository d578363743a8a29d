/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cost/cost.h"
#include "plan/plan_memo.h"
#include "plan/stage_memory.h"
#include "request/layout.h"
#include "request/request.h"

/*
 * Enumerates the layouts of a world, as far as the request leaves them open: tp, cp, pp, vpp, ep, etp,
 * micro-batch, recompute, schedule and vocabulary parallelism. For p4d-train, also more sharding, if nothing
 * fits with less. Prunes by divisibility and memory. All layouts have the same global batch
 * (request/defaults.h). Layers that do not divide evenly are split as evenly as possible.
 *
 * Layouts that fit are ranked by predicted step time. If step times are within 1.5 %, these decide in turn:
 * less sharding, less memory (in steps of 2 % of the capacity), fewer of tp, cp, pp and vpp above 1, and the
 * keys below. If the cost model does not cover the GPU, layouts are ranked by: below `safe`, no recompute,
 * less sharding, a full pipeline, smaller tp*cp*pp (tp stays inside the node), less context parallelism,
 * fewer stages, larger micro-batch (above `safe`: smaller). A search omits a layout that cannot be faster
 * than another one that fits, such as one with needless recomputation.
 */

/*
 * How long a search may take, in units of about 10 ns. The search counts units instead of measuring time, so
 * that every caller gets the same answer. If the budget runs short, the search first replaces long timelines
 * by lower bounds of step times, and then ends with the best layout so far.
 */
typedef struct p4d_search_budget {
	uint64_t left;
	bool cut; /* the budget did not suffice */
} p4d_search_budget;

enum { P4D_SEARCH_MEMO = 256 }; /* entries of a memo */

typedef struct p4d_search_space {
	uint64_t nodes, gpus_per_node;
	uint32_t published_batch; /* for the default of global-batch; 0 unknown */
	p4d_capacity capacity;
	int method;
	double safe, limit; /* limits as fractions of the capacity */
	bool counts_ends;   /* the search may count embedding and loss as layers if pp does not divide the
			     * model's layers */
	p4d_search_budget *budget; /* NULL: unlimited */
	const p4d_plan_memo *memo; /* shared by several searches; NULL: each search has its own */
	/*
	 * Bits of the p4d_layout_options that a fix cannot express. p4d_search_nearest and
	 * p4d_search_smallest keep the user's values of these options. No search chooses a degree for them:
	 * an unset degree is 1.
	 */
	uint32_t kept;
	uint32_t unsaid_recompute; /* bits of the values of recompute that a fix cannot express: no search
				      tries them */
} p4d_search_space;

typedef struct p4d_candidate {
	p4d_request request;   /* complete, except for options that the cluster decides */
	uint64_t device_bytes; /* memory of the fullest GPU, with a constant share for fragmentation */
	double fraction;
	p4d_step step;       /* predicted; all 0 if the cost model does not cover the GPU */
	p4d_estimate memory; /* with the simulated allocator, if has_memory */
	bool has_memory;
} p4d_candidate;

typedef struct p4d_search_counts {
	uint64_t considered;    /* layouts that the flags and the divisibility rules allow */
	p4d_candidate smallest; /* the layout with the least memory, whether it fits or not; valid if
				 * considered > 0 */
	p4d_candidate safe;     /* the best layout below `safe`, if the layout that was found first is above
				   `safe`; valid if has_safe */
	bool has_safe;
} p4d_search_counts;

/*
 * Finds the best `room` layouts that fit below the limit, best first, into found[]. The request must have its
 * model numbers. Returns the number of layouts found, fewer if host memory runs out.
 */
size_t p4d_search_run(const p4d_request *request, const p4d_search_space *space, p4d_candidate *found,
		      size_t room, p4d_search_counts *counts);

/*
 * The layout that p4d chooses for a job: the best one below `safe`, otherwise the best one below the limit,
 * so that p4d avoids layouts that it would then warn about. But p4d prefers a layout above `safe` to a layout
 * that shards more than the optimizer states. Returns whether there is a layout. counts: those of
 * p4d_search_run; of the second search, if there are two.
 */
bool p4d_search_preferred(const p4d_request *request, const p4d_search_space *space, p4d_candidate *found,
			  p4d_search_counts *counts);

/*
 * Whether p4d cannot tell two layouts apart: their step times are a tie (within 1.5 %), they need the same
 * memory within 2 % of the capacity, and they differ in one or two options. Fills in these options and
 * returns their number; 0: p4d can tell them apart, or knows no step time.
 */
enum { P4D_NEAR_OPTIONS = 2 };
unsigned p4d_search_near(const p4d_candidate *a, const p4d_candidate *b,
			 p4d_option differs[P4D_NEAR_OPTIONS]);

/* Whether any layout fits. Cheap, because it tries only a few representative schedules. */
bool p4d_search_any(const p4d_request *request, const p4d_search_space *space);

/*
 * The layout below `safe` (otherwise below the limit) that changes the fewest of the user's choices of tp,
 * cp, pp, micro-batch and recompute. Returns the number of changes, or -1 if nothing fits on these GPUs.
 */
int p4d_search_nearest(const p4d_request *request, const p4d_search_space *space, p4d_candidate *found);

/*
 * The smallest number of nodes (first more GPUs on the nodes at hand, up to most_gpus_per_node; then more
 * nodes) on which anything fits. Returns 0 and fills nodes, gpus_per_node and *found, or -1 when nothing up
 * to 65,536 nodes does.
 */
int p4d_search_smallest(const p4d_request *request, const p4d_search_space *space,
			uint64_t most_gpus_per_node, uint64_t *nodes, uint64_t *gpus_per_node,
			p4d_candidate *found);
