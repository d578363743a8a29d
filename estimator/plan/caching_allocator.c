/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/caching_allocator.h"

#include <string.h>

#define MIB ((uint64_t)1 << 20)
#define SMALL MIB               /* kSmallSize */
#define SMALL_SEGMENT (2 * MIB) /* kSmallBuffer */
#define LARGE (10 * MIB)        /* kMinLargeAlloc */
#define LARGE_SEGMENT (20 * MIB)
#define ROUND (2 * MIB)
#define BLOCK 512 /* kMinBlockSize */
/* distance between the addresses of segments, so that blocks of two segments are never neighbours */
#define APART ((uint64_t)1 << 48)

/*
 * Limits on work, so that no layout takes long in slurmctld. A simulation ends after MOST_WORK. After
 * ENOUGH_WORK in all, p4d tries no smaller room. To return segments, the allocator visits blocks.
 * TRIMMED_BLOCKS visits count as one block taken.
 */
#define MOST_WORK 100000
#define ENOUGH_WORK 100000
#define TRIMMED_BLOCKS 4

void p4d_caching_allocator_start(p4d_caching_allocator *a, bool expandable)
{
	a->streams = NULL;
	a->expandable = expandable;
	a->overflow = false;
	a->reserved = a->most_reserved = a->next = a->small = a->most_small = 0;
	a->blocks = a->free_count = 0;
	a->unused = a->last = -1;
}

void p4d_caching_allocator_add(p4d_allocator_streams *s, p4d_caching_allocator *a)
{
	if (s->count < P4D_ALLOCATOR_STREAMS)
		s->of[s->count++] = a;
	a->streams = s;
}

/* Free blocks are sorted by size, and blocks of one size by address. */
static p4d_wide order_of(uint64_t bytes, uint64_t address)
{
	return (p4d_wide)bytes << 64 | address;
}

/*
 * The index in the list of free blocks at which a block of this size and address belongs. The search has no
 * branch that depends on a comparison, because simulations spend most of their time here.
 */
static unsigned place_of(const p4d_caching_allocator *a, uint64_t bytes, uint64_t address)
{
	const p4d_wide wanted = order_of(bytes, address);
	unsigned from = 0;

	for (unsigned left = a->free_count; left; left /= 2) {
		const unsigned half = (left + 1) / 2;
		const p4d_allocator_block *b = &a->block[a->by_size[from + half - 1]];
		from += order_of(b->bytes, b->address) < wanted ? half : 0;
	}
	return from;
}

static void set_free(p4d_caching_allocator *a, short i)
{
	const unsigned at = place_of(a, a->block[i].bytes, a->block[i].address);

	memmove(&a->by_size[at + 1], &a->by_size[at], (a->free_count - at) * sizeof(*a->by_size));
	a->by_size[at] = i;
	a->free_count++;
	a->block[i].free = true;
}

/* Removes the free block at this index from the list. */
static short take_from(p4d_caching_allocator *a, unsigned at)
{
	const short i = a->by_size[at];

	a->free_count--;
	memmove(&a->by_size[at], &a->by_size[at + 1], (a->free_count - at) * sizeof(*a->by_size));
	a->block[i].free = false;
	return i;
}

static void set_taken(p4d_caching_allocator *a, short i)
{
	take_from(a, place_of(a, a->block[i].bytes, a->block[i].address));
}

/* Adds a record of a block and returns its index; -1: there are no more records. */
static short record(p4d_caching_allocator *a, uint64_t address, uint64_t bytes, short before, short after)
{
	short i = a->unused;

	if (i >= 0)
		a->unused = a->block[i].after;
	else if (a->blocks + 1 < P4D_ALLOCATOR_BLOCKS)
		i = (short)a->blocks++;
	else
		return -1;
	a->block[i] = (p4d_allocator_block){address, bytes, before, after, false};
	if (before >= 0)
		a->block[before].after = i;
	if (after >= 0)
		a->block[after].before = i;
	return i;
}

static void forget(p4d_caching_allocator *a, short i)
{
	const p4d_allocator_block *b = &a->block[i];

	if (b->before >= 0)
		a->block[b->before].after = b->after;
	if (b->after >= 0)
		a->block[b->after].before = b->before;
	a->last = a->last == i ? b->before : a->last;
	a->block[i].after = a->unused;
	a->block[i].bytes = 0;
	a->unused = i;
}

