/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/error.h"

/* Draws numbers as horizontal bars, with the number at the end of each. The struct owns nothing. */

enum { P4D_BAR_PARTS = 3 };

typedef struct p4d_bar {
	const char *label;
	double part[P4D_BAR_PARTS]; /* values of the parts, finite and at least 0. Parts are drawn below
				     * each other, in the colours of the legend. */
} p4d_bar;

typedef struct p4d_bars {
	const char *title;
	const char *const *key; /* names of the parts; with one part there is no legend */
	size_t keys;            /* up to P4D_BAR_PARTS */
	const p4d_bar *bar;
	size_t count; /* at least 1 */
	int decimals; /* number of decimals of printed numbers */
} p4d_bars;

/* bars: a p4d_bars. For p4d_page_picture. Errors: IO, NO_MEMORY. */
int p4d_picture_bars(const void *bars, const char *path, p4d_error *err);
