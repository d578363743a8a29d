/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum { P4D_REHEARSE_RANKS = 64 };

/* The command line of p4d rehearse. Strings are the caller's words. */
typedef struct p4d_rehearse_options {
	const char *gpu, *ranks;
	uint64_t nodes, gpus_per_node, steps, timeout;
	bool json;
	char **program; /* NULL-terminated */
	uint64_t rank[P4D_REHEARSE_RANKS];
	unsigned count; /* of ranks to play */
} p4d_rehearse_options;

/* Fills what the words name; the caller sets the defaults. Errors: USAGE, VALUE. */
int p4d_rehearse_options__parse(p4d_rehearse_options *o, int argc, char *argv[], p4d_error *err);

/* Lists the ranks that --ranks names in a world of nodes * gpus_per_node. Errors: VALUE. */
int p4d_rehearse_options__ranks(p4d_rehearse_options *o, p4d_error *err);
