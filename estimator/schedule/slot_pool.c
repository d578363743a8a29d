/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/slot_pool.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD, LOOK, TAIL, POINTERS };

static void *grown(void *memory, uint64_t *capacity, uint64_t elements, size_t size)
{
	if (elements <= *capacity)
		return memory;
	free(memory);
	*capacity = 0;
	if (elements > SIZE_MAX / size)
		return NULL;
	memory = malloc((size_t)elements * size);
	if (memory)
		*capacity = elements;
	return memory;
}

int p4d_slot_pool__reset(p4d_slot_pool *pool, uint32_t size, uint32_t queues)
{
	uint64_t words = ((uint64_t)size + 63) / 64;

	pool->free = grown(pool->free, &pool->capacity[0], words + 1, sizeof(*pool->free));
	pool->ring = grown(pool->ring, &pool->capacity[1], (uint64_t)size * queues + 1, sizeof(*pool->ring));
	pool->head = grown(pool->head, &pool->capacity[2], (uint64_t)queues * POINTERS, sizeof(*pool->head));
	if (!pool->free || !pool->ring || !pool->head)
		return -1;
	pool->size = size;
	pool->queues = queues;
	pool->hint = 0;
	/* one additional word, so that the search for a free slot ends even if there is none */
	memset(pool->free, 0xff, (size_t)(words + 1) * sizeof(*pool->free));
	memset(pool->head, 0, (size_t)queues * POINTERS * sizeof(*pool->head));
	return 0;
}

void p4d_slot_pool__free(p4d_slot_pool *pool)
{
	free(pool->free);
	free(pool->ring);
	free(pool->head);
	memset(pool, 0, sizeof(*pool));
}

static uint32_t next_in_ring(const p4d_slot_pool *pool, uint32_t queue, unsigned pointer, uint32_t **entry)
{
	uint32_t *at = &pool->head[queue * POINTERS + pointer];

	*entry = &pool->ring[(uint64_t)queue * pool->size + *at];
	*at = *at + 1 == pool->size ? 0 : *at + 1;
	return **entry;
}

uint32_t p4d_slot_pool__take(p4d_slot_pool *pool, uint32_t queue)
{
	uint32_t *entry;

	while (!pool->free[pool->hint])
		pool->hint++;
	unsigned bit = (unsigned)__builtin_ctzll(pool->free[pool->hint]);
	pool->free[pool->hint] &= ~((uint64_t)1 << bit);
	next_in_ring(pool, queue, TAIL, &entry);
	return *entry = pool->hint * 64 + bit;
}

uint32_t p4d_slot_pool__look(p4d_slot_pool *pool, uint32_t queue)
{
	uint32_t *entry;

	return next_in_ring(pool, queue, LOOK, &entry);
}

void p4d_slot_pool__reverse(p4d_slot_pool *pool, uint32_t queue, uint32_t count)
{
	uint32_t *ring = pool->ring + (uint64_t)queue * pool->size;
	const uint64_t head = pool->head[queue * POINTERS + HEAD];

	for (uint32_t i = 0; i < count / 2; i++) {
		uint32_t *a = &ring[(head + i) % pool->size], *b = &ring[(head + count - 1 - i) % pool->size];
		const uint32_t swap = *a;
		*a = *b;
		*b = swap;
	}
}

uint32_t p4d_slot_pool__release(p4d_slot_pool *pool, uint32_t queue)
{
	uint32_t *entry, slot = next_in_ring(pool, queue, HEAD, &entry);

	pool->free[slot / 64] |= (uint64_t)1 << slot % 64;
	if (slot / 64 < pool->hint)
		pool->hint = slot / 64;
	return slot;
}
