/* SPDX-License-Identifier: Apache-2.0 */
/* The layouts that the search enumerates, and their order. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"
#include "cost/cost.h"
#include "request/defaults.h"
#include "request/framework.h"
#include "search/search_internal.h"

enum { MOST_CP = 64, MOST_SPLIT_STAGES = 256, MOST_SPLIT_CHUNKS = 4 };
enum { LONG_SEQUENCE = 32768 };            /* minimum tokens of a sequence for which slices are tried */
enum { TO_BEGIN = 1600, TO_DISCARD = 80 }; /* units of the budget */

/* Stores the candidate value of an open option; otherwise the requested value stays. */
static void propose(p4d_search_enumeration *w, p4d_option option, uint64_t value)
{
	p4d_request_put(&w->trial, option, (int64_t)value, P4D_BY_P4D);
}

static void propose_where_open(p4d_search_enumeration *w, p4d_option option, uint64_t value)
{
	if (p4d_is_open(w, option))
		propose(w, option, value);
}

/* The most recompute worth trying. */
static int most_recompute(const p4d_search_enumeration *w)
{
	const p4d_schedule_kind *kind = p4d_schedule_kinds[w->trial.value[P4D_SCHEDULE]];

	return p4d_is_open(w, P4D_SCHEDULE) && kind->idle_if_recomputed ? P4D_RECOMPUTE_MLP
									: P4D_RECOMPUTE_FULL;
}

/* Whether a recompute value is worth trying. */
static bool recomputes(const p4d_search_enumeration *w, int recompute)
{
	const p4d_framework *framework = p4d_framework_of(w->layout.framework);
	const bool sparse = w->layout.experts > 0, latent = w->layout.kv_rank > 0;

	if (!p4d_framework_recomputes(&w->trial, recompute) || w->space->unsaid_recompute >> recompute & 1)
		return false;
	switch (recompute) {
	case P4D_RECOMPUTE_SELECTIVE:
		/* with flash attention there are no stored scores to drop */
		return framework->selects_operations ||
		       (p4d_is_set(w->asked, P4D_ATTENTION) && !w->asked->value[P4D_ATTENTION]);
	case P4D_RECOMPUTE_MLP:
		return !sparse && !latent;
	case P4D_RECOMPUTE_MOE:
		return sparse;
	default:
		return true;
	}
}

/*
 * Tries the recompute values from the least. The first layout that fits is faster than any with more
 * recompute, so only that one counts.
 */
static p4d_search_outcome over_recompute(p4d_search_enumeration *w)
{
	static const int in_order[] = {P4D_RECOMPUTE_NONE, P4D_RECOMPUTE_SELECTIVE, P4D_RECOMPUTE_MLP,
				       P4D_RECOMPUTE_MOE, P4D_RECOMPUTE_FULL};
	const int most = most_recompute(w);
	p4d_search_outcome last = P4D_TOO_LARGE;

	if (!p4d_is_open(w, P4D_RECOMPUTE))
		return most == P4D_RECOMPUTE_FULL || w->asked->value[P4D_RECOMPUTE] <= most
			   ? p4d_search_prune__try(w)
			   : P4D_TOO_LARGE;
	for (size_t i = 0; i < sizeof(in_order) / sizeof(*in_order) && last == P4D_TOO_LARGE; i++)
		if (recomputes(w, in_order[i]) && (most == P4D_RECOMPUTE_FULL || in_order[i] <= most)) {
			propose(w, P4D_RECOMPUTE, (uint64_t)in_order[i]);
			last = p4d_search_prune__try(w);
		}
	return last;
}

