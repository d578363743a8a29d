/* SPDX-License-Identifier: Apache-2.0 */
#include "rehearse/micro_batch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "rehearse/played_progress.h"

enum { MOST = 1 << 20, LEAP = 8 };

/* Where the value is among the program's words. */
typedef struct batch_search {
	p4d_micro_batch *found;
	const p4d_player *player;
	uint64_t rank;
	size_t at, count; /* index of the word with the value, and number of words */
	bool joined;      /* the form is option=value */
} batch_search;

static int find_value(batch_search *s, uint64_t *value, p4d_error *err)
{
	const char *option = s->found->option;
	const size_t length = strlen(option);
	char *const *words = s->player->program;
	const char *text = NULL;

	for (s->count = 0; words[s->count]; s->count++)
		if (!strcmp(words[s->count], option) && words[s->count + 1]) {
			s->at = s->count + 1;
			s->joined = false;
			text = words[s->at];
		} else if (!strncmp(words[s->count], option, length) && words[s->count][length] == '=') {
			s->at = s->count;
			s->joined = true;
			text = words[s->at] + length + 1;
		}
	if (!text)
		return p4d_fail(err, P4D_E_USAGE,
				"--micro-batch-option: the command does not have the option %.60s; add it "
				"with a first value",
				option);
	if (!p4d_number_whole(text, 1, MOST, value))
		return p4d_fail(err, P4D_E_VALUE,
				"--micro-batch-option: the value of %.60s is %.60s, not a number", option,
				text);
	return 0;
}

static void keep(p4d_micro_batch *m, uint64_t value, const p4d_rehearsed *r)
{
	unsigned at = 0;

	while (at < m->tries && m->tried[at].value < value)
		at++;
	memmove(&m->tried[at + 1], &m->tried[at], (m->tries - at) * sizeof(m->tried[0]));
	m->tried[at] =
	    (p4d_micro_batch_try){.value = value, .device = r->device, .fits = !p4d_rehearsed__ran_out(r)};
	m->tries++;
}

/* Rehearses the rank with this value. 1: it ran, or ran out of memory; 0: it failed for another reason. */
static int try_value(batch_search *s, uint64_t value, p4d_error *err)
{
	p4d_player other = *s->player;
	p4d_rehearsed r = {.text = NULL};
	char word[192];
	int rc = -1;

	snprintf(word, sizeof(word), "%.128s%s%" PRIu64, s->joined ? s->found->option : "",
		 s->joined ? "=" : "", value);
	other.program = calloc(s->count + 1, sizeof(*other.program));
	if (!other.program)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the words of the program");
	memcpy(other.program, s->player->program, s->count * sizeof(*other.program));
	other.program[s->at] = word;
	other.quiet = true; /* the search expects runs that run out of memory, so p4d does not report them */
	fprintf(stderr, "p4d: rehearsing rank %" PRIu64 " with %s %" PRIu64 "\n", s->rank, s->found->option,
		value);
	if (!p4d_rehearsed__play(&r, &other, s->rank, err)) {
		rc = p4d_rehearsed__ran_out(&r) || (!r.played.status && r.device);
		if (rc)
			keep(s->found, value, &r);
		else
			p4d_played_progress__print_output(&other, s->rank);
	}
	free(other.program);
	p4d_rehearsed__free(&r);
	return rc;
}

/*
 * The value that would fill the GPU if memory grew linearly through the two largest values that fit; 0:
 * unknown.
 */
static uint64_t expected(const p4d_micro_batch *m, uint64_t usable)
{
	const p4d_micro_batch_try *low = NULL, *high = NULL;

	for (unsigned i = 0; i < m->tries && m->tried[i].fits; i++) {
		low = high;
		high = &m->tried[i];
	}
	if (!low || high->device <= low->device || high->device > usable)
		return 0;
	const double each = (double)(high->device - low->device) / (double)(high->value - low->value);
	const double more = (double)(usable - high->device) / each;
	return more < MOST ? high->value + (uint64_t)more : 0;
}

/* The next value to try; 0: none. */
static uint64_t next_value(p4d_micro_batch *m, uint64_t usable)
{
	uint64_t low = 0, high = 0;

	for (unsigned i = 0; i < m->tries; i++) {
		if (m->tried[i].fits && !high)
			low = m->tried[i].value;
		if (!m->tried[i].fits && !high)
			high = m->tried[i].value;
	}
	m->largest = low;
	m->sure = high == low + 1;
	if (m->sure || low >= MOST)
		return 0;
	uint64_t guess = expected(m, usable), first = low + 1, last = high ? high - 1 : LEAP * low;
	if (!guess || (high && guess > last)) /* reserved memory grows in jumps, so take the middle instead */
		guess = high ? low + (high - low) / 2 : 2 * low;
	return guess < first ? first : guess > last ? last : guess;
}

int p4d_micro_batch__find(p4d_micro_batch *m, const p4d_player *player, const p4d_rehearsed *rank,
			  p4d_error *err)
{
	batch_search s = {.found = m, .player = player, .rank = rank->played.rank};
	uint64_t value;
	int rc = 1;

	if (find_value(&s, &value, err))
		return -1;
	if (!p4d_rehearsed__ran_out(rank) && (rank->played.status || !rank->device))
		return 0; /* no result is known */
	keep(m, value, rank);
	while (rc > 0 && (value = next_value(m, player->gpu->usable_bytes)) &&
	       m->tries < P4D_MICRO_BATCH_TRIES)
		rc = try_value(&s, value, err);
	return rc < 0 ? -1 : 0;
}
