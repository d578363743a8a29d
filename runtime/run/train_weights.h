/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "checkpoint/checkpoint.h"
#include "run/job_plan.h"
#include "run/settings.h"

/* Weights of released models, as the transformers library stores them: where a run begins, and what is left
 * of it. */

/* Sets request->model to what --init-from names: a folder with config.json and weights, or ORG/NAME in the
 * cache of the Hugging Face hub. */
void p4d_train_init_model(const char *from, p4d_request *request);

/*
 * Fills this rank's shards with those weights, or what is frozen where adapters are trained; moments become
 * zero. hash: p4d_huggingface_hash of them. The plan must be of that model; what a
 * user may mean to change, how positions are encoded and what norms add, may differ if it was typed. Errors:
 * CHECKPOINT, PLAN_CHANGED, NO_MEMORY, and as p4d_model_resolve.
 */
int p4d_train_init(const char *from, const p4d_job_plan *plan, const p4d_checkpoint_storage *storage,
		   uint64_t *hash, p4d_error *err);

/*
 * --export: writes the weights of the newest checkpoint in --checkpoint, or of the one that this names, with
 * config.json, or the adapters alone (--export-form), and says which on stdout. One process does it, of
 * whatever layout they are. Errors: CHECKPOINT, IO, NO_MEMORY.
 */
int p4d_train_export(const p4d_settings *settings, p4d_error *err);
