/* SPDX-License-Identifier: Apache-2.0 */
#include "run/train_sample.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/permutation.h"
#include "checkpoint/released.h"
#include "data/tokenizer.h"
#include "run/logits_file.h"
#include "run/stored_model.h"
#include "run/watchdog.h"

/*
 * If no tokenizer is set: uses that of the released model in --init-from. For a checkpoint of adapters,
 * p4d_stored_model has already set --init-from to the model that was tuned.
 */
static void find_tokenizer(p4d_settings *settings)
{
	static char folder[4096];
	p4d_request request = {.model = ""};
	p4d_error gone;

	if (!settings->tokenizer && settings->init_from &&
	    p4d_released_find(settings->init_from, &request, folder, sizeof(folder), &gone) == 0 &&
	    p4d_tokenizer_is_in(folder))
		settings->tokenizer = folder;
}

int p4d_train_sample_prepare(p4d_settings *settings, uint64_t ranks, p4d_error *err)
{
	static const struct {
		p4d_option option;
		int64_t value;
	} layout[] = {
	    {P4D_CP, 1},
	    {P4D_PP, 1},
	    {P4D_MICRO_BATCH, 1},
	    {P4D_GLOBAL_BATCH, 1},
	    {P4D_RECOMPUTE, P4D_RECOMPUTE_NONE},
	    {P4D_SEQUENCE_PARALLEL, 0},
	    {P4D_DEVICE, P4D_CPU},
	};
	p4d_request *r = &settings->request;
	bool found = false;

	if (settings->checkpoint && p4d_stored_model(settings, &found, err) < 0)
		return -1;
	find_tokenizer(settings);
	for (size_t i = 0; i < sizeof(layout) / sizeof(*layout); i++)
		p4d_request_put(r, layout[i].option, layout[i].value, P4D_BY_P4D);
	p4d_request_default(r, P4D_TP, (int64_t)ranks, P4D_BY_P4D);
	if ((uint64_t)r->value[P4D_TP] == ranks)
		return 0;
	p4d_fail(err, P4D_E_WORLD, "--sample on %" PRIu64 " ranks with --tp=%" PRId64, ranks,
		 r->value[P4D_TP]);
	return p4d_fix(err, "--tp=%" PRIu64, ranks);
}

typedef struct sampler {
	const p4d_settings *settings;
	p4d_trainer *trainer;
	p4d_group *all;
	p4d_tokenizer tokenizer;
	/* vocab: number of tokens in the vocabulary; most: maximum number of tokens in a sequence */
	uint64_t vocab, most;
	float *logits;
	int32_t *order; /* tokens, the most likely one first */
	uint64_t position;
	p4d_logits_file file; /* file of --logits, only on rank 0 */
} sampler;

static int by_logit(const void *a, const void *b, void *logits)
{
	const float *all = logits, left = all[*(const int32_t *)a], right = all[*(const int32_t *)b];

	return left > right ? -1 : left < right ? 1 : *(const int32_t *)a - *(const int32_t *)b;
}

/* A uniform random number in [0, 1), which depends only on the seed and the position. */
static double uniform(uint64_t seed, uint64_t position)
{
	return (double)(p4d_mix(p4d_mix(seed) ^ position) >> 11) * 0x1p-53;
}

/*
 * Samples a token. Only the most likely tokens that together have probability top_p take part, in proportion
 * to their probabilities. s->order must be sorted.
 */
static int32_t choose(const sampler *s)
{
	const double most = s->logits[s->order[0]], t = s->settings->temperature;
	double all = 0, kept = 0, at;
	uint64_t count = 0;

	if (t == 0)
		return s->order[0];
	for (uint64_t i = 0; i < s->vocab; i++)
		all += exp((s->logits[i] - most) / t);
	while (count < s->vocab && (!count || kept < s->settings->top_p * all))
		kept += exp((s->logits[s->order[count++]] - most) / t);
	at = uniform(s->settings->seed, s->position) * kept;
	for (uint64_t i = 0; i + 1 < count; i++) {
		at -= exp((s->logits[s->order[i]] - most) / t);
		if (at < 0)
			return s->order[i];
	}
	return s->order[count - 1];
}

/* Chooses the next token. All ranks get rank 0's choice, because their math libraries may differ. */
static int next_token(sampler *s, int32_t *token, p4d_error *err)
{
	for (uint64_t i = 0; i < s->vocab; i++)
		s->order[i] = (int32_t)i;
	qsort_r(s->order, s->vocab, sizeof(*s->order), by_logit, s->logits);
	*token = choose(s);
	return p4d_comm_broadcast(s->all, token, sizeof(*token), 0, err);
}

