/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"
#include "gpu/gpu.h"
#include "rehearse/micro_batch.h"
#include "rehearse/rehearse_fits.h"
#include "rehearse/rehearsed.h"

/* Predictions by p4d's formulas. 0: unknown. */
typedef struct p4d_rehearse_estimate {
	uint64_t device_bytes;              /* for training: on the fullest GPU */
	uint64_t cache_bytes, cache_tokens; /* for an engine */
	double seconds;                     /* for training: of a step */
} p4d_rehearse_estimate;

/* The answer of `p4d rehearse`, from at least one played rank. The caller owns all members. */
typedef struct p4d_rehearse_answer {
	const p4d_player *player;
	const p4d_rehearsed *rehearsed; /* one per rank that was played */
	unsigned count;
	const p4d_rehearse_fits *fits;
	const p4d_micro_batch *micro_batch;
	p4d_rehearse_estimate estimate;
	uint64_t host_bytes; /* host memory of a node that the job may use; 0: unknown */
} p4d_rehearse_answer;

enum { P4D_REHEARSE_REASON = 240 };

/* The verdict over all ranks, its reason (empty for a pass) and the rank that caused it. */
p4d_rehearsed_verdict p4d_rehearse__judge(const p4d_rehearse_answer *a, const p4d_rehearsed **worst,
					  char reason[P4D_REHEARSE_REASON]);

/* Host memory of a node, from the played ranks; the other ranks count like the last of them. */
uint64_t p4d_rehearse__node_host(const p4d_rehearse_answer *a);

/* Prints the answer; the exit status of the verdict, or -1 with an error. Errors: NO_MEMORY. */
int p4d_rehearse__print(const p4d_rehearse_answer *a, p4d_error *err);
int p4d_rehearse__print_json(const p4d_rehearse_answer *a);

/* The exit status of the command. */
int p4d_rehearse__status(p4d_rehearsed_verdict verdict);
