/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <json-c/json.h>

#include "base/error.h"

/*
 * The "normalizer" of a tokenizer.json. It changes a text before the text is split. A zeroed normalizer
 * changes nothing.
 */
typedef struct p4d_normalizer_step {
	enum { P4D_NORMALIZE_FORM, P4D_NORMALIZE_PREPEND, P4D_NORMALIZE_REPLACE } kind;
	int form; /* options of utf8proc_map */
	char *from, *to;
} p4d_normalizer_step;

typedef struct p4d_normalizer {
	p4d_normalizer_step *steps;
	size_t count;
	struct p4d_normalizer_buffer {
		char *text;
		size_t length, room;
	} buffer[2];
} p4d_normalizer;

/*
 * description: NULL if the file has no normalizer. The caller closes it, also after an error. Errors: VALUE
 * (an unknown kind), NO_MEMORY.
 */
int p4d_normalizer__open(p4d_normalizer *normalizer, struct json_object *description, p4d_error *err);
void p4d_normalizer__close(p4d_normalizer *normalizer);

/*
 * Replaces *text and *length by the normalized text, which is valid until the next call. The text must be
 * valid UTF-8. Errors: NO_MEMORY.
 */
int p4d_normalizer__apply(p4d_normalizer *normalizer, const char **text, size_t *length, p4d_error *err);
