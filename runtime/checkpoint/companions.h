/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"

/*
 * What lies next to the weights of a released model and belongs to it: files of the tokenizer, chat
 * templates, generation_config.json, and the numbers of special tokens in config.json. Without them a
 * fine-tuned model does not stop, and has no chat template. `released`: its folder.
 */

/* Copies the files that are there to a folder; one that this folder has already stays. *copied: how many.
 * Errors: IO, NO_MEMORY. */
int p4d_companions__copy(const char *released, const char *to, unsigned *copied, p4d_error *err);

/*
 * Gives the config.json in `to` the numbers of special tokens that the released one has. Where that has none,
 * the library's defaults for the model's class hold, as for the released model. Without either file nothing
 * happens. Errors: IO, JSON, NO_MEMORY.
 */
int p4d_companions__special_tokens(const char *released, const char *to, p4d_error *err);
