/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Durations of passes, for tests of timelines. Include after support.h. */
#include "support/shapes.h"

enum { DURATIONS_PASSES = 1024, DURATIONS_STAGES = 128 };

typedef struct durations_store {
	double forward[DURATIONS_PASSES], input[DURATIONS_PASSES], weight[DURATIONS_PASSES];
	double alone[DURATIONS_PASSES], gather[DURATIONS_STAGES], reduce[DURATIONS_STAGES],
	    optimizer[DURATIONS_STAGES];
} durations_store;

static inline uint32_t durations_passes(const p4d_schedule *s)
{
	return p4d_schedule_positions(s) * p4d_schedule_slices(s);
}

/* All passes (forward, input gradient, weight gradient) of all chunks take 1. Nothing else takes time. */
static inline p4d_durations even_durations(const p4d_schedule *s, durations_store *store)
{
	assert_true(s->stages <= DURATIONS_STAGES && durations_passes(s) <= DURATIONS_PASSES);
	for (uint32_t i = 0; i < durations_passes(s); i++)
		store->forward[i] = store->input[i] = store->weight[i] = 1;
	return (p4d_durations){
	    .forward = store->forward, .backward_input = store->input, .backward_weight = store->weight};
}

static inline double random_between(double low, double high)
{
	return low + (high - low) * random_below(1000000) * 1e-6;
}

/*
 * Durations as in a real step. Stages are alike, except for an uneven split of the layers, and for
 * embedding and head on the first and last stage. A transfer, barrier or collective takes from nothing up
 * to a large part of a pass.
 */
static inline p4d_durations random_durations(const p4d_schedule *s, durations_store *store)
{
	p4d_durations d = even_durations(s, store);
	double input = random_between(0.9, 1.4), weight = random_between(0.6, 1.1);
	double uneven = random_below(3) ? 0 : random_between(0, 0.3);

	for (uint32_t i = 0; i < durations_passes(s); i++) {
		/* a later slice attends to more tokens */
		double layers = random_between(1 - uneven, 1 + uneven) + 0.1 * p4d_schedule_slice_of(s, i);
		store->forward[i] = layers;
		store->input[i] = layers * input;
		store->weight[i] = layers * weight;
	}
	if (random_below(2)) {
		uint32_t chunk, stage = p4d_schedule_stage_at(s, p4d_schedule_positions(s) - 1, &chunk);
		double head = random_between(0, 1);
		uint32_t last = (stage * s->chunks + chunk) * p4d_schedule_slices(s);
		store->forward[0] += random_between(0, 0.1);
		for (uint32_t i = last; i < last + p4d_schedule_slices(s); i++) {
			store->forward[i] += head;
			store->input[i] += head;
			store->weight[i] += head;
		}
	}
	for (uint32_t stage = 0; stage < s->stages; stage++) {
		store->gather[stage] = random_between(0, 0.5);
		store->reduce[stage] = random_between(0, 0.5);
		store->optimizer[stage] = random_between(0, 2);
	}
	for (uint32_t i = 0; i < durations_passes(s); i++)
		store->alone[i] = random_between(0, 1);
	if (!p4d_schedule_kinds[s->kind]->in_phases && random_below(3) == 0)
		d.alone = store->alone;
	d.gather = store->gather;
	d.reduce = store->reduce;
	d.optimizer = store->optimizer;
	d.send = random_below(2) ? random_between(0, 0.3) : 0;
	d.recv = random_below(2) ? random_between(0, 0.1) : 0;
	if (d.alone && p4d_schedule_kinds[s->kind]->crosswise)
		d.recv = 0; /* pairs of passes also overlap with transfers */
	if (s->vocabulary != P4D_VOCAB_OFF) {
		d.vocabulary_forward = random_between(0, 1);
		d.vocabulary_backward = random_between(0, 1);
		d.vocabulary_sync = random_between(0, 0.3);
		d.embed_forward = random_between(0, 0.1);
		d.embed_backward = random_between(0, 0.1);
	}
	return d;
}
