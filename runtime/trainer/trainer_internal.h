/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "plan/offload.h"
#include "trainer/trainer.h"

/* The send buffers of one direction, and the sends that use them. */
typedef struct p4d_sends {
	p4d_pending pending[P4D_SEND_BUFFERS];
	bool busy[P4D_SEND_BUFFERS];
	unsigned current; /* the buffer to which the pass before the next SEND writes */
} p4d_sends;

/*
 * The next receive of one direction. It begins as soon as no earlier instruction of the list uses its buffer,
 * so that the message arrives while passes run.
 */
typedef struct p4d_receive {
	size_t at, from; /* at: its index in the list; from: the first index at which it may begin */
	bool begun;
} p4d_receive;

/*
 * Consecutive elements of this rank's shard of a segment, with the addresses of their data. first: index in
 * the flat buffer. device: the device whose memory has all this data.
 */
typedef struct p4d_piece {
	uint32_t segment;
	uint64_t first, count;
	p4d_device *device;
	void *parameters;
	const float *gradients;
	void *state[P4D_MOST_STATES]; /* NULL: there is no master copy, because the parameter itself is in
					 fp32 */
} p4d_piece;

/*
 * For states or parameters on the host. up, down: streams to the device and from it. The events are per slot.
 */
typedef struct p4d_offload {
	bool states, parameters; /* which of them are on the host */
	void *up, *down;
	/*
	 * Events of each slot. came: a subgroup's data has arrived. left: its results have been copied out.
	 * [0]: subgroups that the device updates; [1]: those that the host updates.
	 */
	void *came[2][P4D_OFFLOAD_SLOTS], *left[2][P4D_OFFLOAD_SLOTS];
	void *updated[P4D_OFFLOAD_SLOTS];
	uint32_t share; /* see p4d_offload_split */
} p4d_offload;

/*
 * Parts of tensors with moments in 8 bits. scales, small: how many scales, and how many fp32 moments of small
 * tensors, the plan has for each moment.
 */
typedef struct p4d_byte_part p4d_byte_part;
typedef struct p4d_byte_parts {
	p4d_byte_part *part; /* NULL: moments are not in 8 bits */
	uint32_t parts;
	uint64_t scales, small;
} p4d_byte_parts;

struct p4d_trainer {
	p4d_net net;
	p4d_optimizer_settings optimizer;
	/* state of the current step */
	p4d_sends sends[2];
	p4d_receive receives[2]; /* forward, backward */
	float learning_rate;
	double most_loss; /* a step with a loss above this is not applied */
	/* for each segment: the number of calls on the group dp_cp after which its parameters are gathered */
	uint64_t *gathers;
	p4d_step_result result;
	p4d_span *spans; /* one for each instruction of the list; see p4d_trainer_trace */
	p4d_offload offload;
	p4d_byte_parts bytes;
};

/* executor.c */
int p4d_executor__run(p4d_trainer *t, p4d_error *err);
/* Whether an instruction also runs in an evaluation. */
bool p4d_executor__evaluates(const p4d_instruction *in);

/* uses.c: makes the lists for the window of parameters, if there is a window. Errors: NO_MEMORY. */
int p4d_uses__open(p4d_trainer *t, p4d_error *err);

/* optimizer.c */
/*
 * Start to gather parameters: of one segment, or of all segments that the instruction list gathers
 * (GATHER_PARAMS), in order.
 */
int p4d_optimizer__gather_segment(p4d_trainer *t, uint32_t segment, p4d_error *err);
int p4d_optimizer__gather_ahead(p4d_trainer *t, p4d_error *err);
int p4d_optimizer__await_segment(p4d_trainer *t, uint32_t segment,
				 p4d_error *err); /* waits until the segment's parameters are gathered */
/* Index of segment i of a chunk; chunk == vpp: the segment of the tables. */
uint32_t p4d_optimizer__segment_at(const p4d_trainer *t, uint32_t chunk, uint32_t i);
/*
 * Call it after the backward pass of a layer. If no later pass adds to the layer's gradients, it starts to
 * reduce them, so that later operations run at the same time.
 */
int p4d_optimizer__reduce_layer(p4d_trainer *t, const p4d_instruction *in, uint32_t layer, p4d_error *err);
/*
 * Call it after the last backward pass of a chunk. It reduces the gradients that reduce_layer has not
 * reduced.
 */
int p4d_optimizer__reduce_chunk(p4d_trainer *t, uint32_t chunk, p4d_error *err);
int p4d_optimizer__update(p4d_trainer *t, p4d_error *err);
/*
 * Describes `count` elements of this rank's shard of a segment, from index `at` of the shard on. Parameters
 * and gradients are on the device, states are where the plan stores them.
 */
p4d_piece p4d_optimizer__piece(const p4d_trainer *t, uint32_t segment, uint64_t at, uint64_t count);
/* Runs the optimizer on a piece. scale: factor of the gradients. */
void p4d_optimizer__update_piece(p4d_trainer *t, const p4d_piece *piece, double scale);

/* Sets the range of a weight that is in this rank's shard of its segment; count 0: none. */
void p4d_optimizer__part_of(const p4d_trainer *t, uint32_t segment, const p4d_weight *weight, uint64_t *from,
			    uint64_t *count);

/* The parameters of AdamW's step on a weight. */
p4d_adam p4d_optimizer__adam(const p4d_trainer *t, const p4d_weight *weight, double scale);

/* optimizer_bytes.c: moments in 8 bits. Errors: NO_MEMORY. Does nothing if the plan has none. */
int p4d_optimizer_bytes__open(p4d_trainer *t, p4d_error *err);
int p4d_optimizer_bytes__update(p4d_trainer *t, double scale, p4d_error *err);
/* Reads or writes a moment of this rank's shard of a segment in the form that checkpoints have, as fp32. */
int p4d_optimizer_bytes__read(p4d_trainer *t, uint32_t segment, p4d_state state, float *to, p4d_error *err);
void p4d_optimizer_bytes__write(p4d_trainer *t, uint32_t segment, p4d_state state, const float *from);

/* optimizer_muon.c. Errors: UNMODELLED. */
static inline bool p4d_optimizer_muon__is_used(const p4d_trainer *t)
{
	return t->net.l->optimizer == P4D_MUON && !t->net.l->evaluates;
}
int p4d_optimizer_muon__open(const p4d_trainer *t, p4d_error *err);
int p4d_optimizer_muon__update(p4d_trainer *t, double scale, p4d_error *err);
/*
 * Reads or writes the second moments of this rank's shard of a segment in the form that checkpoints have: 0
 * for weights without second moments.
 */
int p4d_optimizer_muon__read(p4d_trainer *t, uint32_t segment, float *to, p4d_error *err);
void p4d_optimizer_muon__write(p4d_trainer *t, uint32_t segment, const float *from);

/* optimizer_host.c: with states or parameters on the host */
bool p4d_optimizer_host__is_used(const p4d_trainer *t);
int p4d_optimizer_host__open(p4d_trainer *t, p4d_error *err);
int p4d_optimizer_host__update(p4d_trainer *t, double scale, p4d_error *err);
/* Computes the parameters of this rank's shards from the master copies. */
int p4d_optimizer_host__restore(p4d_trainer *t, p4d_error *err);
