/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * Collects the names most like `wanted`, for hints. A name is more alike if it shares a longer substring with
 * `wanted`; among equals the shorter name wins. Offer each candidate; p4d_suggest_text then returns ";
 * nearest: a, b" or "".
 */
typedef struct p4d_suggest {
	const char *wanted;
	size_t shared;
	unsigned count;
	const char *name[3];
	char text[160];
} p4d_suggest;
void p4d_suggest_offer(p4d_suggest *alike, const char *name);
const char *p4d_suggest_text(p4d_suggest *alike);
