/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/model.h"

typedef struct p4d_presets_row {
	p4d_preset preset;
	p4d_request model; /* its `model`: the base of an adapter, which has no sizes itself */
} p4d_presets_row;

/* etc/models/ as of the build, sorted by name; each model has what its file says, the rest is open. */
extern const p4d_presets_row p4d_presets_table[];
extern const size_t p4d_presets_table_count;
/* Their names beside each other: the table has a page for every other row. */
extern const char p4d_presets_names[][64];

/*
 * Reads a model file in any form into an all-zero row of that kind; what is not modelled says so in
 * row->model.unmodelled. Messages begin with the path. Errors: IO, JSON, VALUE.
 */
int p4d_model_file_read(const char *path, p4d_presets_row *row, p4d_error *err);
int p4d_model_file_parse(const char *text, size_t length, const char *what, p4d_presets_row *row,
			 p4d_error *err);

/* Presets in memory with complete models, for who may not read files when a name comes up. */
typedef struct p4d_presets {
	size_t count;
	p4d_presets_row *row;
} p4d_presets;

/*
 * Loads DATADIR/models (NULL: those of the build) into an all-zero *presets; p4d_presets_free releases it.
 * Errors: as p4d_model_each; what was loaded until then stays.
 */
int p4d_presets_load(p4d_presets *presets, const char *datadir, p4d_error *err);
void p4d_presets_free(p4d_presets *presets);

/* The complete model of this very name or alias; NULL: none. */
const p4d_request *p4d_presets_find(const p4d_presets *presets, const char *name);
