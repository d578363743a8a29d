/* SPDX-License-Identifier: Apache-2.0 */
/* Finds p4d.conf and the data directory. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "line/line.h"

const char *p4d_line_data_directory(void)
{
	const char *directory = getenv("P4D_DATADIR");

	return directory && *directory ? directory : NULL;
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
	if (p4d_site_find(slurm_conf && *slurm_conf ? slurm_conf : "/etc/slurm/slurm.conf", path, size))
		return 0;
	path[0] = '\0';
	return 0;
}

p4d_site *p4d_line_open_site(const char *option, p4d_error *err)
{
	char path[PATH_MAX];

	if (p4d_line_find_conf(option, path, sizeof(path), err) < 0)
		return NULL;
	return *path ? p4d_site_load(path, p4d_line_data_directory(), false, 0, err)
		     : p4d_site_default(p4d_line_data_directory(), P4D_MODE_ENFORCE, err);
}

p4d_config_read *p4d_line_config(p4d_config_format format)
{
	char path[PATH_MAX];

	return p4d_library_find(p4d_config_libraries[format].file, path, sizeof(path))
		   ? p4d_config_open(path, format)
		   : NULL;
}
