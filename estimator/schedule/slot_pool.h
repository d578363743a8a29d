/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * Numbers 0..size-1, of which the lowest free one is taken first. Each of several queues frees its slots in
 * the order in which it took them, because a chunk's backward passes follow the order of its forward passes.
 */
typedef struct p4d_slot_pool {
	uint32_t size, queues;
	uint32_t hint;        /* no word of free[] below this one has a free slot */
	uint64_t *free;       /* a bit per slot */
	uint32_t *ring;       /* size entries per queue: slots in the order of taking */
	uint32_t *head;       /* per queue: oldest that is not yet freed, then next to look at, then end */
	uint64_t capacity[3]; /* elements allocated in the three */
} p4d_slot_pool;

/*
 * Empties a pool (zeroed before the first time) and gives it this size; reuses its memory. -1 without memory;
 * free with p4d_slot_pool__free in either case.
 */
int p4d_slot_pool__reset(p4d_slot_pool *pool, uint32_t size, uint32_t queues);
void p4d_slot_pool__free(p4d_slot_pool *pool);

uint32_t p4d_slot_pool__take(p4d_slot_pool *pool, uint32_t queue);
/* The oldest slot of the queue that was neither peeked at nor freed. It stays taken. */
uint32_t p4d_slot_pool__look(p4d_slot_pool *pool, uint32_t queue);
/* The `count` oldest of the queue, all taken, are freed in the reverse order. */
void p4d_slot_pool__reverse(p4d_slot_pool *pool, uint32_t queue, uint32_t count);
/* Frees the oldest of the queue. */
uint32_t p4d_slot_pool__release(p4d_slot_pool *pool, uint32_t queue);
