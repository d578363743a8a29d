/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { P4D_ARRAY_TASKS = 64 };

/* The tasks of a job array. */
typedef struct p4d_array {
	uint32_t task[P4D_ARRAY_TASKS]; /* the numbers of the first tasks, in order */
	unsigned listed;
	uint32_t count; /* number of all tasks; 0: not known */
	uint32_t least, most;
	uint32_t step; /* 0: unknown, because --array has several ranges */
} p4d_array;

/* Reads --array: "0-5", "1,3,7-9", "1-9:4%2". False: it is not an array, or p4d cannot tell. */
bool p4d_array__read(const char *text, p4d_array *array);
