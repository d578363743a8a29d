/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "run/settings.h"

/*
 * For what goes on with a model and not with its training: the model of the newest checkpoint, where there is
 * one, as what --model would have said; of adapters also --init-from and --lora-alpha. found: there is a
 * checkpoint. Errors: CHECKPOINT, also where there is neither one nor --init-from.
 */
int p4d_stored_model(p4d_settings *settings, bool *found, p4d_error *err);