static void over_micro_batches(p4d_search_enumeration *w)
{
	w->too_large = 0;
	if (!p4d_is_open(w, P4D_MICRO_BATCH)) {
		over_recompute(w);
		return;
	}
	/* tries micro-batches b, 2*b, ...: if b does not divide the batch, neither does 2*b */
	double slowest = 0;
	for (uint64_t b = 1; b <= P4D_SEARCH_MOST_MICRO_BATCH; b *= 2) {
		propose(w, P4D_MICRO_BATCH, b);
		p4d_search_outcome last = over_recompute(w);
		/* micro-batches above the best one only make a layout slower, because fewer micro-batches
		 * fill the pipeline less well */
		bool worse = last == P4D_TOO_SLOW && slowest > 0 && w->bound > slowest;
		slowest = last == P4D_TOO_SLOW ? w->bound : 0;
		/* with a grid, a larger micro-batch may be divisible where this one is not, and may allow a
		 * grid with less memory */
		const bool no_more = last == P4D_NOT_DIVISIBLE || last == P4D_TOO_LARGE;
		if ((no_more && !w->grids) || worse || w->any || w->layout.slices > 1)
			break;
	}
}

static const p4d_option ends[] = {P4D_ACCOUNT_FOR_EMBEDDING, P4D_ACCOUNT_FOR_LOSS};
enum { ENDS = sizeof(ends) / sizeof(*ends) };

/* Number of ends (embedding, loss) that the trial counts as layers of a pipeline's split. */
static uint64_t counted_ends(const p4d_search_enumeration *w)
{
	uint64_t count = 0;

	for (size_t i = 0; i < ENDS; i++)
		count += w->trial.value[ends[i]] > 0 && p4d_is_set(&w->trial, ends[i]) &&
			 p4d_framework_value(&w->trial, ends[i]) > 0;
	return count;
}

/*
 * Whether the search may count embedding and loss as layers. p4d plan does. A framework that distributes the
 * remainder itself does not need it.
 */
static bool may_count_ends(const p4d_search_enumeration *w)
{
	return w->space->counts_ends && p4d_is_open(w, ends[0]) && p4d_is_open(w, ends[1]) &&
	       p4d_is_open(w, P4D_PIPELINE_SPLIT) &&
	       !p4d_framework_of(w->layout.framework)->spreads_remainders;
}

static void count_ends(p4d_search_enumeration *w, bool on)
{
	for (size_t i = 0; i < ENDS; i++)
		propose(w, ends[i], on);
}

/* The number of layers that a pipeline with this many stages distributes. */
static uint64_t layers_to_split(const p4d_search_enumeration *w, uint64_t pp)
{
	return (uint64_t)w->asked->value[P4D_LAYERS] + (pp > 1 ? counted_ends(w) : 0);
}

/*
 * Proposes a split if the layers do not divide evenly: some middle stages get one more layer, since the end
 * stages have embedding and head. A split places all layers, so it contradicts counting embedding and loss as
 * layers.
 */
static bool propose_split(p4d_search_enumeration *w, uint64_t pp, uint64_t vpp)
{
	const uint64_t layers = layers_to_split(w, pp), units = layers / vpp;
	const uint64_t base = units / pp, extra = units % pp, from = (pp - extra) / 2;

	if (!p4d_is_open(w, P4D_PIPELINE_SPLIT))
		return true;
	w->trial.origin[P4D_PIPELINE_SPLIT] = P4D_UNSET;
	if (layers % (pp * vpp) == 0)
		return true;
	if (pp > 1 && counted_ends(w))
		return p4d_framework_of(w->layout.framework)->spreads_remainders;
	/* if the layers divide evenly, an uneven split for more chunks has no advantage */
	if (layers % pp == 0 || layers % vpp || base == 0 || pp > MOST_SPLIT_STAGES ||
	    vpp > MOST_SPLIT_CHUNKS)
		return false;
	if (w->split_pp != pp || w->split_vpp != vpp) {
		p4d_text text = p4d_text_in(w->trial.pipeline_split, sizeof(w->trial.pipeline_split));
		char number[2][P4D_NUMBER_TEXT];
		const char *even = p4d_number_integer((int64_t)(base * vpp), number[0]),
			   *more = p4d_number_integer((int64_t)((base + 1) * vpp), number[1]);
		for (uint64_t i = 0; i < pp; i++) {
			p4d_text_add(&text, i ? "," : "");
			p4d_text_add(&text, i >= from && i < from + extra ? more : even);
		}
		w->split_pp = text.truncated ? 0 : pp;
		w->split_vpp = vpp;
	}
	propose(w, P4D_PIPELINE_SPLIT, 1);
	return w->split_pp == pp;
}

