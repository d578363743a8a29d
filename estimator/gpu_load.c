/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu_table.h"
#include "json_file.h"

enum { MAX_FILE = 1024 * 1024 };

static int copy_table(p4d_gpus *gpus, p4d_error *err)
{
	size_t size = p4d_gpu_table_count * sizeof(*gpus->gpu);
	p4d_gpu *copy = malloc(size);

	if (!copy)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu GPUs", p4d_gpu_table_count);
	memcpy(copy, p4d_gpu_table, size);
	*gpus = (p4d_gpus){.count = p4d_gpu_table_count, .gpu = copy};
	return 0;
}

int p4d_gpus_load(p4d_gpus *gpus, const char *datadir, p4d_error *err)
{
	char path[1024];
	size_t length;

	snprintf(path, sizeof(path), "%s/gpus.json", datadir);
	if (access(path, F_OK) < 0 && errno == ENOENT)
		return copy_table(gpus, err);
	char *text = p4d_text_read(path, MAX_FILE, &length, err);
	if (!text)
		return -1;
	/* usually the file is the one that p4d was built with, and need not be parsed */
	bool same = length == p4d_gpu_table_length && !memcmp(text, p4d_gpu_table_text, length);
	int rc = same ? copy_table(gpus, err) : p4d_gpus_parse(gpus, text, length, path, err);
	free(text);
	return rc;
}
