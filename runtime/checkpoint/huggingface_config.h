/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"

/*
 * Writes the config.json of the model in a plan line, from which the transformers library and p4d read the
 * same model. Writes no file if that library lacks the architecture, such as a bias of q, k and v together
 * with norms of queries and keys. Errors: PLAN_SYNTAX, IO, NO_MEMORY.
 */
int p4d_huggingface__write_config(const char *path, const char *plan, p4d_safetensors_type type,
				  p4d_error *err);

/* Writes adapter_config.json for a checkpoint's adapters, in PEFT's form. Errors: IO, NO_MEMORY. */
int p4d_huggingface__write_adapter_config(const char *path, const p4d_layout *layout,
					  const p4d_checkpoint_info *info, p4d_error *err);
