/* SPDX-License-Identifier: Apache-2.0 */
/* Rejects candidates before they have a layout: those that cannot fit, and those that are too slow. */
#include <math.h>

#include "cost/cost.h"
#include "request/framework.h"
#include "search/search_internal.h"

enum { TO_PRUNE = 10 }; /* units of the budget */

bool p4d_search_prune__states_fit(p4d_search_enumeration *w, p4d_search_spread at)
{
	const p4d_capacity *c = &w->space->capacity;
	const uint64_t world = w->space->nodes * w->space->gpus_per_node;
	p4d_layout *l = &w->layout;

	if (!w->discard || w->grids)
		return true;
	l->tp = (uint64_t)w->trial.value[P4D_TP];
	l->cp = (uint64_t)w->trial.value[P4D_CP];
	l->pp = (uint64_t)w->trial.value[P4D_PP];
	l->dp = world / (l->tp * l->cp * l->pp);
	l->ep = at.ep;
	l->etp = at.etp;
	l->expert_dp = l->dp * l->cp * l->tp / (l->ep * l->etp);
	l->layers = (uint64_t)w->trial.value[P4D_LAYERS];
	return !l->dp || (double)p4d_memory_least_states(l) <= w->space->limit * (double)c->gpu->usable_bytes;
}

/* Whether all stages of the trial have equally many layers. */
static bool is_even(const p4d_search_enumeration *w)
{
	const p4d_request *r = &w->trial;

	return r->value[P4D_LAYERS] % r->value[P4D_PP] == 0 && !p4d_is_set(r, P4D_PIPELINE_SPLIT) &&
	       !r->value[P4D_ACCOUNT_FOR_LOSS] && !r->value[P4D_ACCOUNT_FOR_EMBEDDING];
}

static p4d_cost_least work_out_floor(p4d_search_enumeration *w, p4d_search_spread at, int recompute,
				     uint64_t micro_batch, uint64_t stages)
{
	const bool sequence = p4d_is_open(w, P4D_SEQUENCE_PARALLEL) || w->asked->value[P4D_SEQUENCE_PARALLEL];
	p4d_layout *l = &w->layout;

	l->tp = (uint64_t)w->trial.value[P4D_TP];
	l->cp = (uint64_t)w->trial.value[P4D_CP];
	l->ep = at.ep;
	l->etp = at.etp;
	l->sequence_parallel = sequence && l->tp > 1;
	l->tp_comm_overlap = l->tp > 1 && p4d_framework_value(&w->trial, P4D_TP_COMM_OVERLAP);
	l->schedule = P4D_SCHEDULE_DEFAULT;
	l->recompute = recompute;
	l->megatron.recompute_modules = 0; /* recomputed modules only add to the cost, so the bound ignores
					      those of the previous layout */
	l->micro_batch = micro_batch;
	l->pp = stages;
	l->vpp = 1;
	l->vocab_parallel = P4D_VOCAB_OFF;
	l->slices = 1; /* slices only add to the cost */
	return p4d_search_candidate__floor(w);
}

/*
 * A lower bound for the step time of layouts with the trial's tp and cp, this distribution of experts, this
 * recompute, micro-batches up to this one, and this many stages, one of which has the head. Needs no layout.
 * Results are cached, since schedules and numbers of chunks ask for the same bound again. Results are not
 * cached for models with experts, because the key has no room for the distribution of experts. They are also
 * not cached for layouts that recompute in blocks or exchange heads, because these depend on more values.
 */
static p4d_cost_least floor_of(p4d_search_enumeration *w, p4d_search_spread at, int recompute,
			       uint64_t micro_batch, uint64_t stages)
{
	const p4d_layout *l = &w->layout;
	const uint64_t tp = (uint64_t)w->trial.value[P4D_TP], cp = (uint64_t)w->trial.value[P4D_CP];
	/* tp, cp, ... are below 2^17, 2^11, 2^13, 2^11 and 2^3 */
	const uint64_t key =
	    (((micro_batch << 11 | tp) << 13 | cp) << 11 | stages) << 3 | (uint64_t)recompute;
	p4d_search_floor *known =
	    &w->floor[key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - P4D_SEARCH_FLOOR_BITS)];

	if (l->experts || l->megatron.recompute_block || p4d_is_set(w->asked, P4D_CP_HEADS))
		return work_out_floor(w, at, recompute, micro_batch, stages);
	if (known->key != key || known->vocab != l->vocab)
		*known =
		    (p4d_search_floor){key, l->vocab, work_out_floor(w, at, recompute, micro_batch, stages)};
	return known->seconds;
}