static void reserve(p4d_caching_allocator *a, uint64_t bytes)
{
	a->reserved += bytes;
	a->most_reserved = a->reserved > a->most_reserved ? a->reserved : a->most_reserved;
	if (a->streams) {
		a->streams->reserved += bytes;
		if (a->streams->reserved > a->streams->most_reserved)
			a->streams->most_reserved = a->streams->reserved;
	}
}

static void count_taken(p4d_caching_allocator *a, uint64_t bytes)
{
	p4d_allocator_streams *s = a->streams;

	if (!s)
		return;
	s->taken += bytes;
	s->most_taken = s->taken > s->most_taken ? s->taken : s->most_taken;
}

/* Number of bytes by which the expandable segment grows for a block. */
static uint64_t growth(const p4d_caching_allocator *a, uint64_t bytes)
{
	const bool joins = a->last >= 0 && a->block[a->last].free;

	return p4d_round_up(bytes - (joins ? a->block[a->last].bytes : 0), LARGE_SEGMENT);
}

/* Enlarges the expandable segment by `more` bytes; returns the free block at its end. */
static short grow(p4d_caching_allocator *a, uint64_t more)
{
	const bool joins = a->last >= 0 && a->block[a->last].free;
	short i = a->last;

	if (joins) {
		set_taken(a, i);
		a->block[i].bytes += more;
	} else
		i = record(a, a->next, more, a->last, -1);
	if (i < 0)
		return -1;
	a->next += more;
	reserve(a, more);
	a->last = i;
	set_free(a, i);
	return i;
}

static uint64_t segment_of(const p4d_caching_allocator *a, uint64_t bytes)
{
	return a->expandable ? growth(a, bytes) : bytes < LARGE ? LARGE_SEGMENT : p4d_round_up(bytes, ROUND);
}

static bool has_room(const p4d_allocator_streams *s, uint64_t bytes)
{
	return !s || (bytes <= s->room && s->reserved <= s->room - bytes);
}

static void trim_all(p4d_allocator_streams *s)
{
	for (unsigned i = 0; i < s->count; i++) {
		s->work += s->of[i]->blocks / TRIMMED_BLOCKS;
		p4d_caching_allocator_trim(s->of[i]);
	}
}

static short new_segment(p4d_caching_allocator *a, uint64_t bytes)
{
	uint64_t size = segment_of(a, bytes);

	if (!has_room(a->streams, size)) {
		trim_all(a->streams);
		size = segment_of(a, bytes);
		a->streams->exhausted = !has_room(a->streams, size);
	}
	if (a->expandable)
		return grow(a, size);
	const short i = record(a, a->next, size, -1, -1);
	if (i < 0)
		return -1;
	a->next += APART;
	reserve(a, size);
	set_free(a, i);
	return i;
}

/* Returns the smallest free block with at least this many bytes; -1: none. A block that can grow counts
 * with its largest size, so any other block has priority. */
static short take_best(p4d_caching_allocator *a, uint64_t bytes)
{
	const unsigned at = place_of(a, bytes, 0);

	if (at == a->free_count)
		return -1;
	const bool grows = a->expandable && a->by_size[at] == a->last;
	return take_from(a, grows && at + 1 < a->free_count ? at + 1 : at);
}

/* Reserves segments for blocks up to 1 MiB. They stay reserved, because other small blocks hold them. */
static p4d_allocated take_small(p4d_caching_allocator *a, uint64_t bytes)
{
	const uint64_t before = p4d_round_up(a->most_small, SMALL_SEGMENT);

	a->small += bytes;
	a->most_small = a->small > a->most_small ? a->small : a->most_small;
	const uint64_t more = p4d_round_up(a->most_small, SMALL_SEGMENT) - before;
	if (more && !has_room(a->streams, more)) {
		trim_all(a->streams);
		a->streams->exhausted = !has_room(a->streams, more);
	}
	if (more)
		reserve(a, more);
	return -(p4d_allocated)bytes;
}

/* Counts work. False: the simulation takes too long. */
static bool may_work(p4d_caching_allocator *a, uint64_t more)
{
	if (!a->streams)
		return true;
	a->streams->work += more;
	a->overflow = a->overflow || a->streams->work > MOST_WORK;
	return a->streams->work <= MOST_WORK;
}

