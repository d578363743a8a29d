/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/comm.h"
#include "run/job_plan.h"
#include "run/settings.h"
#include "trainer/trainer.h"

/*
 * Completes the settings of --sample: the model is that of the newest checkpoint or, if there is none, of
 * --init-from. It runs on `ranks` ranks with only tensor parallelism. For adapters, the weights with which
 * they were trained become --init-from; that text lives as long as the process. Errors: CHECKPOINT, IO,
 * USAGE.
 */
int p4d_train_sample_prepare(p4d_settings *settings, uint64_t ranks, p4d_error *err);

/* Call it when the weights are loaded: rank 0 prints the text and its continuation, token by token. */
int p4d_train_sample(const p4d_settings *settings, const p4d_job_plan *plan, p4d_trainer *trainer,
		     p4d_group *all, p4d_error *err);
