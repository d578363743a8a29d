/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"

/*
 * Files next to a released model's weights that belong to it: the tokenizer's files, chat templates,
 * generation_config.json, and the numbers of special tokens in config.json. Without these, a fine-tuned model
 * does not stop, and has no chat template. `released`: its folder.
 */

/* Copies those files that exist to a folder; files that this folder already has stay unchanged. *copied:
 * their number. Errors: IO, NO_MEMORY. */
int p4d_companions__copy(const char *released, const char *to, unsigned *copied, p4d_error *err);

/*
 * Copies the numbers of special tokens from the released config.json to the one in `to`. If the released one
 * has none, the library's defaults for the model's class apply, as they do for the released model. If either
 * file is missing, nothing happens. Errors: IO, JSON, NO_MEMORY.
 */
int p4d_companions__special_tokens(const char *released, const char *to, p4d_error *err);
