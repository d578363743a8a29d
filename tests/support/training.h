/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A small training job for tests: its text, settings and layout. Include after support.h. */
#include "request/defaults.h"
#include "request/layout.h"
#include "trainer/trainer.h"

/* A rank's view of the text. */
typedef struct training_text {
	const p4d_layout *layout;
	p4d_place place;
	uint64_t vocab;
	bool documents; /* the text has several documents; labels that begin a document are masked */
} training_text;

static inline uint32_t training_mixed(uint64_t a, uint64_t b)
{
	uint64_t z = a * UINT64_C(0x9e3779b97f4a7c15) + b + 1;

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (uint32_t)((z ^ z >> 31) >> 32);
}

/* A text that a model can learn, because the next token is mostly a function of the last one. One label in
 * 11 is masked. */
static inline int32_t training_token(uint64_t sample, uint64_t position, uint64_t vocab)
{
	uint64_t token = training_mixed(sample, 0) % vocab;

	for (uint64_t i = 1; i <= position; i++)
		token = training_mixed(sample, i) % 5 ? (token * 7 + 3) % vocab
						      : training_mixed(sample, i) % vocab;
	return (int32_t)token;
}

/* About every eighth token begins a document. */
static inline bool training_begins(uint64_t sample, uint64_t position)
{
	return position == 0 || training_mixed(sample, position + 5555) % 8 == 0;
}

/* A token of a pair's sequence: the chosen answer, the rejected answer, or padding. */
static inline int32_t training_answer(uint64_t sample, uint64_t position, uint64_t length)
{
	const uint64_t half = length / 2 - training_mixed(sample, 4444) % (length / 4);

	return position < half ? 0 : position < length - 1 ? 1 : 2;
}

static inline bool training_cuts(uint64_t sample, uint64_t position, uint64_t length)
{
	return position >= length || training_answer(sample, position, length) == 2 ||
	       training_answer(sample, position, length) != training_answer(sample, position - 1, length);
}

static inline int training_source(void *context, uint64_t step, uint32_t micro_batch, const p4d_batch *batch,
				  p4d_error *err)
{
	const training_text *text = context;
	const p4d_layout *l = text->layout;
	const uint64_t length = l->seq_len / l->cp, chunk = l->cp > 1 ? length / 2 : length;
	const uint64_t own = p4d_rank_batch(l);
	const uint64_t first = (step - 1) * l->global_batch +
			       (micro_batch * l->dp + text->place.dp) * l->micro_batch +
			       p4d_place_grid(l, text->place).z * own;

	(void)err;
	for (uint64_t b = 0; b < own; b++)
		for (uint64_t i = 0; i < length; i++) {
			const uint64_t at = i < chunk ? text->place.cp * chunk + i
						      : (2 * l->cp - 1 - text->place.cp) * chunk + i - chunk;
			const bool trained = training_mixed(first + b, at + 7777) % 11 != 0 &&
					     !(text->documents && training_begins(first + b, at + 1)) &&
					     !(l->pairs && training_cuts(first + b, at + 1, l->seq_len));
			if (batch->tokens)
				batch->tokens[b * length + i] = training_token(first + b, at, text->vocab);
			if (batch->labels)
				batch->labels[b * length + i] =
				    trained ? training_token(first + b, at + 1, text->vocab) : -1;
		}
	for (uint64_t b = 0; batch->documents && b < own; b++)
		for (uint64_t i = 0, document = 0; i < l->seq_len; i++) {
			document += training_begins(first + b, i);
			batch->documents[b * l->seq_len + i] =
			    l->pairs ? training_answer(first + b, i, l->seq_len) : (int32_t)document;
		}
	for (uint64_t i = 0; batch->reference && i < 2 * own; i++)
		batch->reference[i] = -(double)(training_mixed(first + i / 2, i % 2 + 3333) % 1000) / 100;
	return 0;
}

/* Builds the layout for these options and this number of ranks on one node. */
static inline int training_layout(const char *options, uint64_t ranks, p4d_layout *layout, p4d_error *err)
{
	static p4d_request request;

	memset(&request, 0, sizeof(request));
	set_all(&request, "framework=p4d device=cpu norm=rmsnorm glu=on positions=rope");
	set_all(&request, options);
	p4d_request_complete(&request, 0, ranks);
	return p4d_layout_build(&request, 1, ranks, layout, err);
}

static inline p4d_trainer_settings training_settings(const p4d_layout *layout, p4d_device *device,
						     p4d_world *world, uint64_t vocab)
{
	return (p4d_trainer_settings){
	    .net = {.layout = layout,
		    .device = device,
		    .world = world,
		    .rope = {.theta = 10000},
		    .norm_epsilon = 1e-5f,
		    .adapter_scale = 2,
		    .beta = 0.3f,
		    .vocab = vocab,
		    .seed = 1},
	    .optimizer = {.beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f, .weight_decay = 0.1f, .clip = 1},
	};
}
