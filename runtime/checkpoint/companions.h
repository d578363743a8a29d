/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"

/*
 * Files next to a released model's weights that belong to it: the tokenizer's files, chat templates,
 * generation_config.json, and the numbers of special tokens in config.json. Without these files, a fine-tuned
 * model does not know where to stop, and has no chat template. released: the folder of the released model.
 */

/*
 * Copies the files that exist to the folder `to`. Files that this folder already has do not change. *copied:
 * number of copied files. Errors: IO, NO_MEMORY.
 */
int p4d_companions__copy(const char *released, const char *to, unsigned *copied, p4d_error *err);

/*
 * Copies the numbers of special tokens from the released config.json to the one in `to`. If the released file
 * has none, the transformers library uses its defaults for the model's class, as it does for the released
 * model. If either file is missing, this does nothing. Errors: IO, JSON, NO_MEMORY.
 */
int p4d_companions__special_tokens(const char *released, const char *to, p4d_error *err);
