/* SPDX-License-Identifier: Apache-2.0 */
#include "template/arena.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 64 << 10, ALIGN = 16 };

typedef struct p4d_arena_block {
	struct p4d_arena_block *before;
	size_t used, room;
	_Alignas(ALIGN) char at[];
} memory;

static memory *add_block(p4d_arena *arena, size_t bytes)
{
	const size_t room = bytes > BLOCK / 4 ? bytes : BLOCK;

	if (arena->bytes > arena->most_bytes || room > arena->most_bytes - arena->bytes)
		return NULL;
	memory *made = malloc(sizeof(*made) + room);
	if (!made)
		return NULL;
	*made = (memory){.before = arena->blocks, .room = room};
	arena->bytes += room;
	arena->blocks = made;
	return made;
}

void *p4d_template__take(p4d_arena *arena, size_t count, size_t bytes)
{
	size_t wanted;

	if (__builtin_mul_overflow(count, bytes, &wanted) ||
	    __builtin_add_overflow(wanted, (size_t)ALIGN - 1, &wanted))
		return NULL;
	wanted -= wanted % ALIGN;
	memory *last = arena->blocks;
	if (!last || wanted > last->room - last->used)
		last = add_block(arena, wanted);
	if (!last)
		return NULL;
	char *at = last->at + last->used;
	last->used += wanted;
	return memset(at, 0, wanted);
}

void p4d_template__give_back(p4d_arena *arena)
{
	for (memory *last = arena->blocks, *before; last; last = before) {
		before = last->before;
		free(last);
	}
	arena->blocks = NULL;
	arena->bytes = 0;
}