/*
 * Tries whole sequences and, if sequences are long, slices of 8,192 and 4,096 tokens on average, since
 * shorter ones do not fill a GPU. Slices help if there are too few micro-batches, or if these are too large.
 * With several sequences in a micro-batch they do not help.
 */
static void over_slices(p4d_search_enumeration *w, uint64_t pp, int schedule, int vocabulary)
{
	const bool long_ones = w->layout.seq_len >= LONG_SEQUENCE && pp > 1 && w->trial.value[P4D_CP] == 1;

	if (!p4d_is_open(w, P4D_TOKEN_SLICES)) {
		over_micro_batches(w);
		return;
	}
	w->trial.origin[P4D_TOKEN_SLICES] = P4D_UNSET;
	over_micro_batches(w);
	if (!p4d_schedule_kinds[schedule]->slices || vocabulary || !long_ones || w->any)
		return;
	for (uint64_t length = LONG_SEQUENCE / 4; length >= LONG_SEQUENCE / 8; length /= 2) {
		const uint64_t slices = w->layout.seq_len / length;
		propose(w, P4D_TOKEN_SLICES, slices < P4D_MAX_SLICES ? slices : P4D_MAX_SLICES);
		over_micro_batches(w);
	}
	w->trial.origin[P4D_TOKEN_SLICES] = P4D_UNSET;
}

/* Tries one schedule with this number of chunks. */
static void try_shape(p4d_search_enumeration *w, uint64_t pp, int schedule, uint64_t vpp, int vocabulary)
{
	const p4d_framework *framework = p4d_framework_of(w->layout.framework);

	if (!(framework->schedules >> schedule & 1) || (vocabulary && framework->no_vocab_parallel) ||
	    (!p4d_is_open(w, P4D_SCHEDULE) && w->asked->value[P4D_SCHEDULE] != schedule) ||
	    (!p4d_is_open(w, P4D_VPP) && (uint64_t)w->asked->value[P4D_VPP] != vpp) ||
	    (!p4d_is_open(w, P4D_VOCAB_PARALLEL) && w->asked->value[P4D_VOCAB_PARALLEL] != vocabulary) ||
	    !propose_split(w, pp, vpp) || (w->any && w->entries))
		return;
	propose_where_open(w, P4D_SCHEDULE, (uint64_t)schedule);
	propose_where_open(w, P4D_VPP, vpp);
	propose_where_open(w, P4D_VOCAB_PARALLEL, (uint64_t)vocabulary);
	over_slices(w, pp, schedule, vocabulary);
}

/*
 * Tries interleaved chunks where embedding and loss count as one layer each; Megatron-LM then takes one layer
 * less in the first and the last chunk. This is tried if pp does not divide the number of layers. With more
 * chunks a stage idles less, but each additional chunk gains less, so only the largest number up to
 * MOST_CHUNKS is tried.
 */
static void try_counted_ends(p4d_search_enumeration *w, uint64_t pp, int schedule)
{
	enum { MOST_CHUNKS = 8 };
	const uint64_t layers = layers_to_split(w, pp) + ENDS, units = layers / pp;
	uint64_t vpp = units < MOST_CHUNKS ? units : MOST_CHUNKS;

	if (!may_count_ends(w) || w->any || pp == 1 || layers % pp || p4d_schedule_kinds[schedule]->chunks)
		return;
	while (vpp > 1 && units % vpp)
		vpp--;
	if (vpp < 2)
		return;
	count_ends(w, true);
	try_shape(w, pp, schedule, vpp, P4D_VOCAB_OFF);
	count_ends(w, false);
}

