/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The pairs of tests/parity/make_dpo.py, and TRL's way to learn from them. Include after support.h. */
#include "support/llama.h"
#include "trainer/trainer.h"

enum { PAIR_LENGTH = 48, PAIRS = 4, PAIR_STEPS = 20, PAIR_VOCAB = 48 };
#define PAIR_RATE 1e-3f

typedef struct pairs {
	const p4d_layout *layout;
	double reference[PAIR_STEPS][2 * PAIRS];
} pairs;

/* Writes a prompt and an answer at the beginning of a document. The prompt's labels are masked. */
static inline uint32_t put_answer(uint32_t pair, bool rejected, int32_t *tokens, int32_t *labels)
{
	const uint32_t prompt = 3 + llama_mixed(5000 + pair, 0) % 5;
	const uint32_t count = prompt + 4 + llama_mixed(5000 + pair, 1 + rejected) % 12;
	int32_t all[PAIR_LENGTH];

	for (uint32_t i = 0; i < count; i++)
		all[i] = (int32_t)((i < prompt ? llama_mixed(2000 + pair, i)
					       : llama_mixed((rejected ? 4000 : 3000) + pair, i - prompt)) %
				   PAIR_VOCAB);
	for (uint32_t i = 0; i < count; i++) {
		if (tokens)
			tokens[i] = all[i];
		if (labels)
			labels[i] = i + 1 >= prompt && i + 1 < count ? all[i + 1] : -1;
	}
	return count;
}

static inline int pair_source(void *context, uint64_t step, uint32_t micro_batch, const p4d_batch *batch,
			      p4d_error *err)
{
	const pairs *from = context;
	const uint32_t size = (uint32_t)from->layout->micro_batch;

	(void)err;
	for (uint32_t k = 0; k < size; k++) {
		const uint32_t place = micro_batch * size + k, pair = (uint32_t)(step - 1) * PAIRS + place,
			       at = k * PAIR_LENGTH;
		int32_t tokens[PAIR_LENGTH] = {0}, labels[PAIR_LENGTH];
		memset(labels, 0xff, sizeof(labels));
		const uint32_t chosen = put_answer(pair, false, tokens, labels);
		const uint32_t end = chosen + put_answer(pair, true, tokens + chosen, labels + chosen);
		if (batch->tokens)
			memcpy(batch->tokens + at, tokens, sizeof(tokens));
		if (batch->labels)
			memcpy(batch->labels + at, labels, sizeof(labels));
		for (uint32_t i = 0; batch->documents && i < PAIR_LENGTH; i++)
			batch->documents[at + i] = i < chosen ? 0 : i < end ? 1 : 2;
		for (uint32_t i = 0; batch->reference && i < 2; i++)
			batch->reference[2 * k + i] = from->reference[step - 1][2 * place + i];
	}
	return 0;
}
