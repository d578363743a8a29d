/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"
#include "timeline/timeline.h"

/*
 * One rank of a training job: the arena of its plan, the groups of its place, and the executor of its
 * instruction list. After p4d_trainer_open nothing allocates.
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
	double margin;    /* for pairs: mean of beta * (difference of both answers' log-probabilities - the
			     reference's difference) */
	double preferred; /* for pairs: share of pairs whose margin is above 0 */
	bool applied;     /* the update was applied; otherwise weights and moments are bitwise
			   * unchanged */
} p4d_step_result;

/*
 * Collective in the sense of p4d_group_open: every rank opens the same layout. Errors: WORLD (the world's
 * size is not the layout's), UNMODELLED (what this runtime does not compute), NO_MEMORY.
 */
int p4d_trainer_open(p4d_trainer **trainer, const p4d_trainer_settings *settings, p4d_error *err);
void p4d_trainer_close(p4d_trainer *trainer);

/*
 * Sets the weights of a new model: a function of seed, name and position of the element, so they are the same
 * for every layout.
 */
int p4d_trainer_initialize(p4d_trainer *trainer, uint64_t seed, p4d_error *err);
/* Like p4d_trainer_initialize, only for the adapters that are trained. */
int p4d_trainer_initialize_trained(p4d_trainer *trainer, uint64_t seed, p4d_error *err);

/* Sets the initial values of a slice of a stage's own head, for weights of a released model, which has no
 * such head. */
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
 * default no loss is too high. The same on all ranks.
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
 * With pairs: sums (global_batch, 2) become the log-probabilities of the chosen and the rejected answer of
 * each pair of a step's batch, on all ranks. Changes nothing. The source is not asked for a reference.
 */
int p4d_trainer_measure_pairs(p4d_trainer *trainer, uint64_t step, p4d_batch_source source, void *context,
			      double *sums, p4d_error *err);

/* Like p4d_net_predict; afterwards a step or an evaluation may follow. */
int p4d_trainer_predict(p4d_trainer *trainer, int32_t token, uint64_t position, float *logits,
			p4d_error *err);

/*
 * The instructions of this rank in a step; and an array in which later steps store the time of each
 * instruction, in seconds since the start of the step (NULL: none). If the device runs asynchronously, the
 * host then waits for it after each instruction, so that nothing overlaps.
 */
const p4d_instruction_list *p4d_trainer_list(const p4d_trainer *trainer);
void p4d_trainer_trace(p4d_trainer *trainer, p4d_span *spans);

/*
 * For checkpoints, which read and write this rank's optimizer shard of a segment: fp32 values as stored on
 * the device.
 */
const p4d_weights *p4d_trainer_weights(const p4d_trainer *trainer);
p4d_place p4d_trainer_place(const p4d_trainer *trainer);
/* elements [*first, *first + *count) of the flat buffer are this rank's shard of segment number i */
void p4d_trainer_shard(const p4d_trainer *trainer, uint32_t segment, uint64_t *first, uint64_t *count);
int p4d_trainer_read(p4d_trainer *trainer, uint32_t segment, p4d_state state, float *to, p4d_error *err);
int p4d_trainer_write(p4d_trainer *trainer, uint32_t segment, p4d_state state, const float *from,
		      p4d_error *err);
/* Elements of frozen weights, starting at an offset of the flat buffer; the numbers may be changed. */
void p4d_trainer_write_frozen(p4d_trainer *trainer, uint64_t offset, float *numbers, uint64_t count);
/* For quantized weights: like p4d_quantized_put. */
int p4d_trainer_write_quantized(p4d_trainer *trainer, const p4d_weight *weight,
				const p4d_quantized_part *part, uint64_t at, float *numbers, uint64_t count,
				p4d_error *err);
/* Call it after all shards were written: computes the parameters from the master copies, and gathers them. */
int p4d_trainer_restore(p4d_trainer *trainer, p4d_error *err);

/*
 * For tests: gradients of this rank's flat buffer after the last step, of the sum of losses over global_batch
 * * seq_len. They are reduced for this rank's shard; the rest is partial sums. With sharded gradients there
 * are only the shards, one after another.
 */
const float *p4d_trainer_gradients(const p4d_trainer *trainer);

/* The arena size that was requested from the device, and its plan. */
uint64_t p4d_trainer_arena_bytes(const p4d_trainer *trainer);
const p4d_plan *p4d_trainer_plan(const p4d_trainer *trainer);
/*
 * Bytes of the arena that were ever written, by class, as in p4d_plan.part. If buffers of different moments
 * share memory, it counts for those of the peak. One pass over the arena. P4D_NOT_MODELLED if the device
 * cannot tell. Errors: RANK.
 */
int p4d_trainer_arena_used(const p4d_trainer *trainer, uint64_t part[P4D_PART_COUNT], p4d_error *err);
