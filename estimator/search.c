/* SPDX-License-Identifier: Apache-2.0 */
#include "search.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "defaults.h"

enum { MOST_CP = 64, MOST_MICRO_BATCH = 1024, MOST_SPLIT_STAGES = 256, MOST_SPLIT_CHUNKS = 4 };

/* A layout that fits, as far as the search chose it. */
typedef struct entry {
	uint16_t tp, cp, pp, vpp;
	uint32_t micro_batch;
	uint8_t recompute, schedule, vocab_parallel, cp_comm;
	bool split;
	double bound; /* seconds per sequence that it cannot beat; 0 unknown */
	uint64_t device_bytes;
} entry;

/* The walk over all candidates of one request; the loops below fill `trial` from outside in. */
typedef struct walk {
	const p4d_request *asked;
	const p4d_search_space *space;
	p4d_request trial;
	p4d_layout layout; /* large, hence here rather than on every frame */
	entry *entry;
	size_t entries, room;
	int framework;
	bool any;     /* stop at the first that fits */
	bool timed;   /* the clock knows the GPU */
	bool discard; /* what cannot fit is not looked at in detail */
	bool lean;    /* counts.leanest is filled */
	/* when only the fastest is wanted and nobody counts: the best so far, if count; else NULL */
	p4d_candidate *fastest;
	size_t count;
	double bound;       /* of the last that was TOO_SLOW */
	unsigned too_large; /* a bit for each recompute that was, with a smaller micro-batch */
	p4d_timeline_work work;
	double capacity_bytes; /* 0 unknown */
	p4d_search_counts counts;
} walk;

static bool open(const walk *w, p4d_option option)
{
	return !p4d_is_set(w->asked, option);
}

/* The ranking where there is no step time. */
static bool simpler(const p4d_candidate *a, const p4d_candidate *b, double safe)
{
	bool a_safe = a->fraction <= safe, b_safe = b->fraction <= safe;
	const p4d_request *x = &a->request, *y = &b->request;

	if (a_safe != b_safe)
		return a_safe;
	if (x->value[P4D_RECOMPUTE] != y->value[P4D_RECOMPUTE])
		return x->value[P4D_RECOMPUTE] < y->value[P4D_RECOMPUTE];
	if (a->pipeline_full != b->pipeline_full)
		return a->pipeline_full;
	if (a->model_ranks != b->model_ranks)
		return a->model_ranks < b->model_ranks;
	if (x->value[P4D_CP] != y->value[P4D_CP])
		return x->value[P4D_CP] < y->value[P4D_CP];
	if (x->value[P4D_PP] != y->value[P4D_PP])
		return x->value[P4D_PP] < y->value[P4D_PP];
	if (x->value[P4D_SCHEDULE] != y->value[P4D_SCHEDULE])
		return x->value[P4D_SCHEDULE] < y->value[P4D_SCHEDULE];
	if (x->value[P4D_VPP] != y->value[P4D_VPP])
		return x->value[P4D_VPP] < y->value[P4D_VPP];
	if (x->value[P4D_VOCAB_PARALLEL] != y->value[P4D_VOCAB_PARALLEL])
		return x->value[P4D_VOCAB_PARALLEL] < y->value[P4D_VOCAB_PARALLEL];
	bool larger = x->value[P4D_MICRO_BATCH] > y->value[P4D_MICRO_BATCH];
	return a_safe ? larger : x->value[P4D_MICRO_BATCH] < y->value[P4D_MICRO_BATCH];
}

/* Batches may differ where the user left the batch open, so time counts per sequence. */
static double per_sequence(const p4d_candidate *c)
{
	return c->step.seconds / (double)c->request.value[P4D_GLOBAL_BATCH];
}

bool p4d_candidate_better(const p4d_candidate *a, const p4d_candidate *b, double safe)
{
	if (a->step.seconds > 0 && b->step.seconds > 0 && per_sequence(a) != per_sequence(b))
		return per_sequence(a) < per_sequence(b);
	return simpler(a, b, safe);
}

static void set_cp_comm(walk *w, p4d_request *request, int cp_comm)
{
	p4d_request_put(request, P4D_CP_COMM, cp_comm, P4D_BY_P4D);
	w->layout.cp_comm = cp_comm;
}

