/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The GPUs of p4d's table, for tests of predicted times. The group setup load_gpus loads them. Include
 * after support.h. */
#include "gpu/gpu.h"

static p4d_gpus gpus;

static inline int load_gpus(void **state)
{
	(void)state;
	return p4d_gpus_load(&gpus, NULL, NULL);
}

static inline p4d_gpu gpu_named(const char *name)
{
	const p4d_gpu *gpu = p4d_gpu_find(&gpus, name, NULL);

	assert_non_null(gpu);
	return *gpu;
}
