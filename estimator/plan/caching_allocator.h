/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/wide.h"

/*
 * A model of PyTorch's caching allocator (c10/cuda/CUDACachingAllocator.cpp), as far as it decides how much
 * memory one stream reserves.
 *
 * Blocks above 1 MiB come from segments: of 20 MiB for blocks below 10 MiB, otherwise of the block's size
 * rounded up to 2 MiB. The allocator takes the smallest free block that is large enough, splits off the rest
 * if that is more than 1 MiB, and merges free neighbours. With expandable segments there is one segment,
 * which grows at its end. It splits off a rest of any size, and uses the free block at its end last. Blocks
 * up to 1 MiB share segments of 2 MiB; this model only adds up their bytes, and never returns their segments.
 *
 * Segments are returned to the driver when the simulation calls for it or, as in PyTorch, if there is no room
 * for a new segment.
 */
enum { P4D_ALLOCATOR_BLOCKS = 2048 };

typedef struct p4d_allocator_block {
	uint64_t address, bytes;
	short before, after; /* neighbours in the segment; -1: none */
	bool free;
} p4d_allocator_block;

/* The allocators of a GPU's streams, which share its room. If a block does not fit, unused segments of all
 * streams are returned. If that is not enough, memory is exhausted, and later calls allocate nothing. */
enum { P4D_ALLOCATOR_STREAMS = 4 };
struct p4d_caching_allocator;
typedef struct p4d_allocator_streams {
	struct p4d_caching_allocator *of[P4D_ALLOCATOR_STREAMS];
	unsigned count;
	uint64_t room, reserved, most_reserved, taken, most_taken; /* bytes of all streams */
	uint64_t work; /* calls of take, and blocks that a return of segments visited */
	bool exhausted;
} p4d_allocator_streams;

typedef struct p4d_caching_allocator {
	p4d_allocator_streams *streams; /* NULL: the GPU has enough memory */
	bool expandable, overflow; /* overflow: more blocks than there are records; the rest is not counted */
	uint64_t reserved, most_reserved; /* bytes, with the segments of small blocks */
	uint64_t next; /* next: address for the next segment, or the end of the expandable segment */
	uint64_t small, most_small;
	unsigned blocks;
	short unused, last; /* list of records, linked by `after`; last: the last block of the expandable
			     * segment */
	unsigned free_count;
	short by_size[P4D_ALLOCATOR_BLOCKS]; /* free blocks, sorted by size and address */
	p4d_allocator_block block[P4D_ALLOCATOR_BLOCKS];
} p4d_caching_allocator;

/* An allocated block. For a block up to 1 MiB: its bytes, negated. */
typedef int32_t p4d_allocated;

void p4d_caching_allocator_start(p4d_caching_allocator *allocator, bool expandable);
/* Adds a started allocator to the streams that share a GPU's room. */
void p4d_caching_allocator_add(p4d_allocator_streams *streams, p4d_caching_allocator *allocator);
/* Allocates a block of this stream. Returns 0, no block, for 0 bytes and for more bytes than any GPU has. */
p4d_allocated p4d_caching_allocator_take(p4d_caching_allocator *allocator, p4d_wide bytes);
void p4d_caching_allocator_give(p4d_caching_allocator *allocator, p4d_allocated block);

/* Frees a block and sets *block to 0. */
static inline void p4d_allocator_forget(p4d_caching_allocator *allocator, p4d_allocated *block)
{
	p4d_caching_allocator_give(allocator, *block);
	*block = 0;
}

/* Allocates a block and frees it immediately, which may reserve memory. */
static inline void p4d_allocator_touch(p4d_caching_allocator *allocator, p4d_wide bytes)
{
	p4d_caching_allocator_give(allocator, p4d_caching_allocator_take(allocator, bytes));
}

/* torch.cuda.empty_cache(): returns unused segments, or unused ranges of the expandable segment. */
void p4d_caching_allocator_trim(p4d_caching_allocator *allocator);

/*
 * Simulates a program on streams that share this much room. Returns the peak of reserved bytes; UINT64_MAX if
 * memory was exhausted; 0 if unknown.
 */
typedef struct p4d_allocator_use {
	uint64_t taken; /* the peak of allocated bytes */
	uint64_t work;  /* see p4d_allocator_streams */
} p4d_allocator_use;
typedef uint64_t p4d_allocator_play(void *of, uint64_t room, p4d_allocator_use *use);
/*
 * Reserved bytes in the smallest room, exact to 0.8 %, in which such a simulation does not exhaust memory; 0:
 * unknown.
 */
uint64_t p4d_caching_allocator_least(p4d_allocator_play *play, void *of, uint64_t *taken);