p4d_allocated p4d_caching_allocator_take(p4d_caching_allocator *a, p4d_wide asked)
{
	if (!asked || asked >> 50 || (a->streams && a->streams->exhausted) || !may_work(a, 1))
		return 0;
	const uint64_t bytes = p4d_round_up((uint64_t)asked, BLOCK);
	if (bytes <= SMALL)
		return take_small(a, bytes);
	short i = take_best(a, bytes);
	if (i < 0) {
		i = new_segment(a, bytes);
		if (i < 0) {
			a->overflow = true;
			return 0;
		}
		set_taken(a, i);
	}
	if (a->block[i].bytes - bytes > (a->expandable ? BLOCK - 1 : SMALL)) {
		const short rest =
		    record(a, a->block[i].address + bytes, a->block[i].bytes - bytes, i, a->block[i].after);
		if (rest >= 0) {
			a->block[i].bytes = bytes;
			a->last = a->last == i ? rest : a->last;
			set_free(a, rest);
		} else
			a->overflow = true;
	}
	count_taken(a, a->block[i].bytes);
	return i + 1;
}

void p4d_caching_allocator_give(p4d_caching_allocator *a, p4d_allocated block)
{
	short i = (short)(block - 1);

	if (block < 0)
		a->small -= (uint64_t)-block;
	if (block <= 0)
		return;
	/* If the simulation lost track of its blocks, there is no answer; the lists stay consistent. */
	if ((unsigned)i >= a->blocks || a->block[i].free || !a->block[i].bytes) {
		a->overflow = true;
		return;
	}
	if (a->streams)
		a->streams->taken -= a->block[i].bytes;
	const short after = a->block[i].after, before = a->block[i].before;
	if (after >= 0 && a->block[after].free) {
		set_taken(a, after);
		a->block[i].bytes += a->block[after].bytes;
		a->last = a->last == after ? i : a->last;
		forget(a, after);
	}
	if (before >= 0 && a->block[before].free) {
		set_taken(a, before);
		a->block[before].bytes += a->block[i].bytes;
		a->last = a->last == i ? before : a->last;
		forget(a, i);
		i = before;
	}
	set_free(a, i);
}

static void give_to_driver(p4d_caching_allocator *a, uint64_t bytes)
{
	a->reserved -= bytes;
	if (a->streams)
		a->streams->reserved -= bytes;
}

/* Unmaps whole pages of a free block. The parts before and after them stay free, as separate blocks. */
static void unmap(p4d_caching_allocator *a, short i)
{
	const p4d_allocator_block b = a->block[i];
	const uint64_t from = p4d_round_up(b.address, LARGE_SEGMENT), end = b.address + b.bytes,
		       to = end / LARGE_SEGMENT * LARGE_SEGMENT;

	if (to <= from)
		return;
	const short rest = end > to ? record(a, to, end - to, -1, b.after) : -1;
	if (end > to && rest < 0) {
		a->overflow = true;
		return;
	}
	give_to_driver(a, to - from);
	set_taken(a, i);
	if (a->last == i)
		a->next = from; /* the segment's next growth starts here */
	if (rest >= 0)
		set_free(a, rest);
	else if (b.after >= 0)
		a->block[b.after].before = -1;
	a->block[i].bytes = from - b.address;
	a->block[i].after = -1;
	if (a->block[i].bytes)
		set_free(a, i);
	else
		forget(a, i);
}

/* Only the blocks that exist at the start are visited; unmapping adds at most one free block for each. */
void p4d_caching_allocator_trim(p4d_caching_allocator *a)
{
	for (unsigned k = a->free_count; k-- > 0;) {
		const short i = a->by_size[k];
		const p4d_allocator_block *b = &a->block[i];
		if (a->expandable || b->before >= 0 || b->after >= 0)
			continue;
		give_to_driver(a, b->bytes);
		set_taken(a, i);
		forget(a, i);
	}
	for (unsigned i = 0; a->expandable && i < a->blocks; i++)
		if (a->block[i].free)
			unmap(a, (short)i);
}

uint64_t p4d_caching_allocator_least(p4d_allocator_play *play, void *of, uint64_t *taken)
{
	p4d_allocator_use use;
	uint64_t above = play(of, UINT64_MAX, &use), below = use.taken, work = use.work;

	*taken = use.taken;

	/* the result is mostly near the lower end, where simulations stop early */
	while (above && above > below + below / 128 && work < ENOUGH_WORK) {
		const uint64_t room = below + (above - below) / 4, reserved = play(of, room, &use);
		work += use.work;
		if (!reserved)
			return 0;
		if (reserved == UINT64_MAX)
			below = room;
		else
			above = reserved < above ? reserved : room;
	}
	return above;
}
