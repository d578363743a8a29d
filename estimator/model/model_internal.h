/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "model/model.h"
#include "model/presets.h"

/* The part of model.h that needs no JSON. */

/* Loads one model file into a request, as p4d_model_resolve does. preset may be NULL. */
int p4d_model__read_file(const char *path, p4d_request *request, p4d_preset *preset, p4d_error *err);

/* Checks a model whose numbers the user gave in options (--model=custom). */
int p4d_model__custom(p4d_request *request, p4d_error *err);

/* Copies a row, from a file or from the table, into the request. what: its name in messages. */
int p4d_model__take(const p4d_presets_row *row, const char *what, p4d_request *request, p4d_preset *preset,
		    p4d_error *err);

/*
 * Loads the preset whose name or alias fits at least this well (P4D_HUB_NAME_*). On -1, *unknown is true if
 * no preset fits or the directory cannot be read. A preset whose file has the typed name is found without
 * reading the other files.
 */
int p4d_model__preset_load(const char *name, const char *datadir, int least, p4d_request *request,
			   p4d_preset *preset, p4d_error *err, bool *unknown);

/* Stores the context length of an alias; 0: the preset's remains. Keeps a value that the user set. */
void p4d_model__take_length(int64_t max_seq_len, p4d_request *request);
