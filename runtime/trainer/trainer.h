/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"
#include "timeline/timeline.h"

/*
 * One rank of a training job. It has the arena of its plan and the groups that it communicates in, and
 * executes the instruction list of its stage. After p4d_trainer_open nothing allocates.
 */
typedef struct p4d_trainer p4d_trainer;

/* AdamW. clip: the largest norm of the gradient; 0: no limit. */
typedef struct p4d_optimizer_settings {
	float beta1, beta2, epsilon, weight_decay, clip;
} p4d_optimizer_settings;

typedef struct p4d_trainer_settings {
	p4d_net_settings net;
	p4d_optimizer_settings optimizer;
} p4d_trainer_settings;

typedef struct p4d_step_result {
	double loss;          /* mean over the tokens of the global batch, the same on all ranks */
	double gradient_norm; /* before clipping */
	uint64_t tokens;      /* number of tokens that were trained on; of pairs, in a layout with pairs */
	uint64_t nonfinite;   /* number of gradients that are NaN or infinite */
	/*
	 * with pairs: mean of beta * (difference of both answers' log-probabilities - the same difference
	 * with the reference)
	 */
	double margin;
	double preferred; /* for pairs: share of pairs whose margin is above 0 */
	bool applied;     /* the update was applied; otherwise weights and moments are bitwise
			   * unchanged */
} p4d_step_result;

/*
 * Opens the trainer. Collective: every rank opens the same layout. Errors: WORLD (the layout is for another
 * number of ranks), UNMODELLED (what this runtime does not compute), NO_MEMORY.
 */
int p4d_trainer_open(p4d_trainer **trainer, const p4d_trainer_settings *settings, p4d_error *err);
void p4d_trainer_close(p4d_trainer *trainer);

/*
 * Sets the weights of a new model. A weight depends only on the seed, the tensor's name and the element's
 * position, so all layouts begin with the same weights.
 */
int p4d_trainer_initialize(p4d_trainer *trainer, uint64_t seed, p4d_error *err);
/* Like p4d_trainer_initialize, only for the adapters that are trained. */
int p4d_trainer_initialize_trained(p4d_trainer *trainer, uint64_t seed, p4d_error *err);

/*
 * Computes initial values for a slice of a stage's own head. Weights of a released model have no such head.
 */
void p4d_trainer_draw_local(const p4d_trainer *trainer, const p4d_weight_slice *slice, uint64_t at,
			    uint64_t count, float *to);

/*
 * One optimizer step. number counts from 1 (for Adam's correction). The host waits for the device once, for
 * the result. The weight update may still be in flight; an error in it is reported at the next wait.
 */
int p4d_trainer_step(p4d_trainer *trainer, uint64_t number, float learning_rate, p4d_batch_source source,
		     void *context, p4d_step_result *out, p4d_error *err);

/*
 * From the next step on, steps with a loss above `most` are not applied, and their batch is dropped. By
 * default no loss is too high. All ranks must call it with the same number.
 */
void p4d_trainer_skip_above(p4d_trainer *trainer, double most);

/* The sum of losses over labels, and the number of labels. */
typedef struct p4d_evaluated {
	double sum;
	uint64_t tokens;
} p4d_evaluated;

/* Computes the losses of one global batch; changes nothing. */
int p4d_trainer_evaluate(p4d_trainer *trainer, uint64_t step, p4d_batch_source source, void *context,
			 p4d_evaluated *out, p4d_error *err);

/*
 * With pairs: sums (global_batch, 2) = the log-probabilities of the chosen and of the rejected answer of each
 * pair in a step's batch, on all ranks. Changes no weights. The source need not have a reference.
 */
int p4d_trainer_measure_pairs(p4d_trainer *trainer, uint64_t step, p4d_batch_source source, void *context,
			      double *sums, p4d_error *err);

/* Like p4d_net_predict. A step or an evaluation may follow. */
int p4d_trainer_predict(p4d_trainer *trainer, int32_t token, uint64_t position, float *logits,
			p4d_error *err);

/*
 * p4d_trainer_list: the instructions of this rank in a step. p4d_trainer_trace: later steps store the time of
 * each instruction in spans, in seconds since the start of the step; NULL: none. If the device runs
 * asynchronously, the host then waits after each instruction, so nothing overlaps.
 */
const p4d_instruction_list *p4d_trainer_list(const p4d_trainer *trainer);
void p4d_trainer_trace(p4d_trainer *trainer, p4d_span *spans);

/*
 * For checkpoints: read and write a state of this rank's optimizer shard of a segment, as fp32. The values
 * are those on the device.
 */
const p4d_weights *p4d_trainer_weights(const p4d_trainer *trainer);
p4d_place p4d_trainer_place(const p4d_trainer *trainer);
/* elements [*first, *first + *count) of the flat buffer are this rank's shard of the segment */
void p4d_trainer_shard(const p4d_trainer *trainer, uint32_t segment, uint64_t *first, uint64_t *count);
int p4d_trainer_read(p4d_trainer *trainer, uint32_t segment, p4d_state state, float *to, p4d_error *err);
int p4d_trainer_write(p4d_trainer *trainer, uint32_t segment, p4d_state state, const float *from,
		      p4d_error *err);
/* Writes elements of frozen weights from an offset of the flat buffer on. It may change `numbers`. */
void p4d_trainer_write_frozen(p4d_trainer *trainer, uint64_t offset, float *numbers, uint64_t count);
/* For quantized weights: like p4d_quantized_put. */
int p4d_trainer_write_quantized(p4d_trainer *trainer, const p4d_weight *weight,
				const p4d_quantized_part *part, uint64_t at, float *numbers, uint64_t count,
				p4d_error *err);
/* Call it after all shards were written: computes the parameters from the master copies, and gathers them. */
int p4d_trainer_restore(p4d_trainer *trainer, p4d_error *err);

/*
 * For tests: the gradients after the last step, in this rank's flat buffer. They are of the sum of losses
 * divided by global_batch * seq_len. They are reduced only in this rank's shard; elsewhere they are partial
 * sums. With sharded gradients there are only the shards, one after another.
 */
const float *p4d_trainer_gradients(const p4d_trainer *trainer);

/* Bytes of the arena that the device was asked for. The next function: the arena's plan. */
uint64_t p4d_trainer_arena_bytes(const p4d_trainer *trainer);
const p4d_plan *p4d_trainer_plan(const p4d_trainer *trainer);
/*
 * Bytes of the arena that were ever written, by class, as in p4d_plan.part. Memory that buffers of different
 * moments share counts for the buffers that exist at the peak. Reads the arena once. P4D_NOT_MODELLED if the
 * device cannot tell. Errors: RANK.
 */
int p4d_trainer_arena_used(const p4d_trainer *trainer, uint64_t part[P4D_PART_COUNT], p4d_error *err);
