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
 * blocks share segments of 2 MiB and are only summed up here. The player assumes that the GPU has enough
 * memory, and returns segments to the driver only when told to.
 */
enum { P4D_ALLOCATOR_BLOCKS = 2048 };

typedef struct p4d_allocator_block {
	uint64_t address, bytes;
	short before, after; /* in the segment; -1: none */
	bool free;
} p4d_allocator_block;

typedef struct p4d_caching_allocator {
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

/* A block that was taken. Up to 1 MiB: its bytes, negative. */
typedef int32_t p4d_allocated;

void p4d_caching_allocator_start(p4d_caching_allocator *allocator, bool expandable);
p4d_allocated p4d_caching_allocator_take(p4d_caching_allocator *allocator, uint64_t bytes);
void p4d_caching_allocator_give(p4d_caching_allocator *allocator, p4d_allocated block);

/* torch.cuda.empty_cache(): returns segments, or ranges of the one that grows, in which nothing is taken. */
void p4d_caching_allocator_trim(p4d_caching_allocator *allocator);

/* The most that was reserved, with the segments of small blocks. */
uint64_t p4d_caching_allocator_reserved(const p4d_caching_allocator *allocator);
