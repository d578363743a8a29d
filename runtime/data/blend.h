/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/*
 * Several datasets in fixed shares, in Megatron-LM's notation: "0.7 path/a 0.3 path/b". If the text has no
 * weights ("path/a path/b"), the caller must set them.
 */
enum { P4D_BLEND_SOURCES = 256, P4D_BLEND_PERIOD = 65536 };

typedef struct p4d_blend {
	unsigned sources;
	char *text; /* the paths point into it */
	bool weighted;
	const char *path[P4D_BLEND_SOURCES];
	double weight[P4D_BLEND_SOURCES]; /* weights of the sources; 0: not given */
	/* The pattern of sources repeats after P4D_BLEND_PERIOD samples. NULL with one source. */
	uint8_t *source;                   /* the source of each place in the period */
	uint32_t *before;                  /* number of earlier places with the same source */
	uint32_t share[P4D_BLEND_SOURCES]; /* number of places of each source */
} p4d_blend;

/* Splits the text, unless the whole text is the path of a file. *blend must be zero. Errors: VALUE,
 * NO_MEMORY. */
int p4d_blend__parse(p4d_blend *blend, const char *text, p4d_error *err);
/*
 * Assigns the places of the period to sources by weight. At each place, the number of places that a source
 * has so far differs from its share by less than one. All weights must be set and above 0; their sum need not
 * be 1. Errors: VALUE if a weight is so small that its source gets no place, NO_MEMORY.
 */
int p4d_blend__deal(p4d_blend *blend, p4d_error *err);
/* Returns the source of sample `number`. *index: how many earlier samples have the same source. */
unsigned p4d_blend__source(const p4d_blend *blend, uint64_t number, uint64_t *index);
void p4d_blend__free(p4d_blend *blend);
