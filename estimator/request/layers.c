/* SPDX-License-Identifier: Apache-2.0 */
#include "request/layers.h"

#include <inttypes.h>
#include <string.h>

#include "request/architecture.h"
#include "request/framework.h"

static const struct {
	char letter;
	p4d_mixer mixer;
	p4d_feed alone;   /* feed-forward part of a layer that is a single block; in models with two blocks,
			     every layer has one */
	const char *what; /* name for messages; NULL: it does not name a model's kind */
} letters[] = {
    {'*', P4D_MIX_ATTENTION, P4D_FEED_NONE, NULL},
    {'M', P4D_MIX_MAMBA2, P4D_FEED_NONE, "Mamba-2 layers"},
    {'S', P4D_MIX_MAMBA, P4D_FEED_NONE, "Mamba layers"},
    {'G', P4D_MIX_DELTA_NET, P4D_FEED_NONE, "gated delta nets"},
    {'C', P4D_MIX_CONVOLUTION, P4D_FEED_NONE, "short convolutions"},
    {'-', P4D_MIX_NONE, P4D_FEED_DENSE, NULL},
    {'E', P4D_MIX_NONE, P4D_FEED_EXPERTS, NULL},
    {'K', P4D_MIX_ATTENTION, P4D_FEED_MEMORY, "memory layers"}, /* such layers have both blocks */
};
enum { LETTERS = sizeof(letters) / sizeof(letters[0]) };

/* Index of a pattern's letter; -1: no such letter. */
static int find(char letter)
{
	for (int i = 0; i < LETTERS; i++)
		if (letters[i].letter == letter)
			return i;
	return -1;
}

/* Whether layer i has experts, in models whose layers have two blocks. */
static bool has_experts(const p4d_layout *l, uint64_t i)
{
	return l->experts && i >= l->dense_layers && (i + 1) % l->expert_every == 0;
}

p4d_layer_kind p4d_layer_at(const p4d_layout *l, uint64_t i)
{
	const int found = l->pattern_length ? find(l->pattern[i % l->pattern_length]) : 0;

	if ((l->architecture->single_blocks || letters[found].alone == P4D_FEED_MEMORY) && l->pattern_length)
		return (p4d_layer_kind){letters[found].mixer, letters[found].alone};
	return (p4d_layer_kind){letters[found].mixer, has_experts(l, i) ? P4D_FEED_EXPERTS : P4D_FEED_DENSE};
}

p4d_layer_counts p4d_layers_count(const p4d_layout *l, uint64_t from, uint64_t n)
{
	p4d_layer_counts counts = {0};

	if (!l->pattern_length) {
		const uint64_t experts =
		    p4d_expert_layers_before(l, from + n) - p4d_expert_layers_before(l, from);
		counts.of[P4D_MIX_ATTENTION][P4D_FEED_EXPERTS] = experts;
		counts.of[P4D_MIX_ATTENTION][P4D_FEED_DENSE] = n - experts;
		return counts;
	}
	for (uint64_t i = from; i < from + n; i++) {
		const p4d_layer_kind kind = p4d_layer_at(l, i);
		counts.of[kind.mixer][kind.feed]++;
	}
	return counts;
}

uint64_t p4d_layers_with_mixer(const p4d_layer_counts *counts, p4d_mixer mixer)
{
	uint64_t sum = 0;

	for (int feed = 0; feed < P4D_FEEDS; feed++)
		sum += counts->of[mixer][feed];
	return sum;
}

uint64_t p4d_layers_with_feed(const p4d_layer_counts *counts, p4d_feed feed)
{
	uint64_t sum = 0;

	for (int mixer = 0; mixer < P4D_MIXERS; mixer++)
		sum += counts->of[mixer][feed];
	return sum;
}

uint64_t p4d_layers_with_experts(const p4d_layout *l, uint64_t n)
{
	if (!l->experts)
		return 0;
	if (!l->architecture->single_blocks) {
		const uint64_t dense = n < l->dense_layers ? n : l->dense_layers;
		return n / l->expert_every - dense / l->expert_every;
	}
	return n / l->pattern_length * l->experts_before[l->pattern_length] +
	       l->experts_before[n % l->pattern_length];
}

uint64_t p4d_layers_with_memory(const p4d_layout *l, uint64_t n)
{
	if (!l->memory.keys)
		return 0;
	const p4d_layer_counts counts = p4d_layers_count(l, 0, n);
	return p4d_layers_with_feed(&counts, P4D_FEED_MEMORY);
}

const char *p4d_layers_state(const char *pattern)
{
	for (; *pattern; pattern++) {
		const int found = find(*pattern);
		if (found >= 0 && letters[found].what)
			return letters[found].what;
	}
	return NULL;
}

/* Checks the sizes of memory layers; all memory layers have the same sizes. */
static int check_memory(const p4d_request *model, p4d_error *err)
{
	const int64_t keys = model->value[P4D_MEMORY_KEYS], top = p4d_is_set(model, P4D_MEMORY_TOP)
								      ? model->value[P4D_MEMORY_TOP]
								      : P4D_MEMORY_TOP_DEFAULT;

	if (p4d_is_set(model, P4D_MEMORY_KEYS) != p4d_layers_remember(model)) {
		p4d_fail(err, P4D_E_INCOMPLETE_MODEL,
			 "memory layers need both memory-keys and a layer-pattern with K");
		return p4d_fix(err, "--p4d-memory-keys=1024 --p4d-layer-pattern=***K");
	}
	if (!p4d_is_set(model, P4D_MEMORY_KEYS))
		return 0;
	if (p4d_architecture_of(model)->single_blocks)
		return p4d_fail(err, P4D_E_UNMODELLED,
				"layer-pattern: p4d does not model memory layers in this architecture");
	if (top > keys) {
		p4d_fail(err, P4D_E_VALUE, "memory-top=%" PRId64 ": each half has only memory-keys=%" PRId64,
			 top, keys);
		return p4d_fix(err, "--p4d-memory-top=%" PRId64, keys);
	}
	if (p4d_is_set(model, P4D_MEMORY_KEY_DIM) && model->value[P4D_MEMORY_KEY_DIM] % 2) {
		p4d_fail(err, P4D_E_VALUE,
			 "memory-key-dim=%" PRId64 ": the value must be even, because a key has two halves",
			 model->value[P4D_MEMORY_KEY_DIM]);
		return p4d_fix(err, "--p4d-memory-key-dim=%" PRId64, model->value[P4D_MEMORY_KEY_DIM] + 1);
	}
	return 0;
}

