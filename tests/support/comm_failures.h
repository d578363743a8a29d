/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Ranks that join a world and run until one fails. */
#include "support/support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "comm/wire.h"
#include "support/forked.h"

static const uint32_t two_by_two[] = {0, 0, 1, 1}, two_by_four[] = {0, 0, 0, 0, 1, 1, 1, 1};
static const uint32_t apart[] = {0, 1, 2, 3, 4, 5, 6, 7};
static const double PROMISED = 5; /* seconds within which all ranks must notice a failure */

/* Opens a group of all ranks. This may fail, because the test kills ranks at any moment. */
static inline int group_of_all(p4d_group **group, p4d_world *world, uint32_t size, p4d_error *err)
{
	uint32_t ranks[FORKED_MOST];

	for (uint32_t i = 0; i < size; i++)
		ranks[i] = i;
	return p4d_group_open(group, world, ranks, size, err);
}
