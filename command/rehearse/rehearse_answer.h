/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"
#include "gpu/gpu.h"
#include "rehearse/rehearsed.h"

/* What `p4d rehearse` answers: from ranks that were played, at least one. All members belong to the caller.
 */
typedef struct p4d_rehearse_answer {
	const p4d_player *player;
	const p4d_rehearsed *rehearsed; /* one per rank that was played */
	unsigned count;
	const p4d_gpus *gpus;
} p4d_rehearse_answer;

enum { P4D_REHEARSE_REASON = 240 };

/* The verdict over all ranks, its reason (empty for a pass) and the rank that it is from. */
p4d_rehearsed_verdict p4d_rehearse__judge(const p4d_rehearse_answer *a, const p4d_rehearsed **worst,
					  char reason[P4D_REHEARSE_REASON]);

/* Prints the answer; the exit status of the verdict, or -1 with an error. Errors: NO_MEMORY. */
int p4d_rehearse__print(const p4d_rehearse_answer *a, p4d_error *err);
int p4d_rehearse__print_json(const p4d_rehearse_answer *a);

/* What the command exits with. */
int p4d_rehearse__status(p4d_rehearsed_verdict verdict);
