/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "request/layout.h"
#include "request/request.h"

/*
 * The environment of a checked job: P4D_PLAN, P4D_TP, ... P4D_MEGATRON_ARGS. These names are outputs only;
 * the plugins remove them from the environment of jobs that carry no plan.
 */
typedef void (*p4d_export_visit)(const char *name, const char *value, void *context);

/*
 * The arguments with which a program gets the layout: its own framework's, or, for a layout of p4d-train
 * (which reads the plan itself), Megatron-LM's. NULL: Megatron-LM has no such layout; *lacks (may be NULL)
 * then says what it lacks.
 */
const struct p4d_framework_arguments *p4d_export_arguments(const p4d_request *request,
							   const p4d_layout *layout, const char **lacks);

/* Calls visit for every variable. plan: the plan line. */
void p4d_export(const p4d_request *request, const p4d_layout *layout, const char *plan,
		p4d_export_visit visit, void *context);

/* The output names by number, P4D_EXPORT_PLAN first; NULL after the last. */
#define P4D_EXPORT_PLAN "P4D_PLAN"
const char *p4d_export_name(size_t index);

/* Beside them, what sbatch, salloc or srun decided about the job; see guard/note.h. */
#define P4D_EXPORT_VERDICT "P4D_VERDICT"
