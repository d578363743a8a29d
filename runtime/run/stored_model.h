/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "run/settings.h"

/*
 * For commands that continue with a model and not with its training: takes the model of the newest
 * checkpoint, if there is one, as if --model named it; for adapters also --init-from and --lora-alpha. found:
 * there is a checkpoint. Errors: CHECKPOINT, also if there is neither one nor --init-from.
 */
int p4d_stored_model(p4d_settings *settings, bool *found, p4d_error *err);
