/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "checkpoint/checkpoint.h"
#include "comm/comm.h"
#include "run/best_loss.h"
#include "run/job_plan.h"
#include "run/settings.h"
#include "run/train_data.h"
#include "trainer/trainer.h"

/* The checkpoints of a run: connects checkpoint.h with a trainer and its world. Zero before use. */
typedef struct p4d_train_save {
	p4d_checkpoint_saver *saver; /* NULL: the run has no --checkpoint */
	p4d_checkpoint_storage storage;
	p4d_checkpoint_peers peers;
	p4d_checkpoint_info info;
} p4d_train_save;

/*
 * Opens the checkpoints and creates their directory. all: the group of all ranks. Without --checkpoint, this
 * and all functions below do nothing.
 */
int p4d_train_save_open(p4d_train_save *save, const p4d_settings *settings, const p4d_job_plan *plan,
			const p4d_train_data *data, p4d_trainer *trainer, p4d_group *all, p4d_error *err);
void p4d_train_save_close(p4d_train_save *save);

/*
 * Loads the latest checkpoint if --resume says so; *step: number of optimizer steps done; 0 for a new run.
 * *best: the lowest validation loss until then. It is unknown if --save-best is given and the best checkpoint
 * is gone, or if this run validates on other data. Errors: CHECKPOINT (also if there is none and
 * --resume=must is given, or if another seed or batch size would change the order of samples).
 */
int p4d_train_resume(p4d_train_save *save, const p4d_settings *settings, const p4d_job_plan *plan,
		     p4d_trainer *trainer, uint64_t *step, p4d_best_loss *best, p4d_error *err);

/*
 * Finds the step from which p4d_train_resume would continue: the newest checkpoint that can be read. 0: it
 * would begin a new run.
 */
int p4d_train_newest(const p4d_train_save *save, const p4d_settings *settings, p4d_group *all, uint64_t *step,
		     p4d_error *err);

/* Begins a checkpoint after this step. */
int p4d_train_save_begin(p4d_train_save *save, const p4d_job_plan *plan, const p4d_best_loss *best,
			 uint64_t step, p4d_error *err);
/* Call it after every step; like p4d_checkpoint_saver_poll. */
int p4d_train_save_poll(p4d_train_save *save, bool wait, bool *done, p4d_error *err);
