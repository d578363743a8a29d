/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * PyTorch's caching allocator (c10/cuda/CUDACachingAllocator.cpp), as far as it decides how much memory one
 * stream reserves. Blocks above 1 MiB come from segments of their own, of 20 MiB for blocks below 10 MiB,
 * else rounded up to 2 MiB. The smallest free block that is large enough is taken, the rest of it is split
 * off if that is more than 1 MiB, and free neighbours are joined. With expandable segments there is one
 * segment, which grows at its end; any rest is split off, and what is free at the end is taken last. Smaller
 * blocks share segments of 2 MiB and are only summed up here. Segments go back to the driver when the player
 * is told to or, as in PyTorch, if there is no room for a new one.
 */
enum { P4D_ALLOCATOR_BLOCKS = 2048 };

typedef struct p4d_allocator_block {
	uint64_t address, bytes;
	short before, after; /* in the segment; -1: none */
	bool free;
} p4d_allocator_block;

/* The allocators of a GPU's streams, which share its room. If a block does not fit, unused segments of all of
 * them are returned; if that is not enough, memory is exhausted, and nothing is taken any more. */
enum { P4D_ALLOCATOR_STREAMS = 4 };
struct p4d_caching_allocator;
typedef struct p4d_allocator_streams {
	struct p4d_caching_allocator *of[P4D_ALLOCATOR_STREAMS];
	unsigned count;
	uint64_t room, reserved, most_reserved, taken, most_taken; /* bytes of all */
	bool exhausted;
} p4d_allocator_streams;

typedef struct p4d_caching_allocator {
	p4d_allocator_streams *streams; /* NULL: the GPU has enough memory */
	bool expandable, overflow; /* overflow: more blocks than there is room for; the rest is not counted */
	uint64_t reserved, most_reserved;
	uint64_t next; /* next: address of the next segment, or the end of the one that grows */
	uint64_t small, most_small;
	unsigned blocks;
	short unused, last; /* a list of records, by `after`; last: block of the segment that grows */
	unsigned free_count;
	short by_size[P4D_ALLOCATOR_BLOCKS]; /* free blocks, by size and address */
	p4d_allocator_block block[P4D_ALLOCATOR_BLOCKS];
} p4d_caching_allocator;

/* A block that was taken. For blocks up to 1 MiB: their bytes, negative. */
typedef int32_t p4d_allocated;

void p4d_caching_allocator_start(p4d_caching_allocator *allocator, bool expandable);
/* After the start of each. */
void p4d_caching_allocator_add(p4d_allocator_streams *streams, p4d_caching_allocator *allocator);
p4d_allocated p4d_caching_allocator_take(p4d_caching_allocator *allocator, uint64_t bytes);
void p4d_caching_allocator_give(p4d_caching_allocator *allocator, p4d_allocated block);

/* torch.cuda.empty_cache(): returns unused segments, or unused ranges of the one that grows. */
void p4d_caching_allocator_trim(p4d_caching_allocator *allocator);

/* The most that was reserved, with the segments of small blocks. */
uint64_t p4d_caching_allocator_reserved(const p4d_caching_allocator *allocator);
uint64_t p4d_caching_allocator_reserved_of_all(const p4d_allocator_streams *streams);
/*
 * Plays on streams that share this much room. Returns the most that was reserved, UINT64_MAX if memory was
 * exhausted, 0 if it is not known. *taken gets the most that was allocated.
 */
typedef uint64_t p4d_allocator_play(void *of, uint64_t room, uint64_t *taken);
/* What is reserved in the least room, to 2.5 %, in which such a play does not exhaust it; 0: not known. */
uint64_t p4d_caching_allocator_least(p4d_allocator_play *play, void *of, uint64_t *taken);
