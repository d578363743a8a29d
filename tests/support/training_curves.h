/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The losses of a model in any layout, compared with those on one rank. Include after support.h. */
#include <math.h>
#include <sys/mman.h>

#include "support/forked.h"
#include "support/training.h"

enum { CURVE_STEPS = 20, VOCAB = 203, SEED = 7, CURVE_PATIENCE_SECONDS = 300 };

/* The rate rises in a warm-up. At a constant rate, AdamW's first updates would be as large as later ones,
 * although rounding may decide their signs. Losses would then differ ten times as much. */
static const float curve_last_rate = 1.5e-3f;

/* A model for tests that do not depend on the model. */
#define TINY "model=custom layers=8 hidden=32 ffn=96 heads=8 head-dim=4 vocab=203 seq-len=32 global-batch=8 "
/* Both models have 8 heads. */
#define PLAIN "kv-heads=8 tied=off bias=none qk-norm=off "
#define GROUPED "kv-heads=4 tied=on bias=qkv qk-norm=on "

typedef struct shape {
	uint32_t ranks;
	const char *options;
} shape;

static const shape shapes[] = {
#include "support/training_layouts.h"
};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

typedef struct curve {
	double loss[CURVE_STEPS + 1], norm[CURVE_STEPS]; /* the last loss comes from an evaluation */
	uint64_t tokens;
	unsigned steps;
} curve;

/* The curve that rank 0 measured, in memory shared with the parent. */
static curve *curve_shared;

static inline int curve_setup(void **state)
{
	(void)state;
	curve_shared =
	    mmap(NULL, sizeof(*curve_shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return curve_shared == MAP_FAILED ? -1 : 0;
}

/* true: the text has several documents. */
static bool curve_documents;

/* Makes the initial weights larger, because with the usual ones attention hardly matters. Weights of norms
 * are 1. */
static inline int curve_strengthen(p4d_trainer *trainer, p4d_error *err)
{
	const p4d_weights *weights = p4d_trainer_weights(trainer);
	float *values = malloc(weights->elements * sizeof(*values));

	CHECK(values);
	for (uint32_t i = 0; i < weights->segments; i++) {
		uint64_t first, count;
		p4d_trainer_shard(trainer, i, &first, &count);
		TRY(p4d_trainer_read(trainer, i, P4D_STATE_MASTER, values, err));
		for (uint64_t k = 0; k < count; k++)
			values[k] *= values[k] == 1 ? 1 : 5;
		TRY(p4d_trainer_write(trainer, i, P4D_STATE_MASTER, values, err));
	}
	free(values);
	return p4d_trainer_restore(trainer, err);
}

/* Sets B of the adapters to values that are the same in all layouts. B is 0 at first, and the adapters
 * would then add nothing. */
static inline int curve_adapt(p4d_trainer *trainer, const p4d_layout *layout, p4d_error *err)
{
	const p4d_weights *weights = p4d_trainer_weights(trainer);
	float *values = calloc(weights->elements, sizeof(*values));
	p4d_weight_slice slices[P4D_SLICES_OF_WEIGHT];

	CHECK(values);
	for (uint32_t i = 0; i < weights->trained; i++) {
		const p4d_weight *w = &weights->weight[i];
		const unsigned count =
		    p4d_weight_slices_of(layout, p4d_trainer_place(trainer), VOCAB, w, slices);
		for (const p4d_weight_slice *s = slices; s < slices + count; s++)
			for (uint64_t k = 0; k < s->rows * s->columns; k++) {
				const uint64_t row = s->first_row + k / s->columns,
					       column = s->first_column + k % s->columns;
				const uint32_t bits = training_mixed(100 * w->layer + w->kind,
								     row * s->tensor_columns + column);
				values[s->offset + k] = ((float)(bits >> 16) / 32768 - 1) / 10;
			}
	}
	for (uint32_t i = 0; i < weights->segments; i++) {
		uint64_t first, count;
		p4d_trainer_shard(trainer, i, &first, &count);
		TRY(p4d_trainer_write(trainer, i, P4D_STATE_MASTER, values + first, err));
	}
	free(values);
	return p4d_trainer_restore(trainer, err);
}

/* Trains `steps` steps from new weights, and calls after_first after the first step. Rank 0 writes the
 * curve. */
static inline int curve_train(p4d_trainer *trainer, const p4d_layout *layout, unsigned steps, uint32_t rank,
			      void (*after_first)(void), p4d_error *err)
{
	training_text text = {.layout = layout,
			      .place = p4d_trainer_place(trainer),
			      .vocab = VOCAB,
			      .documents = curve_documents};
	curve mine = {.steps = steps};
	p4d_step_result result;

	TRY(p4d_trainer_initialize(trainer, SEED, err));
	if (curve_documents)
		TRY(curve_strengthen(trainer, err));
	if (layout->finetune != P4D_TUNE_FULL)
		TRY(curve_adapt(trainer, layout, err));
	for (uint64_t step = 1; step <= steps; step++) {
		const float rate = curve_last_rate * (float)step / CURVE_STEPS;
		TRY(p4d_trainer_step(trainer, step, rate, training_source, &text, &result, err));
		CHECK(result.applied);
		mine.loss[step - 1] = result.loss;
		mine.norm[step - 1] = result.gradient_norm;
		mine.tokens += result.tokens;
		if (step == 1)
			after_first();
	}
	p4d_evaluated evaluated;
	TRY(p4d_trainer_evaluate(trainer, steps + 1, training_source, &text, &evaluated, err));
	mine.loss[steps] = evaluated.sum / (double)evaluated.tokens;
	if (rank == 0)
		*curve_shared = mine;
	return 0;
}

/* Runs `work` on ranks in this layout. nodes: the node of each rank; NULL: all are on one node. */
static inline curve curve_of(const char *options, uint32_t ranks, const uint32_t *nodes, p4d_layout *layout,
			     forked_work work)
{
	p4d_error err;
	forked f;

	if (training_layout(options, ranks, layout, &err) < 0)
		fail_msg("%s: %s", options, err.text);
	memset(curve_shared, 0, sizeof(*curve_shared));
	forked_init(&f, ranks, nodes);
	forked_start(&f, work);
	if (!forked_finish(&f, CURVE_PATIENCE_SECONDS) || !forked_all_well(&f))
		fail_msg("%u ranks, %s", ranks, options);
	return *curve_shared;
}

static inline double curve_worst(const double *one, const double *other, unsigned count)
{
	double worst = 0;

	for (unsigned i = 0; i < count; i++) {
		const double off = fabs(other[i] - one[i]) / one[i];
		worst = isnan(off) ? INFINITY : fmax(worst, off);
	}
	return worst;
}

/* Returns the largest relative difference of losses. *norm: that of gradient norms. */
static inline double curve_off_by(const curve *one, const curve *other, double *norm)
{
	*norm = curve_worst(one->norm, other->norm, one->steps);
	return one->tokens == other->tokens ? curve_worst(one->loss, other->loss, one->steps + 1) : INFINITY;
}
