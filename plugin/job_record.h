/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "approval.h"
#include "base/error.h"
#include "job/job.h"
#include "plan/plan_line.h"
#include "slurm_compat.h"

/* An existing job, as slurmctld has it. */
typedef struct p4d_record {
	p4d_job job; /* borrows from reply and user */
	char *user;
	p4d_approval approved;
	uint32_t het_job_id; /* id of the heterogeneous job's leader; 0: not heterogeneous */
	job_info_msg_t *reply;
} p4d_record;

/* Asks slurmctld (one RPC). Release with p4d_record_free, which accepts a zeroed struct. Errors: IO. */
int p4d_record_load(p4d_record *record, uint32_t job_id, p4d_error *err);
void p4d_record_free(p4d_record *record);

/*
 * Compares a step with its job's approval, which has a digest. line: the step's P4D_PLAN; NULL: it has none.
 * options: its --p4d- options. Errors: STEP_DIFFERS, with the first difference if it is known.
 */
int p4d_record_step_agrees(const p4d_approval *approved, const char *line, const p4d_request *options,
			   p4d_error *err);

/*
 * Whether a step agrees with any component of a heterogeneous job, because steps inherit the first
 * component's environment.
 */
bool p4d_record_step_agrees_with_any(uint32_t het_job_id, const char *line, const p4d_request *options);

/* Compares a step's options with the plan of its job. Errors: STEP_DIFFERS, with the first difference. */
int p4d_record_options_agree(const p4d_request *plan, const p4d_request *options, p4d_error *err);
