/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_ALIKE_H
#define P4D_ALIKE_H

#include <stddef.h>

/*
 * Collects the names most like `wanted` for hints: those that share the longest piece with it, the shortest
 * of them first. Offer each candidate; p4d_alike_text then returns "; nearest: a, b" or "".
 */
typedef struct p4d_alike {
	const char *wanted;
	size_t shared;
	unsigned count;
	const char *name[3];
	char text[160];
} p4d_alike;
void p4d_alike_offer(p4d_alike *alike, const char *name);
const char *p4d_alike_text(p4d_alike *alike);

#endif
