/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdlib.h>

#include "checkpoint/checkpoint_internal.h"

/* Reads all weights of a checkpoint as an export does, and also all states. */
static inline int read_whole_checkpoint(const char *path, p4d_error *err)
{
	p4d_checkpoint_info info;
	p4d_checkpoint_reader *reader;
	int rc = 0;

	if (p4d_checkpoint_reader__open(&reader, path, &info, err) < 0)
		return -1;
	const p4d_checkpoint_map *map = p4d_checkpoint_reader__map(reader);
	for (size_t i = 0; rc == 0 && i < map->count; i++) {
		const p4d_weight_slice *slice = &map->slice[i].slice;
		const uint64_t count = slice->rows * (slice->columns ? slice->columns : 1);
		float *values = calloc(count, sizeof(*values));
		for (p4d_state state = 0;
		     rc == 0 && state < p4d_optimizer_stored(p4d_optimizer_of(&map->layout)); state++)
			rc = p4d_checkpoint_reader__slice(reader, state, slice, 0, count, values, err);
		free(values);
	}
	p4d_checkpoint_reader__close(reader);
	return rc;
}
