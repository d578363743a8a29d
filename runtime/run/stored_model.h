/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "run/settings.h"

/*
 * For commands that use a model without continuing its training. If there is a checkpoint, sets the model of
 * the newest one, as if --model named it; for adapters it also sets --init-from and --lora-alpha. *found:
 * whether there is a checkpoint. Errors: CHECKPOINT, also if there is neither a checkpoint nor --init-from.
 */
int p4d_stored_model(p4d_settings *settings, bool *found, p4d_error *err);
