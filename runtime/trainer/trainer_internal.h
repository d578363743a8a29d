/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "trainer/trainer.h"

/* What the files of the trainer share. */

/* The buffers of one direction, and the sends that are on their way from them. */
typedef struct p4d_sends {
	p4d_pending pending[P4D_SEND_BUFFERS];
	bool busy[P4D_SEND_BUFFERS];
	unsigned current; /* the buffer that the pass before the next SEND fills */
} p4d_sends;

struct p4d_trainer {
	p4d_net net;
	p4d_optimizer_settings optimizer;
	/* of the step that runs */
	p4d_sends sends[2];
	float learning_rate;
	double most_loss;  /* that is applied */
	uint64_t *gathers; /* by segment: calls of `replicas` after which its parameters are there */
	p4d_step_result result;
};

/* executor.c */
int p4d_executor__run(p4d_trainer *t, p4d_error *err);

/* optimizer.c */
/* Asks for the parameters of a segment, or of all whose GATHER_PARAMS is in the list, in its order. */
int p4d_optimizer__gather_segment(p4d_trainer *t, uint32_t segment, p4d_error *err);
int p4d_optimizer__gather_ahead(p4d_trainer *t, p4d_error *err);
int p4d_optimizer__await_segment(p4d_trainer *t, uint32_t segment,
				 p4d_error *err); /* they are used from here on */
/* Segments of a chunk; chunk == chunks: of the tables. */
uint32_t p4d_optimizer__segments_of(const p4d_trainer *t, uint32_t chunk);
uint32_t p4d_optimizer__segment_at(const p4d_trainer *t, uint32_t chunk, uint32_t i);
/* After a layer in the pass that is the last to add to its gradients, where they can be reduced beside what
 * follows; and what is left after that pass. */
int p4d_optimizer__reduce_layer(p4d_trainer *t, const p4d_instruction *in, uint32_t layer, p4d_error *err);
int p4d_optimizer__reduce_chunk(p4d_trainer *t, uint32_t chunk, p4d_error *err);
int p4d_optimizer__reduce_segment(p4d_trainer *t, uint32_t segment, bool at_end, p4d_error *err);
int p4d_optimizer__update(p4d_trainer *t, p4d_error *err);