/* Tries a schedule with each number of chunks, without and with vocabulary parallelism. */
static void try_schedule(p4d_search_enumeration *w, uint64_t pp, int schedule)
{
	const p4d_schedule_kind *kind = p4d_schedule_kinds[schedule];
	const uint64_t layers = layers_to_split(w, pp), chunks = kind->chunks;
	const uint64_t most = (uint64_t)p4d_request_option_info(P4D_VPP)->max;
	/* vocab-2 needs less memory and waits less than vocab-1, which is tried only on request */
	const bool first_kind =
	    !p4d_is_open(w, P4D_VOCAB_PARALLEL) && w->asked->value[P4D_VOCAB_PARALLEL] == P4D_VOCAB_1;

	/* without a pipeline there is nothing to schedule */
	if ((kind->only_asked && p4d_is_open(w, P4D_SCHEDULE)) || (pp == 1 && (chunks != 1 || kind->split)))
		return;
	/* Tries many chunks first: they are slightly faster if transfers are hidden, so the bound then prunes
	 * fewer chunks. With many micro-batches and a sharded vocabulary, the bound prunes all of them. */
	for (uint64_t vpp = chunks               ? chunks
			    : layers / pp < most ? layers / pp
						 : most;
	     vpp >= (chunks ? chunks : 2); vpp--) {
		if (!chunks && (w->any || layers % vpp))
			continue;
		try_shape(w, pp, schedule, vpp, P4D_VOCAB_OFF);
		if (kind->vocabulary && pp > 1)
			try_shape(w, pp, schedule, vpp, first_kind ? P4D_VOCAB_1 : P4D_VOCAB_2);
	}
	if (layers % pp)
		try_counted_ends(w, pp, schedule);
}

/* Tries all schedules for a pipeline with pp stages. */
static void over_schedules(p4d_search_enumeration *w, uint64_t pp)
{
	memset(w->most_of_1f1b, 0, sizeof(w->most_of_1f1b));
	for (int turn = 0; turn < P4D_SCHEDULES; turn++)
		for (int schedule = 0; schedule < P4D_SCHEDULES; schedule++)
			if (p4d_schedule_kinds[schedule]->turn == turn)
				try_schedule(w, pp, schedule);
}

/* The next number after `last` that divides `of`, or the requested number; 0: no more. */
static uint64_t next_divisor(const p4d_search_enumeration *w, p4d_option option, uint64_t of, uint64_t last)
{
	if (!p4d_is_open(w, option)) {
		const uint64_t asked = p4d_is_set(w->asked, option) ? (uint64_t)w->asked->value[option] : 1;
		return asked > last ? asked : 0;
	}
	for (uint64_t n = last + 1; n <= of; n++)
		if (of % n == 0)
			return n;
	return 0;
}

bool p4d_search_enumerate__spread(const p4d_search_enumeration *w, uint64_t ranks, p4d_search_spread *at)
{
	const uint64_t experts = w->layout.experts, tp = (uint64_t)w->trial.value[P4D_TP];

	if (!experts) {
		const bool first = at->etp == 0;
		*at = (p4d_search_spread){1, 1};
		return first;
	}
	if (!at->etp)
		at->etp = next_divisor(w, P4D_ETP, tp, 0);
	while (at->etp) {
		while ((at->ep = next_divisor(w, P4D_EP, experts, at->ep)))
			if (!ranks || ranks % (at->ep * at->etp) == 0)
				return true;
		at->etp = next_divisor(w, P4D_ETP, tp, at->etp);
	}
	return false;
}

/* Tries all distributions of experts (ep, etp). Their order does not matter. */
static void over_experts(p4d_search_enumeration *w, uint64_t ranks, uint64_t pp)
{
	p4d_search_spread at = {0, 0};

	if (!p4d_search__take(w, TO_DISCARD) ||
	    !p4d_search_sharding__degrees(w, ranks / pp * (uint64_t)w->trial.value[P4D_CP]))
		return;
	while (p4d_search_enumerate__spread(
	    w, ranks / pp * (uint64_t)w->trial.value[P4D_TP] * (uint64_t)w->trial.value[P4D_CP], &at)) {
		if (w->layout.experts) {
			propose_where_open(w, P4D_EP, at.ep);
			propose_where_open(w, P4D_ETP, at.etp);
		}
		if (p4d_search_prune__states_fit(w, at))
			over_schedules(w, pp);
		else
			w->counts.considered++;
	}
}

