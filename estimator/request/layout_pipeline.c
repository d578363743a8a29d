/* SPDX-License-Identifier: Apache-2.0 */
/* The number of layers of each stage and each of its chunks. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"
#include "request/framework.h"
#include "request/layout_internal.h"

enum { MOST_LAYERS = 65536 };

/* Number of items to distribute over chunks: the layers, and embedding and loss if they count as layers. */
static uint64_t counted(const p4d_layout *l)
{
	return l->layers + l->embedding_counts + l->loss_counts;
}

static bool pp_divides(const p4d_layout *l, uint64_t pp)
{
	return counted(l) % (pp * l->vpp) == 0;
}

static bool vpp_divides(const p4d_layout *l, uint64_t vpp)
{
	return counted(l) % (l->pp * vpp) == 0;
}

static bool chunks_divide(const p4d_layout *l, uint64_t chunks)
{
	return counted(l) % chunks == 0;
}

static bool pp_works(const p4d_layout *l, uint64_t pp)
{
	return pp_divides(l, pp) && l->world % (p4d_tp_ranks(l) * l->cp * pp) == 0;
}

/*
 * Stores the layers of each chunk in the order of the model. The first chunk has the embedding and the last
 * one the loss. No more than P4D_MAX_UNEVEN_CHUNKS.
 */
static void set_chunks(p4d_layout *l, const uint32_t *layers)
{
	l->uneven_chunks = false;
	for (uint64_t i = 0; i < l->pp; i++)
		l->stage_layers[i] = 0;
	for (uint64_t i = 0; i < l->pp * l->vpp; i++) {
		const uint64_t stage = i % l->pp, at = p4d_chunk_position(l, stage, i / l->pp);
		l->chunk_layers[at] = (uint16_t)layers[at];
		l->stage_layers[stage] += layers[at];
		l->uneven_chunks = l->uneven_chunks || layers[at] != layers[stage];
	}
}

/*
 * Adds a fix: a split into `parts` that is as even as possible. The first and the last part also have
 * embedding and head.
 */
static int fix_split(const p4d_layout *l, const char *before, uint64_t parts, p4d_error *err)
{
	const uint64_t base = l->layers / parts, extra = l->layers % parts;
	const uint64_t from = (parts - extra) / 2; /* the parts in the middle get the surplus layers */
	char split[320];
	p4d_text text = p4d_text_in(split, sizeof(split));

	for (uint64_t i = 0; i < parts; i++)
		p4d_text_entry(&text, ",", "%" PRIu64, base + (i >= from && i < from + extra));
	return p4d_fix(err, "%s--p4d-pipeline-split=%s", before, split);
}

/* Whether a split into all chunks can be written down, and whether the framework supports such stages. */
static bool can_split_chunks(const p4d_layout *l)
{
	return p4d_framework_of(l->framework)->uneven_chunks &&
	       p4d_schedule_kinds[l->schedule]->chunks != 1 && l->pp * l->vpp <= 128 &&
	       l->layers >= l->pp * l->vpp;
}

uint64_t p4d_layout__numbers(const char *text, uint64_t most, uint64_t room, bool open, uint32_t *numbers)
{
	uint64_t count = 0;

	for (const char *at = text; *at;) {
		const bool left = open && *at == '-';
		uint64_t n = 0;
		const char *end = left ? at + 1 : p4d_number_digits(at, &n);
		if (!end || (n == 0 && !left) || n > most || (*end && *end != ',') || count == room)
			return 0;
		numbers[count++] = (uint32_t)n;
		at = *end ? end + 1 : end;
		if (*end && !*at) /* a trailing comma is malformed */
			return 0;
	}
	return count;
}

/*
 * Reads --pipeline-split: numbers of layers, one for each stage or chunk, that add up to all layers. Stages
 * with "-" share the rest. Returns how many numbers there are; 0: malformed.
 */
