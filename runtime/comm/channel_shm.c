/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of a node's shared memory, and the byte streams between two ranks in it. */
#include "comm/channel_shm.h"

#include <string.h>
#include <unistd.h>

#include "base/wide.h"
#include "comm/node.h"

/* Maximum bytes of address space that a rank uses for its node's shared memory. */
static const uint64_t ADDRESSES = (uint64_t)1 << 40;

typedef struct p4d_shm_entry {
	_Alignas(64) _Atomic uint64_t signature; /* 0: free */
} p4d_shm_entry;

/*
 * Order in memory: sleep flags, group entries, the groups' lines, slots, rings. The next functions return
 * where each part begins.
 */
static size_t entries_at(uint32_t n)
{
	return n * sizeof(p4d_eventfd);
}

static size_t lines_at(uint32_t n)
{
	/* round up to 128 bytes, the alignment of the lines that follow */
	return (entries_at(n) + P4D_NODE_GROUPS * sizeof(p4d_shm_entry) + 127) / 128 * 128;
}

static size_t slots_at(uint32_t n)
{
	size_t end = lines_at(n) + (size_t)P4D_NODE_GROUPS * n * sizeof(p4d_cache_line);

	return (end + 4095) / 4096 * 4096;
}

static size_t rings_at(uint32_t n)
{
	return slots_at(n) + (size_t)n * P4D_SLOTS * P4D_SLOT_BYTES;
}

static size_t bytes_of(uint32_t n, size_t ring_bytes)
{
	return rings_at(n) + (size_t)n * n * P4D_NODE_CHANNELS * (sizeof(p4d_shm_ring) + ring_bytes);
}

void p4d_shm__size(p4d_comm_node *node, uint64_t message_bytes)
{
	/* room for two messages, each with its header */
	const uint64_t two = message_bytes < ADDRESSES / 4 ? 2 * (message_bytes + 64) : ADDRESSES;

	node->ring_bytes = P4D_RING_BYTES;
	while (node->ring_bytes < two && bytes_of(node->count, 2 * node->ring_bytes) <= ADDRESSES)
		node->ring_bytes *= 2;
	node->bytes = bytes_of(node->count, node->ring_bytes);
}

p4d_eventfd *p4d_shm__eventfd(const p4d_comm_node *node, uint32_t index)
{
	return (p4d_eventfd *)node->base + index;
}

uint8_t *p4d_shm__slot(const p4d_comm_node *node, uint32_t index, unsigned slot)
{
	return node->base + slots_at(node->count) + ((size_t)index * P4D_SLOTS + slot) * P4D_SLOT_BYTES;
}

p4d_shm_ring *p4d_shm__ring_of(const p4d_comm_node *node, uint32_t from, uint32_t to, unsigned channel)
{
	size_t pair = (size_t)from * node->count + to;

	return (p4d_shm_ring *)(node->base + rings_at(node->count) +
				(pair * P4D_NODE_CHANNELS + channel) *
				    (sizeof(p4d_shm_ring) + node->ring_bytes));
}

p4d_cache_line *p4d_shm__group(const p4d_comm_node *node, uint64_t signature)
{
	p4d_shm_entry *entries = (p4d_shm_entry *)(node->base + entries_at(node->count));
	p4d_cache_line *lines = (p4d_cache_line *)(node->base + lines_at(node->count));

	for (uint64_t i = 0; i < P4D_NODE_GROUPS; i++) {
		uint64_t at = (signature + i) % P4D_NODE_GROUPS, seen = 0;
		/* the first member to arrive takes the entry; the others find it */
		if (atomic_compare_exchange_strong(&entries[at].signature, &seen, signature) ||
		    seen == signature)
			return lines + at * node->count;
	}
	return NULL;
}

void p4d_shm__wake(const p4d_comm_node *node, uint32_t index)
{
	uint64_t one = 1;

	/*
	 * Pairs with the fence in p4d_world__wait. Either the other rank sees the change before it sleeps, or
	 * this rank sees that its flag is set.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&p4d_shm__eventfd(node, index)->sleeps, memory_order_relaxed) &&
	    write(node->eventfds[index], &one, sizeof(one)) < 0)
		return; /* a write fails only if the counter is full, and then the other rank wakes anyway */
}

/* A ring has room for four chunks, so the reader can copy one chunk while the writer copies the next. */
enum { CHUNK_BYTES = P4D_RING_BYTES / 4 };

/* The address of byte `count` of the stream; *room: how many bytes follow contiguously. */
static uint8_t *place_of(const p4d_comm_node *node, p4d_shm_ring *ring, uint64_t count, size_t *room)
{
	uint64_t origin = atomic_load_explicit(&ring->origin, memory_order_relaxed);
	size_t at = (size_t)(count - origin) % node->ring_bytes;

	*room = node->ring_bytes - at;
	return ring->data + at;
}

size_t p4d_shm__ring_write(const p4d_comm_node *node, uint32_t to, unsigned channel, const void *data,
			   size_t bytes)
{
	p4d_shm_ring *ring = p4d_shm__ring_of(node, node->index, to, channel);
	uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
	uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
	size_t free = node->ring_bytes - (size_t)(head - tail),
	       n = P4D_LEAST(bytes, P4D_LEAST(free, CHUNK_BYTES)), room;

	if (!n)
		return 0;
	/* the reader loads `origin` only after it has seen a byte that was written after this store */
	if (head == tail)
		atomic_store_explicit(&ring->origin, head, memory_order_relaxed);
	uint8_t *at = place_of(node, ring, head, &room);
	size_t first = P4D_LEAST(room, n);
	memcpy(at, data, first);
	memcpy(ring->data, (const uint8_t *)data + first, n - first);
	atomic_store_explicit(&ring->head, head + n, memory_order_release);
	p4d_shm__wake(node, to);
	return n;
}

size_t p4d_shm__ring_read(const p4d_comm_node *node, uint32_t from, unsigned channel, void *data,
			  size_t bytes)
{
	p4d_shm_ring *ring = p4d_shm__ring_of(node, from, node->index, channel);
	uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
	uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
	size_t n = P4D_LEAST(bytes, P4D_LEAST((size_t)(head - tail), CHUNK_BYTES)), room;

	if (!n)
		return 0;
	const uint8_t *at = place_of(node, ring, tail, &room);
	size_t first = P4D_LEAST(room, n);
	memcpy(data, at, first);
	memcpy((uint8_t *)data + first, ring->data, n - first);
	atomic_store_explicit(&ring->tail, tail + n, memory_order_release);
	p4d_shm__wake(node, from);
	return n;
}