/* Megatron-LM keeps its default. */
static bool chooses_cp_comm(const walk *w)
{
	return !p4d_is_set(&w->trial, P4D_CP_COMM) && w->layout.cp > 1 && w->framework == P4D_FRAMEWORK_P4D;
}

/* Completes the trial and lays it out. Of the two ways to keys and values of other ranks takes the faster. */
static bool build(walk *w, p4d_request *request)
{
	const p4d_search_space *space = w->space;

	*request = w->trial;
	p4d_request_complete(request, space->published_batch, space->nodes * space->gpus_per_node);
	if (p4d_layout_build(request, space->nodes, space->gpus_per_node, &w->layout, NULL) < 0)
		return false;
	if (w->timed && chooses_cp_comm(w) && p4d_clock_gathers(&w->layout, space->capacity.gpu))
		set_cp_comm(w, request, P4D_CP_ALL_GATHER);
	return true;
}

/*
 * Whether the layout fits, one way or the other. A ring has two blocks of keys, whatever the number of ranks.
 * Two ranks have as many when they gather, and nothing to merge.
 */
static bool fits_somehow(walk *w, p4d_request *request, uint64_t *bytes)
{
	const p4d_search_space *space = w->space;
	const bool gathers = w->layout.cp_comm == P4D_CP_ALL_GATHER;
	uint64_t other_bytes;

	if (p4d_fits_below(&w->layout, space->method, &space->capacity, space->limit, bytes))
		return true;
	if (!chooses_cp_comm(w) || (!gathers && w->layout.cp > 2))
		return false;
	set_cp_comm(w, request, gathers ? P4D_CP_P2P : P4D_CP_ALL_GATHER);
	if (p4d_fits_below(&w->layout, space->method, &space->capacity, space->limit, &other_bytes)) {
		*bytes = other_bytes;
		return true;
	}
	set_cp_comm(w, request, gathers ? P4D_CP_ALL_GATHER : P4D_CP_P2P);
	return false;
}

/* Memory only grows with the micro-batch: what was too large stays so. */
static bool fits(walk *w, p4d_request *request, uint64_t *bytes)
{
	const unsigned bit = 1u << w->layout.recompute;

	*bytes = P4D_NOT_MODELLED;
	if (w->too_large & bit)
		return false;
	const bool below = fits_somehow(w, request, bytes);
	if (!below)
		w->too_large |= bit;
	return below;
}

static double fraction_of(const walk *w, uint64_t device_bytes)
{
	return w->capacity_bytes ? (double)device_bytes / w->capacity_bytes : 0;
}

static void fill(walk *w, uint64_t device_bytes, p4d_candidate *candidate)
{
	candidate->model_ranks = w->layout.tp * w->layout.cp * w->layout.pp;
	candidate->pipeline_full = w->layout.micro_batches >= w->layout.pp;
	candidate->device_bytes = device_bytes;
	candidate->fraction = fraction_of(w, device_bytes);
	candidate->step = (p4d_step){.seconds = 0};
}

static void remember(walk *w, const p4d_request *request, uint64_t device_bytes)
{
	if (w->entries == w->room) {
		size_t room = w->room ? 2 * w->room : 256;
		entry *larger = realloc(w->entry, room * sizeof(*larger));
		if (!larger)
			return;
		w->entry = larger;
		w->room = room;
	}
	const p4d_layout *l = &w->layout;
	w->entry[w->entries++] = (entry){
	    .tp = (uint16_t)l->tp,
	    .cp = (uint16_t)l->cp,
	    .pp = (uint16_t)l->pp,
	    .vpp = (uint16_t)l->vpp,
	    .micro_batch = (uint32_t)l->micro_batch,
	    .recompute = (uint8_t)l->recompute,
	    .schedule = (uint8_t)l->schedule,
	    .vocab_parallel = (uint8_t)l->vocab_parallel,
	    .cp_comm = (uint8_t)l->cp_comm,
	    .split = p4d_is_set(request, P4D_PIPELINE_SPLIT),
	    .bound = w->timed ? p4d_clock_bound(l, w->space->capacity.gpu) / (double)l->global_batch : 0,
	    .device_bytes = device_bytes,
	};
}

/* TOO_SLOW: cannot beat what was found; whether it fits was not asked. */
typedef enum outcome { NOT_DIVISIBLE, TOO_LARGE, FITS, TOO_SLOW } outcome;

