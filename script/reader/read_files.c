/* SPDX-License-Identifier: Apache-2.0 */
#include "reader/read_files.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

const char *p4d_read_files_open(p4d_read_files *files, const char *path, size_t *length)
{
	struct p4d_read_file *read = &files->file[files->count];
	struct stat status;

	for (size_t i = 0; i < files->count; i++)
		if (!strcmp(files->file[i].path, path)) {
			*length = files->file[i].length;
			return files->file[i].text;
		}
	int file = files->count < P4D_READ_FILES ? p4d_file_open(path) : -1;
	if (file < 0)
		return NULL;
	char *text = NULL, *copy = strdup(path);
	if (copy && fstat(file, &status) == 0 && S_ISREG(status.st_mode))
		text = p4d_file_read(file, P4D_READ_FILE_BYTES, length);
	close(file);
	if (!text) {
		free(copy);
		return NULL;
	}
	*read = (struct p4d_read_file){copy, text, *length};
	files->count++;
	return text;
}

void p4d_read_files_free(p4d_read_files *files)
{
	for (; files->count; files->count--) {
		free(files->file[files->count - 1].path);
		free(files->file[files->count - 1].text);
	}
}

/* Whether a folder has the devices and the state of this machine, which the nodes of the job do not have. */
static bool is_of_machine(const char *folder)
{
	static const char *const roots[] = {"/dev", "/proc", "/sys", "/run"};

	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
		const size_t length = strlen(roots[i]);
		if (!strncmp(folder, roots[i], length) && (!folder[length] || folder[length] == '/'))
			return true;
	}
	return false;
}

bool p4d_read_files_list(const char *folder, void (*take)(void *taker, const char *name, bool folder),
			 void *taker)
{
	DIR *const entries = is_of_machine(folder) ? NULL : opendir(folder);
	int left = P4D_READ_ENTRIES;

	if (!entries)
		return false;
	for (const struct dirent *e = readdir(entries); e && left; e = readdir(entries))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) {
			take(taker, e->d_name, e->d_type != DT_REG); /* a link may be to a folder */
			left--;
		}
	closedir(entries);
	return left > 0;
}
