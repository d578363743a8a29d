/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/comm.h"
#include "run/job_plan.h"
#include "run/settings.h"
#include "run/train_data.h"

/*
 * Checks that all ranks train the same thing: nodes may have different files of the same name, and tasks may
 * be started with different options. Collective over `all`, a group of all ranks in rank order. Errors name
 * the first rank that differs from rank 0, and its host.
 */

/*
 * Compares the options, and the plan that follows from them and from model files. Errors: USAGE,
 * PLAN_CHANGED, RANK.
 */
int p4d_agree_on_options(p4d_group *all, const p4d_world *world, const p4d_settings *settings,
			 const p4d_job_plan *plan, p4d_error *err);

/*
 * Compares training and validation data: lengths of documents, and samples of the tokens. Errors: DATA, RANK.
 */
int p4d_agree_on_data(p4d_group *all, const p4d_world *world, const p4d_train_data *data, p4d_error *err);

/*
 * Call it after --init-from: checks that all ranks have read the same weights (p4d_huggingface_hash). Errors:
 * CHECKPOINT, RANK, NO_MEMORY.
 */
int p4d_agree_on_weights(p4d_group *all, const p4d_world *world, uint64_t hash, p4d_error *err);
