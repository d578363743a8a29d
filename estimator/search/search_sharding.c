/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More sharding than that of optimizer states. In the same layout it adds communication, and with few
 * micro-batches it saves less time than counts as a tie. So the search tries it only if no layout with less
 * sharding fits, and then compares all that fit by time. Sharding nothing is never faster than sharding
 * states, so it is not tried.
 */
#include "request/framework.h"
#include "search/search_internal.h"

static const struct kind {
	int sharding;
	bool in_domain; /* shards over the ranks that NVLink connects, and replicates the model over these
			   groups */
} kinds[] = {
    {P4D_SHARD_STATES, false},    {P4D_SHARD_GRADIENTS, true},   {P4D_SHARD_GRADIENTS, false},
    {P4D_SHARD_PARAMETERS, true}, {P4D_SHARD_PARAMETERS, false},
};
enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

/*
 * Whether the search may choose the sharding: the user must have named p4d-train, the only program that can
 * shard more. The user must not have set an option that p4d-train refuses with more sharding, whatever the
 * degrees.
 */
static bool is_open(const p4d_search_enumeration *w)
{
	return p4d_is_open(w, P4D_OPTIMIZER_SHARDING) && w->asked->origin[P4D_FRAMEWORK] == P4D_BY_USER &&
	       p4d_framework_of(w->layout.framework)->allocates_plan && !w->grids &&
	       !p4d_is_set(w->asked, P4D_LOCAL_LOSS) && w->asked->origin[P4D_MODEL] != P4D_BY_SCRIPT;
}

/* Sets the sharding in the prepared layout, because that is filled once and not from each trial. */
void p4d_search_sharding__put(p4d_search_enumeration *w, int sharding, uint64_t degree)
{
	if (!is_open(w))
		return;
	p4d_request_put(&w->trial, P4D_OPTIMIZER_SHARDING, sharding, P4D_BY_P4D);
	w->layout.zero_stage = sharding;
	if (!p4d_is_open(w, P4D_SHARD_DEGREE))
		return;
	p4d_request_put(&w->trial, P4D_SHARD_DEGREE, (int64_t)degree, degree ? P4D_BY_P4D : P4D_UNSET);
	w->layout.shard_degree = degree;
}

bool p4d_search_sharding__next(p4d_search_enumeration *w)
{
	const bool fits = w->entries > 0;

	if (!is_open(w) || (fits && (w->sharing == 0 || w->any)))
		return false;
	if (w->sharing == 0 && w->trial.value[P4D_OPTIMIZER_SHARDING] != P4D_SHARD_STATES)
		return false;
	w->cache.once_key = 0; /* the cache's key does not contain the sharding */
	return ++w->sharing < KINDS;
}

/* Ranks of an NVLink domain that hold the same parameters; 0: all ranks, or only one. */
static uint64_t degree_in_domain(const p4d_search_enumeration *w, uint64_t ranks)
{
	const uint64_t domain = w->layout.link_domain, tp = (uint64_t)w->trial.value[P4D_TP];
	const uint64_t degree = domain % tp == 0 ? domain / tp : 0;

	return degree > 1 && degree < ranks && ranks % degree == 0 ? degree : 0;
}

bool p4d_search_sharding__degrees(p4d_search_enumeration *w, uint64_t ranks)
{
	const struct kind *kind = &kinds[w->sharing];
	uint64_t degree = 0;

	if (w->sharing == 0)
		return true;
	if (kind->in_domain && p4d_is_open(w, P4D_SHARD_DEGREE))
		degree = degree_in_domain(w, ranks);
	if (ranks == 1 || (kind->in_domain && !degree))
		return false;
	p4d_search_sharding__put(w, kind->sharding, degree);
	return true;
}
