/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* A site with one partition. sinfo: a line of output for each kind of its nodes. */
typedef struct site {
	const char *name, *gpu;
	unsigned gpus, nodes, mem_gib;
	const char *sinfo, *conf;
} site;

/* A job as its user would submit it: options, and files in the current folder such as job.sh. */
typedef struct test_case {
	const site *site;
	const char *kind;
	char options[512];
} test_case;

/* Writes the files of a case. bin/sinfo and bin/scontrol print the files of its site. */
void write_case(uint64_t seed, uint64_t number, test_case *c);
