/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* Included before every file: declares what glibc has and emscripten 3.1 lacks. web.c defines it. */
void qsort_r(void *base, size_t count, size_t size, int (*order)(const void *, const void *, void *),
	     void *context);
void *reallocarray(void *array, size_t count, size_t size);
