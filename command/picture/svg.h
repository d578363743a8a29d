/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

/*
 * Pictures for browsers, manuals and papers. Lengths are pixels, y grows downwards, and numbers have one
 * decimal. Classes give shapes their style, in light and dark mode. The picture has a background of its
 * own, so it is readable everywhere. If memory runs out, p4d_svg__save reports it.
 */

/* The style of a class, as CSS declarations. */
typedef struct p4d_svg_style {
	const char *selector; /* ".forward" */
	const char *light;
	const char *dark; /* declarations for dark mode; NULL: none */
} p4d_svg_style;

typedef struct p4d_svg {
	FILE *body;
	char *text; /* owned */
	size_t bytes;
	double strokes_end; /* end of the last box in the band that is being drawn */
	bool begun;         /* the current band or curve has a first point */
} p4d_svg;

/*
 * Starts an empty picture, which stays at this address. End with p4d_svg__save or p4d_svg__free. Errors:
 * NO_MEMORY.
 */
int p4d_svg__open(p4d_svg *svg, p4d_error *err);
void p4d_svg__free(p4d_svg *svg);

void p4d_svg__rect(p4d_svg *svg, const char *class, double x, double y, double width, double height);
void p4d_svg__line(p4d_svg *svg, const char *class, double x1, double y1, double x2, double y2);

/* Text is escaped; bytes that are not UTF-8 and control characters become '?'. */
void p4d_svg__text(p4d_svg *svg, const char *class, double x, double y, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/*
 * Draws many boxes of one class and one height next to each other, as one path. p4d_svg__band starts it with
 * the middle line y, p4d_svg__box adds a box (boxes that touch are joined), and p4d_svg__band_end ends it.
 * The class sets the colour by `stroke`; an opacity below 1 gives a shade.
 */
void p4d_svg__band(p4d_svg *svg, const char *class, double height, double opacity);
void p4d_svg__box(p4d_svg *svg, double x, double y, double width);
void p4d_svg__band_end(p4d_svg *svg);

/* Starts the outline of an area at (x, floor). p4d_svg__area_to goes right to x, then up or down to y. */
void p4d_svg__area(p4d_svg *svg, const char *class, double x, double floor);
void p4d_svg__area_to(p4d_svg *svg, double x, double y);
void p4d_svg__area_end(p4d_svg *svg, double x, double floor);

/* A line from point to point. dot: a curve with a single point is drawn as a dot. */
void p4d_svg__curve(p4d_svg *svg, const char *class);
void p4d_svg__curve_to(p4d_svg *svg, double x, double y);
void p4d_svg__curve_end(p4d_svg *svg, bool dot);

/* Short labels at one height, centred, as one element; p4d_svg__label adds each of them. */
void p4d_svg__labels(p4d_svg *svg, const char *class, double y, double size);
void p4d_svg__label(p4d_svg *svg, double x, unsigned long number);
void p4d_svg__labels_end(p4d_svg *svg);

/*
 * Writes the picture to a file and frees it. title and description are for screen readers. styles: a list
 * that ends with a NULL selector. Errors: NO_MEMORY; IO if the file cannot be written, with the reason; a
 * partial file then remains.
 */
int p4d_svg__save(p4d_svg *svg, const char *path, double width, double height, const char *title,
		  const char *description, const p4d_svg_style *styles, p4d_error *err);