static int check_letter(const p4d_request *model, char letter, p4d_error *err)
{
	const bool single = p4d_architecture_of(model)->single_blocks;
	const int found = find(letter);

	if (found < 0)
		return p4d_fail(err, P4D_E_VALUE,
				"layer-pattern: '%c' is none of the letters * M S G C K - E", letter);
	if (letters[found].mixer == P4D_MIX_NONE && !single)
		return p4d_fail(err, P4D_E_VALUE,
				"layer-pattern: only architecture=nemotron-h has layers of the kind '%c'",
				letter);
	if (letter == 'E' && !p4d_is_set(model, P4D_EXPERTS)) {
		p4d_fail(err, P4D_E_INCOMPLETE_MODEL,
			 "layer-pattern has layers with experts, but the model has no experts");
		return p4d_fix(err, "--p4d-experts=N");
	}
	if (letters[found].what && letters[found].mixer != P4D_MIX_CONVOLUTION &&
	    letters[found].mixer != P4D_MIX_ATTENTION &&
	    (!p4d_is_set(model, P4D_STATE_SIZE) || !p4d_is_set(model, P4D_STATE_HEADS))) {
		p4d_fail(err, P4D_E_INCOMPLETE_MODEL, "the model has %s, but no state-size or state-heads",
			 letters[found].what);
		return p4d_fix(err, "--p4d-state-size=N --p4d-state-heads=N");
	}
	if (letters[found].mixer == P4D_MIX_MAMBA && !p4d_is_set(model, P4D_STATE_RANK)) {
		p4d_fail(err, P4D_E_INCOMPLETE_MODEL, "the model has %s, but no state-rank",
			 letters[found].what);
		return p4d_fix(err, "--p4d-state-rank=N");
	}
	return 0;
}

/* Checks groups of layers that share parameters (ALBERT). */
static int check_groups(const p4d_request *model, p4d_error *err)
{
	const bool set = p4d_is_set(model, P4D_LAYER_GROUPS);

	if (p4d_is_set(model, P4D_EMBEDDING_SIZE) && !set) {
		p4d_fail(err, P4D_E_VALUE, "embedding-size has an effect only with layer-groups");
		return p4d_fix(err, "--p4d-layer-groups=1");
	}
	if (!set || model->value[P4D_LAYERS] % model->value[P4D_LAYER_GROUPS] == 0)
		return 0;
	p4d_fail(err, P4D_E_VALUE, "layer-groups=%" PRId64 " does not divide the %" PRId64 " layers",
		 model->value[P4D_LAYER_GROUPS], model->value[P4D_LAYERS]);
	return p4d_fix(err, "--p4d-layer-groups=1");
}

int p4d_layers_check(const p4d_request *model, p4d_error *err)
{
	if (check_groups(model, err) < 0)
		return -1;
	if (check_memory(model, err) < 0)
		return -1;
	if (!p4d_is_set(model, P4D_LAYER_PATTERN)) {
		if (!p4d_architecture_of(model)->single_blocks)
			return 0;
		p4d_fail(err, P4D_E_INCOMPLETE_MODEL,
			 "architecture=%s needs a layer-pattern, which gives the kind of each layer",
			 p4d_architecture_of(model)->name);
		return p4d_fix(err, "--p4d-layer-pattern=LETTERS");
	}
	if (model->value[P4D_LAYERS] > P4D_MOST_PATTERN_LAYERS)
		return p4d_fail(err, P4D_E_VALUE,
				"layers=%" PRId64 ": with a layer-pattern p4d accepts at most %d layers",
				model->value[P4D_LAYERS], P4D_MOST_PATTERN_LAYERS);
	for (const char *at = model->layer_pattern; *at; at++)
		if (check_letter(model, *at, err) < 0)
			return -1;
	return 0;
}

int p4d_layers_check_memory(const p4d_request *r, const p4d_layout *l, p4d_error *err)
{
	const uint64_t ranks = l->dp * l->cp, all = l->memory.parallel;

	if (!l->memory.keys && p4d_is_stated(r, P4D_MEMORY_PARALLEL) &&
	    p4d_framework_has(r, P4D_MEMORY_PARALLEL)) {
		p4d_fail(err, P4D_E_VALUE, "memory-parallel has no effect: the model has no memory layers");
		return p4d_fix(err, "leave out --p4d-memory-parallel");
	}
	if (!l->memory.keys || (ranks % all == 0 && l->hidden % all == 0))
		return 0;
	uint64_t fits = all < ranks ? all : ranks;
	while (ranks % fits || l->hidden % fits)
		fits--;
	p4d_fail(err, P4D_E_VALUE,
		 "memory-parallel=%" PRIu64 " does not divide dp*cp = %" PRIu64 " and hidden=%" PRIu64, all,
		 ranks, l->hidden);
	return p4d_fix(err, "--p4d-memory-parallel=%" PRIu64, fits);
}
