/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/model.h"

/* The presets of a directory in memory, for who may not read files when a name comes up. */
typedef struct p4d_presets {
	size_t count;
	struct p4d_presets_row *row;
} p4d_presets;

/*
 * Loads DATADIR/models into an all-zero *presets; p4d_presets_free releases it. Errors: as p4d_model_each;
 * what was loaded until then stays.
 */
int p4d_presets_load(p4d_presets *presets, const char *datadir, p4d_error *err);
void p4d_presets_free(p4d_presets *presets);

/* The complete model of this name or alias, as p4d_model_resolve finds it; NULL: no preset. */
const p4d_request *p4d_presets_find(const p4d_presets *presets, const char *name);