/*
 * Judges the trial when only the fastest is wanted: what cannot be faster than the fastest so far is not
 * summed, and what fits is timed at once.
 */
static outcome try_to_beat(walk *w)
{
	const p4d_search_space *space = w->space;
	p4d_candidate candidate;
	uint64_t bytes;

	if (!build(w, &candidate.request))
		return NOT_DIVISIBLE;
	w->bound = p4d_clock_bound(&w->layout, space->capacity.gpu) / (double)w->layout.global_batch;
	if (w->count && w->bound >= per_sequence(w->fastest))
		return TOO_SLOW;
	if (!fits(w, &candidate.request, &bytes))
		return TOO_LARGE;
	fill(w, bytes, &candidate);
	if (p4d_clock_step(&w->layout, space->capacity.gpu, &w->work, &candidate.step, NULL) < 0)
		return TOO_LARGE;
	if (!w->count || p4d_candidate_better(&candidate, w->fastest, space->safe))
		*w->fastest = candidate;
	w->count = 1;
	return FITS;
}

/* Judges the trial, and remembers it when it fits below the limit. */
static outcome try_trial(walk *w)
{
	p4d_candidate candidate;
	uint64_t bytes;

	if (w->fastest)
		return try_to_beat(w);
	if (!build(w, &candidate.request))
		return NOT_DIVISIBLE;
	bool below = fits(w, &candidate.request, &bytes);
	w->counts.considered++;
	if (!w->lean || bytes < w->counts.leanest.device_bytes) {
		fill(w, bytes, &candidate);
		w->counts.leanest = candidate;
		w->lean = true;
	}
	if (!below)
		return TOO_LARGE;
	w->counts.fitting++;
	remember(w, &candidate.request, bytes);
	return FITS;
}

/* Where an option is open, its trial value; otherwise what was asked stays. */
static void propose(walk *w, p4d_option option, uint64_t value)
{
	p4d_request_put(&w->trial, option, (int64_t)value, P4D_BY_P4D);
}

static void propose_where_open(walk *w, p4d_option option, uint64_t value)
{
	if (open(w, option))
		propose(w, option, value);
}

static outcome try_recompute(walk *w, int recompute)
{
	propose(w, P4D_RECOMPUTE, (uint64_t)recompute);
	return try_trial(w);
}

/*
 * The most recompute that is worth a trial. When everything is computed again zb1p puts nothing off: it is
 * 1f1b then, and holds more.
 */
static int most_recompute(const walk *w)
{
	return open(w, P4D_SCHEDULE) && w->trial.value[P4D_SCHEDULE] == P4D_ZB1P ? P4D_RECOMPUTE_MLP
										 : P4D_RECOMPUTE_FULL;
}

/*
 * The fastest that fits beats all that compute more again, so only that one counts. Full recompute needs
 * least: when it does not fit, nothing does.
 */
static outcome over_recompute(walk *w)
{
	const int most = most_recompute(w);
	/* with flash attention there are no stored scores that `selective` could drop */
	const bool scores = p4d_is_set(w->asked, P4D_ATTENTION) && !w->asked->value[P4D_ATTENTION];

	if (!open(w, P4D_RECOMPUTE))
		return w->asked->value[P4D_RECOMPUTE] <= most ? try_trial(w) : TOO_LARGE;
	if (w->fastest) {
		outcome last = TOO_LARGE;
		for (int r = P4D_RECOMPUTE_NONE; r <= most && last == TOO_LARGE; r++)
			if (r != P4D_RECOMPUTE_SELECTIVE || scores)
				last = try_recompute(w, r);
		return last;
	}
	outcome none = try_recompute(w, P4D_RECOMPUTE_NONE);
	if (none != TOO_LARGE || (scores && try_recompute(w, P4D_RECOMPUTE_SELECTIVE) == FITS))
		return none == TOO_LARGE ? FITS : none;
	if (most < P4D_RECOMPUTE_FULL)
		return try_recompute(w, most);
	const size_t before = w->entries;
	if (try_recompute(w, P4D_RECOMPUTE_FULL) != FITS)
		return TOO_LARGE;
	if (w->entries == before) /* no memory to remember it */
		return FITS;
	entry full = w->entry[--w->entries];
	w->counts.fitting--;
	if (try_recompute(w, P4D_RECOMPUTE_MLP) != FITS) {
		w->entry[w->entries++] = full;
		w->counts.fitting++;
	}
	return FITS;
}

