/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "request/request.h"

/*
 * Models: presets (those of the build, or DATADIR/models/NAME.json), Hugging Face config.json files, or
 * `custom` from flags alone. Loading a model fills the unset model numbers of a request (origin P4D_BY_MODEL;
 * what the user set is kept).
 *
 * A preset file has `name`, `aliases` ("ORG/NAME=N": this one has a context of N tokens), `source`,
 * `parameters` (an exact number, or a string as printed: "13.0B"), `global_batch`, `seq_len`, and the model
 * options of options.def, with '_' instead of '-' and choices as users type them. `rope_scaling` is Hugging
 * Face's object. Users may also write such files.
 */

/* Facts about a preset beyond its shape. */
typedef struct p4d_preset {
	char name[64];
	char aliases[512]; /* comma-separated; NAME=N has a context of N tokens */
	char source[256];
	uint64_t parameters;   /* published count; 0 when none was published */
	uint64_t exact;        /* 1: `parameters` is exact; 0: it is rounded to the printed digits */
	uint64_t rounding;     /* half a unit of the last printed digit; 0 if exact */
	uint32_t global_batch; /* published sequences per step; 0 when unknown */
	uint32_t seq_len;      /* sequence length of the published training; 0 when unknown */
	char file[256];        /* the file that was read, if the user named one */
} p4d_preset;

/*
 * Resolves request->model and fills the model numbers. datadir contains models/; NULL: the built-in copy of
 * etc/models/, reading no file. preset may be NULL. If the model is neither a preset nor a file in preset
 * form, all of *preset except `file` is zeroed.
 *
 * p4d tries in this order: "custom"; a preset's name or alias (ignoring case and the separators "-_. "); if
 * the name contains '/' or ends in ".json", a file, or a folder with config.json or adapter_config.json;
 * ORG/NAME in the cache of the Hugging Face hub (hub_cache.h); a preset's name without organization and words
 * such as -Instruct (hub_name.h). Files are read with the caller's rights (at most 1 MiB, at most 32 levels,
 * regular files only). An adapter stands for its base model.
 *
 * An unmodelled architecture is no error: request->unmodelled names it, and the numbers stay unset. Errors:
 * UNKNOWN_MODEL (with the nearest names), IO, JSON, VALUE, INCOMPLETE_MODEL (numbers missing).
 */
int p4d_model_resolve(p4d_request *request, const char *datadir, p4d_preset *preset, p4d_error *err);

/* Like p4d_model_resolve, for "custom" and the built-in presets alone: reads no file. Errors: UNKNOWN_MODEL,
 * INCOMPLETE_MODEL. */
int p4d_model_resolve_built_in(p4d_request *request, p4d_preset *preset, p4d_error *err);

/* Whether a name ("google/vit-base-patch16-224", a path) names a model for images, sound or embeddings,
 * which no program trains as a language model. */
bool p4d_model_is_other(const char *name);

/*
 * Like p4d_model_resolve, for the text of a model file (Hugging Face config.json or preset form), without
 * file access. what: its name in messages.
 */
int p4d_model__parse(const char *text, size_t length, const char *what, p4d_request *request,
		     p4d_preset *preset, p4d_error *err);

/* Calls visit for every preset in datadir (NULL: those of the build), sorted by name. Returns 0, or -1 if one
 * cannot be read. */
int p4d_model_each(const char *datadir, void (*visit)(const p4d_preset *, const p4d_request *, void *),
		   void *context, p4d_error *err);

/*
 * Number of parameters of a complete model as its framework counts them, without padding of the vocabulary.
 * UINT64_MAX: the number does not fit 64 bits.
 */
uint64_t p4d_model_parameters(const p4d_request *request);
