/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_SCRIPT_H
#define P4D_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

#include "request/layout.h"

/*
 * What a job script says about the training it starts. This looks for words outside comments; it does not
 * execute or expand anything. Scripts are not NUL-terminated here and may be binary.
 */
typedef struct p4d_script {
	bool uses_plan; /* follows the plan: mentions $P4D_..., or starts p4d-train */
	bool starts_p4d_train;
	bool sets_tasks; /* the line that starts p4d-train has its own -n or --ntasks... */
	bool
	    megatron; /* looks like Megatron-LM: pretrain_gpt, its parallelism flags, or $P4D_MEGATRON_ARGS */
} p4d_script;

p4d_script p4d_script_scan(const char *text, size_t length);

/*
 * Finds the first literal Megatron-LM flag whose value contradicts the layout. Returns 1 and fills found
 * ("--tensor-model-parallel-size 4") and the value the plan has, else 0.
 */
int p4d_script_contradicts(const char *text, size_t length, const p4d_layout *layout, char *found,
			   size_t size, uint64_t *planned);

#endif