static int print(const sampler *s, int32_t token, p4d_error *err)
{
	char text[1024];

	if (p4d_group_index(s->all) != 0)
		return 0;
	const size_t length = p4d_tokenizer_text(&s->tokenizer, token, text, sizeof(text));
	if (fwrite(text, 1, length, stdout) == length && fflush(stdout) == 0)
		return 0;
	return p4d_fail(err, P4D_E_IO, "standard output cannot be written: %m");
}

/* Feeds a token to the model, which computes the logits of the next one. */
static int feed(sampler *s, int32_t token, p4d_error *err)
{
	if (s->position == s->most) {
		p4d_fail(err, P4D_E_VALUE,
			 "--sample: the text has more than the %" PRIu64 " tokens of --seq-len", s->most);
		return p4d_fix(err, "--seq-len=%" PRIu64, 2 * s->most);
	}
	if (token < 0 || (uint64_t)token >= s->vocab)
		return p4d_fail(err, P4D_E_DATA, "token %d is outside the vocabulary of %" PRIu64, token,
				s->vocab);
	p4d_watchdog_kick("sampling");
	if (p4d_trainer_predict(s->trainer, token, s->position++, s->logits, err) < 0)
		return -1;
	return s->file.columns ? p4d_logits_file_add(&s->file, s->logits, err) : 0;
}

static int feed_all(void *context, const int32_t *tokens, uint64_t count, p4d_error *err)
{
	for (uint64_t i = 0; i < count; i++)
		if (feed(context, tokens[i], err) < 0 || print(context, tokens[i], err) < 0)
			return -1;
	return 0;
}

static int generate(sampler *s, p4d_error *err)
{
	const char *text = s->settings->sample;
	int32_t token = s->tokenizer.begin;

	if (token >= 0 && feed(s, token, err) < 0)
		return -1;
	if (p4d_tokenizer_encode(&s->tokenizer, text, strlen(text), feed_all, s, err) < 0)
		return -1;
	if (!s->position)
		return p4d_fail(err, P4D_E_VALUE, "--sample: the text has no tokens");
	for (uint64_t i = 0; i < s->settings->sample_tokens; i++) {
		if (next_token(s, &token, err) < 0)
			return -1;
		if (token == s->tokenizer.end)
			break;
		if (print(s, token, err) < 0)
			return -1;
		if (s->position == s->most || i + 1 == s->settings->sample_tokens)
			break;
		if (feed(s, token, err) < 0)
			return -1;
	}
	if (p4d_group_index(s->all) == 0)
		putchar('\n');
	return 0;
}

/* Generates text. With --logits, rank 0 also stores the logits. */
static int generate_and_keep(sampler *s, p4d_error *err)
{
	if (!s->settings->logits || p4d_group_index(s->all) != 0)
		return generate(s, err);
	int rc = p4d_logits_file_open(&s->file, s->settings->logits, s->vocab, err);
	if (rc == 0)
		rc = generate(s, err);
	if (rc == 0)
		rc = p4d_logits_file_publish(&s->file, err);
	p4d_logits_file_abandon(&s->file);
	return rc;
}

int p4d_train_sample(const p4d_settings *settings, const p4d_job_plan *plan, p4d_trainer *trainer,
		     p4d_group *all, p4d_error *err)
{
	sampler s = {.settings = settings,
		     .trainer = trainer,
		     .all = all,
		     .vocab = (uint64_t)plan->request.value[P4D_VOCAB],
		     .most = plan->layout.seq_len};
	int rc = -1;

	if (!settings->tokenizer && s.vocab != P4D_TOKENIZER_BYTES) {
		p4d_fail(err, P4D_E_VALUE,
			 "--sample: p4d-train does not know the tokenizer of this model, which has %" PRIu64
			 " tokens",
			 s.vocab);
		return p4d_fix(err, "--tokenizer FILE, with the tokenizer of the data, or --tokenizer bytes");
	}
	if (p4d_tokenizer_open(&s.tokenizer, settings->tokenizer ? settings->tokenizer : "bytes", err) < 0)
		return -1;
	s.logits = malloc(s.vocab * sizeof(*s.logits));
	s.order = malloc(s.vocab * sizeof(*s.order));
	if (s.tokenizer.vocabulary > s.vocab) {
		p4d_fail(err, P4D_E_VALUE,
			 "the tokenizer %.200s has %" PRIu64 " tokens, but the model has %" PRIu64,
			 settings->tokenizer ? settings->tokenizer : "bytes", s.tokenizer.vocabulary,
			 s.vocab);
		p4d_fix(err, "--tokenizer FILE, with the tokenizer of the data");
	} else if (!s.logits || !s.order) {
		p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %" PRIu64 " logits", s.vocab);
	} else {
		rc = generate_and_keep(&s, err);
	}
	free(s.logits);
	free(s.order);
	p4d_tokenizer_close(&s.tokenizer);
	return rc;
}
