/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/*
 * A file that appears under its name only when complete: it is written to NAME.PID-N in the same directory,
 * synced and renamed. A full disk, a quota or a lost server ends with P4D_E_IO that names the file;
 * p4d_new_file_abandon then leaves nothing behind. The directory is opened once, so nobody can put another in
 * its place meanwhile; if its name is a symbolic link, it must be of the user or of root.
 */
typedef struct p4d_new_file {
	char *path, *temporary; /* NULL: nothing is open */
	int fd, directory;
	uint64_t bytes; /* written so far */
	uint8_t *buffer;
	size_t used;
} p4d_new_file;

/* Errors: IO, NO_MEMORY. Ignores what was open in *file before. */
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
/* Removes what was not published. Also of a zeroed, published or failed file. */
void p4d_new_file_abandon(p4d_new_file *file);

/* A whole file at once; on failure nothing has changed. Errors: IO, NO_MEMORY. */
int p4d_new_file_put(const char *path, const void *data, uint64_t bytes, p4d_error *err);
