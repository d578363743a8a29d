/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "checkpoint/checkpoint.h"
#include "run/job_plan.h"

/*
 * Fills this rank's shards with the weights of a released model (--init-from), or, if adapters are trained,
 * the frozen weights; moments become zero. hash: p4d_huggingface_hash of them. released: their folder; "" if
 * that is too long. The plan must be of that model. Two settings may differ if the user typed them, because a
 * user may want to change them: how positions are encoded, and what norms add. Errors: PLAN_CHANGED, and as
 * p4d_released_find and p4d_huggingface_import.
 */
int p4d_train_init(const char *from, const p4d_job_plan *plan, const p4d_checkpoint_storage *storage,
		   uint64_t *hash, char *released, size_t size, p4d_error *err);

/* Warns of tensors in a folder of released weights that the model does not have: it may be cut off. By one
 * rank.
 */
void p4d_train_weights_unused(const char *folder, const p4d_job_plan *plan);
