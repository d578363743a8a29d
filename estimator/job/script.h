/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "request/layout.h"

/* Job scripts are short; anything after this many bytes is data. */
enum { P4D_SCRIPT_BYTES = 64 * 1024 };

/*
 * What a job script says about the training it starts. Searches for words outside comments; nothing is
 * executed or expanded. Scripts are not NUL-terminated here and may be binary.
 */
typedef struct p4d_script {
	bool uses_plan;       /* follows the plan: mentions $P4D_..., or starts a program that reads it */
	bool starts_launcher; /* srun starts torchrun, with as many tasks as the job has */
	bool starts_ranks;    /* srun starts a framework itself, likewise */
	bool sets_tasks;      /* the command that starts it has its own -n or --ntasks... */
	bool sets_allocator;  /* assigns or unsets PyTorch's variable, whatever the environment says */
	bool expandable;      /* to expandable segments, where it does last */
	unsigned arguments;   /* frameworks whose variable of arguments it passes on; mask, as below */
	unsigned frameworks;  /* frameworks it looks like; mask of 1 << framework */
	const struct p4d_framework_other *other; /* another program it looks like; NULL none */
	/* the first literal flag whose value is not the layout's, "--tensor-model-parallel-size 4"; "" none
	 */
	char contradiction[96];
	uint64_t planned; /* the layout's */
} p4d_script;

/*
 * Takes at most 1 ms for any script, because slurmctld waits. layout: flags of its framework are compared;
 * NULL: none are.
 */
p4d_script p4d_script_scan(const char *text, size_t length, const p4d_layout *layout);
