/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* A site of one partition: a line of sinfo for its nodes, one for each kind of them. */
typedef struct site {
	const char *name, *gpu;
	unsigned gpus, nodes, mem_gib;
	const char *sinfo, *conf;
} site;

/* A job as its user would submit it: files in the current folder, including job.sh, and options. */
typedef struct test_case {
	const site *site;
	const char *kind;
	char options[512];
} test_case;

/* Writes the files of a case, including the site's, which bin/sinfo and bin/scontrol print. */
void write_case(uint64_t seed, uint64_t number, test_case *c);