static void over_micro_batches(walk *w)
{
	w->too_large = 0;
	if (!open(w, P4D_MICRO_BATCH)) {
		over_recompute(w);
		return;
	}
	/* what b does not divide 2*b does not divide either */
	double slowest = 0;
	for (uint64_t b = 1; b <= MOST_MICRO_BATCH; b *= 2) {
		propose(w, P4D_MICRO_BATCH, b);
		outcome last = over_recompute(w);
		/* past its best micro-batch a layout only gets slower: fewer of them fill the pipeline worse
		 */
		bool worse = last == TOO_SLOW && slowest > 0 && w->bound > slowest;
		slowest = last == TOO_SLOW ? w->bound : 0;
		if (last == NOT_DIVISIBLE || last == TOO_LARGE || worse || w->any)
			break;
	}
}

/* Layers that the stages do not divide: one more for some in the middle, as the ends have embedding and head.
 */
static bool propose_split(walk *w, uint64_t pp, uint64_t vpp)
{
	const uint64_t layers = (uint64_t)w->asked->value[P4D_LAYERS], units = layers / vpp;
	const uint64_t base = units / pp, extra = units % pp, from = (pp - extra) / 2;
	char *text = w->trial.pipeline_split;
	size_t used = 0, size = sizeof(w->trial.pipeline_split);

	if (!open(w, P4D_PIPELINE_SPLIT))
		return true;
	w->trial.origin[P4D_PIPELINE_SPLIT] = P4D_UNSET;
	if (layers % (pp * vpp) == 0)
		return true;
	/* where whole layers do divide, a split for the sake of more chunks gains nothing */
	if (layers % pp == 0 || layers % vpp || base == 0 || pp > MOST_SPLIT_STAGES ||
	    vpp > MOST_SPLIT_CHUNKS)
		return false;
	for (uint64_t i = 0; i < pp && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%" PRIu64, i ? "," : "",
					 (base + (i >= from && i < from + extra)) * vpp);
	propose(w, P4D_PIPELINE_SPLIT, 1);
	return used < size;
}

/* One schedule with its chunks. */
static void try_shape(walk *w, uint64_t pp, int schedule, uint64_t vpp, int vocabulary)
{
	if ((!open(w, P4D_SCHEDULE) && w->asked->value[P4D_SCHEDULE] != schedule) ||
	    (!open(w, P4D_VPP) && (uint64_t)w->asked->value[P4D_VPP] != vpp) ||
	    (!open(w, P4D_VOCAB_PARALLEL) && w->asked->value[P4D_VOCAB_PARALLEL] != vocabulary) ||
	    !propose_split(w, pp, vpp) || (w->any && w->entries))
		return;
	propose_where_open(w, P4D_SCHEDULE, (uint64_t)schedule);
	propose_where_open(w, P4D_VPP, vpp);
	propose_where_open(w, P4D_VOCAB_PARALLEL, (uint64_t)vocabulary);
	over_micro_batches(w);
}

/* False when not even the states of the trial's degrees fit, whatever the schedule. */
static bool states_may_fit(walk *w)
{
	const p4d_capacity *c = &w->space->capacity;
	const uint64_t world = w->space->nodes * w->space->gpus_per_node;
	p4d_layout *l = &w->layout;

	if (!w->discard)
		return true;
	l->tp = (uint64_t)w->trial.value[P4D_TP];
	l->cp = (uint64_t)w->trial.value[P4D_CP];
	l->pp = (uint64_t)w->trial.value[P4D_PP];
	l->dp = world / (l->tp * l->cp * l->pp);
	l->layers = (uint64_t)w->trial.value[P4D_LAYERS];
	return !l->dp || (double)p4d_least_states(l) <= w->space->limit * (double)c->gpu->usable_bytes;
}

/*
 * The schedules of a pipeline. GPipe holds more than 1F1B and is not faster, so it is tried only when asked
 * for; Megatron-LM has two; without a pipeline there is nothing to schedule.
 */
