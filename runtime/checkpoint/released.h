/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "request/request.h"

/* Released models, as a user names them: a folder with config.json and weights, or ORG/NAME in the cache of
 * the Hugging Face hub. */

/* Fails with CHECKPOINT: there is no such model. What p4d_model_resolve says of a name that nobody knows is
 * about presets. */
int p4d_released_unknown(const char *from, p4d_error *err);

/* Sets request->model to what p4d_model_resolve takes for it. */
void p4d_released_model(const char *from, p4d_request *request);

/*
 * The model's numbers into request, and the folder of its weights. Errors: CHECKPOINT where there is none,
 * UNMODELLED where its weights are quantized, and as p4d_model_resolve.
 */
int p4d_released_find(const char *from, p4d_request *request, char *folder, size_t size, p4d_error *err);
