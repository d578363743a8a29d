/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"
#include "gpu/gpu.h"
#include "rehearse/micro_batch.h"
#include "rehearse/rehearse_fits.h"
#include "rehearse/rehearsed.h"

/* Predictions by p4d's formulas. 0: unknown. */
typedef struct p4d_rehearse_estimate {
	uint64_t device_bytes;              /* for training: memory of the GPU that needs the most */
	uint64_t cache_bytes, cache_tokens; /* for an inference engine: its cache of keys and values */
	double seconds;                     /* for training: seconds of a step */
} p4d_rehearse_estimate;

/* The answer of `p4d rehearse`, with at least one rank that ran. The caller owns all members. */
typedef struct p4d_rehearse_answer {
	const p4d_player *player;
	const p4d_rehearsed *rehearsed; /* results, one for each rank that ran */
	unsigned count;
	const p4d_rehearse_fits *fits;
	const p4d_micro_batch *micro_batch;
	p4d_rehearse_estimate estimate;
	uint64_t host_bytes; /* host memory of a node that the job may use; 0: unknown */
} p4d_rehearse_answer;

enum { P4D_REHEARSE_REASON = 320 };

/* Returns the verdict over all ranks. reason: empty if it passes. *worst: the rank that decides the
 * verdict. */
p4d_rehearsed_verdict p4d_rehearse__judge(const p4d_rehearse_answer *a, const p4d_rehearsed **worst,
					  char reason[P4D_REHEARSE_REASON]);

/* Host memory of a node. Ranks that did not run count as much as the last rank that ran. */
uint64_t p4d_rehearse__node_host(const p4d_rehearse_answer *a);

/* Prints the answer. Returns the exit status of the verdict, or -1 with an error. Errors: NO_MEMORY. */
int p4d_rehearse__print(const p4d_rehearse_answer *a, p4d_error *err);
int p4d_rehearse__print_json(const p4d_rehearse_answer *a);

/* The exit status of the command for a verdict. */
int p4d_rehearse__status(p4d_rehearsed_verdict verdict);