static void over_shapes(walk *w, uint64_t pp)
{
	const bool megatron = w->framework == P4D_FRAMEWORK_MEGATRON;
	const uint64_t layers = (uint64_t)w->asked->value[P4D_LAYERS];

	if (!states_may_fit(w)) {
		w->counts.considered++;
		return;
	}
	if (!open(w, P4D_SCHEDULE) && w->asked->value[P4D_SCHEDULE] == P4D_GPIPE)
		try_shape(w, pp, P4D_GPIPE, 1, P4D_VOCAB_OFF);
	try_shape(w, pp, P4D_1F1B, 1, P4D_VOCAB_OFF);
	if (pp == 1)
		return;
	if (!w->any)
		for (uint64_t vpp = 2; vpp <= layers / pp; vpp++)
			if (layers % vpp == 0)
				try_shape(w, pp, P4D_INTERLEAVED, vpp, P4D_VOCAB_OFF);
	if (megatron)
		return;
	/* vocab-2 holds less than vocab-1 and waits less, so that vocab-1 is tried only when asked for */
	const bool first_kind =
	    !open(w, P4D_VOCAB_PARALLEL) && w->asked->value[P4D_VOCAB_PARALLEL] == P4D_VOCAB_1;
	const int vocabulary = first_kind ? P4D_VOCAB_1 : P4D_VOCAB_2;
	try_shape(w, pp, P4D_1F1B, 1, vocabulary);
	try_shape(w, pp, P4D_V_HALF, 2, P4D_VOCAB_OFF);
	try_shape(w, pp, P4D_V_HALF, 2, vocabulary);
	try_shape(w, pp, P4D_ZB1P, 1, P4D_VOCAB_OFF);
	try_shape(w, pp, P4D_ZBV, 2, P4D_VOCAB_OFF);
}

static uint64_t asked_or_1(const walk *w, p4d_option option)
{
	return p4d_is_set(w->asked, option) ? (uint64_t)w->asked->value[option] : 1;
}

static void over_pipelines(walk *w, uint64_t ranks)
{
	uint64_t layers = (uint64_t)w->asked->value[P4D_LAYERS];

	if (!open(w, P4D_PP)) {
		over_shapes(w, (uint64_t)w->asked->value[P4D_PP]);
		return;
	}
	for (uint64_t pp = 1; pp <= ranks && pp <= layers && pp <= P4D_MAX_STAGES; pp++) {
		if (ranks % pp)
			continue;
		propose(w, P4D_PP, pp);
		over_shapes(w, pp);
	}
}

static void over_context(walk *w, uint64_t ranks)
{
	if (!open(w, P4D_CP)) {
		over_pipelines(w, ranks / asked_or_1(w, P4D_CP));
		return;
	}
	for (uint64_t cp = 1; cp <= ranks && cp <= MOST_CP; cp *= 2) {
		if (ranks % cp)
			break;
		propose(w, P4D_CP, cp);
		over_pipelines(w, ranks / cp);
	}
}

static void over_tensor(walk *w)
{
	uint64_t world = w->space->nodes * w->space->gpus_per_node;

	if (!open(w, P4D_TP)) {
		over_context(w, world / asked_or_1(w, P4D_TP));
		return;
	}
	for (uint64_t tp = 1; tp <= w->space->gpus_per_node; tp++) {
		if (w->space->gpus_per_node % tp || (uint64_t)w->asked->value[P4D_KV_HEADS] % tp)
			continue;
		propose(w, P4D_TP, tp);
		over_context(w, world / tp);
	}
}

static void start(walk *w, const p4d_request *request, const p4d_search_space *space)
{
	p4d_request complete = *request;

	memset(w, 0, offsetof(walk, layout));
	w->asked = request;
	w->space = space;
	w->trial = *request;
	w->entry = NULL;
	w->entries = w->room = 0;
	w->any = w->lean = false;
	w->fastest = NULL;
	w->count = 0;
	w->work = (p4d_timeline_work){NULL, 0};
	memset(&w->counts, 0, sizeof(w->counts));
	/* what does not depend on the layout */
	p4d_request_default(&complete, P4D_TP, 1, P4D_BY_P4D);
	p4d_request_default(&w->trial, P4D_TP, 1, P4D_BY_P4D);
	p4d_request_default(&w->trial, P4D_CP, 1, P4D_BY_P4D);
	p4d_request_default(&w->trial, P4D_PP, 1, P4D_BY_P4D);
	p4d_request_complete(&complete, 1, 1);
	p4d_layout_fill(&complete, space->nodes, space->gpus_per_node, &w->layout);
	w->framework = w->layout.framework;
	w->timed = space->capacity.gpu && p4d_clock_knows(&w->layout, space->capacity.gpu);
	w->capacity_bytes = (double)p4d_capacity_bytes(&w->layout, space->method, &space->capacity);
	w->discard = space->capacity.gpu && w->layout.device == P4D_CUDA && space->method != P4D_METHOD_PAPER;
}

