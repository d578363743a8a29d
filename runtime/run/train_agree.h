/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/comm.h"
#include "run/job_plan.h"
#include "run/settings.h"
#include "run/train_data.h"

/*
 * Whether all ranks train the same: nodes may have different files of one name, and tasks be started with
 * other options. Collective over `all`, with the ranks of the world in their order. Errors name the first
 * rank that has something else than rank 0, and its host.
 */

/* The options, and the plan that comes of them and of model files. Errors: USAGE, PLAN_CHANGED, RANK. */
int p4d_agree_on_options(p4d_group *all, const p4d_world *world, const p4d_settings *settings,
			 const p4d_job_plan *plan, p4d_error *err);

/* Training and validation data: lengths of documents, and tokens throughout. Errors: DATA, RANK. */
int p4d_agree_on_data(p4d_group *all, const p4d_world *world, const p4d_train_data *data, p4d_error *err);

/* After --init-from: all ranks have read the same weights (p4d_huggingface_hash). Errors: CHECKPOINT, RANK,
 * NO_MEMORY. */
int p4d_agree_on_weights(p4d_group *all, const p4d_world *world, uint64_t hash, p4d_error *err);
