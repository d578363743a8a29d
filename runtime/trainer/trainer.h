/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_TRAINER_H
#define P4D_TRAINER_H

#include "comm/comm_device.h"
#include "plan/plan.h"
#include "model/rope.h"
#include "model/weights.h"

/*
 * One rank of a training job: the arena of its plan, the groups of its place, and the executor of its
 * instruction list. After p4d_trainer_open nothing allocates.
 */
typedef struct p4d_trainer p4d_trainer;

typedef struct p4d_trainer_settings {
	const p4d_layout *layout; /* borrowed for the life of the trainer */
	const p4d_gpu *gpu;       /* NULL on the cpu */
	p4d_device *device;
	p4d_world *world;
	p4d_transport *transport; /* of data on the device; NULL: the device's memory is the host's */
	p4d_rope rope;
	float norm_epsilon;
	float beta1, beta2, epsilon, weight_decay, clip; /* clip 0: none */
	float z_loss;
	uint64_t vocab;     /* real, without padding */
	bool document_mask; /* tokens see those of their own document only */
} p4d_trainer_settings;

/* What is asked for of a micro-batch; NULL: not. */
typedef struct p4d_batch {
	/* (micro_batch, seq_len / cp): of this rank's place in dp and cp, in the order of sampler.h */
	int32_t *tokens, *labels;
	/* (micro_batch, seq_len): of each token of the whole sequences a number that those of its document
	 * have, too, and others of the sequence have not. Asked for with document_mask only. */
	int32_t *documents;
} p4d_batch;

/*
 * Where a micro-batch comes from. A function of its arguments alone: ranks that need a micro-batch twice ask
 * twice, those that do not need it never ask.
 */
typedef int (*p4d_batch_source)(void *context, uint64_t step, uint32_t micro_batch, const p4d_batch *batch,
				p4d_error *err);

typedef struct p4d_step_result {
	double loss;          /* mean over the tokens of the global batch, the same on all ranks */
	double gradient_norm; /* before clipping */
	uint64_t tokens;      /* that were trained on */
	uint64_t nonfinite;   /* gradients that are NaN or infinite */
	bool applied;         /* else weights and moments are what they were, to the bit */
} p4d_step_result;

/*
 * Collective in the sense of p4d_group_open: every rank opens the same layout. Errors: WORLD (the world's
 * size is not the layout's), UNMODELLED (what this runtime does not compute), NO_MEMORY.
 */
int p4d_trainer_open(p4d_trainer **trainer, const p4d_trainer_settings *settings, p4d_error *err);
void p4d_trainer_close(p4d_trainer *trainer);

/* Weights of a new model: the same for every layout, a function of seed, name and position of the element. */
int p4d_trainer_initialize(p4d_trainer *trainer, uint64_t seed, p4d_error *err);

/*
 * One optimizer step. number counts from 1 (Adam's correction). The host waits for the device once, for the
 * result; the weights may still be on their way to what they become, and an error there shows at the next
 * wait for it.
 */
int p4d_trainer_step(p4d_trainer *trainer, uint64_t number, float learning_rate, p4d_batch_source source,
		     void *context, p4d_step_result *out, p4d_error *err);

/*
 * Steps with a loss above `most` are not applied, from the next one on; their batch is dropped. At first none
 * is too high. The same on all ranks.
 */
void p4d_trainer_skip_above(p4d_trainer *trainer, double most);

/* The loss of one global batch, nothing changed. */
int p4d_trainer_evaluate(p4d_trainer *trainer, uint64_t step, p4d_batch_source source, void *context,
			 double *loss, p4d_error *err);

/* For checkpoints: this rank's optimizer shard of a segment, fp32 values as stored on the device. */
typedef enum p4d_state { P4D_STATE_MASTER, P4D_STATE_FIRST, P4D_STATE_SECOND, P4D_STATES } p4d_state;
const p4d_weights *p4d_trainer_weights(const p4d_trainer *trainer);
p4d_place p4d_trainer_place(const p4d_trainer *trainer);
/* elements [*first, *first + *count) of the flat buffer are this rank's shard of segment number i */
void p4d_trainer_shard(const p4d_trainer *trainer, uint32_t segment, uint64_t *first, uint64_t *count);
int p4d_trainer_read(p4d_trainer *trainer, uint32_t segment, p4d_state state, float *to, p4d_error *err);
int p4d_trainer_write(p4d_trainer *trainer, uint32_t segment, p4d_state state, const float *from,
		      p4d_error *err);
/* After all shards were written: parameters follow from the masters, and are gathered. */
int p4d_trainer_restore(p4d_trainer *trainer, p4d_error *err);

/*
 * For tests: gradients of this rank's flat buffer as the last step left them, reduced (of this rank's shard;
 * the rest is partial sums), of the sum of losses over global_batch * seq_len.
 */
const float *p4d_trainer_gradients(const p4d_trainer *trainer);

/* What the device was asked for, once, and the plan it is. */
uint64_t p4d_trainer_arena_bytes(const p4d_trainer *trainer);
const p4d_plan *p4d_trainer_plan(const p4d_trainer *trainer);
/*
 * Bytes of the arena that were ever written, by class, as p4d_plan.part counts: where buffers of different
 * moments share memory it counts for those of the peak. One pass over the arena. P4D_NOT_MODELLED where the
 * device cannot tell. Errors: RANK.
 */
int p4d_trainer_used(const p4d_trainer *trainer, uint64_t part[P4D_PART_COUNT], p4d_error *err);

#endif
