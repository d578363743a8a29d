/* SPDX-License-Identifier: Apache-2.0 */
/* Losses of data that is not trained on. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "run/train_internal.h"

/* Sets how many global batches to evaluate: --eval-batches, else all whole batches of the set. */
static int batches_of(const p4d_run *run, const p4d_validation *set, uint64_t *batches, p4d_error *err)
{
	const uint64_t samples = p4d_sampler_samples(set->sampler), size = run->plan->layout.global_batch;

	*batches = run->settings->eval_batches;
	if (*batches != UINT64_MAX)
		return 0;
	*batches = samples / size;
	if (*batches)
		return 0;
	p4d_fail(err, P4D_E_DATA,
		 "--valid-data%s%s: has %" PRIu64 " sequences of %" PRIu64
		 " tokens, less than --global-batch=%" PRIu64,
		 set->name[0] ? " " : "", set->name, samples, run->plan->layout.seq_len, size);
	return p4d_fix(err, "use --eval-batches=1; some sequences then occur twice");
}

/* Logs the loss of a set. lowest: this is the first set, and its loss is the lowest so far. */
static void say(p4d_run *run, uint64_t step, const p4d_validation *set, const p4d_evaluated *all, bool lowest)
{
	const double loss = all->tokens ? all->sum / (double)all->tokens : 0;
	char text[256];
	p4d_step_event event;
	p4d_text *json = p4d_step_event_begin(&event, "validation");

	p4d_json_text_whole(json, "step", step);
	if (set->name[0])
		p4d_json_text_string(json, "name", set->name);
	p4d_json_text_real(json, "loss", loss);
	p4d_json_text_real(json, "perplexity", exp(loss));
	p4d_json_text_whole(json, "tokens", all->tokens);
	if (lowest)
		p4d_json_text_bool(json, "lowest", true);
	snprintf(text, sizeof(text), "step %" PRIu64 "  validation loss %.4f, perplexity %.2f%s%s%s", step,
		 loss, exp(loss), lowest ? ", the lowest" : "", set->name[0] ? "  " : "", set->name);
	p4d_step_log_event(&run->log, &event, text);
	snprintf(text, sizeof(text), "validation/%s", set->name[0] ? set->name : "loss");
	p4d_tensorboard_add(&run->log.board, step, &(p4d_scalar){text, loss}, 1);
}

/*
 * Evaluates a set. The loss is the mean over all tokens, not over batches: with a loss mask, batches have
 * different numbers of trained tokens.
 */
static int evaluate(p4d_run *run, uint64_t step, p4d_validation *set, p4d_error *err)
{
	p4d_evaluated all = {.tokens = 0}, one;
	uint64_t batches;

	if (batches_of(run, set, &batches, err) < 0)
		return -1;
	for (uint64_t i = 1; i <= batches; i++) {
		p4d_train__begin(run, "the validation loss");
		if (p4d_trainer_evaluate(run->trainer, i, p4d_train_data_validation_batch, set, &one, err) <
		    0)
			return -1;
		all.sum += one.sum;
		all.tokens += one.tokens;
	}
	const bool first = set == run->data.validation && !run->settings->eval_only;
	if (first)
		p4d_best_loss_seen(&run->best, step, all.tokens ? all.sum / (double)all.tokens : (double)NAN);
	if (run->leads)
		say(run, step, set, &all, first && run->best.lowest);
	return 0;
}

bool p4d_train__is_worse(const p4d_run *run)
{
	return run->settings->stop_after_worse && run->best.worse >= run->settings->stop_after_worse;
}

int p4d_train__evaluate(p4d_run *run, uint64_t step, p4d_error *err)
{
	for (unsigned i = 0; i < run->data.validations; i++)
		if (evaluate(run, step, &run->data.validation[i], err) < 0)
			return -1;
	return 0;
}