static uint64_t asked_or_1(const p4d_search_enumeration *w, p4d_option option)
{
	return p4d_is_set(w->asked, option) ? (uint64_t)w->asked->value[option] : 1;
}

static void over_pipelines(p4d_search_enumeration *w, uint64_t ranks)
{
	const uint64_t layers = layers_to_split(w, P4D_MAX_STAGES);
	uint64_t most = layers < P4D_MAX_STAGES ? layers : P4D_MAX_STAGES;

	if (!p4d_is_open(w, P4D_PP)) {
		over_experts(w, ranks,
			     asked_or_1(w, P4D_PP)); /* one stage, if the framework has no pipelines */
		return;
	}
	most = ranks < most ? ranks : most;
	/* long pipelines first: layouts that fit without recomputation then prune those that need it */
	for (uint64_t pp = most; pp >= 1; pp--) {
		if (ranks % pp)
			continue;
		propose(w, P4D_PP, pp);
		over_experts(w, ranks, pp);
	}
}

static void with_tp_and_cp(p4d_search_enumeration *w, uint64_t ranks)
{
	if (!p4d_search_prune__may_win(w))
		return;
	over_pipelines(w, ranks);
	p4d_search_prune__time(w);
}

static void over_context(p4d_search_enumeration *w, uint64_t ranks)
{
	if (!p4d_is_open(w, P4D_CP)) {
		with_tp_and_cp(w, ranks / asked_or_1(w, P4D_CP));
		return;
	}
	for (uint64_t cp = 1; cp <= ranks && cp <= MOST_CP; cp *= 2) {
		if (ranks % cp)
			break;
		propose(w, P4D_CP, cp);
		with_tp_and_cp(w, ranks / cp);
	}
}

static void over_tensor(p4d_search_enumeration *w)
{
	uint64_t world = w->space->nodes * w->space->gpus_per_node;

	if (!p4d_is_open(w, P4D_TP)) {
		over_context(w, world / asked_or_1(w, P4D_TP));
		return;
	}
	for (uint64_t tp = 1; tp <= w->layout.link_domain && tp <= world; tp++) {
		if (!p4d_tp_is_linked(&w->layout, tp) || world % tp ||
		    !p4d_layout_kv_heads_work(w->layout.framework, (uint64_t)w->asked->value[P4D_KV_HEADS],
					      tp))
			continue;
		propose(w, P4D_TP, tp);
		over_context(w, world / tp);
	}
}

void p4d_search_enumerate__all(p4d_search_enumeration *w)
{
	if (!w->complete || !p4d_search__take(w, TO_BEGIN))
		return;
	do
		over_tensor(w);
	while (p4d_search_sharding__next(w));
}

/* Data-parallel size that all layouts have; 1 if it differs. */
static uint64_t replicas(const p4d_request *r, uint64_t world)
{
	const uint64_t ranks = (uint64_t)(r->value[P4D_TP] * r->value[P4D_CP] * r->value[P4D_PP]);

	if (!p4d_is_set(r, P4D_TP) || !p4d_is_set(r, P4D_CP) || !p4d_is_set(r, P4D_PP) || world < ranks)
		return 1;
	return world / ranks;
}

/* p4d-train's own check of the model does not depend on searched options; unsupported models of other
 * programs were reported before. */
static bool refuses_model(const p4d_request *r)
{
	const p4d_framework *framework = p4d_framework_of((int)r->value[P4D_FRAMEWORK]);

	return framework->allocates_plan && framework->check_model(r, NULL) < 0;
}

static void find_open(p4d_search_enumeration *w)
{
	static const p4d_option degrees[] = {P4D_TP, P4D_CP, P4D_PP, P4D_EP, P4D_ETP};

	for (int option = 0; option < P4D_OPTIONS; option++)
		w->open[option] = !p4d_is_set(w->asked, (p4d_option)option) &&
				  !p4d_framework_fixed_of(&w->trial, (p4d_option)option);
	for (size_t i = 0; i < sizeof(degrees) / sizeof(degrees[0]); i++)
		if (w->open[degrees[i]] && p4d_search__is_kept(w->space, degrees[i])) {
			w->open[degrees[i]] = false;
			propose(w, degrees[i], 1);
		}
}

