/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "checkpoint/checkpoint.h"
#include "run/job_plan.h"

/*
 * Fills this rank's shards with the weights of a released model (--init-from) or, if adapters are trained,
 * the frozen weights; moments become zero. hash: their p4d_huggingface_hash. released: their folder; "" if
 * the path is too long. The plan must be of that model. Two settings may differ if the user typed them,
 * because a user may want to change them: the encoding of positions, and the epsilon of norms. Errors:
 * PLAN_CHANGED, and those of p4d_released_find and p4d_huggingface_import.
 */
int p4d_train_init(const char *from, const p4d_job_plan *plan, const p4d_checkpoint_storage *storage,
		   uint64_t *hash, char *released, size_t size, p4d_error *err);

/* Warns about tensors in a folder of released weights that the model does not have, because the model may
 * be cut off. Called on one rank. */
void p4d_train_weights_unused(const char *folder, const p4d_job_plan *plan);
