/* SPDX-License-Identifier: Apache-2.0 */
#include "data/sampler.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "data/blend.h"
#include "data/packed.h"
#include "data/shuffled.h"

/* A dataset of the blend. */
typedef struct source {
	p4d_tokens *tokens;
	p4d_shuffled documents;
	p4d_packed packed; /* packed samples, with the option --pack */
	uint64_t samples;  /* number of samples in a pass over this dataset */
	uint64_t key;      /* key of the random order of its samples */
} source;

struct p4d_sampler {
	p4d_sampler_options options;
	p4d_blend blend;
	source *source;
};

static int open_source(p4d_sampler *sampler, unsigned number, p4d_error *err)
{
	const p4d_sampler_options *options = &sampler->options;
	const char *path = sampler->blend.path[number];
	source *from = &sampler->source[number];
	/* a dataset that is listed twice gets two keys, so that it does not give each sample twice */
	uint64_t key = p4d_mix(options->seed ^ p4d_mix(number));

	if (p4d_tokens__open(&from->tokens, path, &options->tokens, err) < 0)
		return -1;
	if (options->boundaries && !p4d_tokens__has_boundaries(from->tokens)) {
		p4d_fail(err, P4D_E_DATA,
			 "%.200s: llm.c files do not mark where documents begin, but --document-mask=on "
			 "needs these positions",
			 path);
		return p4d_fix(err, "--delimiter=N, the token that begins a document (GPT-2: 50256, Llama 3: "
				    "128000)");
	}
	if (options->pairs != p4d_tokens__has_pairs(from->tokens)) {
		p4d_fail(err, P4D_E_DATA, "%.200s: %s", path,
			 options->pairs ? "has no pairs of answers, but preference training needs them"
					: "has pairs of answers, which only preference training uses");
		return p4d_fix(err, options->pairs ? "p4d data --pairs" : "--workload=preference");
	}
	if (p4d_shuffled__open(&from->documents, from->tokens, path, key, options->validation,
			       options->validate, err) < 0)
		return -1;
	from->key = p4d_mix(key);
	if (options->packed && p4d_packed__open(&from->packed, &from->documents, options->seq_len,
						options->pairs, path, err) < 0)
		return -1;
	from->samples =
	    options->packed ? from->packed.sequences : (from->documents.total - 1) / options->seq_len;
	if (!from->samples)
		return p4d_fail(err, P4D_E_DATA,
				"%.200s: %" PRIu64 " tokens%s, expected at least seq-len + 1 = %" PRIu64,
				path, from->documents.total,
				options->validate ? " split off for validation" : "", options->seq_len + 1);
	if (sampler->blend.weight[number] <= 0)
		sampler->blend.weight[number] = (double)from->documents.total;
	return 0;
}

int p4d_sampler_open(p4d_sampler **result, const char *blend, const p4d_sampler_options *options,
		     p4d_error *err)
{
	enum { LONGEST = 1 << 30 };

	if (options->seq_len < 1 || options->seq_len > LONGEST)
		return p4d_fail(err, P4D_E_VALUE, "sequences of %" PRIu64 " tokens, expected 1 to %d",
				options->seq_len, LONGEST);
	p4d_sampler *sampler = calloc(1, sizeof(*sampler));
	if (!sampler)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory to open %.200s", blend);
	sampler->options = *options;
	int rc = p4d_blend__parse(&sampler->blend, blend, err);
	if (rc == 0) {
		sampler->source = calloc(sampler->blend.sources, sizeof(*sampler->source));
		if (!sampler->source)
			rc = p4d_fail(err, P4D_E_NO_MEMORY, "no memory to open %.200s", blend);
	}
	for (unsigned i = 0; rc == 0 && i < sampler->blend.sources; i++)
		rc = open_source(sampler, i, err);
	if (rc == 0)
		rc = p4d_blend__deal(&sampler->blend, err);
	if (rc == 0)
		*result = sampler;
	else
		p4d_sampler_close(sampler);
	return rc;
}

