/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* deepspeed's arguments that choose hosts. */
typedef struct p4d_deepspeed_hosts {
	const char *hostfile;  /* path of a file with lines such as "worker-0 slots=8" */
	const char *directory; /* directory to which a relative path of the hostfile refers; NULL: that of
				  this process */
	const char *include, *exclude; /* "worker-0@worker-1:0,2"; NULL: not given */
	uint64_t gpus;                 /* GPUs of a node that the hostfile does not list; 0: unknown */
} p4d_deepspeed_hosts;

/*
 * The number of nodes on which deepspeed starts ranks, and of ranks on each; *each 0: unknown. Errors: VALUE
 * if deepspeed itself would refuse; UNMODELLED if nodes have different numbers of ranks.
 */
int p4d_deepspeed__hosts(const p4d_deepspeed_hosts *told, uint64_t *nodes, uint64_t *each, p4d_error *err);
