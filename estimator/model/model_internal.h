/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <json-c/json.h>

#include "model/model.h"

/* The parts of model.h: two forms of model files, and the directory of presets. */

/*
 * Puts the numbers of a parsed Hugging Face config.json into *model, or says in model->unmodelled why it
 * cannot. Messages name the field, not the file.
 */
int p4d_model__read_hf(struct json_object *config, p4d_request *model, p4d_error *err);

/* The same for the form of presets. */
int p4d_model__read_preset(struct json_object *object, p4d_request *model, p4d_preset *preset,
			   p4d_error *err);

/* Of either form: base and scaling of rotary positions, where given. */
int p4d_model__read_rope(struct json_object *model_file, p4d_request *model, p4d_error *err);

/* Loads one model file into a request, as p4d_model_resolve does. preset may be NULL. */
int p4d_model__read_file(const char *path, p4d_request *request, p4d_preset *preset, p4d_error *err);

/*
 * Finds the file of a preset by name or alias. Returns 0 and fills path; 1 with P4D_E_UNKNOWN_MODEL in *err
 * when there is none; -1 when the directory cannot be read. A name spelt like its file needs no search
 * through the others.
 */
int p4d_model__preset_find(const char *name, const char *datadir, char *path, size_t size, p4d_error *err);

/* True when a name means one of these (comma-separated), ignoring case and separators. */
bool p4d_model__same_name(const char *names, const char *name);
