/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "checkpoint/safetensors.h"

/* What is written of a checkpoint, and where. Texts are borrowed. */
typedef struct p4d_export {
	const char *from; /* the directory of a run (its newest checkpoint), or one checkpoint */
	const char *to;   /* directory, created if needed; with no other weights in it */
	/* present folder of the released model with which training began or adapters were trained; NULL: it
	 * has not moved */
	const char *base;
	p4d_safetensors_type type; /* BF16 or F32 */
	uint64_t file_bytes;       /* the most bytes of a file; 0: no limit */
	bool alone;                /* for adapters: as PEFT reads them, not added to the model's weights */
	/* filled: the folder of the released model, "": none is known, or it is gone; and how many files came
	 * from it: tokenizer, chat templates, settings of generation */
	char released[4096];
	unsigned companions;
} p4d_export;

/*
 * Writes weights and config.json as the transformers library reads them, or adapters as PEFT does, whatever
 * the layout of the training, with the files next to the released model's weights (companions.h). taken: the
 * path of the checkpoint. One process calls it. Errors: CHECKPOINT (none there; torn; adapters whose weights
 * are missing or different), USAGE (an option for adapters without any), IO, NO_MEMORY.
 */
int p4d_export_write(p4d_export *export, char *taken, size_t size, p4d_error *err);

/* Whether the checkpoint has heads of stages' own losses (--local-loss), which are no part of the model. */
bool p4d_export_drops_losses(const char *taken);

/* Whether p4d_export_write made a config.json: not of a model that the transformers library does not have. */
bool p4d_export_has_config(const p4d_export *export);
