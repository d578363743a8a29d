/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of configuration trees. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/config_internal.h"

enum { CHUNK_BYTES = 16384, NODES_BETWEEN = 512 /* number of nodes between two checks of the clock */ };

struct p4d_config_chunk {
	struct p4d_config_chunk *next;
	size_t size, used;
	_Alignas(max_align_t) char at[];
};

static void *take(p4d_config *tree, size_t size)
{
	struct p4d_config_chunk *chunk = tree->chunks;

	size = (size + sizeof(void *) - 1) & ~(sizeof(void *) - 1);
	if (!chunk || chunk->size - chunk->used < size) {
		const size_t room = size > CHUNK_BYTES ? size : CHUNK_BYTES;
		chunk = malloc(sizeof(*chunk) + room);
		if (!chunk) {
			p4d_config__fail(tree, "no memory");
			return NULL;
		}
		chunk->next = tree->chunks;
		chunk->size = room;
		chunk->used = 0;
		tree->chunks = chunk;
	}
	void *at = chunk->at + chunk->used;
	chunk->used += size;
	return at;
}

bool p4d_config__fail(p4d_config *tree, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	vsnprintf(tree->why, sizeof(tree->why), format, values);
	va_end(values);
	return false;
}

uint64_t p4d_config_clock(void)
{
	struct timespec now = {0};

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

bool p4d_config__late(p4d_config *tree)
{
	return tree->until_ns && p4d_config_clock() > tree->until_ns &&
	       !p4d_config__fail(tree, "the file takes too long to read");
}

p4d_config_node *p4d_config__node(p4d_config *tree, p4d_config_kind kind, size_t line)
{
	if (tree->nodes == P4D_CONFIG_NODES) {
		p4d_config__fail(tree, "the file has more than %d values", P4D_CONFIG_NODES);
		return NULL;
	}
	p4d_config_node *node = take(tree, sizeof(*node));
	if (!node || (++tree->nodes % NODES_BETWEEN == 0 && p4d_config__late(tree)))
		return NULL;
	*node = (p4d_config_node){.kind = kind, .line = (uint32_t)line};
	return node;
}

void p4d_config__add(p4d_config_entries *entries, p4d_config_node *node)
{
	if (entries->last)
		entries->last->next = node;
	else
		entries->owner->first = node;
	entries->last = node;
}

const char *p4d_config__text(p4d_config *tree, const char *text, size_t length)
{
	char *copy = take(tree, length + 1);

	if (!copy)
		return NULL;
	memcpy(copy, text, length);
	copy[length] = '\0';
	return copy;
}

void p4d_config_free(p4d_config *tree)
{
	while (tree->chunks) {
		struct p4d_config_chunk *next = tree->chunks->next;
		free(tree->chunks);
		tree->chunks = next;
	}
	tree->root = NULL;
}
