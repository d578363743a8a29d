/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "model/model.h"
#include "model/presets.h"

/* The parts of model.h that need no JSON. */

/* Loads one model file into a request, as p4d_model_resolve does. preset may be NULL. */
int p4d_model__read_file(const char *path, p4d_request *request, p4d_preset *preset, p4d_error *err);

/* A model that the request describes itself. */
int p4d_model__custom(p4d_request *request, p4d_error *err);

/* Takes a row that was read, or is in the table; what: its name in messages. */
int p4d_model__take(const p4d_presets_row *row, const char *what, p4d_request *request, p4d_preset *preset,
		    p4d_error *err);

/*
 * Loads a preset whose name or alias fits at least so well (P4D_HUB_NAME_*); *unknown with -1: there is none,
 * or the directory cannot be read. A name spelt like its file needs no search through the others.
 */
int p4d_model__preset_load(const char *name, const char *datadir, int least, p4d_request *request,
			   p4d_preset *preset, p4d_error *err, bool *unknown);

/* The context length that an alias has; 0: the preset's. What the user set is kept. */
void p4d_model__take_length(int64_t max_seq_len, p4d_request *request);
