/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/step_lines.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int p4d_step_lines_read(p4d_prometheus *all, const char *path, p4d_error *err)
{
	static const char begins[] = "p4d: event=\"end\" job_id=\"";
	FILE *from = fopen(path, "re");
	size_t room = 0;
	char *line = NULL, id[32];
	int rc = 0;

	if (!from)
		return p4d_fail(err, P4D_E_IO, "%.300s: cannot be read: %s", path, strerror(errno));
	while (rc == 0 && getline(&line, &room, from) > 0) {
		const char *at = strstr(line, begins), *size = at ? strstr(at, " max_gib=\"") : NULL;
		const double gib = size ? strtod(size + strlen(" max_gib=\""), NULL) : 0;
		if (gib > 0 && gib < 1e6 && sscanf(at + strlen(begins), "%31[0-9]", id) == 1)
			rc = p4d_prometheus__add(all, id, gib, err);
	}
	const int why = ferror(from) ? errno : 0;
	free(line);
	fclose(from);
	if (why)
		return p4d_fail(err, P4D_E_IO, "%.300s: cannot be read: %s", path, strerror(why));
	p4d_prometheus__sort(all);
	if (rc < 0 || all->count)
		return rc;
	p4d_fail(err, P4D_E_VALUE, "%.300s: the file has no lines of p4d.so about GPUs", path);
	return p4d_fix(err,
		       "optional p4d.so measure=nvml in plugstack.conf, and nvidia-smi -am 1 on the nodes");
}
