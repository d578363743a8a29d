/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/model.h"

typedef struct p4d_presets_row {
	p4d_preset preset;
	p4d_request model; /* `model` is filled from the file's `model` field: the base of an adapter, which
			      has no sizes itself */
} p4d_presets_row;

/*
 * etc/models/ at build time, sorted by name and packed: the texts of all presets follow one another, and so
 * do their options and option values. Unpacked rows would take 1.2 MB in each plugin.
 */
typedef struct p4d_presets_packed {
	uint32_t name, aliases, source, rope_scaling, layer_pattern, judged_part; /* index into
										   * p4d_presets_texts */
	uint32_t first, count; /* index into p4d_presets_options and p4d_presets_values */
	uint32_t global_batch, seq_len;
	uint64_t parameters, exact, rounding;
} p4d_presets_packed;
extern const p4d_presets_packed p4d_presets_table[];
extern const size_t p4d_presets_table_count;
extern const char p4d_presets_texts[];
extern const uint8_t p4d_presets_options[];
extern const int64_t p4d_presets_values[];

/* The name and the aliases of built-in preset i. */
const char *p4d_presets_name(size_t i);
const char *p4d_presets_aliases(size_t i);
/* Unpacks built-in preset i into an all-zero row. Values that its file does not have stay open. */
void p4d_presets_unpack(size_t i, p4d_presets_row *row);

/*
 * Reads a model file in any form into an all-zero row; row->model.unmodelled names what p4d does not model.
 * Messages start with the path. Errors: IO, JSON, VALUE.
 */
int p4d_model_file_read(const char *path, p4d_presets_row *row, p4d_error *err);
int p4d_model_file_parse(const char *text, size_t length, const char *what, p4d_presets_row *row,
			 p4d_error *err);

/* Complete presets in memory, for code that must not read files when a model is named. */
typedef struct p4d_presets {
	size_t count;
	p4d_presets_row *row;
} p4d_presets;

/*
 * Loads DATADIR/models (NULL: the built-in presets) into an all-zero *presets; p4d_presets_free releases it.
 * Errors: those of p4d_model_each; after an error, presets loaded before it remain.
 */
int p4d_presets_load(p4d_presets *presets, const char *datadir, p4d_error *err);
void p4d_presets_free(p4d_presets *presets);

/* The complete model with exactly this name or alias; NULL: none. */
const p4d_request *p4d_presets_find(const p4d_presets *presets, const char *name);
