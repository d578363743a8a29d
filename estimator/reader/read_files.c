/* SPDX-License-Identifier: Apache-2.0 */
#include "reader/read_files.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

const char *p4d_read_files_open(p4d_read_files *files, const char *path, size_t *length)
{
	struct stat status;
	int file = files->count < P4D_READ_FILES ? p4d_file_open(path) : -1;
	char *text = NULL;

	if (file < 0)
		return NULL;
	if (fstat(file, &status) == 0 && S_ISREG(status.st_mode))
		text = p4d_file_read(file, P4D_READ_FILE_BYTES, length);
	close(file);
	if (text)
		files->text[files->count++] = text;
	return text;
}

void p4d_read_files_free(p4d_read_files *files)
{
	while (files->count)
		free(files->text[--files->count]);
}
