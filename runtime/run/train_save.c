/* SPDX-License-Identifier: Apache-2.0 */
#include "run/train_save.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"
#include "run/checkpoint_trainer.h"
#include "run/rank_error.h"
#include "run/train_internal.h"

/* Fills the description of the run that its checkpoints store. It has the layout as a plan line. */
static int describe(p4d_train_save *save, const p4d_settings *settings, const p4d_job_plan *plan,
		    p4d_error *err)
{
	p4d_request placed = plan->request;

	save->info.seed = settings->seed;
	save->info.document_mask = settings->document_mask;
	snprintf(save->info.data, sizeof(save->info.data), "%s", settings->data);
	p4d_settings_update(settings, save->info.update, sizeof(save->info.update));
	return p4d_plan_write(&placed, save->info.plan, sizeof(save->info.plan), err);
}

/* Checks that saving needs exactly the host memory that was planned, because Slurm granted that much. */
static int check_staging(const p4d_checkpoint_storage *storage, p4d_error *err)
{
	const uint64_t needed =
	    p4d_checkpoint_staging_bytes(storage->layout, storage->weights, storage->place);
	const uint64_t planned = p4d_memory_host_of_rank(storage->layout, storage->place.pp, 0, 0).saving;

	if (needed <= planned)
		return 0;
	return p4d_fail(err, P4D_E_PLAN_CHANGED,
			"saving needs a staging copy of %" PRIu64
			" bytes on the host, but the plan has %" PRIu64 " bytes",
			needed, planned);
}

int p4d_train_save_open(p4d_train_save *save, const p4d_settings *settings, const p4d_job_plan *plan,
			const p4d_train_data *data, p4d_trainer *trainer, p4d_group *all, p4d_error *err)
{
	if (!settings->checkpoint)
		return 0;
	save->info.samples = data->samples;
	save->info.best_samples = data->best_samples;
	save->storage =
	    p4d_checkpoint_storage_of(trainer, &plan->layout, (uint64_t)plan->request.value[P4D_VOCAB]);
	save->peers = p4d_checkpoint_peers_of(all);
	if (check_staging(&save->storage, err) < 0 || describe(save, settings, plan, err) < 0)
		return -1;
	return p4d_checkpoint_saver_open(&save->saver, settings->checkpoint, (uint32_t)settings->keep,
					 &save->storage, &save->peers, err);
}

void p4d_train_save_close(p4d_train_save *save)
{
	p4d_checkpoint_saver_close(save->saver);
	save->saver = NULL;
}

/*
 * Trained weights depend on the encoding of positions and the norms' epsilon. A user may change these on
 * purpose with options, for instance for longer contexts. But if only a model file has changed, that is
 * probably a mistake.
 */
static int check_model(const p4d_checkpoint_info *found, const p4d_job_plan *plan, uint32_t rank,
		       p4d_error *err)
{
	static const p4d_option options[] = {P4D_NORM_EPSILON, P4D_ROPE_THETA, P4D_ROPE_SCALING,
					     P4D_SLIDING_WINDOW};
	char before[128], now[128], text[400];
	p4d_request stored;

	if (p4d_plan_read(found->plan, &stored, err) < 0)
		return -1;
	p4d_rope_default(&stored);
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
		const char *name = p4d_request_option_info(options[i])->name;
		p4d_request_value_text(&stored, options[i], before, sizeof(before));
		p4d_request_value_text(&plan->request, options[i], now, sizeof(now));
		if (!strcmp(before, now))
			continue;
		snprintf(text, sizeof(text), "the checkpoint was trained with --%s=%s, but this run uses %s",
			 name, before, now);
		if (plan->request.origin[options[i]] != P4D_BY_USER) {
			p4d_fail(err, P4D_E_CHECKPOINT, "%s", text);
			return p4d_fix(err, "--%s=%s to keep the former value, or --%s=%s to change it", name,
				       before, name, now);
		}
		if (rank == 0)
			p4d_train__warn(NULL, text);
	}
	return 0;
}

/*
 * Reports if this run's samples differ from the checkpoint's. A checkpoint stores its position in the data as
 * a number of samples. With other data, training continues with other samples, which may be intended.
 */
static int compare_samples(const p4d_checkpoint_info *found, const p4d_train_save *save,
			   const p4d_job_plan *plan, p4d_error *err)
{
	char text[400] = "";
	p4d_request stored;

	if (save->peers.rank != 0)
		return 0;
	if (p4d_plan_read(found->plan, &stored, err) < 0)
		return -1;
	if ((uint64_t)stored.value[P4D_SEQ_LEN] != plan->layout.seq_len)
		snprintf(text, sizeof(text),
			 "the checkpoint was trained with --seq-len=%" PRId64 ", but this run uses %" PRIu64
			 ": the run may train on some data a second time",
			 stored.value[P4D_SEQ_LEN], plan->layout.seq_len);
	else if (found->samples && found->samples != save->info.samples)
		snprintf(text, sizeof(text),
			 "the checkpoint was trained on other data (%.200s); this run continues with sample "
			 "%" PRIu64 " of its own data",
			 found->data, found->consumed + 1);
	if (text[0])
		p4d_train__warn(NULL, text);
	return 0;
}

