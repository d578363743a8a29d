/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* A whole file mapped into memory, read-only. Zero the struct before use. */
typedef struct p4d_mapping {
	const uint8_t *data; /* NULL when bytes is 0 */
	uint64_t bytes;
} p4d_mapping;

/*
 * Maps a regular file. Pages are read when they are touched. If another program truncates a mapped file,
 * access raises SIGBUS, so replace such files by rename. Errors: `code`, with the path and the reason.
 */
int p4d_mapping_open(p4d_mapping *mapping, const char *path, p4d_code code, p4d_error *err);
void p4d_mapping_close(p4d_mapping *mapping);
