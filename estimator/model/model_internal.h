/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "model/model.h"
#include "model/presets.h"

/* The parts of model.h that need no JSON. */

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
