/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"

/*
 * A file that gets its name only when it is complete. p4d writes it as NAME.PID-N in the same directory,
 * syncs it and renames it. If the disk is full, the quota is used up or the file server does not answer, the
 * call fails with P4D_E_IO and names the file; p4d_new_file_abandon then removes the temporary file. The
 * directory is opened once, so nobody can replace it before the file is complete. If the directory's name is
 * a symbolic link, the link must belong to the user or to root.
 */
typedef struct p4d_new_file {
	char *path, *temporary; /* NULL: no file is open */
	int fd, directory;
	uint64_t bytes; /* bytes written so far */
	uint8_t *buffer;
	size_t used;
} p4d_new_file;

/* Errors: IO, NO_MEMORY. Overwrites *file without closing it. */
int p4d_new_file_open(p4d_new_file *file, const char *path, p4d_error *err);
/* Appends bytes; small writes are buffered. */
int p4d_new_file_write(p4d_new_file *file, const void *data, uint64_t bytes, p4d_error *err);
/* Overwrites bytes that were written before. */
int p4d_new_file_rewrite(p4d_new_file *file, uint64_t offset, const void *data, uint64_t bytes,
			 p4d_error *err);
/* On return, all data is on disk; only the final name is missing. */
int p4d_new_file_sync(p4d_new_file *file, p4d_error *err);
/*
 * Gives the synced file its name, syncs the directory and closes the file. If this fails, call
 * p4d_new_file_abandon.
 */
int p4d_new_file_publish(p4d_new_file *file, p4d_error *err);
/* Removes a file that did not get its name. Does nothing with a zeroed, published or failed file. */
void p4d_new_file_abandon(p4d_new_file *file);

/* Writes a whole file in one call. On failure the old file is unchanged. Errors: IO, NO_MEMORY. */
int p4d_new_file_put(const char *path, const void *data, uint64_t bytes, p4d_error *err);
/* Like p4d_new_file_put, for a text; NO_MEMORY if it was truncated. Frees the text. */
int p4d_new_file_put_text(const char *path, p4d_text *text, p4d_error *err);
