/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/json_text.h"
#include "comm/comm.h"
#include "plan/stage_memory.h"
#include "run/job_plan.h"
#include "trainer/trainer.h"

/*
 * Predicted and actual memory of a run. For the rank with the largest arena, by class: the plan's bytes, and
 * the bytes that were ever written. For the host: the plan's bytes for a rank, and the largest peak of any
 * process.
 */
typedef struct p4d_memory_report {
	uint32_t rank;
	uint64_t planned[P4D_PART_COUNT], used[P4D_PART_COUNT]; /* bytes of each class in that rank's arena */
	/* planned_bytes, used_bytes: sums over the classes; allocated_bytes: what the device allocated */
	uint64_t planned_bytes, allocated_bytes, used_bytes;
	/*
	 * For a GPU; 0 on the cpu. planned_reserve: planned bytes of context, libraries and communicators.
	 * device_bytes: bytes of the GPU that all programs use. device_total: size of the GPU.
	 */
	uint64_t planned_reserve, device_bytes, device_total;
	/* planned host memory of that rank; its part for saving and loading counts only with --checkpoint */
	p4d_host_class host;
	uint64_t host_peak, host_mapped; /* of the process with the most; see p4d_host_memory_peak */
} p4d_memory_report;

/*
 * Makes the report. Collective, after the last step. Reads the arena once. Errors: PLAN_CHANGED (a device did
 * not allocate exactly what its rank's plan says), RANK.
 */
int p4d_memory_report_make(p4d_memory_report *report, const p4d_job_plan *plan, const p4d_trainer *trainer,
			   p4d_device *device, p4d_group *all, p4d_error *err);

/*
 * Prints the report as members of a JSON object. The next function prints it as a table with a line for each
 * class that is not empty.
 */
void p4d_memory_report_json(const p4d_memory_report *report, p4d_text *json);
const char *p4d_memory_report_text(const p4d_memory_report *report, char *buf, size_t size);
