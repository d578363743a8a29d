/* SPDX-License-Identifier: Apache-2.0 */
/* Finds p4d.conf and the data directory. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "line/line.h"

const char *p4d_line_data_directory(void)
{
	const char *directory = getenv("P4D_DATADIR");

	return directory && *directory ? directory : P4D_DATADIR;
}

static bool exists(const char *path)
{
	/* anything but "no such file" is worth an error message when it is opened */
	return access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

/* p4d.conf in the directory of slurm.conf. */
static bool beside(const char *slurm_conf, char *path, size_t size)
{
	const char *slash = strrchr(slurm_conf, '/');
	int length = slash ? snprintf(path, size, "%.*s/p4d.conf", (int)(slash - slurm_conf), slurm_conf)
			   : snprintf(path, size, "p4d.conf");

	return length > 0 && (size_t)length < size && exists(path);
}

int p4d_line_find_conf(const char *option, char *path, size_t size, p4d_error *err)
{
	const char *slurm_conf = getenv("SLURM_CONF");

	if (option) {
		if (strlen(option) >= size)
			return p4d_fail(err, P4D_E_IO, "%.64s...: the path is too long", option);
		memcpy(path, option, strlen(option) + 1);
		return 0;
	}
	if (slurm_conf && *slurm_conf) {
		if (beside(slurm_conf, path, size))
			return 0;
	} else if (beside("/etc/slurm/slurm.conf", path, size) ||
		   beside(P4D_SYSCONFDIR "/slurm.conf", path, size)) {
		return 0;
	}
	path[0] = '\0';
	return 0;
}

p4d_site *p4d_line_open_site(const char *option, p4d_error *err)
{
	char path[PATH_MAX];

	if (p4d_line_find_conf(option, path, sizeof(path), err) < 0)
		return NULL;
	return *path ? p4d_site_load(path, p4d_line_data_directory(), false, 0, err)
		     : p4d_site_default(p4d_line_data_directory(), err);
}
