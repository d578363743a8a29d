/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * Memory that is freed as a whole. most_bytes: limit of its size. All other members must be zero before use.
 */
typedef struct p4d_arena {
	struct p4d_arena_block *blocks;
	size_t bytes, most_bytes;
} p4d_arena;

/* Returns `count` zeroed elements; NULL: no memory, or more than most_bytes. */
void *p4d_template__take(p4d_arena *arena, size_t count, size_t bytes);
void p4d_template__give_back(p4d_arena *arena);
