/* SPDX-License-Identifier: Apache-2.0 */
/* For jobs that do not fit: finds a layout that fits and changes as few of the user's choices as possible. */
#include <string.h>

#include "search/search_internal.h"

enum { MOST_NODES = 65536 };

/* Groups of options that are one choice of the user, such as a pipeline's stages, chunks, schedule and
 * split. */
static const struct choice {
	p4d_option option[7];
	unsigned count;
} choices[] = {
    {{P4D_EVAL_MICRO_BATCH}, 1},
    {{P4D_TP}, 1},
    {{P4D_CP, P4D_CP_COMM}, 2},
    {{P4D_PP, P4D_VPP, P4D_SCHEDULE, P4D_PIPELINE_SPLIT, P4D_VOCAB_PARALLEL, P4D_TOKEN_SLICES,
      P4D_SLICE_LENGTHS},
     7},
    {{P4D_EP, P4D_ETP}, 2},
    {{P4D_MICRO_BATCH}, 1},
    {{P4D_RECOMPUTE}, 1},
};
enum { CHOICES = sizeof(choices) / sizeof(*choices), OF_EVALUATION = 1 };

/* Whether only the user may change the choice: with local losses, what a model learns depends on its
 * stages. */
static bool is_the_users(const p4d_request *request, const struct choice *choice)
{
	return choice->option[0] == P4D_PP && p4d_is_stated(request, P4D_LOCAL_LOSS) &&
	       request->value[P4D_LOCAL_LOSS] == P4D_LOCAL_STAGE;
}

/*
 * Unsets the choices in the mask. Returns how many of them the user made; -1: the user did not make one of
 * them.
 */
static int give_up(const p4d_search_space *space, p4d_request *request, unsigned mask)
{
	int rc = 0;

	for (unsigned i = 0; i < CHOICES; i++) {
		bool made = false;
		if (!(mask & (1u << i)))
			continue;
		if (is_the_users(request, &choices[i]) || p4d_search__is_kept(space, choices[i].option[0])) {
			rc = -1;
			continue;
		}
		for (unsigned j = 0; j < choices[i].count; j++) {
			made = made || p4d_is_set(request, choices[i].option[j]);
			request->origin[choices[i].option[j]] = P4D_UNSET;
		}
		if (!made)
			rc = -1;
	}
	return rc;
}

static bool better(const p4d_candidate *a, const p4d_candidate *b)
{
	if (a->step.seconds > 0 && b->step.seconds > 0)
		return a->step.seconds < b->step.seconds;
	return a->fraction < b->fraction;
}

/*
 * Finds the best layout below space->limit among those that give up the fewest choices. Returns their number,
 * or -1.
 */
static int nearest_below_limit(const p4d_request *request, const p4d_search_space *space,
			       p4d_candidate *found)
{
	for (int most = 0; most <= CHOICES; most++) {
		bool any = false;
		for (unsigned mask = 0; mask < 1u << CHOICES; mask++) {
			p4d_request relaxed = *request;
			p4d_candidate candidate;
			if (__builtin_popcount(mask) != most || give_up(space, &relaxed, mask) < 0)
				continue;
			if (!p4d_search_any(&relaxed, space) ||
			    !p4d_search_run(&relaxed, space, &candidate, 1, NULL))
				continue;
			if (!any || better(&candidate, found))
				*found = candidate;
			any = true;
			if (mask == OF_EVALUATION) /* only evaluation changes, not training */
				return most;
		}
		if (any)
			return most;
	}
	return -1;
}

/*
 * Sets the evaluation's micro-batch to that of training, because a command line cannot unset an option, only
 * replace it.
 */
static void replace_eval_micro_batch(const p4d_request *request, p4d_request *found)
{
	if (p4d_is_set(request, P4D_EVAL_MICRO_BATCH))
		p4d_request_default(found, P4D_EVAL_MICRO_BATCH, found->value[P4D_MICRO_BATCH], P4D_BY_P4D);
}

int p4d_search_nearest(const p4d_request *request, const p4d_search_space *space, p4d_candidate *found)
{
	p4d_search_space safe = *space;

	safe.limit = space->safe;
	int given_up = nearest_below_limit(request, &safe, found);
	if (given_up < 0)
		given_up = nearest_below_limit(request, space, found);
	if (given_up >= 0)
		replace_eval_micro_batch(request, &found->request);
	return given_up;
}

int p4d_search_smallest(const p4d_request *request, const p4d_search_space *space,
			uint64_t most_gpus_per_node, uint64_t *nodes, uint64_t *gpus_per_node,
			p4d_candidate *found)
{
	p4d_search_space bigger = *space;
	p4d_request relaxed = *request;

	for (unsigned i = 0; i < CHOICES; i++)
		give_up(space, &relaxed, 1u << i);

	if (space->nodes == 1)
		for (uint64_t gpus = space->gpus_per_node + 1; gpus <= most_gpus_per_node; gpus++) {
			if (most_gpus_per_node % gpus)
				continue;
			bigger.gpus_per_node = gpus;
			if (p4d_search_any(&relaxed, &bigger) &&
			    p4d_search_run(&relaxed, &bigger, found, 1, NULL))
				goto fits;
		}
	bigger.gpus_per_node =
	    most_gpus_per_node > space->gpus_per_node ? most_gpus_per_node : space->gpus_per_node;
	/* node by node while that is cheap, then by powers of two */
	uint64_t near = 2 * space->nodes + 16;
	for (uint64_t n = space->nodes + 1; n <= MOST_NODES && !p4d_search__is_spent(space);
	     n = n < near ? n + 1 : n * 2) {
		bigger.nodes = n;
		if (p4d_search_any(&relaxed, &bigger) && p4d_search_run(&relaxed, &bigger, found, 1, NULL))
			goto fits;
	}
	return -1;
fits:
	replace_eval_micro_batch(request, &found->request);
	*nodes = bigger.nodes;
	*gpus_per_node = bigger.gpus_per_node;
	return 0;
}
