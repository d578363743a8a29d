/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * A pool of the numbers 0..size-1, which gives the lowest free one. Each of several queues frees its slots in
 * the order in which it took them, because a chunk's backward passes follow the order of its forward passes.
 */
typedef struct p4d_slot_pool {
	uint32_t size, queues;
	uint32_t hint;  /* no word of free[] before this one has a free slot */
	uint64_t *free; /* a bit per slot */
	uint32_t *ring; /* size entries per queue: slots in the order in which they were taken */
	uint32_t *head; /* per queue: indices of the oldest slot that is not yet freed, of the next slot to
			   look at, and of the end */
	uint64_t capacity[3]; /* allocated elements of the three arrays */
} p4d_slot_pool;

/*
 * Empties a pool (zeroed before its first use) and sets its size; reuses its memory. -1: no memory. Free it
 * with p4d_slot_pool__free in either case.
 */
int p4d_slot_pool__reset(p4d_slot_pool *pool, uint32_t size, uint32_t queues);
void p4d_slot_pool__free(p4d_slot_pool *pool);

uint32_t p4d_slot_pool__take(p4d_slot_pool *pool, uint32_t queue);
/* The oldest slot of the queue that is taken and that this function has not returned yet. It stays taken. */
uint32_t p4d_slot_pool__look(p4d_slot_pool *pool, uint32_t queue);
/* Frees the `count` oldest slots of the queue in reverse order. All must be taken. */
void p4d_slot_pool__reverse(p4d_slot_pool *pool, uint32_t queue, uint32_t count);
/* Frees the oldest slot of the queue. */
uint32_t p4d_slot_pool__release(p4d_slot_pool *pool, uint32_t queue);
