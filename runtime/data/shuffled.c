/* SPDX-License-Identifier: Apache-2.0 */
#include "data/shuffled.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/*
 * Key of the order in which documents are split off for validation. It is a constant, so that all seeds split
 * off the same documents.
 */
enum { SPLIT_KEY = 0x5b117 };

static uint64_t number_at(const p4d_shuffled *set, const p4d_permutation *order, uint64_t place)
{
	uint64_t number = set->first_of_side + (order ? p4d_permutation__apply(order, place) : place);

	return set->split ? p4d_permutation__apply(&set->side, number) : number;
}

p4d_document p4d_shuffled__document(const p4d_shuffled *set, const p4d_permutation *order, uint64_t place)
{
	return p4d_tokens__document(set->tokens, number_at(set, order, place));
}

/* Returns the number of tokens in the documents from `place` to the end of its group. */
static uint64_t group_tokens(const p4d_shuffled *set, const p4d_permutation *order, uint64_t place)
{
	uint64_t number[P4D_SHUFFLED_GROUP], sum = 0, count = set->documents - place;

	/*
	 * Compute all numbers first. The lengths are scattered over the index, and in a loop of their own the
	 * loads overlap.
	 */
	if (count > P4D_SHUFFLED_GROUP)
		count = P4D_SHUFFLED_GROUP;
	for (uint64_t i = 0; i < count; i++)
		number[i] = number_at(set, order, place + i);
	for (uint64_t i = 0; i < count; i++)
		sum += p4d_tokens__length(set->tokens, number[i]);
	return sum;
}

static int choose_side(p4d_shuffled *set, const char *name, double validation, bool validate, p4d_error *err)
{
	uint64_t all = p4d_tokens__documents(set->tokens);

	if (!(validation >= 0 && validation < 1))
		return p4d_fail(err, P4D_E_VALUE, "the validation fraction is %g, expected 0 to below 1",
				validation);
	if (validate && validation <= 0)
		return p4d_fail(err, P4D_E_VALUE, "%.200s: the validation fraction is 0", name);
	set->documents = all;
	if (validation <= 0)
		return 0;
	uint64_t apart = (uint64_t)llround(validation * (double)all);
	if (apart < 1)
		apart = 1;
	if (apart >= all)
		return p4d_fail(err, P4D_E_DATA,
				"%.200s: has %" PRIu64 " document%s, cannot split off %g for validation",
				name, all, all == 1 ? "" : "s", validation);
	set->split = true;
	p4d_permutation__init(&set->side, all, SPLIT_KEY);
	set->first_of_side = validate ? all - apart : 0;
	set->documents = validate ? apart : all - apart;
	return 0;
}

int p4d_shuffled__open(p4d_shuffled *set, const p4d_tokens *tokens, const char *name, uint64_t key,
		       double validation, bool validate, p4d_error *err)
{
	p4d_shuffled made = {.tokens = tokens, .key = key};

	if (choose_side(&made, name, validation, validate, err) < 0)
		return -1;
	for (uint64_t i = 0; i < made.documents; i += P4D_SHUFFLED_GROUP)
		made.total += group_tokens(&made, NULL, i);
	if (!made.total)
		return p4d_fail(err, P4D_E_DATA, "%.200s: the %" PRIu64 " documents %s contain no tokens",
				name, made.documents,
				validate ? "split off for validation" : "left for training");
	for (int i = 0; i < P4D_SHUFFLED_PASSES; i++) {
		made.pass[i].before =
		    calloc(made.documents / P4D_SHUFFLED_GROUP + 1, sizeof(*made.pass[i].before));
		if (!made.pass[i].before) {
			p4d_shuffled__close(&made);
			return p4d_fail(err, P4D_E_NO_MEMORY,
					"%.200s: no memory for the order of %" PRIu64 " documents", name,
					made.documents);
		}
	}
	*set = made;
	return 0;
}

void p4d_shuffled__close(p4d_shuffled *set)
{
	for (int i = 0; i < P4D_SHUFFLED_PASSES; i++) {
		free(set->pass[i].before);
		set->pass[i].before = NULL;
	}
}

static void fill_pass(p4d_shuffled *set, p4d_shuffled_pass *pass, uint64_t number)
{
	uint64_t sum = 0;

	pass->number = number;
	pass->filled = true;
	p4d_permutation__init(&pass->order, set->documents, p4d_mix(set->key ^ p4d_mix(number)));
	for (uint64_t i = 0; i < set->documents; i += P4D_SHUFFLED_GROUP) {
		pass->before[i / P4D_SHUFFLED_GROUP] = sum;
		sum += group_tokens(set, &pass->order, i);
	}
}

static const p4d_shuffled_pass *pass_of(p4d_shuffled *set, uint64_t number)
{
	for (unsigned i = 0; i < P4D_SHUFFLED_PASSES; i++)
		if (set->pass[i].filled && set->pass[i].number == number) {
			set->latest = i;
			return &set->pass[i];
		}
	set->latest = (set->latest + 1) % P4D_SHUFFLED_PASSES;
	fill_pass(set, &set->pass[set->latest], number);
	return &set->pass[set->latest];
}

p4d_shuffled_cursor p4d_shuffled__find(p4d_shuffled *set, uint64_t pass, uint64_t token)
{
	p4d_shuffled_cursor cursor = {.set = set, .pass = pass_of(set, pass)};
	const uint64_t *before = cursor.pass->before;
	uint64_t low = 0, high = (set->documents - 1) / P4D_SHUFFLED_GROUP;

	/* finds the last group that begins at or before the token */
	while (low < high) {
		uint64_t middle = low + (high - low + 1) / 2;
		if (before[middle] <= token)
			low = middle;
		else
			high = middle - 1;
	}
	uint64_t skip = token - before[low];
	cursor.place = low * P4D_SHUFFLED_GROUP;
	cursor.rest = p4d_shuffled__document(set, &cursor.pass->order, cursor.place);
	while (skip >= cursor.rest.count) {
		skip -= cursor.rest.count;
		cursor.rest = p4d_shuffled__document(set, &cursor.pass->order, ++cursor.place);
	}
	cursor.rest.first += skip;
	cursor.rest.count -= skip;
	return cursor;
}

bool p4d_shuffled__next(p4d_shuffled_cursor *cursor)
{
	while (++cursor->place < cursor->set->documents) {
		cursor->rest = p4d_shuffled__document(cursor->set, &cursor->pass->order, cursor->place);
		if (cursor->rest.count)
			return true;
	}
	return false;
}
