/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"

/*
 * Writes the config.json of the model in a plan line; the transformers library, and p4d, read the same model
 * from it. No file where that library has no such architecture: bias of q, k and v together with norms of
 * queries and keys. Errors: PLAN_SYNTAX, IO, NO_MEMORY.
 */
int p4d_huggingface__write_config(const char *path, const char *plan, p4d_safetensors_type type,
				  p4d_error *err);

/* adapter_config.json of a checkpoint's adapters, as PEFT writes it. Errors: IO, NO_MEMORY. */
int p4d_huggingface__write_adapter_config(const char *path, const p4d_layout *layout,
					  const p4d_checkpoint_info *info, p4d_error *err);
