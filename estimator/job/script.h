/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "request/layout.h"

/* Job scripts are short. p4d treats everything after this many bytes as data. */
enum { P4D_SCRIPT_BYTES = 64 * 1024 };

/*
 * Facts about the training that a job script starts. p4d only searches for words outside comments; it
 * executes and expands nothing. Scripts are not NUL-terminated here and may be binary.
 */
typedef struct p4d_script {
	bool uses_plan;       /* uses the plan: mentions $P4D_..., or starts a program that reads the plan */
	bool starts_launcher; /* srun starts torchrun, with as many tasks as the job has */
	bool starts_ranks;    /* srun starts a framework itself, with as many tasks as the job has */
	bool sets_tasks;      /* the command that starts it has its own -n or --ntasks... */
	bool sets_allocator;  /* assigns or unsets the allocator variable of PyTorch, so the environment's
			       * value does not matter */
	bool expandable;    /* the script's last assignment sets PyTorch's allocator to expandable segments */
	unsigned arguments; /* frameworks whose argument variable it passes on; mask of 1 << framework */
	unsigned frameworks; /* frameworks that its words suggest; mask of 1 << framework */
	const struct p4d_framework_other *other; /* another program that its words suggest; NULL: none */
	/* the first literal flag whose value differs from the layout's, "--tensor-model-parallel-size 4";
	 * "": none */
	char contradiction[96];
	uint64_t planned; /* the layout's value */
} p4d_script;

/*
 * Takes at most 1 ms for any script, because slurmctld waits. layout: flags of its framework are compared;
 * NULL: no flags are compared.
 */
p4d_script p4d_script_scan(const char *text, size_t length, const p4d_layout *layout);
