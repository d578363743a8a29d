/* SPDX-License-Identifier: Apache-2.0 */
#include "data/bpe_merge.h"

#include <stdlib.h>

int p4d_bpe__symbols_reserve(p4d_bpe_symbols *symbols, size_t more, p4d_error *err)
{
	const size_t needed = symbols->count + more;
	size_t room = symbols->room ? symbols->room : 256;

	if (needed <= symbols->room)
		return 0;
	while (room < needed)
		room *= 2;
	p4d_bpe_symbol *larger =
	    needed < INT32_MAX ? reallocarray(symbols->symbol, room, sizeof(*larger)) : NULL;
	if (!larger)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a word of %zu symbols", needed);
	symbols->symbol = larger;
	symbols->room = room;
	return 0;
}

void p4d_bpe__symbols_add(p4d_bpe_symbols *symbols, int32_t token)
{
	const int32_t place = (int32_t)symbols->count++;

	symbols->symbol[place] = (p4d_bpe_symbol){token, place - 1, -1};
	if (place)
		symbols->symbol[place - 1].after = place;
}

void p4d_bpe__symbols_free(p4d_bpe_symbols *symbols)
{
	free(symbols->symbol);
	free(symbols->heap);
	free(symbols->made);
}

/* Every merge removes one symbol and adds at most two candidates, so three per symbol are enough. */
static int reserve_heap(p4d_bpe_symbols *symbols, p4d_error *err)
{
	const size_t needed = 3 * symbols->room;

	if (needed <= symbols->heap_room)
		return 0;
	uint64_t *heap = reallocarray(symbols->heap, needed, sizeof(*heap));
	if (heap)
		symbols->heap = heap;
	int32_t *made = heap ? reallocarray(symbols->made, needed, sizeof(*made)) : NULL;
	if (!made)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the merges of a word of %zu symbols",
				symbols->count);
	symbols->made = made;
	symbols->heap_room = needed;
	return 0;
}

static void push(p4d_bpe_symbols *s, uint64_t key, int32_t made)
{
	size_t at = s->heaped++;

	while (at && s->heap[(at - 1) / 2] > key) {
		s->heap[at] = s->heap[(at - 1) / 2];
		s->made[at] = s->made[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	s->heap[at] = key;
	s->made[at] = made;
}

static uint64_t pop(p4d_bpe_symbols *s, int32_t *made)
{
	const uint64_t top = s->heap[0], last = s->heap[--s->heaped];
	const int32_t last_made = s->made[s->heaped];
	size_t at = 0, child;

	*made = s->made[0];
	while ((child = 2 * at + 1) < s->heaped) {
		child += child + 1 < s->heaped && s->heap[child + 1] < s->heap[child];
		if (s->heap[child] >= last)
			break;
		s->heap[at] = s->heap[child];
		s->made[at] = s->made[child];
		at = child;
	}
	s->heap[at] = last;
	s->made[at] = last_made;
	return top;
}

static const p4d_bpe_merge *merge_at(const p4d_bpe_symbols *s, const p4d_bpe_tables *tables, int32_t place)
{
	const int32_t after = s->symbol[place].after;

	if (after < 0)
		return NULL;
	return p4d_bpe__find_merge(tables, p4d_bpe_pair(s->symbol[place].token, s->symbol[after].token));
}

static void consider(p4d_bpe_symbols *s, const p4d_bpe_tables *tables, int32_t place)
{
	const p4d_bpe_merge *merge = merge_at(s, tables, place);

	if (merge)
		push(s, (uint64_t)merge->rank << 32 | (uint32_t)place, merge->token);
}

static void join(p4d_bpe_symbols *s, int32_t place, int32_t token)
{
	p4d_bpe_symbol *left = &s->symbol[place], *right = &s->symbol[left->after];

	left->token = token;
	left->after = right->after;
	if (right->after >= 0)
		s->symbol[right->after].before = place;
	right->token = -1;
}

int p4d_bpe__merge(p4d_bpe_symbols *symbols, const p4d_bpe_tables *tables, p4d_error *err)
{
	int32_t made;

	if (reserve_heap(symbols, err) < 0)
		return -1;
	symbols->heaped = 0;
	for (size_t i = 0; i + 1 < symbols->count; i++)
		consider(symbols, tables, (int32_t)i);
	while (symbols->heaped) {
		const int32_t place = (int32_t)(uint32_t)pop(symbols, &made);
		if (symbols->symbol[place].token < 0)
			continue;
		/* the pair may have changed since it was found */
		const p4d_bpe_merge *merge = merge_at(symbols, tables, place);
		if (!merge || merge->token != made)
			continue;
		join(symbols, place, made);
		if (symbols->symbol[place].before >= 0)
			consider(symbols, tables, symbols->symbol[place].before);
		consider(symbols, tables, place);
	}
	return 0;
}
