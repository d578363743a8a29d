/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-c/json.h>

#include "model/model.h"

/* The two forms of model files. */

/*
 * Stores the numbers of a parsed Hugging Face config.json in *model. If it cannot, model->unmodelled says
 * why. Messages name the field, not the file.
 */
int p4d_model__read_hf(struct json_object *config, p4d_request *model, p4d_error *err);

/* Like the function above, for a file in the form of a preset. */
int p4d_model__read_preset(struct json_object *object, p4d_request *model, p4d_preset *preset,
			   p4d_error *err);

/* Reads base and scaling of rotary positions from a model file of either form, if the file has them. */
int p4d_model__read_rope(struct json_object *model_file, p4d_request *model, p4d_error *err);