static uint64_t read_split(const char *text, const p4d_layout *l, uint32_t layers[P4D_MAX_STAGES])
{
	const uint64_t count = p4d_layout__numbers(text, MOST_LAYERS, P4D_MAX_STAGES, true, layers);
	uint64_t total = 0, sharing = 0;

	for (uint64_t i = 0; i < count; i++) {
		total += layers[i];
		sharing += !layers[i];
	}
	if (!sharing)
		return total == l->layers ? count : 0;
	if (total >= l->layers || (l->layers - total) % sharing)
		return 0;
	for (uint64_t i = 0; i < count; i++)
		if (!layers[i])
			layers[i] = (uint32_t)((l->layers - total) / sharing);
	return count;
}

static int fail_split(const char *text, const p4d_layout *l, p4d_error *err)
{
	if (strchr(text, '-'))
		p4d_fail(err, P4D_E_SPLIT,
			 "pipeline-split=%.80s must be pp=%" PRIu64
			 " values, each a number or -; the stages with - share the rest of the %" PRIu64
			 " layers evenly",
			 text, l->pp, l->layers);
	else
		p4d_fail(err, P4D_E_SPLIT,
			 "pipeline-split=%.80s must be pp=%" PRIu64
			 " numbers, each a multiple of vpp=%" PRIu64 ", that add up to the %" PRIu64
			 " layers%s",
			 text, l->pp, l->vpp, l->layers,
			 can_split_chunks(l) ? ", or one number for each of the pp x vpp chunks" : "");
	if (l->vpp > 1 && can_split_chunks(l))
		return fix_split(l, "", l->pp * l->vpp, err);
	if (l->vpp == 1 && l->layers >= l->pp && l->pp <= 64)
		return fix_split(l, "", l->pp, err);
	return -1;
}

static int parse_split(const char *text, p4d_layout *l, p4d_error *err)
{
	uint32_t layers[P4D_MAX_STAGES];
	const uint64_t count = read_split(text, l, layers);

	if (count && l->vpp > 1 && count == l->pp * l->vpp && count <= P4D_MAX_UNEVEN_CHUNKS) {
		set_chunks(l, layers);
		return !l->uneven_chunks || can_split_chunks(l) ? 0 : fail_split(text, l, err);
	}
	if (!count || count != l->pp)
		return fail_split(text, l, err);
	for (uint64_t i = 0; i < count; i++) {
		if (layers[i] % l->vpp)
			return fail_split(text, l, err);
		l->stage_layers[i] = layers[i];
	}
	return 0;
}

/* Fails and suggests numbers that would work: for pp, else for vpp, else for their product. */
static void fail_counts(const p4d_layout *l, const char *what, uint64_t with, const char *can,
			const char *list, p4d_error *err)
{
	const bool counts = l->embedding_counts || l->loss_counts;
	char given[48] = "";

	if (with)
		snprintf(given, sizeof(given), "with %s=%" PRIu64 " ", what, with);
	p4d_fail(err, P4D_E_LAYERS,
		 "pp=%" PRIu64 " x vpp=%" PRIu64 " does not divide the %" PRIu64 " layers%s; %s%s can be %s",
		 l->pp, l->vpp, counted(l), counts ? " (with embedding or loss)" : "", given, can, list);
}

