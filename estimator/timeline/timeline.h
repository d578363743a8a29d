/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "schedule/schedule.h"

/*
 * When every instruction of a schedule runs, given its duration. A stage executes its list in order; sends
 * overlap with what follows, a receive waits for the data. Vocabulary passes overlap their collectives in the
 * same way: VOCAB_BACKWARD waits until every stage's VOCAB_FORWARD of the micro-batch is done and combined.
 * Send buffers are assumed free: a list never needs more than P4D_SEND_BUFFERS of them to proceed.
 */

/* Seconds of the passes per stage, chunk and slice: index (stage*chunks + chunk) * slices + slice. NULL: 0
 * everywhere. */
typedef struct p4d_durations {
	const double *forward, *backward_input, *backward_weight; /* BACKWARD takes the sum of the last two */
	double send; /* a transfer to the next position, if that is another stage; overlaps with passes */
	double recv; /* the exposed part of a transfer on the receiver; busy time */
	double vocabulary_forward, vocabulary_backward; /* S and T, the same on all stages */
	/* A collective over the stages, hidden where possible: from the embeddings to the forward at position
	 * 0, from the last forward to S, from S to T, from S or T to the first backward, from the last
	 * backward to EMBED_BACKWARD. */
	double vocabulary_sync;
	double embed_forward, embed_backward;
	/* Exposed time per stage; gather and reduce in equal parts on its chunks (and the tables). */
	const double *gather, *reduce, *optimizer;
} p4d_durations;

typedef struct p4d_span {
	double start, end;
} p4d_span;

typedef struct p4d_timeline {
	double seconds;         /* seconds of the whole step: the latest end */
	double bubble_fraction; /* idle time of all stages between start and end, over stages * seconds */
	double *busy;           /* per stage, seconds; owned */
	/* Per stage and instruction; NULL unless the caller asks for it; owned. The span of a SEND is the
	 * transfer, which overlaps with what follows. */
	p4d_span **span;
} p4d_timeline;

/* Runs the lists. Errors: NO_MEMORY; INSTRUCTIONS when they deadlock. Free with p4d_timeline_free. */
int p4d_timeline_run(const p4d_schedule *s, const p4d_instruction_list *lists, const p4d_durations *d,
		     bool with_spans, p4d_timeline *out, p4d_error *err);
void p4d_timeline_free(p4d_timeline *timeline, uint32_t stages);

/*
 * Seconds of the step without compiling the whole schedule: exact for few micro-batches; for many, from the
 * steady state, which is periodic. work: scratch memory, may be reused between calls; zero before the first,
 * free with p4d_timeline_work_free. Relative error against p4d_timeline_run: at most 1e-3 (tests).
 */
typedef struct p4d_timeline_work {
	void *memory;
	size_t bytes;
	/* Passes that may still be looked at; NULL: any number. Where that is not enough, seconds fails:
	 * OVERFLOW. */
	uint64_t *budget;
} p4d_timeline_work;
int p4d_timeline_seconds(const p4d_schedule *s, const p4d_durations *d, p4d_timeline_work *work,
			 double *seconds, double *bubble_fraction, p4d_error *err);
void p4d_timeline_work_free(p4d_timeline_work *work);
