/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/*
 * A file that appears under its name only when it is complete: p4d writes it to NAME.PID-N in the same
 * directory, syncs it and renames it. After a full disk, a quota or a lost server, the call fails with
 * P4D_E_IO and names the file; p4d_new_file_abandon then removes all traces. The directory is opened once, so
 * nobody can replace it before the file is complete. If its name is a symbolic link, the link must belong to
 * the user or to root.
 */
typedef struct p4d_new_file {
	char *path, *temporary; /* NULL: nothing is open */
	int fd, directory;
	uint64_t bytes; /* written so far */
	uint8_t *buffer;
	size_t used;
} p4d_new_file;

/* Errors: IO, NO_MEMORY. Overwrites *file without closing it. */
int p4d_new_file_open(p4d_new_file *file, const char *path, p4d_error *err);
/* Appends, buffering small writes. */
int p4d_new_file_write(p4d_new_file *file, const void *data, uint64_t bytes, p4d_error *err);
/* Replaces bytes that were written. */
int p4d_new_file_rewrite(p4d_new_file *file, uint64_t offset, const void *data, uint64_t bytes,
			 p4d_error *err);
/* All data is on disk on return; only the name is missing. */
int p4d_new_file_sync(p4d_new_file *file, p4d_error *err);
/* Gives the synced file its name, syncs the directory and closes. On failure: abandon. */
int p4d_new_file_publish(p4d_new_file *file, p4d_error *err);
/* Removes what was not published. Does nothing with a zeroed, published or failed file. */
void p4d_new_file_abandon(p4d_new_file *file);

/* A whole file at once; on failure nothing has changed. Errors: IO, NO_MEMORY. */
int p4d_new_file_put(const char *path, const void *data, uint64_t bytes, p4d_error *err);
