/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "schedule/schedule.h"

/*
 * The times at which the instructions of a schedule run, from their durations. A stage executes its list in
 * order. Sends overlap with what follows; a receive waits for the data. Vocabulary passes overlap their
 * collectives in the same way: VOCAB_BACKWARD waits until VOCAB_FORWARD of the same micro-batch has run on
 * every stage and its results are combined. The timeline assumes that send buffers are free, since no list
 * needs more than P4D_SEND_BUFFERS of them to proceed.
 */

/* Seconds of the passes per stage, chunk and slice: index (stage*chunks + chunk) * slices + slice. NULL: 0
 * everywhere. */
typedef struct p4d_durations {
	const double *forward, *backward_input, *backward_weight; /* BACKWARD takes backward_input plus
								   * backward_weight */
	/*
	 * Additional seconds of a forward or backward pass if no pass of the other direction runs next to it
	 * and hides its exchange of tokens. These seconds count as idle. If given, the two passes of a pair
	 * in a crosswise schedule start when both have their data, and end at the same time, with the weight
	 * gradient if that follows at once. Same index; NULL: 0 everywhere. Not for schedules in phases,
	 * where no pass has a partner.
	 */
	const double *alone;
	double send; /* a transfer to the next position if that is on another stage; overlaps with passes */
	double recv; /* the exposed part of a transfer, on the receiver; counts as busy */
	double vocabulary_forward, vocabulary_backward; /* passes S and T, the same on all stages */
	/* A collective over the stages, hidden if possible. There is one from the embeddings to the
	 * forward pass at position 0, one from the last forward pass to S, from S to T, from S or T to the
	 * first backward pass, and from the last backward pass to EMBED_BACKWARD. */
	double vocabulary_sync;
	double embed_forward, embed_backward;
	/* Exposed time per stage. gather and reduce are distributed evenly over the stage's chunks (and
	 * the tables). */
	const double *gather, *reduce, *optimizer;
} p4d_durations;

typedef struct p4d_span {
	double start, end;
} p4d_span;

typedef struct p4d_timeline {
	double seconds;         /* seconds of the whole step: the latest end */
	double bubble_fraction; /* idle time of all stages between start and end, divided by stages *
				 * seconds */
	double *busy;           /* per stage, in seconds; owned */
	/* Start and end of every instruction of each stage; NULL unless the caller asks for it; owned. A
	 * SEND has the times of its transfer, which overlaps with what follows. */
	p4d_span **span;
} p4d_timeline;

/*
 * Runs the lists. Errors: NO_MEMORY; INSTRUCTIONS if they deadlock. Free the result with p4d_timeline_free.
 */
int p4d_timeline_run(const p4d_schedule *s, const p4d_instruction_list *lists, const p4d_durations *d,
		     bool with_spans, p4d_timeline *out, p4d_error *err);
void p4d_timeline_free(p4d_timeline *timeline, uint32_t stages);

/*
 * Seconds of the step without compiling the whole schedule: exact for few micro-batches; for many, derived
 * from the periodic steady state. work: scratch memory that may be reused between calls; zero it before the
 * first call, free it with p4d_timeline_work_free. The relative error against p4d_timeline_run is at most
 * 1e-3 (tests).
 */
typedef struct p4d_timeline_work {
	void *memory;
	size_t bytes;
	/* Number of passes that p4d_timeline_seconds may still examine; NULL: any number. If it is not
	 * enough, the call fails with OVERFLOW. */
	uint64_t *budget;
} p4d_timeline_work;
int p4d_timeline_seconds(const p4d_schedule *s, const p4d_durations *d, p4d_timeline_work *work,
			 double *seconds, double *bubble_fraction, p4d_error *err);
void p4d_timeline_work_free(p4d_timeline_work *work);
