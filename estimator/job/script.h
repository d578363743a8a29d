/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "request/layout.h"

/*
 * What a job script says about the training it starts. Searches for words outside comments; nothing is
 * executed or expanded. Scripts are not NUL-terminated here and may be binary.
 */
typedef struct p4d_script {
	bool uses_plan;      /* follows the plan: mentions $P4D_..., or starts a program that reads it */
	bool sets_tasks;     /* the line that starts it has its own -n or --ntasks... */
	unsigned frameworks; /* frameworks it looks like; mask of 1 << framework */
} p4d_script;

p4d_script p4d_script_scan(const char *text, size_t length);

/*
 * Finds the first literal flag whose value contradicts the layout, of a framework that takes arguments.
 * Returns 1 and fills found ("--tensor-model-parallel-size 4") and the value the plan has, else 0.
 */
int p4d_script_contradicts(const char *text, size_t length, const p4d_layout *layout, char *found,
			   size_t size, uint64_t *planned);
