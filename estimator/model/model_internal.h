/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <json-c/json.h>

#include "model/model.h"
#include "model/presets.h"

enum { P4D_PRESET_MAX = 64 * 1024 }; /* bytes of a file */

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

/* The same for a row of the table. */
int p4d_model__take(const p4d_presets_row *row, p4d_request *request, p4d_preset *preset, p4d_error *err);

/*
 * Loads a preset by name or alias; *unknown with -1: there is none of this name, or the directory cannot be
 * read. A name spelt like its file needs no search through the others.
 */
int p4d_model__preset_load(const char *name, const char *datadir, p4d_request *request, p4d_preset *preset,
			   p4d_error *err, bool *unknown);

/* True when a name means one of these (comma-separated), ignoring case and separators. */
bool p4d_model__same_name(const char *names, const char *name);