/* Whether a list of words contains this one. */
static bool has_word(const char *list, const char *word, size_t length)
{
	for (const char *at = list; *at; at += strcspn(at, " "), at += strspn(at, " "))
		if (strcspn(at, " ") == length && !strncmp(at, word, length))
			return true;
	return false;
}

/* The words of one list that are not in the other. */
static const char *words_without(const char *list, const char *other, char *buf, size_t size)
{
	p4d_text text = p4d_text_in(buf, size);

	for (const char *at = list; *at; at += strcspn(at, " "), at += strspn(at, " ")) {
		const size_t length = strcspn(at, " ");
		if (!has_word(other, at, length))
			p4d_text_entry(&text, " ", "%.*s", (int)length, at);
	}
	return buf;
}

/* Reports if the learning rate or similar options have changed, which may be intended. */
static void compare_update(const p4d_checkpoint_info *found, const p4d_train_save *save)
{
	char before[200], now[200];
	p4d_error err;

	if (save->peers.rank != 0 || !found->update[0])
		return;
	words_without(found->update, save->info.update, before, sizeof(before));
	words_without(save->info.update, found->update, now, sizeof(now));
	if (!before[0] && !now[0])
		return;
	p4d_fail(&err, P4D_E_CHECKPOINT, "the checkpoint was trained with %s, but this run continues with %s",
		 before[0] ? before : "other options", now[0] ? now : "defaults");
	if (before[0])
		p4d_fix(&err, "%s, to continue as before", before);
	p4d_rank_report(&err, NULL, 0);
}

static int nothing_to_resume(const p4d_settings *settings, p4d_error *err)
{
	if (settings->resume != P4D_RESUME_MUST)
		return 0;
	p4d_fail(err, P4D_E_CHECKPOINT, "%.300s: no checkpoint found", settings->checkpoint);
	return p4d_fix(err, "--resume=auto, or the directory of the run to continue");
}

/*
 * Checks that the base weights and alpha are those of the checkpoint. With other base weights adapters are
 * useless, and with another alpha the loss jumps.
 */
static int compare_adapters(const p4d_checkpoint_info *found, const p4d_train_save *save, p4d_error *err)
{
	char before[P4D_NUMBER_TEXT], now[P4D_NUMBER_TEXT];

	if (found->base_hash != save->info.base_hash) {
		p4d_fail(err, P4D_E_CHECKPOINT,
			 "the checkpoint's adapters were trained with other weights (%.200s) than the "
			 "weights of --init-from %.200s",
			 found->base, save->info.base);
		return p4d_fix(err, "--init-from %.200s, or another --checkpoint", found->base);
	}
	if (found->alpha == save->info.alpha)
		return 0;
	p4d_number_exact(found->alpha, before);
	p4d_fail(err, P4D_E_CHECKPOINT, "the checkpoint was trained with --lora-alpha=%s, not %s", before,
		 p4d_number_exact(save->info.alpha, now));
	return p4d_fix(err, "--lora-alpha=%s", before);
}

static const char *on_off(bool on)
{
	return on ? "on" : "off";
}

/* Finds whether the best checkpoint exists. All ranks get what rank 0 sees. */
static int find_best(const p4d_train_save *save, const char *dir, uint64_t step, bool *there, p4d_error *err)
{
	uint64_t named = 0, *all = calloc(save->peers.world, sizeof(*all));

	if (!all)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a number of %u ranks",
				save->peers.world);
	if (!p4d_checkpoint_best(dir, &named))
		named = 0;
	all[0] = named;
	const int rc = save->peers.world > 1
			   ? save->peers.gather(save->peers.context, all, &named, sizeof(named), err)
			   : 0;
	*there = all[0] == step;
	free(all);
	return rc;
}

/*
 * Whether the checkpoint's lowest loss comes from other validation data. This run's losses cannot be compared
 * with it then.
 */
static bool is_of_other_data(const p4d_train_save *save, const p4d_checkpoint_info *found)
{
	char text[256];

	if (!save->info.best_samples || !found->best_samples ||
	    save->info.best_samples == found->best_samples)
		return false;
	snprintf(text, sizeof(text),
		 "the checkpoint's lowest validation loss, %.4f in step %" PRIu64
		 ", comes from other data or another --eval-batches; this run starts without a lowest loss",
		 found->best_loss, found->best_step);
	if (save->peers.rank == 0)
		p4d_train__warn(NULL, text);
	return true;
}

