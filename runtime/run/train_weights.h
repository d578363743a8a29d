/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "checkpoint/checkpoint.h"
#include "run/job_plan.h"

/*
 * Fills this rank's shards with the weights of a released model (--init-from) or, if adapters are trained,
 * fills the frozen weights. Moments become zero. *hash: the weights' p4d_huggingface_hash. released: their
 * folder; "" if the path is too long. The plan must be for the same model. Only the encoding of positions and
 * the epsilon of norms may differ, and only if the user typed them. Errors: PLAN_CHANGED, and those of
 * p4d_released_find and p4d_huggingface_import.
 */
int p4d_train_init(const char *from, const p4d_job_plan *plan, const p4d_checkpoint_storage *storage,
		   uint64_t *hash, char *released, size_t size, p4d_error *err);

/*
 * Warns about tensors in a folder of released weights that the planned model does not have, because the plan
 * may cut off a part of the model. Call it on one rank.
 */
void p4d_train_weights_unused(const char *folder, const p4d_job_plan *plan);
