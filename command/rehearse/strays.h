/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Processes that this one has before it starts a program; what comes to it later is the program's. */
typedef struct p4d_strays {
	pid_t own[256];
	size_t count;
} p4d_strays;

/* From now on, processes whose parents end come to this one. */
void p4d_strays__begin(p4d_strays *strays);
/* Ends all processes that were added, and those that they started. */
void p4d_strays__end(const p4d_strays *strays);