void p4d_sampler_close(p4d_sampler *sampler)
{
	if (!sampler)
		return;
	for (unsigned i = 0; sampler->source && i < sampler->blend.sources; i++) {
		p4d_packed__close(&sampler->source[i].packed);
		p4d_shuffled__close(&sampler->source[i].documents);
		p4d_tokens__close(sampler->source[i].tokens);
	}
	free(sampler->source);
	p4d_blend__free(&sampler->blend);
	free(sampler);
}

int p4d_sampler_hash(const p4d_sampler *sampler, uint64_t *hash, p4d_error *err)
{
	const p4d_sampler_options *o = &sampler->options;
	uint64_t h = p4d_mix(o->seed ^ p4d_mix(o->seq_len)), weight, tokens;

	memcpy(&weight, &o->validation, sizeof(weight));
	h = p4d_mix(h ^ weight) + o->validate + 2u * o->boundaries + 4u * o->packed + 8u * o->pairs;
	for (unsigned i = 0; i < sampler->blend.sources; i++) {
		memcpy(&weight, &sampler->blend.weight[i], sizeof(weight));
		if (p4d_tokens__hash(sampler->source[i].tokens, &tokens, err) < 0)
			return -1;
		h = p4d_mix(p4d_mix(h ^ weight) ^ tokens);
	}
	*hash = h;
	return 0;
}

uint64_t p4d_sampler_tokens(const p4d_sampler *sampler)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < sampler->blend.sources; i++)
		sum += sampler->source[i].documents.total;
	return sum;
}

uint64_t p4d_sampler_samples(const p4d_sampler *sampler)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < sampler->blend.sources; i++)
		sum += sampler->source[i].samples;
	return sum;
}

/* Returns after how many samples of the blend a source has given each of its samples once. */
static double blended(const p4d_sampler *sampler, unsigned i)
{
	return (double)sampler->source[i].samples * P4D_BLEND_PERIOD / sampler->blend.share[i];
}

int p4d_sampler_epoch(const p4d_sampler *sampler, uint64_t *samples, p4d_error *err)
{
	const p4d_blend *blend = &sampler->blend;
	unsigned first = 0, last = 0;

	*samples = p4d_sampler_samples(sampler);
	if (blend->sources == 1 || !blend->weighted)
		return 0;
	for (unsigned i = 1; i < blend->sources; i++) {
		first = blended(sampler, i) < blended(sampler, first) ? i : first;
		last = blended(sampler, i) > blended(sampler, last) ? i : last;
	}
	return p4d_fail(err, P4D_E_VALUE,
			"several data sets with weights have no common epoch: %.120s ends after %.0f "
			"sequences, %.120s after %.0f sequences",
			blend->path[first], blended(sampler, first), blend->path[last],
			blended(sampler, last));
}

bool p4d_sampler_takes_delimiter(const p4d_sampler *sampler)
{
	bool takes = false;

	for (unsigned i = 0; i < sampler->blend.sources; i++)
		takes = takes || !p4d_tokens__has_index(sampler->source[i].tokens);
	return takes;
}

p4d_sampler_packing p4d_sampler_packing_of(const p4d_sampler *sampler)
{
	p4d_sampler_packing sum = {0};

	for (unsigned i = 0; i < sampler->blend.sources; i++) {
		const p4d_packed *packed = &sampler->source[i].packed;
		sum.sequences += packed->sequences;
		sum.tokens += packed->tokens;
		sum.cut += packed->cut;
		sum.longest = packed->longest > sum.longest ? packed->longest : sum.longest;
	}
	return sum;
}

bool p4d_sampler_is_masked(const char *text)
{
	p4d_blend blend = {.sources = 0};
	bool masked = false;

	if (p4d_blend__parse(&blend, text, NULL) < 0)
		blend.sources = 0;
	for (unsigned i = 0; i < blend.sources && !masked; i++)
		masked = p4d_tokens__is_masked(blend.path[i]);
	p4d_blend__free(&blend);
	return masked;
}

