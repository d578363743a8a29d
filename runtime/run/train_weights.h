/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "checkpoint/checkpoint.h"
#include "run/job_plan.h"

/*
 * Fills this rank's shards with the weights of a released model (--init-from), or what is frozen where
 * adapters are trained; moments become zero. hash: p4d_huggingface_hash of them. released: their folder; ""
 * where that is too long. The plan must be of that model; what a user may mean to change, how positions are
 * encoded and what norms add, may differ if it was typed. Errors: PLAN_CHANGED, and as p4d_released_find and
 * p4d_huggingface_import.
 */
int p4d_train_init(const char *from, const p4d_job_plan *plan, const p4d_checkpoint_storage *storage,
		   uint64_t *hash, char *released, size_t size, p4d_error *err);
