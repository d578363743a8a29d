/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the path of the installed job script, for sbatch ... $(p4d job). */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

int p4d_command_job(const p4d_line *line, p4d_error *err)
{
	const char *data = p4d_line_data_directory();
	char path[4096];

	(void)line;
	int length = snprintf(path, sizeof(path), "%s/p4d-job.sh", data ? data : P4D_DATADIR);
	if (length < 0 || length >= (int)sizeof(path))
		return p4d_fail(err, P4D_E_IO, "the path of p4d-job.sh is longer than %zu characters",
				sizeof(path) - 1);
	/* sbatch would say only that it cannot open a file */
	if (access(path, R_OK) < 0)
		return p4d_fail(err, P4D_E_IO, "%.400s: %s", path, strerror(errno));
	puts(path);
	return 0;
}
