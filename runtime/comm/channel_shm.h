/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/node.h"

/* Addresses in shared memory. */
p4d_eventfd *p4d_shm__eventfd(const p4d_comm_node *node, uint32_t index);
p4d_shm_ring *p4d_shm__ring_of(const p4d_comm_node *node, uint32_t from, uint32_t to, unsigned channel);
uint8_t *p4d_shm__slot(const p4d_comm_node *node, uint32_t index, unsigned slot);
/*
 * Computes the sizes of rings and of the shared memory. Rings have room for two messages of message_bytes if
 * the address space allows.
 */
void p4d_shm__size(p4d_comm_node *node, uint64_t message_bytes);
/* Returns the lines of the group with that signature; NULL if all P4D_NODE_GROUPS entries are in use. */
p4d_cache_line *p4d_shm__group(const p4d_comm_node *node, uint64_t signature);

/* Wakes a rank if it sleeps. Call it after a change for which the rank may wait. */
void p4d_shm__wake(const p4d_comm_node *node, uint32_t index);

/* Copy up to `bytes` bytes into or out of a ring, and wake the other side. Return the number of bytes. */
size_t p4d_shm__ring_write(const p4d_comm_node *node, uint32_t to, unsigned channel, const void *data,
			   size_t bytes);
size_t p4d_shm__ring_read(const p4d_comm_node *node, uint32_t from, unsigned channel, void *data,
			  size_t bytes);
