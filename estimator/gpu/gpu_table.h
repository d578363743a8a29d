/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "gpu/gpu.h"

/* etc/gpus.json as of the build; generated from it. */
extern const p4d_gpu p4d_gpu_table[];
extern const size_t p4d_gpu_table_count;

/* Orders a name and `length` characters of another, ignoring case and separators; 0: the same. */
int p4d_gpus__compare(const char *name, const char *other, size_t length);
