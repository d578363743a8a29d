/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "request/request.h"

/* Released models as users name them: a folder with config.json and weights, or ORG/NAME in the cache of
 * the Hugging Face hub. */

/*
 * Fails with CHECKPOINT because there is no such model. (The message of p4d_model_resolve about an unknown
 * name is about presets.)
 */
int p4d_released_unknown(const char *from, p4d_error *err);

/* Sets request->model to the form of the name that p4d_model_resolve accepts. */
void p4d_released_model(const char *from, p4d_request *request);

/*
 * Reads the model's sizes into request, and finds the folder of its weights. Errors: CHECKPOINT if there is
 * none, UNMODELLED if its weights are quantized, and those of p4d_model_resolve.
 */
int p4d_released_find(const char *from, p4d_request *request, char *folder, size_t size, p4d_error *err);
