/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/model.h"

typedef struct p4d_presets_row {
	p4d_preset preset;
	p4d_request model; /* its `model`: the base of an adapter, which has no sizes itself */
} p4d_presets_row;

/*
 * etc/models/ at build time, sorted by name, and packed: the texts of all presets are stored one after
 * another, and so are their options and the values of these. Whole rows would take 1.2 MB in each plugin.
 */
typedef struct p4d_presets_packed {
	uint32_t name, aliases, source, rope_scaling, layer_pattern, judged_part; /* in p4d_presets_texts */
	uint32_t first, count; /* in p4d_presets_options and p4d_presets_values */
	uint32_t global_batch, seq_len;
	uint64_t parameters, exact, rounding;
} p4d_presets_packed;
extern const p4d_presets_packed p4d_presets_table[];
extern const size_t p4d_presets_table_count;
extern const char p4d_presets_texts[];
extern const uint8_t p4d_presets_options[];
extern const int64_t p4d_presets_values[];

/* The name and the aliases of preset i of the build. */
const char *p4d_presets_name(size_t i);
const char *p4d_presets_aliases(size_t i);
/* All of it, into an all-zero row: what its file says; the rest stays open. */
void p4d_presets_unpack(size_t i, p4d_presets_row *row);

/*
 * Reads a model file in any form into an all-zero row; row->model.unmodelled names what p4d does not model.
 * Messages start with the path. Errors: IO, JSON, VALUE.
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
 * Errors: as p4d_model_each; after an error it keeps what was loaded before.
 */
int p4d_presets_load(p4d_presets *presets, const char *datadir, p4d_error *err);
void p4d_presets_free(p4d_presets *presets);

/* The complete model of this very name or alias; NULL: none. */
const p4d_request *p4d_presets_find(const p4d_presets *presets, const char *name);
