/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu_table.h"

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

int p4d_gpus_add(p4d_gpus *gpus, const p4d_gpu *gpu, p4d_error *err)
{
	p4d_gpu *grown;
	size_t at = 0;

	if (p4d_gpus_own(gpus, err) < 0)
		return -1;
	grown = realloc(gpus->owned, (gpus->count + 1) * sizeof(*grown));
	if (!grown)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu GPUs", gpus->count + 1);
	while (at < gpus->count && p4d_gpus__compare(grown[at].name, gpu->name, strlen(gpu->name)) < 0)
		at++;
	memmove(&grown[at + 1], &grown[at], (gpus->count - at) * sizeof(*grown));
	grown[at] = *gpu;
	gpus->gpu = gpus->owned = grown;
	gpus->count++;
	return 0;
}

int p4d_gpus_load(p4d_gpus *gpus, const char *path, p4d_error *err)
{
	if (path)
		return p4d_gpus_read(gpus, path, err);
	*gpus = (p4d_gpus){.count = p4d_gpu_table_count, .gpu = p4d_gpu_table};
	return 0;
}
