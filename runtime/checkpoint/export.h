/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "checkpoint/safetensors.h"

/* What to export from a checkpoint, and where to. Texts are borrowed. */
typedef struct p4d_export {
	const char *from; /* the directory of a run (its newest checkpoint), or one checkpoint */
	/* destination directory; it is created if needed, and must not have other weights */
	const char *to;
	/* the folder to which the released model was moved since training began; NULL: it has not moved */
	const char *base;
	p4d_safetensors_type type; /* BF16 or F32 */
	uint64_t file_bytes;       /* maximum bytes of a file; 0: no limit */
	bool alone; /* for adapters: writes only the adapters, in PEFT's form, instead of adding them to the
		       model's weights */
	/* result: the folder of the released model ("": unknown, or gone), and the number of files copied
	 * from it: tokenizer, chat templates, settings of generation */
	char released[4096];
	unsigned companions;
} p4d_export;

/*
 * Writes weights and config.json in the transformers library's form, or adapters in PEFT's form. The
 * checkpoint may be from any layout. Also copies the files next to the released model's weights
 * (companions.h). taken: receives the path of the checkpoint. Only one process may call it. Errors:
 * CHECKPOINT (there is none; it is damaged; the weights of its adapters are missing or different), USAGE (an
 * option for adapters, but the checkpoint has none), IO, NO_MEMORY.
 */
int p4d_export_write(p4d_export *export, char *taken, size_t size, p4d_error *err);

/* Whether the checkpoint has heads of local losses (--local-loss), which do not belong to the model. */
bool p4d_export_drops_losses(const char *taken);

/*
 * Whether p4d_export_write wrote a config.json. It writes none if the transformers library does not have the
 * model.
 */
bool p4d_export_has_config(const p4d_export *export);
