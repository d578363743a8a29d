/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "request/layout.h"
#include "request/request.h"

/*
 * The environment of a checked job: P4D_PLAN, P4D_TP, ... P4D_MEGATRON_ARGS. These variables are only
 * outputs; the plugins remove them from the environment of jobs without a plan.
 */
typedef void (*p4d_export_visit)(const char *name, const char *value, void *context);

/*
 * The arguments that pass the layout to a program: those of its own framework or, for a layout of p4d-train
 * (which reads the plan itself), those of Megatron-LM. NULL: Megatron-LM cannot run this layout; *lacks (may
 * be NULL) then names the feature that it lacks.
 */
const struct p4d_framework_arguments *p4d_export_arguments(const p4d_request *request,
							   const p4d_layout *layout, const char **lacks);

/* Calls visit for every variable. plan: the plan line. */
void p4d_export(const p4d_request *request, const p4d_layout *layout, const char *plan,
		p4d_export_visit visit, void *context);

/* The name of output variable `number`, starting with P4D_EXPORT_PLAN; NULL after the last. */
#define P4D_EXPORT_PLAN "P4D_PLAN"
const char *p4d_export_name(size_t index);

/* An additional variable with the decision of sbatch, salloc or srun about the job; see guard/note.h. */
#define P4D_EXPORT_VERDICT "P4D_VERDICT"
