/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/json_file.h"
#include "gpu/gpu_table.h"

enum { MAX_FILE = 1024 * 1024 };

int p4d_gpus_own(p4d_gpus *gpus, p4d_error *err)
{
	if (gpus->owned)
		return 0;
	p4d_gpu *copy = malloc(gpus->count * sizeof(*copy));
	if (!copy)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu GPUs", gpus->count);
	memcpy(copy, gpus->gpu, gpus->count * sizeof(*copy));
	gpus->gpu = gpus->owned = copy;
	return 0;
}

int p4d_gpus_load(p4d_gpus *gpus, const char *path, p4d_error *err)
{
	size_t length;

	if (!path) {
		*gpus = (p4d_gpus){.count = p4d_gpu_table_count, .gpu = p4d_gpu_table};
		return 0;
	}
	char *text = p4d_text_read(path, MAX_FILE, &length, err);
	if (!text)
		return -1;
	int rc = p4d_gpus_parse(gpus, text, length, path, err);
	free(text);
	return rc;
}
