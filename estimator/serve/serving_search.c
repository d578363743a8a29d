/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/serving_search.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MOST_STAGES = 16, ROUNDS = 40 };

typedef struct layouts {
	const p4d_serving_space *space;
	p4d_serving_found *found;
	size_t room, count;
	p4d_serving_counts *counts;
	p4d_error *err;  /* error of the last layout that cannot be judged */
	p4d_error first; /* error of the first layout for which the load or the GPU is wrong */
} layouts;

static double seconds_of(const p4d_request *r, p4d_option milliseconds)
{
	return p4d_is_set(r, milliseconds) ? p4d_request_real(r, milliseconds) / 1e3 : 0;
}

p4d_serving_space p4d_serving_space_of(const p4d_request *r, const p4d_gpu *gpu, uint64_t nodes,
				       uint64_t gpus_per_node)
{
	return (p4d_serving_space){.gpu = gpu,
				   .nodes = nodes,
				   .gpus_per_node = gpus_per_node,
				   .first_token_s = seconds_of(r, P4D_FIRST_TOKEN),
				   .between_tokens_s = seconds_of(r, P4D_BETWEEN_TOKENS)};
}

/* Cost of a layout: GPU-seconds per token. */
static double cost(const p4d_serving_found *f)
{
	return (double)f->gpus / f->speed.tokens_per_s;
}

/* Whether the first layout is cheaper or, at equal cost, answers sooner. */
static bool is_better(const p4d_serving_found *a, const p4d_serving_found *b)
{
	const double tie = 1e-6, difference = cost(a) / cost(b) - 1;

	if (fabs(difference) > tie)
		return difference < 0;
	return a->speed.between_tokens_s < b->speed.between_tokens_s;
}

static void keep(layouts *w, const p4d_serving_found *one)
{
	const bool full = w->count == w->room;
	size_t at = full ? w->room - 1 : w->count++;

	if (full && !is_better(one, &w->found[at]))
		return;
	for (; at > 0 && is_better(one, &w->found[at - 1]); at--)
		w->found[at] = w->found[at - 1];
	w->found[at] = *one;
}

static bool is_soon(const layouts *w, const p4d_serving_speed *speed)
{
	const p4d_serving_space *s = w->space;

	return speed->first_token_s > 0 &&
	       (s->first_token_s <= 0 || speed->first_token_s <= s->first_token_s) &&
	       (s->between_tokens_s <= 0 || speed->between_tokens_s <= s->between_tokens_s);
}

/* 1: these GPUs serve the load within the bounds; 0: they do not; -1: err says why p4d cannot tell. */
static int answers(const layouts *w, p4d_serving_found *one, uint64_t gpus, const p4d_serving_load *load)
{
	one->gpus = gpus;
	if (p4d_serving_estimate(&one->request, w->space->gpu, gpus, &one->serving, w->err) < 0 ||
	    p4d_serving_speed_of(&one->request, w->space->gpu, w->space->gpus_per_node, &one->serving, load,
				 &one->speed, w->err) < 0)
		return -1;
	return is_soon(w, &one->speed);
}

/* The smallest number of GPUs, in whole engines, that serves the rate. */
static int fewest(const layouts *w, p4d_serving_found *one, uint64_t engine, const p4d_serving_load *load)
{
	uint64_t low = 1, high = w->space->nodes * w->space->gpus_per_node / engine;
	const int most = answers(w, one, high * engine, load);

	if (most <= 0)
		return most;
	while (low < high) {
		const uint64_t middle = low + (high - low) / 2;
		if (answers(w, one, middle * engine, load) > 0)
			high = middle;
		else
			low = middle + 1;
	}
	return answers(w, one, high * engine, load);
}

/* The largest number of requests in flight with which the layout stays within the bounds. */
static int fullest(const layouts *w, p4d_serving_found *one, uint64_t gpus, p4d_serving_load *load)
{
	const int all = answers(w, one, gpus, load);
	double low = 1, high = one->speed.most;

	if (all || load->concurrency > 0)
		return all;
	for (int i = 0; i < ROUNDS && high - low > 0.5; i++) {
		const double middle = (low + high) / 2;
		load->concurrency = middle;
		if (answers(w, one, gpus, load) > 0)
			low = middle;
		else
			high = middle;
	}
	load->concurrency = floor(low);
	return answers(w, one, gpus, load);
}

/* Evaluates the layout of this request. */
static void try_one(layouts *w, const p4d_request *request)
{
	p4d_serving_found one = {.request = *request};
	p4d_serving_load load = p4d_serving_load_of(request);
	const uint64_t copies =
	    p4d_is_set(request, P4D_ENGINE_DP) ? (uint64_t)request->value[P4D_ENGINE_DP] : 1;
	const uint64_t engine = (uint64_t)(request->value[P4D_TP] * request->value[P4D_PP]) * copies;
	const uint64_t world = w->space->nodes * w->space->gpus_per_node;

	w->counts->considered++;
	if (p4d_serving_estimate(request, w->space->gpu, world, &one.serving, w->err) < 0 ||
	    !one.serving.sequences) {
		w->counts->too_large++;
		return;
	}
	const int found =
	    load.rate > 0 ? fewest(w, &one, engine, &load) : fullest(w, &one, world / engine * engine, &load);
	if (found > 0)
		keep(w, &one);
	else if (!found)
		w->counts->too_slow++;
	else if (w->err->code == P4D_E_DOES_NOT_FIT)
		w->counts->too_large++;
	else if (w->first.code == P4D_OK)
		w->first = *w->err;
}

