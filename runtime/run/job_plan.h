/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "gpu/gpu.h"
#include "model/net.h"
#include "model/rope.h"
#include "plan/stage_memory.h"
#include "request/layout.h"
#include "run/settings.h"

/* The plan of this job, as this program computes it. Zero before use. */
typedef struct p4d_job_plan {
	p4d_request request; /* every option has a value */
	p4d_layout layout;
	p4d_rope rope;
	p4d_gpus gpus;
	const p4d_gpu *gpu; /* NULL on the cpu */
	bool planned;       /* the plan comes from a plan line */
	/* the plan has no workspace for packed documents, because it did not fit with it */
	bool no_documents;
	char no_gpu[320];      /* why --device auto chose the cpu; "": it did not */
	p4d_estimate estimate; /* estimate of the fullest stage */
} p4d_job_plan;

/*
 * Reads the plan line (P4D_PLAN). If there is none, completes the options of the command line as p4d estimate
 * does. Options that are given together with a line must agree with it. ranks, nodes: number of ranks and of
 * nodes. datadir: the folder that has models/. Errors: PLAN_CHANGED (also if this program computes buffers
 * that differ from the guard's), PLAN_SYNTAX, WORLD (the plan is for another number of ranks), UNMODELLED
 * (p4d-train trains the families of p4d-train(1), and knows some ways to scale rotary positions), and those
 * of models and layouts.
 */
int p4d_job_plan_open(p4d_job_plan *plan, const char *line, const p4d_settings *settings, uint64_t ranks,
		      uint64_t nodes, const char *datadir, p4d_error *err);
void p4d_job_plan_close(p4d_job_plan *plan);

/* Whether the planned memory is within p4d's limit for the GPU; true if the GPU is unknown. */
bool p4d_job_plan_fits(const p4d_job_plan *plan);

/*
 * The settings of a net or trainer that follow from the plan; other members are 0. The result points into the
 * plan.
 */
p4d_net_settings p4d_job_plan_net(const p4d_job_plan *plan);

/* Bytes of a message from one stage to the next; 0 with one stage. Errors: OVERFLOW. */
int p4d_job_plan_message_bytes(const p4d_job_plan *plan, uint64_t *bytes, p4d_error *err);

/*
 * For the cpu device: fails if the ranks of a node do not fit into this much memory. granted: Slurm granted
 * this memory, so the job could request more. Errors: HOST_MEMORY.
 */
int p4d_job_plan_check_memory(const p4d_job_plan *plan, bool granted, uint64_t host_bytes, p4d_error *err);