uint64_t p4d_sampler_document_len(const char *text)
{
	const p4d_tokens_options options = {.vocabulary = INT32_MAX, .delimiter = P4D_NO_DELIMITER};
	p4d_blend blend = {.sources = 0};
	uint64_t total = 0, documents = 0;
	bool known = p4d_blend__parse(&blend, text, NULL) == 0;

	for (unsigned i = 0; known && i < blend.sources; i++) {
		p4d_tokens *tokens;
		if (p4d_tokens__open(&tokens, blend.path[i], &options, NULL) < 0) {
			known = false;
			break;
		}
		known = p4d_tokens__has_boundaries(tokens);
		total += p4d_tokens__total(tokens);
		documents += p4d_tokens__documents(tokens);
		p4d_tokens__close(tokens);
	}
	p4d_blend__free(&blend);
	return known && documents ? (total + documents - 1) / documents : 0;
}

/*
 * Finds a sample: returns its source. *pass: which pass over that source; *place: the sample's place in the
 * pass.
 */
static source *find_sample(p4d_sampler *sampler, uint64_t number, uint64_t *pass, uint64_t *place)
{
	p4d_permutation order;
	uint64_t index;
	source *from = &sampler->source[p4d_blend__source(&sampler->blend, number, &index)];

	*pass = index / from->samples;
	p4d_permutation__init(&order, from->samples, p4d_mix(from->key ^ p4d_mix(*pass)));
	*place = p4d_permutation__apply(&order, index % from->samples);
	return from;
}

uint64_t p4d_sampler_place(p4d_sampler *sampler, uint64_t sample)
{
	uint64_t pass, place, before = 0;
	const source *from = find_sample(sampler, sample, &pass, &place);

	for (const source *s = sampler->source; s < from; s++)
		before += s->samples;
	return before + place;
}

/* Adjacent tokens of one document in a sample. */
typedef struct run {
	const p4d_tokens *tokens;
	uint64_t first;      /* index of the first token in the dataset */
	uint64_t start, end; /* place in the sample */
	uint32_t ordinal;    /* number of the document in the sample */
	bool boundaries, reset_positions;
} run;

/* A contiguous part of the sequence that this rank wants. `to`: where it begins in the rank's arrays. */
typedef struct chunk {
	uint64_t start, length, to;
} chunk;

static int place_tokens(const run *r, const chunk *p, const p4d_samples *out, p4d_error *err)
{
	uint64_t low = r->start > p->start ? r->start : p->start;
	uint64_t high = r->end < p->start + p->length ? r->end : p->start + p->length;

	if (low >= high)
		return 0;
	uint64_t to = p->to + low - p->start;
	for (uint64_t i = low; out->positions && i < high; i++)
		out->positions[to + i - low] = (int32_t)(r->reset_positions ? i - r->start : i);
	for (uint64_t i = low; out->documents && i < high; i++)
		out->documents[to + i - low] = r->boundaries ? (int32_t)r->ordinal : 0;
	if (!out->tokens)
		return 0;
	return p4d_tokens__read(r->tokens, r->first + low - r->start, high - low, out->tokens + to, err);
}

/* Stores labels. The label of a token is the next token in the sequence. */
static int place_labels(const run *r, const chunk *p, const p4d_samples *out, p4d_error *err)
{
	const uint64_t start = p->start + 1;
	uint64_t low = r->start > start ? r->start : start;
	uint64_t high = r->end < start + p->length ? r->end : start + p->length;

	if (!out->labels || low >= high)
		return 0;
	int32_t *to = out->labels + p->to + low - start;
	if (p4d_tokens__read(r->tokens, r->first + low - r->start, high - low, to, err) < 0)
		return -1;
	for (uint64_t i = low; p4d_tokens__has_mask(r->tokens) && i < high; i++)
		if (!p4d_tokens__is_trained(r->tokens, r->first + i - r->start))
			to[i - low] = -1;
	if (r->boundaries && low == r->start)
		to[0] = -1;
	return 0;
}

