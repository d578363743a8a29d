/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "picture/svg.h"

/* What the pictures have in common: fonts, frame, axis and legend. */

/* clang-format off */
/* Styles for kinds of memory: parameters, optimizer, gradients, activations, logits, buffers, other,
 * context. */
#define P4D_SVG_MEMORY_STYLES \
	{".p0", "fill:#1f5fbf", "fill:#3b7ddd"}, \
	{".p1", "fill:#5e97e8", "fill:#6ea3ea"}, \
	{".p2", "fill:#a9c8f5", "fill:#a3c3f0"}, \
	{".p3", "fill:#ef8f3b", "fill:#f0913f"}, \
	{".p4", "fill:#a45fd6", "fill:#b77ce6"}, \
	{".p8", "fill:#c9a227", "fill:#d4b03c"}, \
	{".p9", "fill:#8a949e", "fill:#9aa4ae"}, \
	{".pb", "fill:#6a737d", "fill:#59636e"}

#define P4D_SVG_BASE_STYLES \
	{".paper", "fill:#ffffff", "fill:#0d1117"}, \
	{".halo", "stroke:#ffffff;stroke-opacity:.75;stroke-width:4", "stroke:#0d1117"}, \
	{"text", "fill:#1f2328;font-size:12px", "fill:#e6edf3"}, \
	{".title", "font-size:18px;font-weight:600", NULL}, \
	{".dim", "fill:#59636e", "fill:#9198a1"}, \
	{".right", "text-anchor:end", NULL}, \
	{".middle", "text-anchor:middle", NULL}, \
	{".grid", "stroke:#d8dee4;stroke-width:1", "stroke:#2a313a"}, \
	{".axis", "stroke:#818b98;stroke-width:1", "stroke:#6e7681"}, \
	{".lane", "fill:#eef1f4", "fill:#1b212a"}, \
	{".safe", "stroke:#b7791f;stroke-width:1.5;stroke-dasharray:4 3", "stroke:#e3b341"}, \
	{".limit", "stroke:#cf222e;stroke-width:1.5;stroke-dasharray:7 3", "stroke:#ff7b72"}, \
	{".warn", "fill:#9a6700", "fill:#e3b341"}, \
	{".bad", "fill:#cf222e", "fill:#ff7b72"}
/* clang-format on */

typedef struct p4d_svg_key {
	const char *class; /* class of the colour box */
	const char *text;
} p4d_svg_key;

/*
 * Draws colour boxes with their names, starting at x and broken into lines of at most `width`. Returns the
 * height.
 */
double p4d_svg__legend(p4d_svg *svg, double x, double y, double width, const p4d_svg_key *keys, size_t count);

/* The smallest step of 1, 2 or 5 times a power of ten that divides a range into at most `most` pieces. */
double p4d_svg__axis_step(double range, unsigned most);

/* Number of decimals with which multiples of a step look different. */
int p4d_svg__axis_decimals(double step);

/* Approximate width in pixels of a text of this font size, in a wide font of svg.c's list. */
double p4d_svg__text_width(const char *text, double size);
