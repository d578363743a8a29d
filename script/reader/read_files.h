/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Files that are read together with a job script: regular files of a bounded size, read with the user's
 * rights. Zero it before use. For p4d_shell_host.file; texts stay valid until p4d_read_files_free. A script
 * may list P4D_READ_FOLDERS folders, each with at most P4D_READ_ENTRIES entries.
 */
enum { P4D_READ_FILE_BYTES = 1 << 20, P4D_READ_FILES = 16, P4D_READ_ENTRIES = 1024, P4D_READ_FOLDERS = 64 };

typedef struct p4d_read_files {
	struct p4d_read_file {
		char *path, *text;
		size_t length;
	} file[P4D_READ_FILES];
	size_t count;
} p4d_read_files;

/* Returns NULL if the file cannot be read, or if there are too many files. A second call returns the same
 * text. */
const char *p4d_read_files_open(p4d_read_files *files, const char *path, size_t *length);
void p4d_read_files_free(p4d_read_files *files);
/* Gives `take` the entries of a folder, for p4d_shell_host.list. False: the folder cannot be read, or has
 * more than P4D_READ_ENTRIES entries. */
bool p4d_read_files_list(const char *folder, void (*take)(void *taker, const char *name, bool folder),
			 void *taker);