/* The candidate of an entry, with the layout built. */
static void revive(walk *w, const entry *e, p4d_candidate *candidate)
{
	propose_where_open(w, P4D_TP, e->tp);
	propose_where_open(w, P4D_CP, e->cp);
	propose_where_open(w, P4D_PP, e->pp);
	propose_where_open(w, P4D_VPP, e->vpp);
	propose_where_open(w, P4D_SCHEDULE, e->schedule);
	propose_where_open(w, P4D_VOCAB_PARALLEL, e->vocab_parallel);
	propose_where_open(w, P4D_CP_COMM, e->cp_comm);
	propose_where_open(w, P4D_MICRO_BATCH, e->micro_batch);
	propose_where_open(w, P4D_RECOMPUTE, e->recompute);
	propose_split(w, e->pp, e->vpp);
	build(w, &candidate->request);
	fill(w, e->device_bytes, candidate);
}

static int by_bound(const void *a, const void *b)
{
	const entry *x = a, *y = b;

	return (x->bound > y->bound) - (x->bound < y->bound);
}

static size_t keep(p4d_candidate *found, size_t count, size_t room, const p4d_candidate *candidate,
		   double safe)
{
	size_t at = count;

	while (at > 0 && p4d_candidate_better(candidate, &found[at - 1], safe))
		at--;
	if (at == room)
		return count;
	count += count < room;
	memmove(&found[at + 1], &found[at], (count - at - 1) * sizeof(*found));
	found[at] = *candidate;
	return count;
}

/* Times the entries, those that may be fastest first, until no other can come among the best. */
static size_t rank(walk *w, p4d_candidate *found, size_t room)
{
	p4d_candidate candidate;
	size_t count = 0;

	if (w->timed)
		qsort(w->entry, w->entries, sizeof(*w->entry), by_bound);
	for (size_t i = 0; i < w->entries; i++) {
		if (w->timed && count == room && w->entry[i].bound >= per_sequence(&found[count - 1]))
			break;
		revive(w, &w->entry[i], &candidate);
		if (w->timed &&
		    p4d_clock_step(&w->layout, w->space->capacity.gpu, &w->work, &candidate.step, NULL) < 0)
			continue;
		count = keep(found, count, room, &candidate, w->space->safe);
	}
	p4d_timeline_work_free(&w->work);
	return count;
}

size_t p4d_search(const p4d_request *request, const p4d_search_space *space, p4d_candidate *found,
		  size_t room, p4d_search_counts *counts)
{
	walk w;

	start(&w, request, space);
	if (w.timed && room == 1 && !counts) {
		w.fastest = found;
		over_tensor(&w);
		p4d_timeline_work_free(&w.work);
		return w.count;
	}
	over_tensor(&w);
	size_t count = w.entries ? rank(&w, found, room) : 0;
	free(w.entry);
	if (!count && counts && w.counts.considered && !w.lean) {
		/* all were discarded early; whoever explains why nothing fits needs the one that comes
		 * nearest */
		uint64_t considered = w.counts.considered;
		start(&w, request, space);
		w.any = true;
		w.discard = false;
		over_tensor(&w);
		free(w.entry);
		w.counts.considered = considered;
	}
	if (counts)
		*counts = w.counts;
	return count;
}

bool p4d_search_preferred(const p4d_request *request, const p4d_search_space *space, p4d_candidate *found,
			  p4d_search_counts *counts)
{
	p4d_search_space safe = *space;

	safe.limit = space->safe < space->limit ? space->safe : space->limit;
	return p4d_search(request, &safe, found, 1, NULL) || p4d_search(request, space, found, 1, counts);
}

bool p4d_search_any(const p4d_request *request, const p4d_search_space *space)
{
	walk w;

	start(&w, request, space);
	w.any = true;
	w.timed = false;
	over_tensor(&w);
	free(w.entry);
	return w.entries > 0;
}
