/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "gpu/gpu.h"

/* etc/gpus.json as of the build; generated from it. */
extern const p4d_gpu p4d_gpu_table[];
extern const size_t p4d_gpu_table_count;
