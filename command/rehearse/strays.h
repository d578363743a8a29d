/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/*
 * The children that this process has before it starts a program. Children that it gets later belong to the
 * program.
 */
typedef struct p4d_strays {
	pid_t own[256];
	size_t count;
} p4d_strays;

/* From now on, processes whose parents end become children of this process. */
void p4d_strays__begin(p4d_strays *strays);
/* Ends all children that appeared since p4d_strays__begin, and the processes that these children started. */
void p4d_strays__end(const p4d_strays *strays);
