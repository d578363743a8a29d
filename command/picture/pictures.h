/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "picture/simulation.h"
#include "plan/stage_memory.h"
#include "request/layout.h"

/* The heading that both pictures have. */
typedef struct p4d_picture {
	const char *path;
	const char *model;
	const p4d_layout *layout;
	const p4d_gpu *gpu; /* NULL: unknown */
	double safe, limit; /* the safe fraction and the limit, as fractions of the capacity */
} p4d_picture;

/* "llama3-70b · 64 × h100-80gb", and the layout in one line. */
const char *p4d_picture__title(const p4d_picture *picture, char *buf, size_t size);
const char *p4d_picture__layout(const p4d_picture *picture, char *buf, size_t size);

/*
 * svg_memory.c: draws one bar per stage (equal neighbours share a bar), stacked by class of memory, with the
 * safe fraction, the limit and the capacity if they are known. Errors: IO, NO_MEMORY, OVERFLOW.
 */
int p4d_picture_memory(const p4d_picture *picture, const p4d_estimate *estimate, p4d_error *err);

/*
 * svg_timeline.c: draws one row per stage with every pass, and below them the memory of the stages over
 * time. If a step has more passes than the eye can tell apart, it shows only the beginning and the end.
 * capacity: bytes of a GPU; 0: unknown. Errors: IO, NO_MEMORY.
 */
int p4d_picture_timeline(const p4d_picture *picture, const p4d_simulation *simulation, double capacity,
			 p4d_error *err);