static int fail_pipeline(const p4d_layout *l, p4d_error *err)
{
	const bool counts = l->embedding_counts || l->loss_counts;
	const uint64_t most = l->layers < P4D_MAX_STAGES ? l->layers : P4D_MAX_STAGES;
	uint64_t vpp = 0;
	char list[160];

	uint64_t pp = p4d_layout__list(l, pp_works, counted(l), most, l->pp, list, sizeof(list));
	if (!pp)
		pp = p4d_layout__list(l, pp_divides, counted(l), most, l->pp, list, sizeof(list));
	if (!pp)
		vpp = p4d_layout__list(l, vpp_divides, counted(l), most, l->vpp, list, sizeof(list));
	if (!pp && !vpp)
		p4d_layout__list(l, chunks_divide, counted(l), counted(l), l->pp * l->vpp, list,
				 sizeof(list));
	if (pp)
		fail_counts(l, "vpp", l->vpp, "pp", list, err);
	else if (vpp)
		fail_counts(l, "pp", l->pp, "vpp", list, err);
	else
		fail_counts(l, "", 0, "pp x vpp", list, err);
	const p4d_framework *f = p4d_framework_of(l->framework);
	if (!counts && f->uneven_chunks && l->pp > 1 && l->layers + 2 >= l->pp * l->vpp &&
	    (f->spreads_remainders || (l->layers + 2) % (l->pp * l->vpp) == 0))
		return p4d_fix(err, "--p4d-account-for-embedding=on --p4d-account-for-loss=on");
	if (l->vpp == 1 && l->pp <= l->layers && l->pp <= 64)
		return fix_split(l, "", l->pp, err);
	if (l->vpp > 1 && can_split_chunks(l))
		return fix_split(l, "", l->pp * l->vpp, err);
	if (pp)
		return p4d_fix(err, "--p4d-pp=%" PRIu64, pp);
	if (vpp > 1 && l->schedule == P4D_INTERLEAVED)
		return p4d_fix(err, "--p4d-vpp=%" PRIu64, vpp);
	if (!vpp && l->pp <= l->layers && l->pp <= 64)
		return fix_split(l, "--p4d-schedule=1f1b --p4d-vpp=1 ", l->pp, err);
	return p4d_fix(err, "--p4d-schedule=1f1b --p4d-vpp=1");
}

/*
 * Splits layers if embedding and loss count as layers: the first chunk then has one layer less, and so does
 * the last one. Either may have no layer left (Megatron's transformer_block.py). The first chunks get the
 * remainder of the division (torchtitan's _generate_llm_fqn_per_model_part).
 */
static int split_with_ends(p4d_layout *l, p4d_error *err)
{
	const uint64_t chunks = l->pp * l->vpp, each = counted(l) / chunks, more = counted(l) % chunks;
	uint32_t layers[P4D_MAX_UNEVEN_CHUNKS];

	if (chunks > P4D_MAX_UNEVEN_CHUNKS || each < 1) {
		p4d_fail(err, P4D_E_LAYERS,
			 "if the embedding or the loss counts as a layer, the model cannot be divided into "
			 "pp x vpp = %" PRIu64 " chunks of %" PRIu64 " layers",
			 chunks, each);
		return p4d_fix(err, "--p4d-account-for-embedding=off --p4d-account-for-loss=off --p4d-vpp=1");
	}
	for (uint64_t i = 0; i < chunks; i++)
		layers[i] = (uint32_t)(each + (i < more));
	layers[0] -= l->embedding_counts;
	layers[chunks - 1] -= l->loss_counts;
	set_chunks(l, layers);
	return 0;
}

int p4d_layout__split(const p4d_request *r, p4d_layout *l, p4d_error *err)
{
	l->uneven_chunks = false;
	if (p4d_is_set(r, P4D_PIPELINE_SPLIT) &&
	    ((l->embedding_counts && p4d_is_stated(r, P4D_ACCOUNT_FOR_EMBEDDING)) ||
	     (l->loss_counts && p4d_is_stated(r, P4D_ACCOUNT_FOR_LOSS)))) {
		p4d_fail(err, P4D_E_SPLIT,
			 "account-for-embedding and account-for-loss cannot be combined with pipeline-split, "
			 "which gives the layers of all stages");
		return p4d_fix(err, "--p4d-account-for-embedding=off --p4d-account-for-loss=off");
	}
	if (p4d_is_set(r, P4D_PIPELINE_SPLIT)) {
		l->embedding_counts = l->loss_counts = false;
		return parse_split(r->pipeline_split, l, err);
	}
	const bool ends = l->embedding_counts || l->loss_counts;
	if (!pp_divides(l, l->pp) && !(ends && p4d_framework_of(l->framework)->spreads_remainders))
		return fail_pipeline(l, err);
	if (ends)
		return split_with_ends(l, err);
	for (uint64_t i = 0; i < l->pp; i++)
		l->stage_layers[i] = (uint32_t)(l->layers / l->pp);
	return 0;
}