/* Whether the user, the script or the site set the option, and not p4d's defaults. */
static bool is_asked(const p4d_request *r, p4d_option option)
{
	return p4d_is_set(r, option) && r->origin[option] != P4D_BY_P4D;
}

/* The next value of an option to try: the requested one, or the next power of two up to `most`; 0: no more.
 */
static uint64_t next_of(const p4d_request *asked, p4d_option option, uint64_t last, uint64_t most)
{
	const bool open = !is_asked(asked, option);
	const uint64_t wanted = open ? last ? 2 * last : 1 : (uint64_t)asked->value[option];

	return (open && wanted > most) || (!open && last) ? 0 : wanted;
}

static void over_copies(layouts *w, const p4d_request *asked, p4d_request *trial, uint64_t rest)
{
	const bool sparse = p4d_is_set(asked, P4D_EXPERTS);

	for (uint64_t n = 0; (n = next_of(asked, P4D_ENGINE_DP, n, sparse ? rest : 1));) {
		if (sparse) {
			p4d_request_put(trial, P4D_ENGINE_DP, (int64_t)n, P4D_BY_P4D);
			if (!is_asked(asked, P4D_EXPERT_PARALLEL))
				p4d_request_put(trial, P4D_EXPERT_PARALLEL, n > 1 || trial->value[P4D_TP] > 1,
						P4D_BY_P4D);
		}
		try_one(w, trial);
	}
}

/* Fails if no engine supports the requested degrees. False: some engine does. */
static bool refuse_degrees(const layouts *w, const p4d_request *asked, uint64_t world)
{
	static const p4d_option degrees[] = {P4D_TP, P4D_PP};
	p4d_request trial = *asked;
	p4d_serving serving;

	for (size_t i = 0; i < sizeof(degrees) / sizeof(*degrees); i++)
		if (!is_asked(asked, degrees[i]))
			p4d_request_put(&trial, degrees[i], 1, P4D_BY_P4D);
	return p4d_serving_estimate(&trial, w->space->gpu, world, &serving, w->err) < 0;
}

size_t p4d_serving_search(const p4d_request *asked, const p4d_serving_space *space, p4d_serving_found *found,
			  size_t room, p4d_serving_counts *counts, p4d_error *err)
{
	p4d_error own = {.code = P4D_OK};
	layouts w = {.space = space, .found = found, .room = room, .counts = counts, .err = err ? err : &own};
	const uint64_t world = space->nodes * space->gpus_per_node;
	p4d_request trial = *asked;

	*counts = (p4d_serving_counts){0};
	memset(found, 0, room * sizeof(*found));
	for (uint64_t tp = 0; (tp = next_of(asked, P4D_TP, tp, space->gpus_per_node));)
		for (uint64_t pp = 0; (pp = next_of(asked, P4D_PP, pp, MOST_STAGES));) {
			if (tp * pp > world || pp > (uint64_t)asked->value[P4D_LAYERS] ||
			    (uint64_t)asked->value[P4D_HEADS] % tp)
				continue;
			p4d_request_put(&trial, P4D_TP, (int64_t)tp, P4D_BY_P4D);
			p4d_request_put(&trial, P4D_PP, (int64_t)pp, P4D_BY_P4D);
			over_copies(&w, asked, &trial, world / (tp * pp));
		}
	if (!counts->considered && refuse_degrees(&w, asked, world))
		return SIZE_MAX;
	if (!w.count && w.first.code != P4D_OK) {
		*w.err = w.first;
		return SIZE_MAX;
	}
	if (!w.count && counts->too_large == counts->considered && w.err->code != P4D_OK &&
	    w.err->code != P4D_E_DOES_NOT_FIT)
		return SIZE_MAX;
	w.err->code = P4D_OK;
	return w.count;
}

/* Engines copy key/value heads if there are fewer than ranks, each the same number of times. Latent attention
 * has no such heads. */
static bool splits_heads(const p4d_layout *l, uint64_t tp)
{
	return l->heads % tp == 0 && (l->kv_rank || l->kv_heads % tp == 0 || tp % l->kv_heads == 0);
}

int p4d_serving__check_heads(const p4d_layout *l, p4d_error *err)
{
	uint64_t fit = l->tp;

	if (splits_heads(l, fit))
		return 0;
	while (!splits_heads(l, fit))
		fit--;
	if (l->heads % l->tp)
		p4d_fail(err, P4D_E_HEADS, "tp=%" PRIu64 " does not divide the %" PRIu64 " attention heads",
			 l->tp, l->heads);
	else
		p4d_fail(err, P4D_E_KV_HEADS,
			 "tp=%" PRIu64 " neither divides the %" PRIu64
			 " key/value heads nor is a multiple of them",
			 l->tp, l->kv_heads);
	return p4d_fix(err, "--p4d-tp=%" PRIu64, fit);
}