void p4d_search_enumerate__start(p4d_search_enumeration *w, const p4d_request *request,
				 const p4d_search_space *space, double slack)
{
	const uint64_t world = space->nodes * space->gpus_per_node;

	memset(w, 0, offsetof(p4d_search_enumeration, layout));
	w->asked = request;
	w->space = space;
	w->trial = *request;
	w->entry = NULL;
	w->entries = w->room = 0;
	w->grids = p4d_is_set(request, P4D_TP_GRID);
	w->any = w->one = w->lean = w->equal_slices = false;
	w->slack = slack;
	w->skipped = false;
	w->sharing = 0;
	w->split_pp = 0;
	w->least = w->fastest = INFINITY;
	w->work = (p4d_timeline_work){.budget = space->budget ? &space->budget->left : NULL};
	w->memo = space->memo ? *space->memo : p4d_plan_memo_of(P4D_SEARCH_MEMO);
	memset(&w->cache, 0, sizeof(w->cache));
	memset(&w->counts, 0, sizeof(w->counts));
	memset(w->floor, 0, sizeof(w->floor));
	/* completes the options that do not depend on the layout */
	p4d_request_complete(&w->trial, 0, 0);
	find_open(w);
	if (p4d_is_set(request, P4D_RECOMPUTE_MODULES))
		w->open[P4D_RECOMPUTE] = false;
	p4d_request_default_batch(&w->trial, space->published_batch, world, replicas(request, world));
	w->complete = p4d_layout_check_complete(&w->trial, NULL) == 0 && !refuses_model(&w->trial) &&
		      space->nodes && space->gpus_per_node && space->nodes <= UINT32_MAX &&
		      space->gpus_per_node <= UINT32_MAX;
	p4d_layout_fill(&w->trial, space->nodes, space->gpus_per_node, &w->layout);
	w->timed = space->capacity.gpu && p4d_cost_known(&w->layout, space->capacity.gpu);
	w->capacity_bytes = (double)p4d_memory_capacity_bytes(&w->layout, space->method, &space->capacity);
	w->discard = space->capacity.gpu && p4d_on_gpu(w->layout.device) && space->method != P4D_METHOD_PAPER;
}

void p4d_search_enumerate__end(p4d_search_enumeration *w)
{
	p4d_timeline_work_free(&w->work);
	free(w->entry);
	if (!w->space->memo)
		free(w->memo.entry);
}

void p4d_search_enumerate__back(p4d_search_enumeration *w, const p4d_search_entry *e)
{
	propose_where_open(w, P4D_TP, e->tp);
	propose_where_open(w, P4D_CP, e->cp);
	propose_where_open(w, P4D_PP, e->pp);
	if (w->layout.experts) {
		propose_where_open(w, P4D_EP, e->ep);
		propose_where_open(w, P4D_ETP, e->etp);
	}
	propose_where_open(w, P4D_VPP, e->vpp);
	propose_where_open(w, P4D_SCHEDULE, e->schedule);
	propose_where_open(w, P4D_VOCAB_PARALLEL, e->vocab_parallel);
	propose_where_open(w, P4D_CP_COMM, e->cp_comm);
	propose_where_open(w, P4D_MICRO_BATCH, e->micro_batch);
	if (p4d_is_open(w, P4D_TOKEN_SLICES))
		p4d_request_put(&w->trial, P4D_TOKEN_SLICES, e->slices,
				e->slices > 1 ? P4D_BY_P4D : P4D_UNSET);
	propose_where_open(w, P4D_RECOMPUTE, e->recompute);
	p4d_search_sharding__put(w, e->sharding, e->shard_degree);
	if (may_count_ends(w))
		count_ends(w, e->counts_ends);
	propose_split(w, e->pp, e->vpp);
}
