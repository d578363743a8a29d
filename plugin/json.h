/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "gpu/gpu.h"
#include "model/presets.h"
#include "module.h"

/*
 * libp4d-json.so: reads JSON files for libp4d-client.so; no other code of p4d.so can read JSON. It is a
 * separate library because loading json-c costs sbatch more than all of p4d's work for a job whose model is a
 * preset.
 */
typedef struct p4d_json_calls {
	p4d_module_build build;
	int (*read_model)(const char *path, p4d_presets_row *row, p4d_error *err); /* p4d_model_file_read */
	int (*read_gpus)(p4d_gpus *gpus, const char *path, p4d_error *err);        /* p4d_gpus_read */
} p4d_json_calls;

/* The only symbol of the library. */
#pragma GCC visibility push(default)
extern const p4d_json_calls p4d_json;
#pragma GCC visibility pop