static int resume_best(p4d_train_save *save, const p4d_settings *settings, const p4d_checkpoint_info *found,
		       p4d_best_loss *best, p4d_error *err)
{
	bool there = true;

	*best = (p4d_best_loss){.step = 0};
	if (!found->best_step || is_of_other_data(save, found))
		return 0;
	if (settings->save_best && find_best(save, settings->checkpoint, found->best_step, &there, err) < 0)
		return -1;
	if (there)
		*best = (p4d_best_loss){
		    .loss = found->best_loss, .step = found->best_step, .worse = found->worse};
	if (!save->info.best_samples)
		save->info.best_samples =
		    found->best_samples; /* a run without validation keeps the checkpoint's hash */
	return 0;
}

int p4d_train_resume(p4d_train_save *save, const p4d_settings *settings, const p4d_job_plan *plan,
		     p4d_trainer *trainer, uint64_t *step, p4d_best_loss *best, p4d_error *err)
{
	p4d_checkpoint_info found;
	bool any = false;

	*step = 0;
	if (!save->saver || settings->resume == P4D_RESUME_NEVER)
		return 0;
	if (p4d_checkpoint_resume(settings->checkpoint, &save->storage, &save->peers, p4d_train__warn, NULL,
				  &found, &any, err) < 0)
		return -1;
	if (!any)
		return nothing_to_resume(settings, err);
	if (found.seed != settings->seed) {
		p4d_fail(err, P4D_E_CHECKPOINT,
			 "the checkpoint was made with --seed=%" PRIu64 ", not %" PRIu64, found.seed,
			 settings->seed);
		return p4d_fix(err, "--seed=%" PRIu64, found.seed);
	}
	if (found.document_mask != settings->document_mask) {
		p4d_fail(err, P4D_E_CHECKPOINT, "the checkpoint was trained with --document-mask=%s, not %s",
			 on_off(found.document_mask), on_off(settings->document_mask));
		return p4d_fix(err, "--document-mask=%s", on_off(found.document_mask));
	}
	if (found.consumed != found.step * plan->layout.global_batch) {
		p4d_fail(err, P4D_E_CHECKPOINT,
			 "the checkpoint consumed %" PRIu64 " samples in %" PRIu64
			 " steps, which does not match --global-batch %" PRIu64,
			 found.consumed, found.step, plan->layout.global_batch);
		return found.step && found.consumed % found.step == 0
			   ? p4d_fix(err, "--global-batch=%" PRIu64, found.consumed / found.step)
			   : -1;
	}
	if (compare_adapters(&found, save, err) < 0 || check_model(&found, plan, save->peers.rank, err) < 0 ||
	    compare_samples(&found, save, plan, err) < 0)
		return -1;
	compare_update(&found, save);
	if (!save->info.released[0])
		memcpy(save->info.released, found.released, sizeof(found.released));
	*step = found.step;
	if (resume_best(save, settings, &found, best, err) < 0)
		return -1;
	return p4d_trainer_restore(trainer, err);
}

int p4d_train_newest(const p4d_train_save *save, const p4d_settings *settings, p4d_group *all, uint64_t *step,
		     p4d_error *err)
{
	bool found = false;

	*step = 0;
	if (!save->saver || settings->resume == P4D_RESUME_NEVER)
		return 0;
	if (p4d_checkpoint_latest(settings->checkpoint, UINT64_MAX, step, &found, err) < 0)
		return -1;
	/* Ranks may see a shared folder differently. So all use the lowest step that any rank found. */
	double below = found ? -(double)*step : 0;
	if (p4d_comm_all_reduce(all, &below, 1, P4D_DT_FP64, P4D_MAX, err) < 0)
		return -1;
	*step = (uint64_t)-below;
	return 0;
}

int p4d_train_save_begin(p4d_train_save *save, const p4d_job_plan *plan, const p4d_best_loss *best,
			 uint64_t step, p4d_error *err)
{
	if (!save->saver)
		return 0;
	save->info.step = step;
	save->info.best_loss = best->loss;
	save->info.best_step = best->step;
	save->info.worse = best->worse;
	save->info.consumed = step * plan->layout.global_batch;
	return p4d_checkpoint_saver_begin(save->saver, &save->info, err);
}

int p4d_train_save_poll(p4d_train_save *save, bool wait, bool *done, p4d_error *err)
{
	*done = false;
	return save->saver ? p4d_checkpoint_saver_poll(save->saver, wait, done, err) : 0;
}
