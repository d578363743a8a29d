/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-c/json.h>

#include "model/model.h"

/* The two forms of model files. */

/*
 * Puts the numbers of a parsed Hugging Face config.json into *model, or says in model->unmodelled why it
 * cannot. Messages name the field, not the file.
 */
int p4d_model__read_hf(struct json_object *config, p4d_request *model, p4d_error *err);

/* The same for the form of presets. */
int p4d_model__read_preset(struct json_object *object, p4d_request *model, p4d_preset *preset,
			   p4d_error *err);

/* In either form: base and scaling of rotary positions, if given. */
int p4d_model__read_rope(struct json_object *model_file, p4d_request *model, p4d_error *err);