/* Fills the positions after the documents of a packed sample. */
static void place_padding(const run *r, const chunk *p, const p4d_samples *out)
{
	for (uint64_t i = 0; i < p->length; i++) {
		const uint64_t at = p->start + i, to = p->to + i;
		if (out->labels && at + 1 >= r->start)
			out->labels[to] = -1;
		if (at < r->start)
			continue;
		if (out->tokens)
			out->tokens[to] = 0;
		if (out->positions)
			out->positions[to] = (int32_t)(r->reset_positions ? at - r->start : at);
		if (out->documents)
			out->documents[to] = (int32_t)r->ordinal;
	}
}

static int place_run(const run *r, const chunk *chunks, int count, const p4d_samples *out, p4d_error *err)
{
	for (int i = 0; i < count; i++)
		if (place_tokens(r, &chunks[i], out, err) < 0 || place_labels(r, &chunks[i], out, err) < 0)
			return -1;
	return 0;
}

static int fill_packed(const source *from, uint64_t sequence, run *r, const chunk *chunks, int count,
		       const p4d_samples *out, p4d_error *err)
{
	p4d_document document;

	for (uint64_t i = 0; p4d_packed__document(&from->packed, sequence, i, &document); i++) {
		if (!document.count)
			continue;
		r->first = document.first;
		r->end = r->start + document.count;
		if (place_run(r, chunks, count, out, err) < 0)
			return -1;
		r->start = r->end;
		r->ordinal++;
	}
	for (int i = 0; i < count; i++)
		place_padding(r, &chunks[i], out);
	return 0;
}

static int fill_sample(p4d_sampler *sampler, uint64_t number, const chunk *chunks, int count,
		       const p4d_samples *out, p4d_error *err)
{
	const uint64_t all = sampler->options.seq_len + 1;
	run r = {.boundaries = sampler->options.boundaries,
		 .reset_positions = sampler->options.reset_positions};
	uint64_t pass, place;
	source *from = find_sample(sampler, number, &pass, &place);

	r.tokens = from->tokens;
	if (sampler->options.packed)
		return fill_packed(from, place, &r, chunks, count, out, err);
	p4d_shuffled_cursor cursor =
	    p4d_shuffled__find(&from->documents, pass, place * sampler->options.seq_len);
	for (;;) {
		r.first = cursor.rest.first;
		r.end = cursor.rest.count < all - r.start ? r.start + cursor.rest.count : all;
		if (place_run(&r, chunks, count, out, err) < 0)
			return -1;
		if (r.end == all || !p4d_shuffled__next(&cursor))
			return 0;
		r.start = r.end;
		r.ordinal++;
	}
}

static int32_t *row(int32_t *array, uint64_t offset)
{
	return array ? array + offset : NULL;
}

int p4d_sampler_fill(p4d_sampler *sampler, uint64_t first, uint64_t count, uint64_t rank, uint64_t cp,
		     const p4d_samples *out, p4d_error *err)
{
	const uint64_t seq_len = sampler->options.seq_len;
	chunk chunks[2] = {{0, seq_len, 0}, {0, 0, 0}};

	if (cp < 1 || rank >= cp || (cp > 1 && (cp > seq_len || seq_len % (2 * cp))))
		return p4d_fail(err, P4D_E_VALUE,
				"sequences of %" PRIu64 " tokens cannot be split into 2*%" PRIu64
				" equal chunks for context-parallel rank %" PRIu64,
				seq_len, cp, rank);
	if (cp > 1) {
		uint64_t length = seq_len / (2 * cp);
		chunks[0] = (chunk){rank * length, length, 0};
		chunks[1] = (chunk){(2 * cp - 1 - rank) * length, length, length};
	}
	for (uint64_t i = 0; i < count; i++) {
		uint64_t at = i * (seq_len / cp);
		p4d_samples rows = {row(out->tokens, at), row(out->labels, at), row(out->positions, at),
				    row(out->documents, at)};
		if (fill_sample(sampler, first + i, chunks, cp > 1 ? 2 : 1, &rows, err) < 0)
			return -1;
	}
	return 0;
}