bool p4d_search_prune__may_win(p4d_search_enumeration *w)
{
	const int recompute =
	    p4d_is_open(w, P4D_RECOMPUTE) ? P4D_RECOMPUTE_NONE : (int)w->asked->value[P4D_RECOMPUTE];
	const uint64_t micro_batch = p4d_is_open(w, P4D_MICRO_BATCH)
					 ? P4D_SEARCH_MOST_MICRO_BATCH
					 : (uint64_t)w->asked->value[P4D_MICRO_BATCH];
	p4d_search_spread at = {0, 0};
	double least = INFINITY;

	if (isinf(w->least) || w->grids)
		return true;
	while (p4d_search_enumerate__spread(w, 0, &at)) {
		const p4d_cost_least one = floor_of(w, at, recompute, micro_batch, 1);
		least = one.layers + one.head < least ? one.layers + one.head : least;
	}
	return p4d_search_candidate__may_win(w, least);
}

/* Whether the trial has slices, which need less memory. */
static bool is_sliced(const p4d_search_enumeration *w)
{
	return p4d_is_set(&w->trial, P4D_TOKEN_SLICES) && w->trial.value[P4D_TOKEN_SLICES] > 1;
}

/* Whether a micro-batch that does not fit with 1f1b also does not fit with the trial's schedule. */
static bool is_like_1f1b(const p4d_search_enumeration *w)
{
	const int schedule = (int)w->trial.value[P4D_SCHEDULE];

	return (schedule == P4D_1F1B || p4d_schedule_kinds[schedule]->fuller) &&
	       w->trial.value[P4D_VOCAB_PARALLEL] == P4D_VOCAB_OFF && is_even(w) && !is_sliced(w);
}

/* Whether the candidate certainly does not fit, without building a layout. */
static bool is_too_large(const p4d_search_enumeration *w)
{
	const int recompute = (int)w->trial.value[P4D_RECOMPUTE];
	const uint64_t most = w->most_of_1f1b[recompute];

	if (w->grids)
		return false;
	return w->too_large >> recompute & 1 ||
	       (most && (uint64_t)w->trial.value[P4D_MICRO_BATCH] >= most && is_like_1f1b(w));
}

/* A lower bound of the trial's step time. */
static double least_of(p4d_search_enumeration *w, p4d_search_spread at)
{
	const p4d_request *r = &w->trial;
	const bool even = is_even(w), shared = r->value[P4D_VOCAB_PARALLEL] != P4D_VOCAB_OFF;
	const uint64_t pp = (uint64_t)r->value[P4D_PP], micro_batch = (uint64_t)r->value[P4D_MICRO_BATCH];
	const p4d_cost_least floor =
	    floor_of(w, at, (int)r->value[P4D_RECOMPUTE], micro_batch, even && !shared ? pp : 1);
	p4d_layout *l = &w->layout;

	if (!even)
		return floor.layers + floor.head;
	l->pp = pp;
	l->dp = l->world / (uint64_t)(r->value[P4D_TP] * r->value[P4D_CP] * r->value[P4D_PP]);
	l->vpp = (uint64_t)r->value[P4D_VPP];
	l->schedule = (int)r->value[P4D_SCHEDULE];
	l->vocab_parallel = (int)r->value[P4D_VOCAB_PARALLEL];
	l->slices = is_sliced(w) ? (uint64_t)r->value[P4D_TOKEN_SLICES] : 1;
	l->micro_batch = micro_batch;
	return floor.layers + floor.head + p4d_cost_ramp(l, floor.layers);
}

p4d_search_outcome p4d_search_prune__try(p4d_search_enumeration *w)
{
	const int recompute = (int)w->trial.value[P4D_RECOMPUTE];
	const uint64_t micro_batch = (uint64_t)w->trial.value[P4D_MICRO_BATCH];
	const bool sparse = w->layout.experts > 0;
	const p4d_search_spread at = {sparse ? (uint64_t)w->trial.value[P4D_EP] : 1,
				      sparse ? (uint64_t)w->trial.value[P4D_ETP] : 1};

	w->bound = 0;
	if (is_too_large(w)) {
		w->counts.considered++;
		return P4D_TOO_LARGE;
	}
	if (isinf(w->least) || w->grids || p4d_search_candidate__may_win(w, least_of(w, at))) {
		const p4d_search_outcome outcome = p4d_search_candidate__try(w);
		if (outcome == P4D_TOO_LARGE && w->trial.value[P4D_SCHEDULE] == P4D_1F1B && is_like_1f1b(w))
			w->most_of_1f1b[recompute] = micro_batch;
		return outcome;
	}
	if (!p4d_search__take(w, TO_PRUNE))
		return P4D_NOT_DIVISIBLE;
	w->counts.considered++;
	return P4D_TOO_SLOW;
}

void p4d_search_prune__time(p4d_search_enumeration *w)
{
	p4d_search_entry *best = w->entry;

	if (!w->one || !w->timed || !w->entries || isfinite(w->fastest))
		return;
	for (size_t i = 1; i < w->entries; i++)
		best = w->entry[i].seconds < best->seconds ? &w->entry[i] : best;
	p4d_search_candidate__time(w, best);
	w->fastest = best->cut ? INFINITY : best->seconds;
}
