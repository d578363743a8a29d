/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "gpu/gpu.h"

/* A copy of etc/gpus.json, generated from it during the build. */
extern const p4d_gpu p4d_gpu_table[];
extern const size_t p4d_gpu_table_count;

/* Compares a name with the first `length` characters of another, ignoring case and separators; 0: equal. */
int p4d_gpus__compare(const char *name, const char *other, size_t length);
